"""Record sets of all three formats, as the wire has them."""

import gzip
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.kafka import PROTOCOL, batches
from dissectors.kafka.batches import BatchError
from dissectors.kafka.record_batch import NO_TIMESTAMP, RecordBatch, is_cut
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.wire.reader import WireReader
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.kafka.wire import batch, fetch, fetched, message, produce, produced, record, request, response, wrapper

LIMIT = 1 << 20
THREE = [record(i, b"k%d" % i, b"v" * i, [(b"h", b"x"), (b"n", None)]) for i in range(3)]


def units(data: bytes, *, lenient: bool = True, known: int | None = None) -> list[RecordBatch]:
    return list(batches.units(data, 0, len(data), len(data) if known is None else known, LIMIT, lenient=lenient))


def test_a_batch_says_what_its_header_says() -> None:
    (unit,) = units(batch(THREE, base=100, producer=(7, 1, 20)))
    assert (unit.magic, unit.base_offset, unit.last_offset, unit.records, unit.codec) == (2, 100, 102, 3, "none")
    assert (unit.producer_id, unit.producer_epoch, unit.base_sequence) == (7, 1, 20)
    assert not (unit.control)
    assert not (unit.transactional)
    assert not (unit.log_append)


def test_the_checksum_of_a_batch_does_not_cover_what_the_broker_rewrites() -> None:
    data = bytearray(batch(THREE))
    data[0:8] = struct.pack(">q", 9999)
    data[12:16] = struct.pack(">i", 5)
    (unit,) = units(bytes(data))
    assert batches.checksum(bytes(data), unit) == unit.crc
    data[-1] ^= 1
    assert batches.checksum(bytes(data), unit) != unit.crc


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_counts_what_it_holds(magic: int) -> None:
    inner = [message(i if magic else 40 + i, b"v%d" % i, magic=magic, ts=70 + i) for i in range(4)]
    data = wrapper(43, inner, magic)
    (unit,) = units(data)
    assert (unit.magic, unit.records, unit.codec) == (magic, 4, "gzip")
    assert (unit.base_offset, unit.last_offset) == (40, 43)
    assert unit.first_timestamp == (70 if magic else NO_TIMESTAMP)
    assert batches.checksum(data, unit) == unit.crc


def test_the_end_of_a_fetch_may_cut_a_batch() -> None:
    whole = batch(THREE, base=0)
    for cut in (1, 11, 20, len(whole) - 1):
        data = whole + batch(THREE, base=3)[:cut]
        assert [u.base_offset for u in units(data)] == [0]
        with pytest.raises(BatchError):
            units(data, lenient=False)


@given(st.integers(0, 200), st.one_of(st.none(), st.tuples(st.integers(8, 16), st.integers(0, 255))))
def test_what_looks_like_a_batch_that_was_cut_is_left_out_of_a_fetch(
    size: int, changed: tuple[int, int] | None
) -> None:
    data = bytearray(batch(THREE))
    if changed is not None:
        data[changed[0]] = changed[1]
    raw = bytes(data[:size])
    reader = WireReader()
    reader.open(raw, 0, len(raw))
    cut = is_cut(reader)
    assert reader.pos == 0
    assert cut or size >= 17
    if cut:
        assert units(raw) == []
    elif changed is None:
        assert size >= len(data)


def test_old_messages_may_be_cut_too() -> None:
    data = message(5, b"value") + message(6, b"value")[:-3]
    assert [u.base_offset for u in units(data)] == [5]


def test_control_batches_and_wrappers_count_what_an_application_gets() -> None:
    data = batch(THREE) + batch(THREE, 3, attributes=0x20) + batch(THREE, 6, latest=1_800_000_000_000)
    assert sum(u.records or 0 for u in units(data)) == 6
    old = wrapper(3, [message(i, b"x") for i in range(4)]) + message(4, b"y", ts=9)
    assert sum(u.records or 0 for u in units(old)) == 5


def consumed(records: bytes, **more: Any) -> Any:
    script = [(CLIENT, fetch(1, [("t", [0])])), (SERVER, fetched(1, {("t", 0): records}))]
    return feed_every_way(PROTOCOL, script, **more)


def test_messages_have_keys_values_headers_offsets_and_times() -> None:
    sink = consumed(batch(THREE, base=50, producer=(9, 0, 3)))
    rows = sink.messages
    assert [(m.offset, m.key, m.value, m.key_bytes, m.value_bytes) for m in rows] == [
        (50, b"k0", b"", 2, 0),
        (51, b"k1", b"v", 2, 1),
        (52, b"k2", b"vv", 2, 2),
    ]
    assert rows[1].timestamp == 1_700_000_000_001 * 1_000_000
    assert (rows[1].sequence, rows[1].producer, rows[1].header_count) == (4, "9", 2)
    assert rows[1].headers == '[["h","x"],["n",null]]'


