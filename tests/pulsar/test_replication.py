"""Receipts to replicators, which name a message by its position in the source cluster."""

import pytest

from dissectors.pulsar import PROTOCOL
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed_every_way
from tests.pulsar import wire

NAMED_BY_SOURCE: wire.Field = (10, [(6, 1)])  # CONNECT.feature_flags.supports_repl_dedup_by_lid_and_eid
ANSWERED_SO: wire.Field = (4, [(6, 1)])  # CONNECTED.feature_flags
MARKER_RECEIPT = 1 << 63  # -2^63 as an unsigned number
HELLO = [
    (CLIENT, wire.connect(NAMED_BY_SOURCE)),
    (SERVER, wire.connected(ANSWERED_SO)),
    (CLIENT, wire.producer()),
    (SERVER, wire.producing()),
]


def replicated(sequence: int, source: str, *more: wire.Field) -> tuple[int, bytes]:
    """A SEND of a replicator."""
    position: wire.Field = (4, [(1, "__MSG_PROP_REPL_SOURCE_POSITION"), (2, source)])
    meta = wire.metadata(sequence, (4, [(1, "n"), (2, "9:9")]), position, (5, "east"), *more)
    return CLIENT, wire.send(sequence, wire.entry(meta, b"payload"))


def marker(source: str) -> tuple[int, bytes]:
    return replicated(0, source, (20, 10))


def receipt(first: int, second: int, entry: int = 0) -> tuple[int, bytes]:
    """sequence_id and highest_sequence_id, whatever they mean."""
    return SERVER, wire.simple(wire.SEND_RECEIPT, (1, 1), (2, first), (3, [(1, 7), (2, entry)]), (4, second))


def sends(sink: Sink) -> list[tuple[str | None, int | None, str | None]]:
    """Of each SEND its kind, its sequence id, and the position that its receipt gave it."""
    positions = {batch.exchange_id: batch.position for batch in sink.batches}
    rows = [row for row in sink.exchanges if row.api == "SEND"]
    return sorted((row.kind, row.correlation_id, positions.get(row.exchange_id)) for row in rows)


def test_a_receipt_names_a_replicated_message_by_its_source_position() -> None:
    script = [*HELLO, replicated(1, "3:4"), replicated(2, "3:5"), receipt(3, 5, 11), receipt(3, 4, 10)]
    assert sends(feed_every_way(PROTOCOL, script)) == [("call", 1, "7:10"), ("call", 2, "7:11")]


def test_a_source_position_that_looks_like_a_sequence_id_answers_nothing_else() -> None:
    script = [*HELLO, replicated(3, "3:5"), replicated(9, "3:3"), receipt(3, 3, 10), receipt(3, 5, 11)]
    assert sends(feed_every_way(PROTOCOL, script)) == [("call", 3, "7:11"), ("call", 9, "7:10")]


def test_messages_of_several_producers_with_one_sequence_id_are_told_apart() -> None:
    script = [*HELLO, replicated(0, "3:4"), replicated(0, "3:5"), receipt(3, 5, 11)]
    assert sends(feed_every_way(PROTOCOL, script)) == [("call", 0, "7:11"), ("unanswered", 0, None)]


def test_markers_are_answered_in_order_and_by_receipts_of_their_own() -> None:
    script = [*HELLO, marker("3:4"), replicated(0, "0:7"), marker("3:6")]
    script += [receipt(0, MARKER_RECEIPT, 1), receipt(0, MARKER_RECEIPT, 2), receipt(0, 7, 3)]
    sink = feed_every_way(PROTOCOL, script)
    assert [kind for kind, _, _ in sends(sink)] == ["call"] * 3
    assert [batch.position for batch in sorted(sink.batches, key=lambda batch: batch.packet_ref or 0)] == [
        "7:1",
        "7:3",
        "7:2",
    ]


@pytest.mark.parametrize("hello", [[], HELLO[2:]])
def test_a_replicator_whose_login_was_not_captured_is_known_by_its_messages(hello: list[tuple[int, bytes]]) -> None:
    assert sends(feed_every_way(PROTOCOL, [*hello, replicated(1, "3:4"), receipt(3, 4)])) == [("call", 1, "7:0")]


def test_receipts_of_brokers_before_4_1_name_the_sequence_id() -> None:
    hello = [(CLIENT, wire.connect(NAMED_BY_SOURCE)), (SERVER, wire.connected()), *HELLO[2:]]
    for script in ([*hello, replicated(3, "3:4"), receipt(3, 4)], [*HELLO[2:], replicated(3, "3:4"), receipt(3, 0)]):
        assert sends(feed_every_way(PROTOCOL, script)) == [("call", 3, "7:0")]


def test_a_position_that_is_none_is_not_used() -> None:
    for source in ("", "3", "3:", "a:b", "3:4:5", "-1:-1", "9" * 30 + ":1"):
        assert sends(feed_every_way(PROTOCOL, [*HELLO, replicated(3, source), receipt(3, 3)])) == [("call", 3, "7:0")]


def test_a_refused_message_of_a_replicator_is_named_by_its_sequence_id() -> None:
    script = [*HELLO, replicated(1, "3:4"), replicated(2, "3:5"), (SERVER, wire.refusal(2)), receipt(3, 4)]
    sink = feed_every_way(PROTOCOL, script)
    assert sorted((row.correlation_id, row.status) for row in sink.exchanges if row.api == "SEND") == [
        (1, "ok"),
        (2, "error"),
    ]


def test_a_refused_batch_is_named_by_its_last_sequence_id() -> None:
    batch = wire.send(5, wire.entry(wire.metadata(5, (11, 3), (24, 7)), b""), (3, 3), (6, 7))
    script = [*HELLO, (CLIENT, batch), (SERVER, wire.refusal(7))]
    sink = feed_every_way(PROTOCOL, script)
    assert [(row.kind, row.status) for row in sink.exchanges if row.api == "SEND"] == [("call", "error")]
