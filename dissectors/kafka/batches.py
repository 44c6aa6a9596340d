"""Record sets: where batches and messages lie in them, what their headers say, whether their checksums hold.

Record batch (magic 2), all integers big-endian:

    at  size  field
     0     8  base_offset             rewritten by the broker: not covered by the crc
     8     4  length                  bytes that follow this field
    12     4  partition_leader_epoch  not covered by the crc
    16     1  magic                   2
    17     4  crc                     CRC32C of byte 21 to the end
    21     2  attributes              0-2 codec, 3 log-append time, 4 transactional, 5 control, 6 delete horizon
    23     4  last_offset_delta
    27     8  base_timestamp          ms since the epoch; with a delete horizon that is what stands here
    35     8  max_timestamp           ms
    43     8  producer_id             -1: none
    51     2  producer_epoch
    53     4  base_sequence
    57     4  count
    61        records, compressed as a whole where there is a codec

Message (magic 0 and 1), before Kafka 0.11:

     0     8  offset
     8     4  size                    bytes that follow this field
    12     4  crc                     CRC32 of byte 16 to the end
    16     1  magic                   0, 1
    17     1  attributes              0-2 codec, 3 log-append time (magic 1)
    18     8  timestamp               magic 1 only, ms
              key length 4, key, value length 4, value

A message with a codec is a wrapper: its value is a compressed set of messages. In magic 1 the wrapper has the offset of
its last message and the inner ones count from 0; in magic 0 the inner offsets are the offsets. A Fetch may end within a
batch: the broker cuts at a size, and the client asks for the rest again.

Sources: Kafka protocol guide, "Record Batch" and "Message sets"; KIP-31, KIP-32, KIP-98, KIP-534.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dissectors.checksum import CRC32, CRC32C, compute
from dissectors.wire.codecs import CodecError, decompress, decompressed_size

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "codec-5", "codec-6", "codec-7")
NO_TIMESTAMP = -1
NO_OFFSET = -1

_new = tuple.__new__
_HEAD = struct.Struct(">qi4xb")  # offset, length, magic: the same place in all formats
_BATCH = struct.Struct(">qiibIhiqqqhii")
HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("first_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
"""The header of a batch of magic 2, for columns."""
MESSAGE = struct.Struct(">qiIbb")
CONTROL_BIT, TRANSACTIONAL_BIT, _LOG_APPEND_BIT, CODEC_BITS = 0x20, 0x10, 0x08, 0x07
HORIZON_BIT = 0x40
SMALLEST = {0: 14, 1: 22, 2: 49}  # magic -> the least that `length` may say
KEEPS_LENGTH = 12  # offset and length


class RecordBatch(NamedTuple):
    """One record batch, or one top-level message of the older formats."""

    start: int  # index into the buffer
    size: int  # bytes on the wire
    magic: int
    base_offset: int
    last_offset: int
    announced: int  # as the header says, 1 for a message
    records: int | None  # as the application counts them; None where that is not known
    codec: str
    log_append: bool
    transactional: bool
    control: bool
    base_timestamp: int  # ms, or NO_TIMESTAMP: what the records' own count from
    first_timestamp: int  # of the first message, or NO_TIMESTAMP where the header does not say it
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    crc: int  # as on the wire
    body: int  # index of the (compressed) records
    whole: bool  # every byte of it is there
    odd_bytes: int = 0  # of a wrapper: decompressed bytes behind its last message that are no message

    @property
    def end(self) -> int:
        return self.start + self.size


class InnerMessages(NamedTuple):
    """What a wrapper message holds: offsets and timestamps as its messages have them."""

    messages: int
    first_offset: int
    last_offset: int
    first_timestamp: int
    odd_bytes: int  # behind the last one: no message begins there


class BatchError(ValueError):
    """The set goes on in a way that is no batch. `at` is the index at which it does."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


def count(data: bytes, start: int, size: int, known: int, limit: int) -> int:
    """Messages in a record set; only headers are read, and old formats' wrappers."""
    total = 0
    end = start + size
    have = min(end, known)
    while start + 61 <= have:
        _, length, _, magic, _, attributes, _, _, _, _, _, _, records = _BATCH.unpack_from(data, start)
        if magic != 2 or length < 49:
            break
        start += KEEPS_LENGTH + length
        if start > end:
            return total
        if not attributes & CONTROL_BIT:
            total += max(0, records)
    if start >= end:
        return total
    try:
        for unit in units(data, start, end - start, known, limit, lenient=True):
            total += unit.records or 0
    except BatchError:
        pass  # reported where the batches are
    return total


def units(
    data: bytes, start: int, size: int, known: int, limit: int, *, lenient: bool, old: int | None = None
) -> Iterator[RecordBatch]:
    """The batches of a record set data[start:start+size], of which everything before `known` was captured.

    With `lenient` the last one may be cut short, as in a Fetch, and is left out. `old`: the magic, 0 or 1, that is
    expected; what announces another that does not exist is a message of this one, broken. Raises BatchError where
    something is no batch.
    """
    end = start + size
    while start < end:
        if start + 17 > end or start + 17 > known:
            if start + 17 > end and not lenient:
                raise BatchError(start, f"{end - start} bytes are left, too few for a batch")
            return
        _, length, magic = _HEAD.unpack_from(data, start)
        stop = start + KEEPS_LENGTH + length
        if length < SMALLEST.get(magic, 1 << 31):
            magic_was = _magic_before_damage(data, start, length, min(end, known), old)
            if magic_was is None:
                raise BatchError(start, f"magic {magic} and length {length} are no batch")
            yield _message(data, start, stop, known, limit, magic_was)
            start = stop
            continue
        if stop > end:
            if lenient:
                return
            raise BatchError(start, f"a batch of {stop - start} bytes where {end - start} are left")
        if magic == 2:
            if start + 61 > known:
                return
            yield _batch(data, start, known)
        else:
            if start + 18 + 8 * magic > known:
                return
            yield _message(data, start, stop, known, limit, magic)
        start = stop


