"""What SEND and MESSAGE carry: checksums, batches, codecs, chunks, and what may not be opened."""

import json
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import crc32c
import lz4.block
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.pulsar import PROTOCOL
from dissectors.records import TABLES, Batch, Message
from dissectors.rows.sink import Sink
from dissectors.tcp.chunk import Chunk
from tests.feeding import CLIENT, SERVER, conn, feed, feed_every_way
from tests.pulsar import wire

TEXT = b"a message like many others, a message like many others"
HELLO = [(CLIENT, wire.producer()), (SERVER, wire.producing())]
LISTEN = [(CLIENT, wire.subscribe()), (SERVER, wire.success(2))]


def sent(entry: bytes, *more: wire.Field) -> Sink:
    return feed_every_way(PROTOCOL, [*HELLO, (CLIENT, wire.send(0, entry, *more)), (SERVER, wire.receipt(0))])


def received(entry: bytes, *more: wire.Field) -> Sink:
    return feed_every_way(PROTOCOL, [*LISTEN, (CLIENT, wire.flow(1000)), (SERVER, wire.delivery(entry, 7, 3, *more))])


def the_batch(sink: Sink) -> Batch:
    (batch,) = sink.batches
    return batch


def values(sink: Sink) -> list[bytes | None]:
    return [message.value for message in sink.messages]


def kinds(sink: Sink) -> list[str | None]:
    return [finding.kind for finding in sink.findings]


# --- one message -----------------------------------------------------------------------------------------------------


def test_a_produced_entry_has_the_position_in_its_receipt() -> None:
    meta = wire.metadata(5, (4, [(1, "colour"), (2, "red")]), (6, "key"), (12, 99_000))
    script = [*HELLO, (CLIENT, wire.send(5, wire.entry(meta, TEXT))), (SERVER, wire.receipt(5, 7, 3))]
    sink = feed_every_way(PROTOCOL, script)
    batch = the_batch(sink)
    assert (batch.role, batch.topic, batch.partition) == ("produce", "persistent://a/b/orders", None)
    assert (batch.position, batch.outcome, batch.records, batch.codec) == ("7:3", "ok", 1, "none")
    assert (batch.stored_bytes, batch.uncompressed_bytes) == (10 + len(meta) + len(TEXT), len(TEXT))
    assert (batch.producer, batch.base_sequence, batch.first_timestamp) == ("p-1", 5, 1_700_000_000_000_000_000)
    assert (batch.checksum_kind, batch.verdict) == ("crc32c", "ok")
    assert batch.checksum_stored == batch.checksum_computed
    (message,) = sink.messages
    assert (message.position, message.sequence, message.key, message.value) == ("7:3", 5, b"key", TEXT)
    assert (message.event_time, message.headers, message.header_count) == (99_000_000_000, '{"colour":"red"}', 1)
    row = sink.exchanges[-1]
    assert (row.records, row.payload_bytes, row.topics) == (1, len(TEXT), ["persistent://a/b/orders"])


def test_a_consumed_entry_names_its_subscription() -> None:
    sink = received(wire.entry(wire.metadata(5), TEXT))
    batch = the_batch(sink)
    assert (batch.role, batch.topic, batch.group) == ("consume", "persistent://a/b/orders", "sub")
    assert (batch.position, batch.outcome, batch.client_id) == ("7:3", "ok", "c-1")
    assert values(sink) == [TEXT]


def test_send_and_message_of_one_entry_carry_the_same_checksum() -> None:
    entry = wire.entry(wire.metadata(5), TEXT)
    assert the_batch(sent(entry)).checksum_stored == the_batch(received(entry)).checksum_stored


def test_a_refused_entry_has_no_position() -> None:
    script = [*HELLO, (CLIENT, wire.send(0, wire.entry(wire.metadata(), TEXT))), (SERVER, wire.refusal(0))]
    sink = feed_every_way(PROTOCOL, script)
    assert (the_batch(sink).outcome, the_batch(sink).position) == ("error", None)
    assert [(e.name, e.topic) for e in sink.errors] == [("ChecksumError", "persistent://a/b/orders")]


def test_a_refusal_of_which_only_the_ids_were_captured_is_a_refusal() -> None:
    refusal = wire.refusal(0)
    script = [*HELLO, (CLIENT, wire.send(0, wire.entry(wire.metadata(), TEXT)))]
    sink, _ = feed(PROTOCOL, [*script, (SERVER, refusal[:16]), (SERVER, len(refusal) - 16)])
    assert the_batch(sink).outcome == "error"
    assert [(e.code, e.name) for e in sink.errors] == [(None, None)]


