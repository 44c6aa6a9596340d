"""Whatever the bytes: no exception, every byte counted once, the same rows however the bytes were cut, no secret."""

import json
import zlib
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.pulsar import PROTOCOL
from dissectors.pulsar.commands import COMMANDS
from dissectors.pulsar.conversation import PulsarConversation
from dissectors.records import TABLES
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed, feed_every_way, in_any_order, rows
from tests.pulsar import wire

SECRET = b"s3cr3t-do-not-show"
BATCH = b"".join(wire.single(bytes([65 + i]) * 9, (2, "k")) for i in range(4))
SESSION: list[tuple[int, bytes]] = [
    (CLIENT, wire.connect((3, SECRET))),
    (SERVER, wire.connected((3, 100_000))),
    (CLIENT, wire.producer()),
    (SERVER, wire.producing()),
    (CLIENT, wire.subscribe()),
    (SERVER, wire.success(2)),
    (CLIENT, wire.flow(1000)),
    (CLIENT, wire.send(0, wire.entry(wire.metadata(0), b"value" * 9))),
    (CLIENT, wire.send(1, wire.entry(wire.metadata(1, (11, 4)), BATCH), (3, 4))),
    (SERVER, wire.receipt(0) + wire.receipt(1, 7, 1)),
    (SERVER, wire.delivery(wire.entry(wire.metadata(0), b"value" * 9))),
    (SERVER, wire.delivery(wire.entry(wire.metadata(1, (11, 4)), BATCH, broker=b"\x08\x05"), 7, 1)),
    (CLIENT, wire.simple(wire.ACK, (1, 1), (2, 1), (3, [(1, 7), (2, 1)]))),
    (CLIENT, wire.simple(wire.PING)),
    (SERVER, wire.simple(wire.PONG) + wire.error(77)),
    (SERVER, wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, wire.ALL_ONES), (3, "pulsar://10.0.0.9:6650"))),
]


def sorted_rows(script: list[tuple[int, bytes]], **how: Any) -> dict[str, list[str]]:
    return in_any_order(feed(PROTOCOL, script, **how)[0])


def text(sink: Sink) -> str:
    return json.dumps(rows(sink), default=lambda value: value.decode("latin-1"))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_bytes_give_the_same_rows_however_they_are_cut(data: st.DataObject) -> None:
    script = list(SESSION)
    for _ in range(data.draw(st.integers(1, 4))):
        step = data.draw(st.integers(0, len(script) - 1))
        side, frame = script[step]
        at = data.draw(st.integers(0, max(0, len(frame) - 1)))
        junk = data.draw(st.binary(max_size=6))
        cut = data.draw(st.integers(0, 6))
        script[step] = (side, frame[:at] + junk + frame[at + cut :])
    want = sorted_rows(script)
    for size in (1, 3):
        for each in (True, False):
            cut_up = partial(pieces, size)
            assert sorted_rows(script, cut=cut_up, advance_each=each) == want


def pieces(size: int, data: bytes) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def with_holes(data: st.DataObject) -> list[tuple[int, bytes | int]]:
    script: list[tuple[int, bytes | int]] = []
    for side, frame in SESSION:
        if data.draw(st.integers(0, 3)):
            script.append((side, frame))
            continue
        start = data.draw(st.integers(0, len(frame) - 1))
        end = data.draw(st.integers(start + 1, len(frame)))
        script += [part for part in ((side, frame[:start]), (side, end - start), (side, frame[end:])) if part[1] != b""]
    return script


@settings(max_examples=100)
@given(st.data())
def test_lost_bytes_are_never_bad_and_every_other_byte_is_counted(data: st.DataObject) -> None:
    script = with_holes(data)
    for each in (True, False):
        sink, _ = feed(PROTOCOL, script, advance_each=each)
        assert {batch.verdict for batch in sink.batches} <= {"ok", "unverifiable"}


@settings(max_examples=100)
@given(st.data())
def test_entries_beside_a_hole_are_the_same_however_the_rest_is_cut(data: st.DataObject) -> None:
    script = with_holes(data)
    want = {batch.checksum_stored for batch in feed(PROTOCOL, script)[0].batches if batch.verdict == "ok"}
    for step in (1, 3):
        sink, _ = feed(PROTOCOL, script, cut=partial(pieces, step))
        assert {batch.checksum_stored for batch in sink.batches if batch.verdict == "ok"} == want


@settings(max_examples=60)
@given(st.integers(0, 400), st.integers(0, 300))
def test_a_capture_that_begins_in_mid_stream_finds_its_frames(client: int, server: int) -> None:
    streams = [b"".join(frame for side, frame in SESSION if side == direction) for direction in (CLIENT, SERVER)]
    script = [(CLIENT, streams[0][client:]), (SERVER, streams[1][server:])]
    sink = feed_every_way(PROTOCOL, script, midstream=True)
    whole, _ = feed(PROTOCOL, SESSION)
    assert {batch.verdict for batch in sink.batches} <= {"ok"}
    assert len(sink.batches) <= len(whole.batches)


