"""What commands of Iggy say that no column holds: rows of `events`."""

from pathlib import Path

import dissectors
from dissectors.iggy.changes import COMMANDS, permitted, texts, thing_of

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


def told(path: str) -> list[dict[str, object]]:
    """What the events of a sample say, without where and when."""
    shown = ("kind", "thing", "topic", "group", "subject", "number", "text")
    rows = dissectors.dissect([SAMPLES / path], ["events"])["events"].to_pylist()
    return [{name: row[name] for name in shown if row[name] is not None} for row in rows]


def test_who_logs_in_and_what_is_made_is_told_with_its_settings() -> None:
    rows = told("iggy-vsr.pcap")
    assert {"kind": "authenticated", "subject": "iggy", "number": 0, "text": "password"} in rows
    made = [row for row in rows if row["kind"] == "created"]
    assert {row["thing"] for row in made} >= {"stream", "topic", "group"}
    assert not any("\0" in str(value) for row in rows for value in row.values())
    assert any(str(row.get("text")).startswith("partitions=") for row in made if row["thing"] == "topic")


def test_each_right_of_a_user_is_told_where_it_holds() -> None:
    of_topic = {"poll_messages": True, "send_messages": False}
    rights = {
        "global": {"read_streams": True, "manage_users": False},
        "streams": {"1": {"read_topics": True, "topics": {"2": of_topic}}},
    }
    assert permitted(rights) == "read_streams; stream 1: read_topics; stream 1 topic 2: poll_messages"


def test_a_user_whose_rights_are_all_taken_has_none() -> None:
    assert texts(COMMANDS["UPDATE_PERMISSIONS"], {"user_id": "ann", "permissions": None}) == ["permissions=none"]


def test_a_setting_that_goes_back_to_its_default_is_told_so() -> None:
    asked = {"scope": 1, "options": {"message_expiry": 5}, "reset": ["compression"]}
    change = COMMANDS["UPDATE_RESOURCE"]
    assert thing_of(change, asked) == "topic"
    assert texts(change, asked) == ["message_expiry=5", "compression=<default>"]