def test_an_entry_without_a_receipt_has_an_unknown_outcome() -> None:
    sink = feed_every_way(PROTOCOL, [*HELLO, (CLIENT, wire.send(0, wire.entry(wire.metadata(), TEXT)))])
    assert (the_batch(sink).outcome, the_batch(sink).position) == ("unknown", None)
    assert [m.position for m in sink.messages] == [None]


def test_a_duplicate_that_the_broker_dropped_has_no_position() -> None:
    script = [*HELLO, (CLIENT, wire.send(0, wire.entry(wire.metadata(), TEXT)))]
    script.append((SERVER, wire.receipt(0, wire.ALL_ONES, wire.ALL_ONES)))
    sink = feed_every_way(PROTOCOL, script)
    assert (the_batch(sink).outcome, the_batch(sink).position) == ("ok", None)
    assert [e.kind for e in sink.events] == ["deduplicated"]


def test_a_fenced_producer_writes_nothing_any_more() -> None:
    script = [
        (CLIENT, wire.producer(1, id_=1, name="old")),
        (SERVER, wire.producing(1, "old", (5, 1))),
        (CLIENT, wire.producer(2, id_=2, name="new")),
        (SERVER, wire.producing(2, "new", (5, 2))),
        (CLIENT, wire.send(0, wire.entry(wire.metadata(), TEXT), producer=1)),
        (CLIENT, wire.send(0, wire.entry(wire.metadata(), TEXT), producer=2)),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [b.outcome for b in sink.batches] == ["error", "unknown"]


def test_a_partition_is_a_number_beside_the_topic() -> None:
    script = [(CLIENT, wire.producer(1, "persistent://a/b/orders-partition-12")), (SERVER, wire.producing())]
    script.append((CLIENT, wire.send(0, wire.entry(wire.metadata(), TEXT))))
    sink = feed_every_way(PROTOCOL, script)
    assert (the_batch(sink).topic, the_batch(sink).partition) == ("persistent://a/b/orders", 12)
    assert (sink.exchanges[0].topics, sink.exchanges[0].partitions) == (["persistent://a/b/orders"], 1)


def test_a_producer_that_was_not_introduced_has_no_topic() -> None:
    sink = feed_every_way(PROTOCOL, [(CLIENT, wire.send(0, wire.entry(wire.metadata(), TEXT)))])
    assert (the_batch(sink).topic, sink.exchanges[0].topics) == (None, None)


# --- checksums -------------------------------------------------------------------------------------------------------


def test_a_wrong_checksum_is_bad_and_a_finding_has_both_values() -> None:
    sink = sent(wire.entry(wire.metadata(), TEXT, crc=0xDEADBEEF))
    batch = the_batch(sink)
    assert batch.verdict == "bad"
    stored: object = batch.checksum_stored
    assert stored == 0xDEADBEEF
    (finding,) = [f for f in sink.findings if f.kind == "checksum_mismatch"]
    evidence = json.loads(finding.evidence or "")
    assert evidence["stored"] == "0xdeadbeef"
    assert evidence["computed"] == f"0x{batch.checksum_computed:08x}"
    assert finding.severity == "error"
    assert finding.stream_offset == batch.stream_offset


def test_an_entry_with_a_wrong_checksum_is_kept_for_forensics_where_wanted() -> None:
    entry = wire.entry(wire.metadata(), TEXT, crc=0xDEADBEEF, broker=b"\x08\x05")
    sink = Sink(("batches",))
    sink.suspects = []
    conversation = PROTOCOL.conversation(conn("pulsar"), sink, Options(tables=("batches",)), midstream=False)
    frame = wire.delivery(entry)
    conversation.receive(SERVER, Chunk.of(0, frame, [0], [1], [1], [1]))
    conversation.advance()
    (suspect,) = sink.suspects
    assert (suspect.format, suspect.stored, suspect.unit) == ("entry", 0xDEADBEEF, entry[8:])
    (start, end), at = suspect.covered[0], suspect.checksum_at
    assert suspect.unit[at : at + suspect.checksum_bytes] == b"\xde\xad\xbe\xef"
    assert crc32c.crc32c(suspect.unit[start:end]) == suspect.computed
    assert suspect.offset == sink.batches[0].stream_offset


@settings(max_examples=60)
@given(st.data())
def test_one_flipped_bit_of_what_is_covered_makes_exactly_one_bad(data: st.DataObject) -> None:
    entry = wire.entry(wire.metadata(), TEXT)
    at = data.draw(st.integers(2, len(entry) - 1))
    flipped = bytearray(entry)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    sink, _ = feed(PROTOCOL, [*LISTEN, (SERVER, wire.delivery(bytes(flipped)))])
    assert [b.verdict for b in sink.batches] == ["bad"]


def test_no_checksum_is_absent_not_bad() -> None:
    batch = the_batch(received(wire.entry(wire.metadata(), TEXT, magic=False)))
    assert (batch.verdict, batch.checksum_kind, batch.checksum_stored) == ("absent", "none", None)
    assert batch.uncompressed_bytes == len(TEXT)


@pytest.mark.parametrize("magic", [True, False])
def test_entry_metadata_of_the_broker_stands_before_what_is_covered(magic: bool) -> None:
    broker = wire.message([(1, 1_700_000_000_123), (2, 42)])
    entry = wire.entry(wire.metadata(), TEXT, magic=magic, broker=broker)
    sink = received(entry)
    batch = the_batch(sink)
    assert batch.verdict == ("ok" if magic else "absent")
    assert batch.stored_bytes == len(entry) - 6 - len(broker)
    shown = json.loads(sink.exchanges[-1].response or "")
    assert shown["broker_entry_metadata"] == {"broker_timestamp": 1_700_000_000_123, "index": 42}


@given(st.integers(0, 400))
def test_missing_bytes_are_never_a_bad_checksum(lost: int) -> None:
    frame = wire.delivery(wire.entry(wire.metadata(), TEXT * 5))
    cut = max(10, len(frame) - lost)
    script: list[tuple[int, bytes | int]] = [*LISTEN, (SERVER, frame[:cut])]
    if len(frame) - cut:
        script.append((SERVER, len(frame) - cut))
    script.append((SERVER, wire.delivery(wire.entry(wire.metadata(), TEXT), 7, 4)))
    sink, conversation = feed(PROTOCOL, script)
    assert "bad" not in {b.verdict for b in sink.batches}
    assert [b.position for b in sink.batches if b.verdict == "ok"][-1] == "7:4"
    assert [r.complete for r in sink.exchanges if r.kind == "push"] == [cut == len(frame), True]
    assert conversation.pending_bytes == 0


# --- batches and codecs ----------------------------------------------------------------------------------------------

CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "lz4": (1, lambda data: lz4.block.compress(data, store_size=False)),
    "zlib": (2, zlib.compress),
    "zstd": (3, zstandard.ZstdCompressor().compress),
    "snappy": (4, lambda data: bytes(cramjam.snappy.compress_raw(data))),
}