@pytest.mark.parametrize("code", sorted(COMMANDS))
@settings(max_examples=15)
@given(body=st.binary(max_size=60))
def test_any_bytes_may_be_the_body_of_any_command(code: int, body: bytes) -> None:
    command = wire.field(1, code) + wire.field(code, body)
    frame = wire.u32(len(command) + 4) + wire.u32(len(command)) + command
    side = CLIENT if COMMANDS[code].sender & 1 else SERVER
    sink = feed_every_way(PROTOCOL, [(side, frame), (1 - side, wire.simple(wire.FLOW, (1, 1)))])
    unnamed = sum(finding.kind == "orphan" for finding in sink.findings)  # an answer that anything may have
    assert len(sink.exchanges) + unnamed == 2


@example(meta=b'"\0')  # a property without key and value
@given(st.binary(max_size=60))
def test_any_bytes_may_be_metadata(meta: bytes) -> None:
    feed_every_way(PROTOCOL, [*SESSION[4:6], (SERVER, wire.delivery(wire.entry(meta, BATCH)))])


def test_a_packet_may_be_cut_anywhere() -> None:
    for step, (_, data) in enumerate(SESSION):
        for kept in range(len(data)):
            feed(PROTOCOL, SESSION, keep=lambda n, size, at=step, k=kept: k if n == at else size)  # type: ignore[misc]


def test_a_secret_is_not_shown_where_bytes_of_the_command_are_missing() -> None:
    connect = wire.connect((3, SECRET), (5, "token"))
    for lost in range(1, len(connect) - 20):
        for script in ([(CLIENT, connect[:-lost])], [(CLIENT, connect[:-lost]), (CLIENT, lost)]):
            sink, _ = feed(PROTOCOL, script)
            assert SECRET.decode() not in text(sink)


def test_a_command_that_announces_more_than_it_may_is_not_decoded() -> None:
    command = wire.message([(1, wire.ACK), (wire.ACK, wire.field(3, b"") * 4_500_000)])
    frame = wire.u32(len(command) + 4) + wire.u32(len(command)) + command
    sink, _ = feed(PROTOCOL, [(CLIENT, frame)])
    assert [f.kind for f in sink.findings] == ["malformed_frame"]
    assert [(r.kind, r.api) for r in sink.exchanges] == [("oneway", "ACK")]


def test_a_frame_larger_than_the_broker_allows_is_a_finding() -> None:
    login = [(CLIENT, wire.connect()), (SERVER, wire.connected((3, 10_000)))]
    for size, kinds in ((15_000, []), (30_000, ["oversized_frame"])):
        frame = wire.delivery(wire.entry(wire.metadata(), bytes(size)))
        sink = feed_every_way(PROTOCOL, [*login, (SERVER, frame)])
        assert [f.kind for f in sink.findings] == kinds
        assert [b.verdict for b in sink.batches] == ["ok"]


def test_more_open_requests_than_may_wait_are_given_up_oldest_first() -> None:
    options = Options(tables=tuple(TABLES), limits=Limits(pending=3))
    script = [(CLIENT, wire.send(i, wire.entry(wire.metadata(i), b"v"))) for i in range(5)]
    script.append((SERVER, wire.receipt(4)))
    sink, _ = feed(PROTOCOL, script, options=options)
    assert [(r.kind, r.correlation_id) for r in sink.exchanges] == [
        ("unanswered", 0),
        ("unanswered", 1),
        ("call", 4),
        ("unanswered", 2),
        ("unanswered", 3),
    ]


def test_a_batch_that_unfolds_into_millions_of_messages_is_cut_off() -> None:
    options = Options(tables=tuple(TABLES), limits=Limits(pending=500))
    plain = wire.single(b"") * 5000
    entry = wire.entry(wire.metadata(0, (8, 2), (9, len(plain)), (11, 5000)), zlib.compress(plain))
    sink, _ = feed(PROTOCOL, [(SERVER, wire.delivery(entry))], options=options)
    assert len(sink.messages) == 500
    assert "limit" in {finding.kind for finding in sink.findings}


def test_chunks_that_never_end_are_forgotten_in_time() -> None:
    limits = Limits(decompressed_bytes=20_000)
    script = []
    for number in range(300):
        chunked: list[wire.Field] = [(26, f"u{number}"), (27, 2), (28, 20), (29, 0)]
        script.append((SERVER, wire.delivery(wire.entry(wire.metadata(number, *chunked), b"0123456789"))))
    _, conversation = feed(PROTOCOL, script, options=Options(tables=tuple(TABLES), limits=limits))
    assert isinstance(conversation, PulsarConversation)
    assert 0 < len(conversation.entries.messages.chunks) < 100


def test_chunks_that_end_leave_nothing_behind() -> None:
    script = []
    for number in range(3):
        chunked: list[wire.Field] = [(26, "u"), (27, 3), (28, 30), (29, number)]
        script.append((SERVER, wire.delivery(wire.entry(wire.metadata(number, *chunked), b"0123456789"))))
    _, conversation = feed(PROTOCOL, script)
    assert isinstance(conversation, PulsarConversation)
    chunks = conversation.entries.messages.chunks
    assert (chunks.held, len(chunks)) == (0, 0)
