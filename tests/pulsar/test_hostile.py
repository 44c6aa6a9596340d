"""Whatever the bytes: no exception, every byte counted once, the same rows however the bytes were cut, no secret."""

import json
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.pulsar import PROTOCOL
from dissectors.pulsar.commands import COMMANDS
from dissectors.pulsar.conversation import PulsarConversation
from dissectors.records import TABLES
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed, feed_every_way, rows
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


def text(sink: Sink) -> str:
    return json.dumps(rows(sink), default=lambda value: value.decode("latin-1"))


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