@pytest.mark.parametrize("codec", sorted(CODECS))
@pytest.mark.parametrize("role", ["produce", "consume"])
def test_a_batch_is_split_behind_every_codec(codec: str, role: str) -> None:
    number, compress = CODECS[codec]
    plain = wire.single(b"one", (2, "k")) + wire.single(b"", (9, True)) + wire.single(b"three", (8, 70), (5, 12))
    meta = wire.metadata(50, (8, number), (9, len(plain)), (11, 3))
    entry = wire.entry(meta, compress(plain))
    sink = sent(entry, (3, 3)) if role == "produce" else received(entry)
    batch = the_batch(sink)
    assert (batch.records, batch.codec, batch.uncompressed_bytes) == (3, codec, len(plain))
    packet_ref = "7:0" if role == "produce" else "7:3"
    shown = [(m.position, m.sequence, m.key, m.value, m.value_bytes, m.event_time) for m in sink.messages]
    assert shown == [
        (f"{packet_ref}:0", 50, b"k", b"one", 3, None),
        (f"{packet_ref}:1", 51, None, None, None, None),
        (f"{packet_ref}:2", 70, None, b"three", 5, 12_000_000),
    ]
    assert kinds(sink) == []


def test_a_batch_of_one_is_a_batch() -> None:
    sink = received(wire.entry(wire.metadata(0, (11, 1)), wire.single(b"alone")))
    assert [(m.position, m.value) for m in sink.messages] == [("7:3:0", b"alone")]


