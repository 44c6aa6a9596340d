"""Whole record batches behind a hole are found, whatever surrounded them; none is invented, none comes twice."""

import random
import struct
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard

import dissectors
from dissectors.kafka import PROTOCOL
from dissectors.kafka.loss.lost_batches import BatchSearch, CapturedRanges, LostBatch
from dissectors.limits import MIB, SEARCH_COST_PER_BYTE, SEARCH_CREDIT
from dissectors.rows.sink import Sink
from dissectors.tcp.chunk import Chunk
from tests.captures import captures, needs_captures
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.kafka.captured_batches import captured_batches
from tests.kafka.wire import batch, fetch, fetched, produce, produced, record
from tests.lossy import drop
from tests.session.test_search import ALMOST

Step = tuple[int, Any]


def filled(seed: int, base: int = 0, size: int = 300) -> bytes:
    """A batch of so many bytes of data."""
    return batch([record(0, None, random.Random(seed).randbytes(size))], base)


A, B, C, D = (filled(i, 10 * i) for i in range(4))
CRCS = [struct.unpack_from(">I", each, 17)[0] for each in (A, B, C, D)]


def with_hole(direction: int, data: bytes, start: int, end: int) -> list[Step]:
    """The same bytes, of which [start, end) were not captured."""
    return [(direction, data[:start]), (direction, end - start), (direction, data[end:])]


def shown(sink: Sink) -> list[tuple[Any, ...]]:
    """(which batch, topic, partition, verdict), in order of the stream."""
    rows = sorted(sink.batches, key=lambda row: row.stream_offset or 0)
    return [("ABCD"[CRCS.index(row.checksum_stored)], row.topic, row.partition, row.verdict) for row in rows]


# --- inside a frame whose head was captured --------------------------------------------------------------------------


def test_behind_a_hole_in_a_batch_its_length_leads_to_the_next() -> None:
    answer = fetched(7, {("orders", 3): A + B + C + D})
    at = answer.index(B) + 100
    script = [(CLIENT, fetch(7, [("orders", [3])])), *with_hole(SERVER, answer, at, at + 50)]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [
        ("A", "orders", 3, "ok"),
        ("B", "orders", 3, "unverifiable"),
        ("C", "orders", 3, "ok"),
        ("D", "orders", 3, "ok"),
    ]
    (row,) = sink.exchanges
    assert (row.complete, row.status, row.topics, row.records) == (False, "ok", ["orders"], 4)
    assert {b.exchange_id for b in sink.batches} == {row.exchange_id}


def test_where_the_head_of_a_batch_is_missing_the_next_is_found_by_its_bytes() -> None:
    answer = fetched(7, {("orders", 3): A + B + C + D})
    at = answer.index(B) - 5
    sink = feed_every_way(PROTOCOL, [(CLIENT, fetch(7, [("orders", [3])])), *with_hole(SERVER, answer, at, at + 50)])
    assert shown(sink) == [("A", "orders", 3, "unverifiable"), ("C", "orders", 3, "ok"), ("D", "orders", 3, "ok")]


def test_holes_within_record_sets_hide_no_topic_behind_them() -> None:
    answer = fetched(7, {("orders", 3): A + B, ("items", 0): C, ("items", 1): D})
    first, second = answer.index(A) + 80, answer.index(C) + 80
    script = [
        (CLIENT, fetch(7, [("orders", [3]), ("items", [0, 1])])),
        (SERVER, answer[:first]),
        (SERVER, 20),
        (SERVER, answer[first + 20 : second]),
        (SERVER, 20),
        (SERVER, answer[second + 20 :]),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [
        ("A", "orders", 3, "unverifiable"),
        ("B", "orders", 3, "ok"),
        ("C", "items", 0, "unverifiable"),
        ("D", "items", 1, "ok"),
    ]
    assert sink.exchanges[0].partitions == 3


def test_behind_a_hole_in_the_head_of_a_set_no_topic_is_claimed() -> None:
    answer = fetched(7, {("orders", 3): A, ("items", 0): B + C})
    hole = answer.index(B) - 40
    script = [(CLIENT, fetch(7, [("orders", [3]), ("items", [0])])), *with_hole(SERVER, answer, hole, hole + 30)]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("A", "orders", 3, "ok"), ("B", None, None, "ok"), ("C", None, None, "ok")]
    (row,) = sink.exchanges
    assert (row.status, row.complete) == ("unknown", False)
    assert {(b.api, b.correlation_id, b.exchange_id) for b in sink.batches} == {("Fetch", 7, row.exchange_id)}


