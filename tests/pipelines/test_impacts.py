"""What became of the work, over the samples: the tables `impacts` and `verdicts` say the same."""

from pathlib import Path
from typing import Any

import pytest

import dissectors
from pipelines.answers.records import database_of
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts.engine import judged
from pipelines.tables.verdicts.kinds import HARMS, KINDS, NOTE

SAMPLES = sorted((Path(__file__).parents[2] / "samples").glob("*.pcap*"))
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.stem)
def told(request: pytest.FixtureRequest) -> tuple[Rows, Rows]:
    """The verdicts on a sample, and its impacts."""
    with database_of(dissectors.dissect([request.param], tables=RECORDS)) as duckdb:
        found = judged(duckdb)
    return found.verdicts.to_pylist(), found.impacts.to_pylist()


def test_each_impact_is_of_a_verdict_that_is_no_note(told: tuple[Rows, Rows]) -> None:
    verdicts, impacts = told
    loud = {row["kind"] for row in verdicts if row["severity"] != NOTE}
    assert {row["cause"] for row in impacts} <= loud


def test_each_verdict_that_is_no_note_has_impacts_or_is_a_risk(told: tuple[Rows, Rows]) -> None:
    verdicts, impacts = told
    harmful = {row["kind"] for row in verdicts if row["severity"] != NOTE and KINDS[row["kind"]].harm}
    assert harmful == {row["cause"] for row in impacts}


def test_an_impact_says_what_it_is_whose_and_shows_where(told: tuple[Rows, Rows]) -> None:
    for row in told[1]:
        assert row["what"] in HARMS
        assert row["client_ip"] or row["client_id"] or row["group"], row
        assert row["evidence"], row
        assert all(place["file"] and place["packet"] for place in row["evidence"]), row
        assert row["until"] is None or row["from"] <= row["until"]
        assert row["time_ns"] is None or row["time_ns"] >= 0