def test_a_payload_larger_than_it_says_is_not_unpacked() -> None:
    meta = wire.metadata(0, (8, 2), (9, 10))
    sink = received(wire.entry(meta, zlib.compress(TEXT)))
    assert the_batch(sink).uncompressed_bytes is None
    assert kinds(sink) == ["decompress_failed"]


def test_a_payload_that_says_it_is_enormous_is_not_unpacked() -> None:
    meta = wire.metadata(0, (8, 3), (9, (1 << 32) - 1))
    sink = received(wire.entry(meta, zstandard.ZstdCompressor().compress(bytes(1000))))
    assert kinds(sink) == ["decompress_failed"]


def test_a_codec_newer_than_the_schema_is_shown_as_its_number() -> None:
    sink = received(wire.entry(wire.metadata(0, (8, 9), (9, 1000)), TEXT))
    assert the_batch(sink).codec == "9"
    assert kinds(sink) == ["decompress_failed"]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        wire.single(b"one"),
        wire.single(b"one") + b"\xff\xff\xff\xff",
        wire.single(b"one") + wire.u32(3) + b"\x18\x7f\x00",
        wire.single(b"one") + wire.u32(11) + wire.message([(3, -5)]) + b"x",
        wire.single(b"one") + wire.u32(2) + b"\x1a\x7f",
    ],
)
def test_a_batch_shorter_than_it_says_is_a_finding_and_its_messages_are_kept(payload: bytes) -> None:
    sink = received(wire.entry(wire.metadata(0, (11, 2)), payload))
    assert values(sink) == [b"one"][: len(payload)]
    assert kinds(sink) == ["malformed_frame"]
    assert the_batch(sink).verdict == "ok"


def test_an_ack_set_says_which_messages_are_still_delivered() -> None:
    payload = b"".join(wire.single(bytes([65 + i])) for i in range(5))
    words = wire.ALL_ONES & ~0b00110  # set bits are still to come
    sink = received(wire.entry(wire.metadata(0, (11, 5)), payload), (4, words))
    assert values(sink) == [b"A", b"D", b"E"]
    assert the_batch(sink).records == 3


# --- chunks, encryption, compaction, markers -------------------------------------------------------------------------


def chunk(data: bytes, number: int, of: int, total: int, *more: wire.Field, uuid: str = "u") -> bytes:
    chunked: list[wire.Field] = [(26, uuid), (27, of), (28, total), (29, number)]
    return wire.entry(wire.metadata(9, *more, *chunked), data)


