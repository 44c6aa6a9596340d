"""What clients and their admin tools wrote down beside captures, against positions, lag, leaders and audit."""

import json
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import dissectors
from pipelines.answers.records import query
from pipelines.tables.audit import TABLES
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import LAG
from pipelines.tables.leaders import LEADERS
from pipelines.tables.table import Ask
from tests.captures import captures, needs_captures, truths
from tests.pipelines.audited import audited

pytestmark = needs_captures
Told = dict[str, Any]


def told(protocol: str, key: str) -> list[str]:
    """The captures whose clients knew a thing, and that hold all of the story. key: of the JSON, or of its topics."""
    found = []
    for path in truths(protocol):
        about = json.loads(path.read_text())
        if not about.get("partial") and (key in about or any(key in t for t in (about.get("topics") or {}).values())):
            found.append(path.stem)
    return found


def known(protocol: str, name: str) -> Told:
    about: Told = json.loads((captures(protocol) / f"{name}.json").read_text())
    return about


@cache
def tables_of(protocol: str, name: str) -> dict[str, pa.Table]:
    about, folder = known(protocol, name), captures(protocol)
    keylog: dict[str, Any] = {"keylog": str(folder / about["tls_keylog"])} if "tls_keylog" in about else {}
    return dissectors.dissect([folder / file for file in about.get("captures") or [about["capture"]]], TABLES, **keylog)


