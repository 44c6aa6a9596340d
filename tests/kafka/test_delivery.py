"""What an application gets of an answered fetch is less than what the answer carries."""

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from dissectors.kafka import PROTOCOL, batches, schema
from dissectors.kafka.delivery import (
    aborted_transactions,
    acquired,
    acquired_ranges,
    delivered,
    later_pieces,
    of_partition,
)
from dissectors.kafka.full import full
from dissectors.kafka.record_batch import RecordBatch
from dissectors.options import Options
from dissectors.rows.layout import ABSENT
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.kafka.wire import any_body, batch, fetch, fetched, message, record, request, response, wrapper

LIMIT = 1 << 20
TRANSACTIONAL, CONTROL = 0x10, 0x20
THREE = [record(i, None, b"x") for i in range(3)]


def units(*parts: bytes) -> tuple[bytes, list[RecordBatch]]:
    data = b"".join(parts)
    return data, list(batches.units(data, 0, len(data), len(data), LIMIT, lenient=True))


def marker(offset: int, producer: int, commit: bool) -> bytes:
    key = struct.pack(">hh", 0, commit)
    return batch([record(0, key, bytes(6))], offset, attributes=TRANSACTIONAL | CONTROL, producer=(producer, 0, -1))


def test_records_before_the_fetch_offset_are_dropped() -> None:
    data, found = units(batch(THREE, 10), batch(THREE, 13))
    assert delivered(data, found, 12, (), LIMIT) == 4
    assert delivered(data, found, 10, (), LIMIT) == 6
    assert delivered(data, found, ABSENT, (), LIMIT) == 6
    assert delivered(data, found, 13, (), LIMIT) == 3


def test_in_a_compacted_batch_the_records_themselves_say_which_lie_before_the_fetch_offset() -> None:
    data, found = units(batch([record(0, None, b"x"), record(5, None, b"y"), record(9, None, b"z")], 10))
    found[0].last_offset = 19
    assert delivered(data, found, 15, (), LIMIT) == 2


@pytest.mark.parametrize(("magic", "first"), [(0, 100), (1, 0)])
def test_a_wrapper_is_read_from_the_fetch_offset_on_though_its_own_offset_is_its_last(magic: int, first: int) -> None:
    inner = [message(first + i, b"x", magic=magic) for i in (0, 1, 5, 9)]
    data, found = units(wrapper(109, inner, magic), message(110, b"x", magic=magic))
    assert delivered(data, found, 105, (), LIMIT) == 3
    assert delivered(data, found, 100, (), LIMIT) == 5
    assert delivered(data, found, ABSENT, (), LIMIT) == 5


@pytest.mark.parametrize("tables", [("exchanges",), ("exchanges", "batches")])
def test_what_a_fetch_delivers_of_a_wrapper_does_not_depend_on_the_tables(tables: tuple[str, ...]) -> None:
    inner = [message(i, b"x") for i in range(10)]
    script = [(CLIENT, fetch(1, [("t", [0])], offset=5)), (SERVER, fetched(1, {("t", 0): wrapper(9, inner)}))]
    sink, _ = feed(PROTOCOL, script, options=Options(tables=tables))
    (call,) = sink.exchanges
    assert call.records == 5


def test_control_records_are_not_for_applications() -> None:
    data, found = units(batch(THREE, 0, attributes=TRANSACTIONAL, producer=(7, 0, 0)), marker(3, 7, commit=True))
    assert delivered(data, found, 0, (), LIMIT) == 3


def test_aborted_transactions_are_left_out_up_to_their_marker() -> None:
    data, found = units(
        batch(THREE, 0, attributes=TRANSACTIONAL, producer=(7, 0, 0)),
        marker(3, 7, commit=False),
        batch(THREE, 4, attributes=TRANSACTIONAL, producer=(7, 0, 3)),
        marker(7, 7, commit=True),
        batch(THREE, 8, attributes=TRANSACTIONAL, producer=(9, 0, 0)),
    )
    assert delivered(data, found, 0, [(7, 0)], LIMIT) == 6
    assert delivered(data, found, 0, [(7, 0), (9, 8)], LIMIT) == 3
    assert delivered(data, found, 0, (), LIMIT) == 9


def test_the_answer_lists_aborted_transactions_by_partition() -> None:
    answer = {
        "responses": [
            {
                "topic": "t",
                "partitions": [
                    {"partitionIndex": 1, "abortedTransactions": [{"producerId": 7, "firstOffset": 3}]},
                    {"partitionIndex": 2, "abortedTransactions": None},
                ],
            }
        ]
    }
    found = aborted_transactions(answer)
    assert of_partition(found, "t", 1) == [(7, 3)]
    assert of_partition(found, "t", 2) == ()


