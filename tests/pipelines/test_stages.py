"""Stages of a capture point: which there are, and what each knows."""

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
        first, last = (n - 1) * HOUR + 1, n * HOUR
        site.files.append(File(f"{n}.pcap", 100, place=f"{n}.pcap", packets=10, first=first, clock=last))
        site.add([Stage(n * HOUR, {n % 16: f"state-{n}"}, rows(f"{n}.parquet"))], first)
    return site


def test_a_site_without_files_stands_at_its_origin() -> None:
    site = Site()
    assert site.clock == -1
    assert site.states() == {}
    assert site.begun(0) == 0
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
    site.stages += [Stage(3 * HOUR, {3: None}), Stage(4 * HOUR, {3: "state"})]
    assert list(site.stages_before(None)) == [4, 2, 1, 0]
    site.add([], None)
    assert [stage.clock // HOUR for stage in site.stages[1:]] == [2, 4]
    assert site.states()[3] == "state"


def test_of_stages_at_one_time_the_last_stays() -> None:
    site = hourly(2)
    site.add([Stage(site.clock, {1: "newer"}, rows("newer.parquet"))], None)
    assert [stage.clock // HOUR for stage in site.stages[1:]] == [1, 2]
    assert site.states()[1] == "newer"
    assert len(site.stages[-1].rows.records) == 2


def test_a_stage_that_lacks_a_packet_goes_and_its_rows_are_the_next_one_s() -> None:
    """A capture whose clock stands grows by packets of the time at which it ended."""
    site = hourly(2)
    site.add([Stage(3 * HOUR, {2: "newer"}, rows("newer.parquet"))], site.clock)
    assert [stage.clock // HOUR for stage in site.stages[1:]] == [1, 3]
    assert [file.path for file in site.stages[-1].rows.records] == ["2.parquet", "newer.parquet"]


def test_of_a_file_only_the_places_are_known_from_which_it_is_read_on_behind_a_stage() -> None:
    site = hourly(2)
    file = site.files[1]
    ends = Reached(10, None, 2 * HOUR)
    file.marks = [Reached(5, None, HOUR + HOUR // 2), ends, Reached(50, None, 3 * HOUR)]
    file.packets, file.clock = 99, 4 * HOUR
    site.add([Stage(4 * HOUR, {}, rows("3.parquet"))], 2 * HOUR + 1)
    assert file.marks == [ends]
    assert file.reached_at(2 * HOUR) == ends
    assert file.reached_at(HOUR) == NOTHING, "it had not begun"
    assert [stage.clock // HOUR for stage in site.stages[1:]] == [2, 4]
    assert (site.begun(0), site.begun(1)) == (0, 2)
    assert [one.goes_beyond(2 * HOUR) for one in site.files] == [False, True]


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
    site.files[4].marks = [Reached(5, None, 4 * HOUR)]
    assert site_of_json(asdict(site)) == site