def test_an_answer_to_a_fetch_of_one_partition_can_carry_no_other() -> None:
    answer = fetched(7, {("orders", 3): A + B})
    script = [(CLIENT, fetch(7, [("orders", [3])])), *with_hole(SERVER, answer, 20, answer.index(B))]
    assert shown(feed_every_way(PROTOCOL, script)) == [("B", "orders", 3, "ok")]


def test_of_a_session_with_a_request_missing_that_is_not_known() -> None:
    second = fetched(9, {("orders", 3): A + B})
    script = [
        (CLIENT, fetch(7, [("orders", [3])], (0, 0))),
        (SERVER, fetched(7, {}, session=5)),
        (CLIENT, len(fetch(8, [("items", [0])], (5, 1)))),
        (CLIENT, fetch(9, [], (5, 2))),
        *with_hole(SERVER, second, 20, second.index(B)),
    ]
    assert shown(feed_every_way(PROTOCOL, script)) == [("B", None, None, "ok")]


@pytest.mark.parametrize("code", [0, 6])
def test_produced_batches_behind_a_hole_have_the_outcome_of_their_partition(code: int) -> None:
    request = produce(1, {("orders", 0): A, ("items", 1): B})
    at = request.index(A) + 100
    script = [
        *with_hole(CLIENT, request, at, at + 10),
        (SERVER, produced(1, [("orders", 0, 0, 5), ("items", 1, code, 77)])),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("A", "orders", 0, "unverifiable"), ("B", "items", 1, "ok")]
    found = next(row for row in sink.batches if row.topic == "items")
    assert (found.outcome, found.base_offset) == (("error", None) if code else ("ok", 77))


def test_a_produced_batch_in_an_unknown_place_has_no_offset_and_no_outcome() -> None:
    request = produce(1, {("orders", 0): A + B, ("items", 1): C})
    at = request.index(A) + 10
    script = [*with_hole(CLIENT, request, at, at + 80), (SERVER, produced(1, [("orders", 0, 0, 5)]))]
    rows = {row.checksum_stored: row for row in feed_every_way(PROTOCOL, script).batches}
    assert rows[CRCS[1]].base_offset is None
    hole = request.index(C) - 30
    script = [*with_hole(CLIENT, request, hole, hole + 20), (SERVER, produced(1, [("orders", 0, 0, 5)]))]
    rows = {row.checksum_stored: row for row in feed_every_way(PROTOCOL, script).batches}
    assert (rows[CRCS[2]].topic, rows[CRCS[2]].outcome, rows[CRCS[2]].api) == (None, "unknown", "Produce")


# --- where the frame's head was lost ---------------------------------------------------------------------------------