def test_a_member_of_a_share_group_gets_what_it_acquired() -> None:
    data, found = units(batch(THREE, 10), batch(THREE, 13), marker(16, 7, commit=True))
    assert acquired(data, found, [(10, 10), (12, 14), (16, 16)], LIMIT) == 4
    assert acquired(data, found, [(0, 99)], LIMIT) == 6
    assert acquired(data, found, (), LIMIT) == 0


def test_of_a_compacted_batch_only_records_that_are_there_are_acquired() -> None:
    data, found = units(batch([record(0, None, b"x"), record(5, None, b"y"), record(9, None, b"z")], 10))
    found[0].last_offset = 19
    assert acquired(data, found, [(10, 14), (16, 19)], LIMIT) == 2
    assert acquired(data, found, [(11, 14)], LIMIT) == 0


@pytest.mark.parametrize("tables", [("exchanges",), ("exchanges", "batches")])
def test_a_share_fetch_counts_what_its_answer_says_is_acquired(tables: tuple[str, ...]) -> None:
    topic, none = b"T" * 16, b"\0"
    asked = b"\3sg\2m" + struct.pack(">iiiii", 0, 500, 1, 100, 10) + struct.pack(">i", 10)
    asked += b"\2" + topic + b"\2" + struct.pack(">i", 0) + b"\1" + none + none + b"\1" + none
    records = batch(THREE, 10)
    given = struct.pack(">qqh", 11, 12, 1) + none
    partition = struct.pack(">ih", 0, 0) + none + struct.pack(">h", 0) + none + struct.pack(">ii", 1, 1) + none
    partition += bytes([len(records) + 1]) + records + b"\2" + given + none
    answer = struct.pack(">ih", 0, 0) + none + struct.pack(">i", 1000)
    answer += b"\2" + topic + b"\2" + partition + none + b"\1" + none
    script = [(CLIENT, request(78, 1, 1, asked)), (SERVER, response(78, 1, 1, answer))]
    sink, _ = feed(PROTOCOL, script, options=Options(tables=(*tables, "findings")))
    assert [call.records for call in sink.exchanges] == [2]
    assert not sink.findings


@pytest.mark.parametrize("at", [1, 16, 80, 130])
def test_a_piece_of_a_snapshot_may_begin_within_a_batch(at: int) -> None:
    """FetchSnapshot: "snapshot data in records format which may not be aligned on an offset boundary"."""
    name, none = b"\x13__cluster_metadata", b"\0"
    whole = batch(THREE) + batch(THREE, 3) + batch(THREE, 6)
    script = []
    for id_, position, piece in ((1, 0, whole[:at]), (2, at, whole[at:])):
        snapshot = struct.pack(">qi", 5, 1) + none
        place = struct.pack(">ii", 0, 1) + snapshot + struct.pack(">q", position) + none
        asked = struct.pack(">ii", 1, 1000) + b"\2" + name + b"\2" + place + none + none
        data = bytes([(len(piece) + 1) & 127 | 128, (len(piece) + 1) >> 7]) + piece
        given = struct.pack(">ih", 0, 0) + snapshot + struct.pack(">qq", len(whole), position) + data + none
        answer = struct.pack(">ih", 0, 0) + b"\2" + name + b"\2" + given + none + none
        script += [(CLIENT, request(59, 0, id_, asked)), (SERVER, response(59, 0, id_, answer))]
    sink = feed_every_way(PROTOCOL, script)
    assert not sink.findings
    assert [b.base_offset for b in sink.batches] == ([3, 6] if at < 85 else [0, 6])
    assert {b.verdict for b in sink.batches} == {"ok"}
    assert sum(call.records or 0 for call in sink.exchanges) == 6


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("FetchResponse", aborted_transactions),
        ("ShareFetchResponse", acquired_ranges),
        ("FetchSnapshotResponse", later_pieces),
    ],
)
def test_an_answer_that_is_damaged_says_what_is_there_of_it(name: str, read: Callable[[Any], Any]) -> None:
    rng = random.Random(name)
    for version in schema.message(name).versions.each():
        for seed in range(20):
            body = any_body(name, version, seed)
            assert read(full(name, version, body, 0, len(body)).body) is not None
            for end in range(0, len(body), 1 + len(body) // 30):
                damaged = bytearray(body[:end])
                for at in rng.sample(range(end), min(end, 2)):
                    damaged[at] = rng.choice((0, 255))
                for part in (body[:end], bytes(damaged)):
                    read(full(name, version, part, 0, len(body)).body)


def test_arrays_that_are_null_hold_nothing() -> None:
    partitions = {"partitionIndex": 0, "abortedTransactions": None, "acquiredRecords": None}
    for responses in (None, [{"partitions": None}], [{"partitions": [partitions]}]):
        assert not aborted_transactions({"responses": responses})
        assert not any(acquired_ranges({"responses": responses}).values())
    assert not later_pieces({"topics": None})


def test_a_set_without_a_topic_has_no_aborted_transactions() -> None:
    assert not of_partition({("t", 0): [(1, 2)]}, None, 0)