def table(protocol: str, name: str, made: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query(tables_of(protocol, name), made.query(DuckDB(), Ask()))
    return rows


def ends(name: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Where each partition of Kafka ended: by answers and by what was produced; and its transactions."""
    rows = query(tables_of("kafka", name), """
        select topic, partition, max(value) as last, count(distinct transaction) as transactions from (
            select topic, partition, value, null as transaction from positions where what = 'high_watermark'
            union all
            select topic, partition, last_offset + 1, case when transactional then exchange_id end
            from batches where coalesce(outcome, '') <> 'error'
        ) where topic is not null group by all""")  # fmt: skip
    return {(row["topic"], row["partition"]): (row["last"], row["transactions"]) for row in rows}


@pytest.mark.parametrize("name", told("kafka", "offsets"))
def test_partitions_end_where_their_clients_say(name: str) -> None:
    """Clients count no marker that ends a transaction; such a marker takes an offset."""
    found = ends(name)
    for topic, about in known("kafka", name)["topics"].items():
        for partition, (_, last) in about.get("offsets", {}).items():
            end, transactions = found.get((topic, int(partition)), (None, 0))
            if end is not None:
                assert last + 1 <= end <= last + 1 + transactions, (topic, partition)


@pytest.mark.parametrize("name", told("kafka", "committed_offsets"))
def test_the_last_commits_are_those_that_the_admin_client_lists(name: str) -> None:
    last = {f"{row['topic']}-{row['partition']}": row["committed"] for row in by_time(table("kafka", name, LAG))}
    wanted = known("kafka", name)["committed_offsets"]
    assert {place: offset for place, offset in wanted.items() if offset} == {
        place: offset for place, offset in last.items() if offset
    }


def by_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["bucket"])


@pytest.mark.parametrize("name", told("kafka", "lag"))
def test_lag_is_what_the_client_computed(name: str) -> None:
    about = known("kafka", name)
    last = {
        (row["topic"], row["partition"]): (row["committed"], row["end_offset"], row["messages"])
        for row in by_time(table("kafka", name, LAG))
        if row["group"] == about["group"]["name"]
    }
    assert last == {
        (row["topic"], row["partition"]): (row["offset"], row["highwaterMark"], row["consumerLag"])
        for row in about["lag"]
    }


@pytest.mark.parametrize("name", told("kafka", "groups"))
def test_groups_that_consumed_everything_got_it_and_have_no_lag(name: str) -> None:
    about = known("kafka", name)
    topics = about["topics"].values()
    statements = audited(tables_of("kafka", name))
    counted = {group: told for group, told in about["groups"].items() if isinstance(told, dict)}
    for group, of_group in counted.items():
        if of_group["consumed"] != sum(topic.get("produced", 0) for topic in topics):
            continue
        last = {(r["topic"], r["partition"]): r for r in by_time(table("kafka", name, LAG)) if r["group"] == group}
        assert {row["messages"] for row in last.values()} <= {0}
        delivered = [each.messages or 0 for each in statements if (each.what, each.group) == ("delivered", group)]
        assert not last or sum(delivered) == of_group["consumed"]


@pytest.mark.parametrize("name", sorted({*told("kafka", "leaders_before"), "cluster3-any-failover"}))
def test_leaders_are_those_before_and_after_the_change(name: str) -> None:
    about = known("kafka", name)
    (topic,) = about["topics"]
    rows = sorted((r for r in table("kafka", name, LEADERS) if r["topic"] == topic), key=lambda row: row["since"])
    first = {str(row["partition"]): int(row["leader"]) for row in reversed(rows) if row["leader"] is not None}
    last = {str(row["partition"]): int(row["leader"]) for row in rows if row["leader"] is not None}
    assert first == about["leaders_before"]
    assert last == about["leaders_after"]


def test_the_primary_of_iggy_is_another_one_after_the_first_was_killed() -> None:
    rows = sorted(table("iggy", "c9-dev-cluster-failover", LEADERS), key=lambda r: (r["topic"] or "", r["since"]))
    assert [(r["topic"], r["partition"], r["leader"], r["leader_epoch"]) for r in rows] == [
        (None, None, "0", 0),
        (None, None, "1", 1),
        ("clx-steady/clx-ticks", 0, "1", 1),
        ("clx-steady/clx-ticks", 1, "1", 1),
    ]


def test_the_owner_of_a_topic_of_pulsar_is_known_when_a_broker_hands_it_over() -> None:
    rows = sorted(table("pulsar", "transfer_java", LEADERS), key=lambda row: row["since"])
    assert [row["leader"].rpartition(":")[2] for row in rows] == ["6652", "6650", "6652"]


@pytest.mark.parametrize("name", told("pulsar", "last_message_id"))
def test_the_last_message_of_a_topic_is_the_one_that_the_consumer_was_told(name: str) -> None:
    told_id = known("pulsar", name)["last_message_id"]
    rows = tables_of("pulsar", name)["positions"].to_pylist()
    last = {(row["ledger"], row["value"]) for row in rows if row["what"] == "high_watermark"}
    assert (told_id["ledger"], told_id["entry"]) in last


@pytest.mark.parametrize("name", told("pulsar", "redelivered_after_nack"))
def test_what_a_consumer_asked_for_again_came_twice(name: str) -> None:
    about = known("pulsar", name)
    asked = [e.messages for e in audited(tables_of("pulsar", name)) if "asked for them again" in e.sentence
             and e.group == "rcpt"]  # fmt: skip
    assert asked == [about["redelivered_after_nack"] + about["redelivered_after_redeliverUnacknowledged"]]


@pytest.mark.parametrize("name", told("iggy", "polls"))
def test_polls_of_iggy_say_where_the_partition_ends_and_what_is_committed(name: str) -> None:
    rows = [r for r in tables_of("iggy", name)["positions"].to_pylist() if r["api"] != "GET_CONSUMER_OFFSET"]
    stated = {what: {(r["topic"], r["partition"], r["value"]) for r in rows if r["what"] == what} for what in (
        "high_watermark", "committed")}  # fmt: skip
    for topic, about in known("iggy", name)["topics"].items():
        for poll in about.get("polls", ()):
            if poll["got"] and "current_offset" in poll:
                partition = poll.get("response_partition", poll["partition"])
                assert (topic, partition, poll["current_offset"] + 1) in stated["high_watermark"]
                if poll["auto_commit"]:
                    assert (topic, partition, poll["last_offset"] + 1) in stated["committed"]


def stored_offsets(about: Told) -> list[list[int]]:
    """`stored offset 3 current 52` among the notes of a client of Iggy: what the server said of its offset."""
    notes = [str(note).split() for note in about.get("notes", ()) if str(note).startswith("stored offset")]
    return [[int(note[2]), int(note[4])] for note in notes]


@pytest.mark.parametrize("name", [n for n in told("iggy", "notes") if stored_offsets(known("iggy", n))])
def test_a_stored_offset_is_the_one_that_the_server_told(name: str) -> None:
    rows = [row for row in tables_of("iggy", name)["positions"].to_pylist() if row["api"] == "GET_CONSUMER_OFFSET"]
    found = {what: [row["value"] for row in rows if row["what"] == what] for what in ("committed", "high_watermark")}
    for stored, current in stored_offsets(known("iggy", name)):
        assert stored + 1 in found["committed"]
        assert current + 1 in found["high_watermark"]
