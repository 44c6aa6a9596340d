"""What commands of Iggy say that no column holds: rows of `events`."""

from __future__ import annotations

from pathlib import Path

import dissectors

SAMPLES = Path(__file__).parents[2] / "samples"


def test_a_group_that_is_made_or_asked_for_has_a_name_for_its_number() -> None:
    rows = dissectors.dissect([SAMPLES / "iggy-vsr.pcap"], ["events"])["events"].to_pylist()
    named = [(row["api"], row["group"], row["number"]) for row in rows if row["kind"] == "named"]
    assert named == [
        ("CREATE_CONSUMER_GROUP", "dev-group", 0),
        ("CREATE_CONSUMER_GROUP", "dev-group2", 1),
        ("GET_CONSUMER_GROUP", "dev-group", 0),
    ]
    assert "created" in {row["kind"] for row in rows if row["api"] == "CREATE_CONSUMER_GROUP"}
