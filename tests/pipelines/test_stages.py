"""Stages of a capture point: which there are, and what each knows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.capture.reader import NOTHING, Reached
from pipelines.storage.record_files import Written
from pipelines.storage.stages import File, Rows, Site, Stage, site_of_json, times_of_stages

HOUR = 3600 * 10**9


def rows(name: str) -> Rows:
    return Rows([Written("exchanges", name, 1)])


def hourly(hours: int) -> Site:
    """A site that got a file an hour."""
    site = Site()
    for n in range(1, hours + 1):
        site.files.append(File(f"{n}.pcap", 100, place=f"{n}.pcap", packets=10, first=(n - 1) * HOUR, clock=n * HOUR))
        site.stages.append(Stage(n * HOUR, n, {}, {n % 16: f"state-{n}"}, rows(f"{n}.parquet")))
        site.thin()
    return site


def test_a_site_without_files_stands_at_its_origin() -> None:
    site = Site()
    assert site.clock == -1
    assert site.states() == {}
    assert site.reached(0, 0) == NOTHING
    assert list(site.stages_before(None)) == list(site.stages_before(0)) == [0]


def test_stages_are_few_and_near_the_end() -> None:
    for hours in (10, 100, 1000):
        site = hourly(hours)
        assert len(site.stages) <= 12
        ages = [hours - stage.clock // HOUR for stage in site.stages[1:]]
        assert ages[-2:] == [1, 0]
        assert [file.path for stage in site.stages for file in stage.rows.records] == [
            f"{n}.parquet" for n in range(1, hours + 1)
        ], "no rows were lost"
        assert site.states() == {n % 16: f"state-{n}" for n in range(1, hours + 1)}


@given(late=st.integers(1, 399))
def test_what_is_decoded_again_is_a_few_times_as_long_as_what_came_late_was_late(late: int) -> None:
    site = hourly(400)
    (stage, *_) = site.stages_before(site.clock - late * HOUR + 1)
    assert late <= 400 - max(0, site.stages[stage].clock // HOUR) <= 5 * late + 1


def test_a_run_goes_back_only_to_where_every_part_can_go_on() -> None:
    site = hourly(2)
    site.stages += [Stage(3 * HOUR, 2, {}, {3: None}), Stage(4 * HOUR, 2, {}, {3: "state"})]
    assert list(site.stages_before(None)) == [4, 2, 1, 0]
    site.thin()
    assert [stage.clock // HOUR for stage in site.stages[1:]] == [2, 4]
    assert site.states()[3] == "state"


def test_of_stages_at_one_time_the_last_stays() -> None:
    site = hourly(2)
    site.stages.append(Stage(site.clock, 2, {}, {1: "newer"}, rows("newer.parquet")))
    site.thin()
    assert [stage.clock // HOUR for stage in site.stages[1:]] == [1, 2]
    assert site.states()[1] == "newer"
    assert len(site.stages[-1].rows.records) == 2


def test_a_stage_knows_how_far_files_were_that_were_read_on_since() -> None:
    site = hourly(2)
    site.read_on([1])
    site.files[1].packets = 99
    assert site.reached(1, 1) == NOTHING, "it had not begun"
    assert site.reached(2, 1) == Reached(10, None, 2 * HOUR)
    assert site.reached(2, 0).packets == 10
    assert list(site.stages[1].grown) == []


def test_rows_at_the_end_are_forgotten_with_everything_else_only() -> None:
    site = hourly(3)
    site.tails = {1: rows("tail.parquet")}
    site.go_back(len(site.stages) - 2)
    assert site.clock == 2 * HOUR
    assert site.tails
    site.go_back(0)
    assert (site.clock, site.tails) == (-1, {})


@pytest.mark.parametrize(
    ("since", "ends", "times"),
    [
        (-1, [], []),
        (-1, [5], []),
        (7, [5, 7], []),
        (-1, [90, 100], [90]),
        (0, [100, 100, 99, 99], [99]),
        (0, range(1, 1001), [984, 996, 999]),
    ],
)
def test_a_run_makes_stages_where_files_end(since: int, ends: Any, times: list[int]) -> None:
    found = times_of_stages(since, ends)
    assert len(found) <= 3
    assert found == times


def test_the_manifest_has_all_of_a_site() -> None:
    site = hourly(5)
    site.tails = {1: rows("tail.parquet")}
    site.read_on([4])
    assert site_of_json(asdict(site)) == site