def checksum(data: bytes, unit: RecordBatch) -> int:
    """The checksum of a unit that is whole, computed."""
    covered = memoryview(data)[unit.start + (21 if unit.magic == 2 else 16) : unit.end]
    return compute(checksum_kind(unit), covered)


def checksum_kind(unit: RecordBatch) -> str:
    return CRC32C if unit.magic == 2 else CRC32


def records_of(data: bytes, unit: RecordBatch, limit: int) -> bytes:
    """The records of a unit, decompressed; of an uncompressed message of the older formats the message itself."""
    if unit.codec != "none":
        return decompress(unit.codec, memoryview(data)[unit.body : unit.end], limit=limit)
    return data[unit.body if unit.magic == 2 else unit.start : unit.end]


def records_size(data: bytes, unit: RecordBatch, limit: int) -> int:
    """The size of `records_of`."""
    if unit.codec != "none":
        return decompressed_size(unit.codec, memoryview(data)[unit.body : unit.end], limit=limit)
    return unit.end - (unit.body if unit.magic == 2 else unit.start)


def _batch(data: bytes, start: int, known: int) -> RecordBatch:
    (base, length, _, magic, crc, attributes, last_delta, first, latest, producer, epoch, sequence, n) = (
        _BATCH.unpack_from(data, start)
    )
    control, size = bool(attributes & CONTROL_BIT), KEEPS_LENGTH + length
    n = max(0, n)
    stamp = NO_TIMESTAMP if attributes & HORIZON_BIT else first
    values = (
        start, size, magic, base, base + last_delta, n, 0 if control else n, CODECS[attributes & CODEC_BITS],
        bool(attributes & _LOG_APPEND_BIT), bool(attributes & TRANSACTIONAL_BIT), control,
        first, stamp, latest, producer, epoch, sequence, crc, start + 61, start + size <= known, 0,
    )  # fmt: skip
    return _new(RecordBatch, values)


def _magic_before_damage(data: bytes, start: int, length: int, end: int, old: int | None) -> int | None:
    """The magic, 0 or 1, with which a message's checksum is right, for theirs covers that byte; else `old`."""
    stop = start + KEEPS_LENGTH + length
    if not SMALLEST[0] <= length <= end - start - KEEPS_LENGTH:
        return None
    stored = int.from_bytes(data[start + 12 : start + 16], "big")
    for magic in (0, 1):
        if length >= SMALLEST[magic] and compute(CRC32, bytes([magic]) + data[start + 17 : stop]) == stored:
            return magic
    return old if old is not None and length >= SMALLEST[old] else None


def old_format(produce: bool, version: int) -> int | None:
    """The magic of the messages that a Produce, or a Fetch, of some version carries, where it is an older one."""
    newest = 2 if produce else 3
    return None if version > newest else int(version >= 2)


def _message(data: bytes, start: int, stop: int, known: int, limit: int, magic: int) -> RecordBatch:
    offset, _, crc, _, attributes = MESSAGE.unpack_from(data, start)
    at = start + 18
    timestamp = NO_TIMESTAMP
    if magic == 1:
        timestamp = int.from_bytes(data[at : at + 8], "big", signed=True)
        at += 8
    codec = CODECS[attributes & CODEC_BITS]
    log_append = magic == 1 and bool(attributes & _LOG_APPEND_BIT)
    whole = stop <= known
    base, last, first, n, body, odd = offset, offset, timestamp, 1 if codec == "none" else None, stop, 0
    if codec != "none" and whole:
        key = int.from_bytes(data[at : at + 4], "big", signed=True)
        body = min(stop, at + 4 + max(0, key) + 4)
        try:
            held = _inner(decompress(codec, memoryview(data)[body:stop], limit=limit))
        except CodecError:
            held = None
        if held is not None:
            n, odd = held.messages, held.odd_bytes
            base = offset - held.last_offset + held.first_offset if magic == 1 else held.first_offset
            last = offset if magic == 1 else held.last_offset
            first = timestamp if log_append else held.first_timestamp
    return RecordBatch(
        start, stop - start, magic, base, last, 1, n, codec, log_append, False, False,
        first, first, timestamp, -1, -1, -1, crc, body, whole, odd,
    )  # fmt: skip


def _inner(data: bytes) -> InnerMessages:
    """Count the messages of a decompressed wrapper."""
    n, at, first, last, timestamp = 0, 0, 0, 0, NO_TIMESTAMP
    while at + 18 <= len(data):
        offset, size, _, magic, _ = MESSAGE.unpack_from(data, at)
        if size < SMALLEST.get(magic, 1 << 31) or at + KEEPS_LENGTH + size > len(data):
            break
        if not n:
            first = offset
            if magic == 1:
                timestamp = int.from_bytes(data[at + 18 : at + 26], "big", signed=True)
        last = offset
        n += 1
        at += KEEPS_LENGTH + size
    return InnerMessages(n, first, last, timestamp, len(data) - at)
