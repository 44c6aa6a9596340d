"""Where partitions stand, as requests and answers say it: the table `positions`."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from dissectors.kafka import PROTOCOL, schema
from dissectors.kafka.body_notes import AT_PARTITION, STATED, WHAT, BodyNotes
from dissectors.kafka.full import full
from dissectors.kafka.plan import message_words
from dissectors.kafka.position_fields import FIELDS, LEADER, OLD_OFFSETS, REPLICAS
from dissectors.kafka.walk import walker
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.kafka.test_walk import lists
from tests.kafka.wire import any_body, fetch, fetched, request, response, text

VERSIONS = [(name, version) for name in FIELDS for version in schema.message(name).versions.each()]
PARTITION = ("partitionIndex", "partition", "index")
OFFSET_COMMIT, LIST_OFFSETS, METADATA, OFFSET_FETCH = 8, 2, 3, 9
INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT = 22, 26, 28


def note(name: str, version: int, body: bytes, positions: bool = True) -> BodyNotes:
    return walker().note(message_words(name, version, positions), body, 0, len(body))


def said(body: dict[str, Any], wanted: dict[str, int], partition: int | None = None) -> Iterator[tuple[Any, ...]]:
    """(partition, what, value) of the wanted fields of a decoded body, in wire order."""
    for name, value in body.items():
        if name in PARTITION:
            partition = value
        if name in wanted:
            yield partition, wanted[name], value or 0 if not isinstance(value, list) else value
        elif isinstance(value, dict):
            yield from said(value, wanted, partition)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    yield from said(each, wanted, partition)


def stated(notes: BodyNotes) -> list[tuple[int, int, int]]:
    """(partition, what, number) of each position; of an array or a text the number is where it lies."""
    cells = notes.positions.cells
    return [(cells[i, AT_PARTITION], cells[i, WHAT], cells[i, STATED]) for i in range(notes.positions.count)]


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_the_walk_notes_what_the_whole_body_says_and_all_that_it_notes_without(name: str, version: int) -> None:
    for seed in range(8):
        body = any_body(name, version, seed)
        wanted = list(said(full(name, version, body, 0, len(body)).body, FIELDS[name]))
        notes = note(name, version, body)
        assert notes.whole
        found = stated(notes)
        assert len(found) == len(wanted)
        for i, ((partition, what, number), (of, means, value)) in enumerate(zip(found, wanted, strict=True)):
            assert (partition if partition >= -(1 << 31) else None, what) == (of, means)
            if isinstance(value, list):
                assert notes.stated_numbers(i, 8 if what == OLD_OFFSETS else 4) == value
            elif isinstance(value, str):
                assert notes.stated_text(i) == value
            else:
                assert number == value or value == 0 == len(notes.stated_text(i))
        noted = lists(notes)
        assert lists(note(name, version, body, positions=False)) == noted


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_a_body_that_ends_early_says_what_stands_before_its_end(name: str, version: int) -> None:
    body = any_body(name, version, 3)
    everything = stated(note(name, version, body))
    for end in range(0, len(body), max(1, len(body) // 100)):
        found = stated(note(name, version, body[:end]))
        assert [row[:2] for row in found] == [row[:2] for row in everything[: len(found)]]


def test_an_array_that_the_bytes_cannot_hold_is_not_read() -> None:
    body = struct.pack(">i", 0) + struct.pack(">ih", 1, 0) + text("t") + struct.pack(">ihiiii", 1, 0, 5, 2, 0, 1 << 30)
    notes = note("MetadataResponse", 0, body)
    assert not notes.whole
    assert [what for _, what, _ in stated(notes)] == [LEADER, REPLICAS]


# --- rows ---


def rows(sink: Sink, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, name) for name in names) for row in sink.positions]


def commit(key: int, offset: int, errors: dict[int, int]) -> list[tuple[int, bytes]]:
    """A commit of the same offset of partitions 0 and 1, and its answer."""
    partitions = b"".join(struct.pack(">iq", number, offset) + text("") for number in errors)
    body = text("tx") + text("g") + struct.pack(">qh", 7, 0) if key == TXN_OFFSET_COMMIT else text("g")
    if key == OFFSET_COMMIT:
        body += struct.pack(">i", 3) + text("m") + struct.pack(">q", -1)
    body += struct.pack(">i", 1) + text("t") + struct.pack(">i", len(errors)) + partitions
    answer = struct.pack(">i", 1) + text("t") + struct.pack(">i", len(errors))
    answer += b"".join(struct.pack(">ih", *pair) for pair in errors.items())
    if key == TXN_OFFSET_COMMIT:
        return [(CLIENT, request(key, 0, 5, body)), (SERVER, response(key, 0, 5, bytes(4) + answer))]
    return [(CLIENT, request(key, 2, 5, body)), (SERVER, response(key, 2, 5, answer))]


def test_an_offset_counts_as_committed_where_the_broker_accepts_it() -> None:
    sink = feed_every_way(PROTOCOL, commit(OFFSET_COMMIT, 41, {0: 0, 1: 25}))
    assert rows(sink, "what", "group", "topic", "partition", "value") == [("committed", "g", "t", 0, 41)]
    (row,) = sink.positions
    assert (row.api, row.client_id, row.correlation_id) == ("OffsetCommit", "tester", 5)
    assert row.exchange_id == sink.exchanges[0].exchange_id
    assert row.packet_ref == 1  # of the request, which says it


def test_a_commit_without_an_answer_is_no_position() -> None:
    sink, _ = feed(PROTOCOL, commit(OFFSET_COMMIT, 41, {0: 0})[:1])
    assert rows(sink, "what") == []


def test_an_offset_in_a_transaction_is_pending_until_that_ends() -> None:
    end = text("tx") + struct.pack(">qhb", 7, 0, 1)
    script = [
        *commit(TXN_OFFSET_COMMIT, 9, {0: 0}),
        (CLIENT, request(END_TXN, 0, 6, end)),
        (SERVER, response(END_TXN, 0, 6, struct.pack(">ih", 0, 0))),
        (CLIENT, request(INIT_PRODUCER_ID, 0, 7, text("tx") + struct.pack(">i", 1000))),
        (SERVER, response(INIT_PRODUCER_ID, 0, 7, struct.pack(">ihqh", 0, 0, 7, 1))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert rows(sink, "what", "transaction", "group", "partition", "value") == [
        ("pending", "tx", "g", 0, 9),
        ("transaction", "tx", None, None, 1),
        ("transaction", "tx", None, None, 0),
    ]


def test_a_fetch_says_where_it_reads_and_its_answer_where_the_partition_ends() -> None:
    script = [(CLIENT, fetch(3, [("t", [4])], offset=12, replica=2)), (SERVER, fetched(3, {("t", 4): b""}))]
    assert rows(feed_every_way(PROTOCOL, script), "what", "topic", "partition", "value", "replica") == [
        ("fetch", "t", 4, 12, 2),
        ("high_watermark", "t", 4, 100, None),
    ]


def test_an_open_transaction_and_a_log_that_was_cut_are_positions_too() -> None:
    body = struct.pack(">ihii", 0, 0, 0, 1) + text("t")
    body += struct.pack(">iihqqqii", 1, 4, 0, 100, 60, 7, 0, 0)

    def said(isolation: int) -> list[tuple[Any, ...]]:
        script = [(CLIENT, fetch(3, [("t", [4])], isolation=isolation)), (SERVER, response(1, 7, 3, body))]
        return rows(feed_every_way(PROTOCOL, script), "what", "value")[1:]

    assert said(isolation=1) == [("high_watermark", 100), ("last_stable", 60), ("log_start", 7)]
    assert said(isolation=0) == [("high_watermark", 100), ("log_start", 7)]  # no transaction holds such a reader


def offsets(timestamp: int, replica: int = -1, isolation: int = 0) -> list[tuple[Any, ...]]:
    """What an answer to ListOffsets gives that asks by a timestamp."""
    asked = struct.pack(">ibi", replica, isolation, 1) + text("t") + struct.pack(">iiq", 1, 4, timestamp)
    answer = struct.pack(">ii", 0, 1) + text("t") + struct.pack(">iihqq", 1, 4, 0, -1, 77)
    script = [(CLIENT, request(LIST_OFFSETS, 2, 1, asked)), (SERVER, response(LIST_OFFSETS, 2, 1, answer))]
    return rows(feed_every_way(PROTOCOL, script), "what", "partition", "value")


def test_what_list_offsets_gives_depends_on_what_was_asked_for() -> None:
    assert offsets(-1) == [("high_watermark", 4, 77)]
    assert offsets(-1, isolation=1) == [("last_stable", 4, 77)]
    assert offsets(-2) == [("log_start", 4, 77)]
    assert offsets(1_700_000_000_000) == []  # an offset by its time
    assert offsets(-1, replica=2) == []  # the end of the log: not all of it may be read


def test_metadata_says_who_leads_who_has_the_partition_and_who_is_in_sync() -> None:
    each = struct.pack(">hii", 0, 0, 2) + struct.pack(">iiii", 3, 1, 2, 3) + struct.pack(">iii", 2, 1, 2)
    none = struct.pack(">hii", 5, 1, -1) + struct.pack(">ii", 1, 1) + struct.pack(">i", 0)
    body = struct.pack(">iih", 0, 1, 0) + text("t") + struct.pack(">i", 2) + each + none
    asked = struct.pack(">i", 1) + text("t")
    script = [(CLIENT, request(METADATA, 0, 1, asked)), (SERVER, response(METADATA, 0, 1, body))]
    found = rows(feed_every_way(PROTOCOL, script), "what", "partition", "value", "leader", "replicas", "isr")
    assert found == [("leader", 0, 2, "2", ["1", "2", "3"], ["1", "2"]), ("leader", 1, -1, None, ["1"], [])]


def test_offsets_of_several_groups_have_their_groups() -> None:
    body = any_body("OffsetFetchResponse", 8, 1)
    whole = full("OffsetFetchResponse", 8, body, 0, len(body)).body
    want = [
        (group["groupId"], partition["partitionIndex"], partition["committedOffset"])
        for group in whole["groups"]
        for topic in group["topics"]
        for partition in topic["partitions"]
        if partition["committedOffset"] >= 0
    ]
    script = [(CLIENT, request(OFFSET_FETCH, 8, 1, b"\1\0\0")), (SERVER, response(OFFSET_FETCH, 8, 1, body))]
    assert want
    assert rows(feed_every_way(PROTOCOL, script), "group", "partition", "value") == want


def test_of_an_answer_no_more_positions_are_read_than_the_limit_allows() -> None:
    script = [
        (CLIENT, fetch(1, [("t", list(range(100)))])),
        (SERVER, fetched(1, {("t", number): b"" for number in range(100)})),
    ]
    options = Options(tables=tuple(TABLES), limits=Limits(positions=10))
    sink, _ = feed(PROTOCOL, script, options=options)
    high = [row.partition for row in sink.positions if row.what == "high_watermark"]
    assert high == [0, 1, 2, 3]  # each answer states three offsets of a partition
    assert [row.kind for row in sink.findings if row.kind == "limit"] == ["limit"]


def test_nothing_is_noted_where_nobody_asks_for_positions() -> None:
    tables = tuple(table for table in TABLES if table != "positions")
    sink, _ = feed(PROTOCOL, commit(OFFSET_COMMIT, 41, {0: 0}), options=Options(tables=tables))
    assert len(sink.exchanges) == 1
    assert rows(sink, "what") == []