def chunks_sent(*entries: bytes) -> Sink:
    script = [*HELLO]
    for number, entry in enumerate(entries):
        script += [(CLIENT, wire.send(9, entry, (7, True))), (SERVER, wire.receipt(9, 7, number))]
    return feed_every_way(PROTOCOL, script)


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_a_message_in_chunks_counts_once_and_is_put_together(codec: str) -> None:
    number, compress = CODECS[codec]
    whole = compress(TEXT * 20)
    size = -(-len(whole) // 3)
    parts = [whole[at : at + size] for at in range(0, len(whole), size)]
    more: list[wire.Field] = [(8, number), (9, len(TEXT) * 20)]
    sink = chunks_sent(*(chunk(part, i, len(parts), len(whole), *more) for i, part in enumerate(parts)))
    assert [b.records for b in sink.batches] == [0] * (len(parts) - 1) + [1]
    assert [(m.position, m.value) for m in sink.messages] == [(f"7:{len(parts) - 1}", TEXT * 20)]
    assert kinds(sink) == []


def test_chunks_of_two_messages_may_mix() -> None:
    sink = chunks_sent(
        chunk(b"a1", 0, 2, 4, uuid="a"), chunk(b"b1", 0, 2, 4, uuid="b"), chunk(b"b2", 1, 2, 4, uuid="b"),
        chunk(b"a2", 1, 2, 4, uuid="a"),
    )  # fmt: skip
    assert values(sink) == [b"b1b2", b"a1a2"]


def test_a_message_with_a_missing_chunk_has_a_size_but_no_value() -> None:
    sink = chunks_sent(chunk(b"1", 0, 3, 3), chunk(b"3", 2, 3, 3))
    assert [(m.value, m.value_bytes) for m in sink.messages] == [(None, 3)]


def test_a_chunk_that_is_sent_again_is_taken_once() -> None:
    sink = chunks_sent(chunk(b"1", 0, 3, 3), chunk(b"2", 1, 3, 3), chunk(b"2", 1, 3, 3), chunk(b"3", 2, 3, 3))
    assert values(sink) == [b"123"]


def test_an_encrypted_payload_is_opaque_but_its_checksum_holds() -> None:
    keys: wire.Field = (13, [(1, "key-name"), (2, b"THE-DATA-KEY")])
    meta = wire.metadata(0, keys, (15, b"THE-IV"), (8, 1), (9, 500), (11, 4))
    sink = received(wire.entry(meta, b"\x93" * 40))
    batch = the_batch(sink)
    assert (batch.verdict, batch.records, batch.codec, batch.uncompressed_bytes) == ("ok", 4, "lz4", None)
    assert kinds(sink) == ["encrypted"]
    assert not list(sink.messages)


def test_compaction_leaves_the_survivors_with_their_batch_indices() -> None:
    payload = wire.single(b"b") + wire.single(b"d")
    sink = received(wire.entry(wire.metadata(0, (11, 4), (31, 1), (31, 3)), payload))
    assert the_batch(sink).records == 2
    assert [(m.position, m.value) for m in sink.messages] == [("7:3:1", b"b"), ("7:3:3", b"d")]


def test_compaction_may_list_the_survivors_and_leave_empty_places_too() -> None:
    payload = wire.single(b"", (4, True)) + wire.single(b"b") + wire.single(b"", (4, True)) + wire.single(b"d")
    script = [(CLIENT, wire.subscribe(2, "t", (11, True)))]
    script.append((SERVER, wire.delivery(wire.entry(wire.metadata(0, (11, 4), (31, 1), (31, 3)), payload), 7, 3)))
    sink = feed_every_way(PROTOCOL, script)
    assert the_batch(sink).records == 2
    assert [(m.position, m.value) for m in sink.messages] == [("7:3:1", b"b"), ("7:3:3", b"d")]


@pytest.mark.parametrize("compacted", [False, True])
def test_of_a_compacted_batch_an_ack_set_lets_survivors_through(compacted: bool) -> None:
    entry = wire.entry(wire.metadata(0, (11, 4), (31, 1), (31, 3)), wire.single(b"b") + wire.single(b"d"))
    script = [(CLIENT, wire.subscribe(2, "t", (11, compacted))), (SERVER, wire.delivery(entry, 7, 3, (4, 0b1101)))]
    sink = feed_every_way(PROTOCOL, script)
    assert (the_batch(sink).records, values(sink)) == (1, [b"d"])


def test_older_compaction_leaves_empty_places_that_do_not_count() -> None:
    payload = wire.single(b"", (4, True)) + wire.single(b"kept")
    script = [(CLIENT, wire.subscribe(2, "t", (11, True)))]
    script.append((SERVER, wire.delivery(wire.entry(wire.metadata(0, (11, 2)), payload))))
    sink = feed_every_way(PROTOCOL, script)
    assert (the_batch(sink).records, values(sink)) == (1, [b"kept"])


def test_a_null_value_is_a_message_without_a_value() -> None:
    sink = received(wire.entry(wire.metadata(0, (6, "k"), (25, True)), b""))
    assert [(m.key, m.value, m.value_bytes) for m in sink.messages] == [(b"k", None, None)]
    assert the_batch(sink).records == 1


def test_a_binary_key_is_shown_as_its_bytes() -> None:
    sink = received(wire.entry(wire.metadata(0, (6, "AP8BBw=="), (17, True), (18, b"\x01\x02")), TEXT))
    assert [(m.key, m.key_bytes, m.ordering_key) for m in sink.messages] == [(b"\x00\xff\x01\x07", 4, b"\x01\x02")]


def test_a_marker_is_no_message() -> None:
    sink = received(wire.entry(wire.metadata(0, (20, 21)), b"\x08\x01"))
    assert (the_batch(sink).control, the_batch(sink).records, list(sink.messages)) == (True, 0, [])


def test_what_a_replicator_sends_has_the_role_replicate() -> None:
    assert the_batch(sent(wire.entry(wire.metadata(0, (5, "us-west")), TEXT))).role == "replicate"
    assert the_batch(sent(wire.entry(wire.metadata(0, (5, "")), TEXT))).role == "produce"


def test_what_is_sent_in_a_transaction_is_marked() -> None:
    assert the_batch(sent(wire.entry(wire.metadata(0, (22, 0), (23, 1)), TEXT))).transactional is True


def test_metadata_that_is_no_protobuf_message_is_a_finding_and_the_checksum_is_verified() -> None:
    sink = received(wire.entry(b"\xff\xff\xff", TEXT))
    assert kinds(sink) == ["malformed_frame"]
    assert (the_batch(sink).verdict, the_batch(sink).records) == ("ok", None)


def test_metadata_that_goes_beyond_the_frame_is_a_finding() -> None:
    sink = received(wire.u32(5000) + b"abc")
    assert kinds(sink) == ["malformed_frame"]


# --- only what is wanted --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tables", [("exchanges",), ("batches",), ("messages",), ("findings",), tuple(TABLES)])
def test_each_table_alone_has_the_rows_that_it_has_among_all(tables: tuple[str, ...]) -> None:
    meta = wire.metadata(0, (8, 2), (9, 8), (11, 1))
    script: list[Any] = [*HELLO, *LISTEN]
    script += [(CLIENT, wire.send(0, wire.entry(meta, zlib.compress(wire.single(b"v"))))), (SERVER, wire.receipt(0))]
    script += [(SERVER, wire.delivery(wire.entry(wire.metadata(), TEXT, crc=1)))]
    everything, _ = feed(PROTOCOL, script, options=Options(tables=tuple(TABLES), full=True, payloads=True))
    alone, _ = feed(PROTOCOL, script, options=Options(tables=tables, full=True, payloads=True))
    for table in tables:
        want = [tuple(row)[1:] for row in getattr(everything, table)]
        assert [tuple(row)[1:] for row in getattr(alone, table)] == want


def test_keys_and_values_are_shown_only_with_payloads() -> None:
    script: list[Any] = [*LISTEN, (SERVER, wire.delivery(wire.entry(wire.metadata(0, (6, "k")), TEXT)))]
    sink, _ = feed(PROTOCOL, script, options=Options(tables=("messages",)))
    (message,) = sink.messages
    assert isinstance(message, Message)
    assert (message.key, message.value, message.headers) == (None, None, None)
    assert (message.key_bytes, message.value_bytes) == (1, len(TEXT))


def test_values_that_wait_for_receipts_are_bounded() -> None:
    limits = Limits(held_bytes=1000)
    options = Options(tables=tuple(TABLES), payloads=True, limits=limits)
    script: list[Any] = [*HELLO]
    script += [(CLIENT, wire.send(i, wire.entry(wire.metadata(i), bytes(400)))) for i in range(4)]
    script += [(SERVER, wire.receipt(i, 7, i)) for i in range(4)]
    sink, _ = feed(PROTOCOL, script, options=options)
    assert sorted(m.position or "" for m in sink.messages) == ["", "", "7:0", "7:1"]
    assert [b.position for b in sink.batches] == ["7:0", "7:1", "7:2", "7:3"]
    assert kinds(sink) == ["limit"]


BROKER = wire.message([(1, 1_700_000_000_123), (2, 41)])


def test_what_the_broker_noted_of_an_entry_is_in_columns() -> None:
    plain = b"".join(wire.single(value) for value in (b"a", b"b", b"c"))
    sink = received(wire.entry(wire.metadata(5, (11, 3)), plain, broker=BROKER))
    batch = the_batch(sink)
    assert (batch.broker_timestamp, batch.broker_index) == (1_700_000_000_123_000_000, 41)
    assert [(m.broker_timestamp, m.broker_index) for m in sink.messages] == [
        (1_700_000_000_123_000_000, index) for index in (39, 40, 41)
    ]
    sink = received(wire.entry(wire.metadata(5), b"alone", broker=BROKER))
    assert [m.broker_index for m in sink.messages] == [41]


@pytest.mark.parametrize(
    ("said", "at"),
    [((), None), (((19, 1_700_000_000_123),), 1_700_000_000_123_000_000), (((19, wire.ALL_ONES),), None)],
)
def test_when_a_message_is_to_be_delivered_is_a_column(said: Any, at: int | None) -> None:
    assert the_batch(received(wire.entry(wire.metadata(5, *said), b"alone"))).deliver_at == at


@pytest.mark.parametrize("broker", [None, b"", wire.message([(1, wire.ALL_ONES), (2, wire.ALL_ONES)])])
def test_what_the_broker_did_not_note_is_null(broker: bytes | None) -> None:
    sink = received(wire.entry(wire.metadata(5), b"alone", broker=broker))
    row, (message,) = the_batch(sink), sink.messages
    assert (row.broker_timestamp, row.broker_index) == (None, None)
    assert (message.broker_timestamp, message.broker_index) == (None, None)