def test_batches_of_a_frame_whose_head_was_lost_are_found_once_the_stream_goes_on() -> None:
    answer = fetched(8, {("orders", 3): A + B + C})
    script: list[Step] = [
        (CLIENT, fetch(7, [("orders", [3])])),
        (SERVER, fetched(7, {("orders", 3): D})),
        (CLIENT, fetch(8, [("orders", [3])])),
        (SERVER, answer.index(B) - 30),
        (SERVER, answer[answer.index(B) - 30 :]),
        (CLIENT, fetch(9, [("orders", [3])])),
        (SERVER, fetched(9, {("orders", 3): D})),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [
        ("D", "orders", 3, "ok"),
        ("B", None, None, "ok"),
        ("C", None, None, "ok"),
        ("D", "orders", 3, "ok"),
    ]
    found = [row for row in sink.batches if row.topic is None]
    assert {(b.role, b.api, b.correlation_id, b.exchange_id, b.client_id) for b in found} == {
        ("consume", "Fetch", None, None, "tester")
    }
    first = next(row for row in found if row.checksum_stored == CRCS[1])
    assert (first.packet_ref, first.stream_offset) == (5, len(script[1][1]) + answer.index(B))


def test_batches_of_a_request_whose_head_was_lost_are_produced_ones() -> None:
    request = produce(2, {("orders", 3): A + B})
    script = [
        (CLIENT, produce(1, {("orders", 3): D})),
        (SERVER, produced(1, [("orders", 3, 0, 4)])),
        *with_hole(CLIENT, request, 0, request.index(B)),
        (CLIENT, produce(3, {("orders", 3): C})),
        (SERVER, produced(3, [("orders", 3, 0, 9)])),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("D", "orders", 3, "ok"), ("B", None, None, "ok"), ("C", "orders", 3, "ok")]
    (found,) = [row for row in sink.batches if row.topic is None]
    assert (found.role, found.api, found.outcome, found.base_offset) == ("produce", "Produce", "unknown", None)


@pytest.mark.parametrize("named", [True, False])
def test_a_batch_of_a_lost_request_is_of_the_client_that_spoke_before_it_and_of_none_that_spoke_later(
    named: bool,
) -> None:
    hello, lost = produce(1, {("orders", 0): A}), produce(2, {("orders", 0): B})
    script: list[Step] = [
        (CLIENT, hello if named else len(hello)),
        (SERVER, produced(1, [("orders", 0, 0, 4)])),
        *with_hole(CLIENT, lost + produce(3, {("items", 0): C}), 0, 39),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [row.client_id for row in sink.batches if row.topic is None] == ["tester" if named else None]


def test_a_replica_s_lost_answers_are_replication() -> None:
    answer = fetched(8, {("orders", 3): A + B})
    script = [
        (CLIENT, fetch(7, [("orders", [3])], replica=2)),
        (SERVER, fetched(7, {("orders", 3): D})),
        (CLIENT, fetch(8, [("orders", [3])], replica=2)),
        *with_hole(SERVER, answer, 0, answer.index(B)),
    ]
    assert {row.role for row in feed_every_way(PROTOCOL, script).batches} == {"replicate"}


def test_an_answer_whose_request_was_lost_still_shows_its_batches_once() -> None:
    """Also one that is too large to wait for the end of the connection."""
    large = filled(9, size=400_000)
    script = [
        (CLIENT, fetch(7, [("orders", [3])])),
        (SERVER, fetched(7, {("orders", 3): D})),
        (CLIENT, len(fetch(8, [("orders", [3])]))),
        (SERVER, fetched(8, {("orders", 3): large + A})),
        (CLIENT, fetch(9, [("orders", [3])])),
        (SERVER, fetched(9, {("orders", 3): B})),
    ]
    sink, _ = feed(PROTOCOL, script)
    rows = sorted(sink.batches, key=lambda row: row.stream_offset or 0)
    assert [(row.base_offset, row.topic, row.verdict) for row in rows] == [
        (30, "orders", "ok"),
        (0, None, "ok"),
        (0, None, "ok"),
        (10, "orders", "ok"),
    ]


def test_a_batch_cut_by_a_hole_is_never_called_bad() -> None:
    """Zeros stand in for what is missing, and could be what was sent."""
    zeros = batch([record(0, None, bytes(300))])
    answer = fetched(7, {("orders", 3): zeros + B})
    at = answer.index(zeros) + 100
    sink = feed_every_way(PROTOCOL, [(CLIENT, fetch(7, [("orders", [3])])), *with_hole(SERVER, answer, at, at + 100)])
    assert [row.verdict for row in sink.batches] == ["unverifiable", "ok"]


def test_a_broken_batch_among_bytes_without_a_frame_is_not_reported() -> None:
    """Where nothing but its own bytes says that it is a batch, a wrong checksum says that it is none."""
    broken = bytearray(B)
    broken[-1] ^= 1
    answer = fetched(8, {("orders", 3): A + bytes(broken) + C})
    script = [(CLIENT, fetch(8, [("orders", [3])])), *with_hole(SERVER, answer, 0, answer.index(bytes(broken)))]
    assert [row[0] for row in shown(feed_every_way(PROTOCOL, script))] == ["C"]


# --- what it costs ---------------------------------------------------------------------------------------------------


HEADER = filled(5, size=20_000)[:61]


@pytest.mark.parametrize("kind", [*ALMOST, "heads of batches"])
def test_a_search_among_bytes_of_any_kind_finds_nothing_and_costs_what_is_allowed(kind: str) -> None:
    data = ALMOST.get(kind) or HEADER * 1000
    search = BatchSearch(MIB)
    for at in range(0, len(data), 1400):
        piece = data[at : at + 1400]
        assert not list(search.add(Chunk.of(at, piece, [at], [at], [at], [at])))
        assert search.held <= MIB + (1 << 17)
    assert not list(search.finish())
    assert not search.held
    assert search.budget.left <= SEARCH_CREDIT + len(data) * SEARCH_COST_PER_BYTE
    spent = SEARCH_CREDIT + len(data) * SEARCH_COST_PER_BYTE - search.budget.left
    assert spent <= SEARCH_CREDIT + len(data) * SEARCH_COST_PER_BYTE + 20_100


def test_many_heads_of_batches_do_not_hide_that_places_were_passed_over() -> None:
    search = BatchSearch(MIB)
    data = HEADER * 4000 + bytes(30_000)
    found = [*search.add(Chunk.of(0, data, [0], [0], [0], [0])), *search.finish()]
    assert not found
    assert search.budget.passed_over


@pytest.mark.parametrize("step", [1, 60, 61, 1400, 100_000])
def test_what_is_found_does_not_depend_on_how_the_bytes_come(step: int) -> None:
    data = random.Random(1).randbytes(500) + A + B + bytes(100) + filled(7, size=90_000) + b"\2" * 300 + C
    search, found = BatchSearch(MIB), list[LostBatch]()
    for at in range(0, len(data), step):
        piece = data[at : at + step]
        found += search.add(Chunk.of(at, piece, [at], [0], [at], [at]))
    found += search.finish()
    assert [lost.data for lost in found] == [A, B, filled(7, size=90_000), C]
    assert [lost.first.start for lost in found] == [data.index(lost.data) for lost in found]
    assert [lost.first.packet_ref for lost in found] == [lost.first.start // step * step for lost in found]


def test_captured_ranges() -> None:
    captured = CapturedRanges([(10, 20), (30, 40)], 50, 0)
    assert [captured.until(at) for at in (0, 9, 10, 19, 20, 35, 40, 49)] == [10, 10, 10, 19, 30, 35, 50, 50]
    assert list(captured.within(0, 50)) == [(0, 10), (20, 30), (40, 50)]
    assert list(captured.within(12, 35)) == [(20, 30)]
    assert list(captured.within(20, 25)) == [(20, 25)]
    assert not list(captured.within(10, 20))


# --- real captures, beside an independent walk ------------------------------------------------------------------------


def lossy(path: Path, share: float, to: Path) -> Path:
    """The same capture without some of its packets."""
    drop(path, share, 5, to)
    return to


Identity = tuple[int, int, int, str]


def identity(row: dict[str, Any]) -> Identity:
    ports = row["client_port"], row["server_port"]
    source, target = ports if row["role"] == "produce" else ports[::-1]
    return source, target, row["stored_bytes"], row["checksum_stored"]


@cache
def intact(name: str) -> dict[Identity, list[dict[str, Any]]]:
    rows: dict[Identity, list[dict[str, Any]]] = {}
    path = captures("kafka") / f"{name}.pcap"
    for row in dissectors.dissect([path], tables=["batches"])["batches"].to_pylist():
        rows.setdefault(identity(row), []).append(row)
    return rows


def walked(path: Path) -> Counter[Identity]:
    found = captured_batches(path)
    return Counter((each.source_port, each.target_port, each.size, f"0x{each.crc:08x}") for each in found)


OF_THE_BATCH = ("records", "codec", "stored_bytes", "uncompressed_bytes", "format", "producer", "producer_epoch",
                "base_sequence", "transactional", "control", "first_timestamp", "max_timestamp", "checksum_computed",
                "verdict", "role")  # fmt: skip


@needs_captures
@pytest.mark.parametrize(("name", "share"), [("nw-kip848", 0.05), ("kpy-big", 0.02), ("nw-txn", 0.2)])
def test_every_whole_batch_that_a_lossy_capture_holds_is_a_row_and_no_other(
    name: str, share: float, tmp_path: Path
) -> None:
    path = lossy(captures("kafka") / f"{name}.pcap", share, tmp_path / "lossy.pcap")
    rows = dissectors.dissect([path], tables=["batches"])["batches"].to_pylist()
    whole = [row for row in rows if row["verdict"] == "ok"]
    assert Counter(map(identity, whole)) == walked(path)
    assert {row["verdict"] for row in rows} <= {"ok", "unverifiable"}
    originals = intact(name)
    for row in whole:
        alike = originals[identity(row)]
        assert any(all(row[column] == each[column] for column in OF_THE_BATCH) for each in alike)
        for column in ("topic", "partition", "base_offset", "api"):
            assert row[column] is None or row[column] in {each[column] for each in alike}


@needs_captures
def test_every_whole_batch_is_found_where_the_kernel_really_lost_packets(tmp_path: Path) -> None:
    path = tmp_path / "drops.pcap"
    packed = (captures("kafka") / "nw-drops2.pcap.zst").read_bytes()
    path.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    found = dissectors.dissect([path], tables=["batches", "connections", "exchanges"])
    rows = found["batches"].to_pylist()
    assert Counter(identity(row) for row in rows if row["verdict"] == "ok") == walked(path)
    assert {row["verdict"] for row in rows} == {"ok", "unverifiable"}
    exchanges = {row["exchange_id"]: row["complete"] for row in found["exchanges"].to_pylist()}
    assert any(exchanges.get(row["exchange_id"]) is False for row in rows if row["verdict"] == "ok")
    for row in found["connections"].to_pylist():
        accounted = row["framed_bytes"] + row["skipped_bytes"] + row["pending_bytes"]
        assert accounted == row["client_bytes"] + row["server_bytes"], row["connection"]