@pytest.mark.parametrize(
    ("value", "trace"),
    [
        (b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c"),
        (b"00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
        (b"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", None),
        (b"\xff", None),
        (None, None),
    ],
)
def test_a_message_belongs_to_the_trace_that_its_header_names(value: bytes | None, trace: str | None) -> None:
    traced = [record(0, None, b"v", [(b"h", b"x"), (b"traceparent", value)])]
    sink = consumed(batch(traced), options=Options(tables=("messages",)))
    assert [(m.trace_id, m.headers) for m in sink.messages] == [(trace, None)]


def test_payloads_are_there_only_where_they_are_asked_for() -> None:
    sink = consumed(batch(THREE), options=Options(tables=("messages",)))
    assert [(m.key, m.value, m.headers) for m in sink.messages] == [(None, None, None)] * 3
    assert [m.key_bytes for m in sink.messages] == [2, 2, 2]


def test_messages_of_a_produce_get_the_offsets_that_the_broker_gave() -> None:
    script = [(CLIENT, produce(1, {("t", 0): batch(THREE)})), (SERVER, produced(1, [("t", 0, 0, 500)]))]
    assert [m.offset for m in feed_every_way(PROTOCOL, script).messages] == [500, 501, 502]


def test_messages_in_a_wrapper_get_absolute_offsets() -> None:
    sink = consumed(wrapper(43, [message(i, b"v%d" % i, key=b"k") for i in range(4)]))
    assert [(m.offset, m.value) for m in sink.messages] == [(40, b"v0"), (41, b"v1"), (42, b"v2"), (43, b"v3")]


def test_a_compressed_batch_is_decompressed_once_and_its_size_reported() -> None:
    raw = b"".join(THREE)
    (row,) = consumed(batch(THREE, codec=1, stored=gzip.compress(raw))).batches
    assert (row.codec, row.uncompressed_bytes, row.verdict, row.records) == ("gzip", len(raw), "ok", 3)


def test_a_batch_that_does_not_decompress_is_a_finding() -> None:
    sink = consumed(batch(THREE, codec=1, stored=b"no gzip at all"))
    assert [f.kind for f in sink.findings] == ["decompress_failed"]
    assert sink.batches[0].verdict == "ok"


def test_one_flipped_bit_is_one_bad_checksum() -> None:
    data = bytearray(batch(THREE) + batch(THREE, 3))
    data[70] ^= 4
    sink = consumed(bytes(data))
    assert [b.verdict for b in sink.batches] == ["bad", "ok"]
    (finding,) = [f for f in sink.findings if f.kind == "checksum_mismatch"]
    assert finding.severity == "error"
    assert sink.batches[0].checksum_stored != sink.batches[0].checksum_computed


def test_control_batches_hold_no_messages() -> None:
    sink = consumed(batch([record(0, b"\0\0\0\1", b"\0\0\0\0\0\0")], attributes=0x30))
    (row,) = sink.batches
    assert (row.control, row.transactional, row.records) == (True, True, 0)
    assert not sink.messages
    assert sink.exchanges[0].records == 0


def test_log_append_time_is_the_brokers() -> None:
    sink = consumed(batch(THREE, attributes=0x08))
    assert {m.event_time for m in sink.messages} == {1_700_000_000_100 * 1_000_000}


def test_a_delete_horizon_is_no_timestamp_and_those_of_the_records_count_from_it() -> None:
    horizon, deleted = 1_700_000_000_100, record(-100, b"k", None)
    sink = consumed(batch([deleted], attributes=0x40, first=horizon, latest=horizon - 100))
    assert [b.first_timestamp for b in sink.batches] == [None]
    assert [m.timestamp for m in sink.messages] == [(horizon - 100) * 1_000_000]


def test_a_decompression_bomb_is_refused() -> None:
    from dissectors.limits import Limits

    bomb = gzip.compress(bytes(1 << 20))
    limits = Limits(decompressed_bytes=1000)
    sink, _ = feed(
        PROTOCOL,
        [(CLIENT, fetch(1, [("t", [0])])), (SERVER, fetched(1, {("t", 0): batch(THREE, codec=1, stored=bomb)}))],
        options=Options(tables=tuple(TABLES), limits=limits),
    )
    assert [f.kind for f in sink.findings] == ["decompress_failed"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("bit", range(8))
def test_a_flip_in_the_magic_of_an_old_message_is_a_bad_checksum(magic: int, bit: int) -> None:
    data = bytearray(message(7, b"some value", magic=magic))
    data[16] ^= 1 << bit
    sink = consumed(bytes(data) + message(8, b"good", magic=magic))
    assert [(b.verdict, b.base_offset) for b in sink.batches] == [("bad", 7), ("ok", 8)]
    assert [f.kind for f in sink.findings if f.severity == "error"] == ["checksum_mismatch"]


def test_an_old_message_with_a_broken_header_is_a_bad_checksum_where_no_newer_one_can_be() -> None:
    data = bytearray(message(7, b"some value"))
    data[16:20] = b"abcd"
    script = [(CLIENT, fetch(1, [("t", [0])])), (SERVER, fetched(1, {("t", 0): bytes(data)}))]
    new, _ = feed(PROTOCOL, script)
    assert [f.kind for f in new.findings if f.severity == "error"] == ["malformed_frame"]
    sent, answered = request(1, 2, 1, OLD_FETCH), response(1, 2, 1, old_fetched(bytes(data)))
    old, _ = feed(PROTOCOL, [(CLIENT, sent), (SERVER, answered)])
    assert [f.kind for f in old.findings if f.severity == "error"] == ["checksum_mismatch"]


OLD_FETCH = struct.pack(">iiii", -1, 500, 1, 1) + b"\0\1t" + struct.pack(">iiqi", 1, 0, 0, 1 << 20)


def old_fetched(records: bytes) -> bytes:
    """A Fetch response of version 2."""
    return struct.pack(">ii", 0, 1) + b"\0\1t" + struct.pack(">iihqi", 1, 0, 0, 1, len(records)) + records
