"""Record sets: where batches and messages lie in them, what their headers say, whether their checksums hold.

Record batch (magic 2): see record_batch.py.

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

Sources: Kafka protocol guide, "Message sets"; KIP-31, KIP-32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from dissectors.checksum import CRC32, CRC32C, compute
from dissectors.kafka import record_batch
from dissectors.kafka.record_batch import CODECS, NO_TIMESTAMP, RecordBatch, read_batches
from dissectors.rows.layout import ABSENT
from dissectors.wire.codecs import CodecError, decompress
from dissectors.wire.reader import reader

MESSAGE = struct.Struct(">qiIbb")
_LENGTH_AND_MAGIC = struct.Struct(">iib")
CONTROL_BIT, TRANSACTIONAL_BIT, _LOG_APPEND_BIT, CODEC_BITS = 0x20, 0x10, 0x08, 0x07
HORIZON_BIT = 0x40
NO_MAGIC = -1
SMALLEST = {0: 14, 1: 22, 2: 49}  # magic -> the least that `length` may say
KEEPS_LENGTH = 12  # offset and length
CRC_AT = {0: 12, 1: 12, 2: 17}  # by magic: where the checksum lies, which covers what follows it
KEY_AT = {0: 18, 1: 26}  # by magic: where the length of a message's key lies


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


def units(
    data: bytes, start: int, size: int, known: int, limit: int, *, lenient: bool, old: int = NO_MAGIC
) -> Iterator[RecordBatch]:
    """The batches of a record set data[start:start+size], of which everything before `known` was captured.

    With `lenient` the last one may be cut short, as in a Fetch, and is left out. `old`: the magic, 0 or 1, that is
    expected; what announces another that does not exist is a message of this one, broken. Raises BatchError where
    something is no batch.
    """
    end = start + size
    r = reader()
    while start < end:
        if start + 17 > end or start + 17 > known:
            if start + 17 > end and not lenient:
                raise BatchError(start, f"{end - start} bytes are left, too few for a batch")
            return
        r.open(data, start, min(end, known))
        if found := read_batches(r, end, known):
            yield from found
            start = found[-1].end
            continue
        length, _, magic = _LENGTH_AND_MAGIC.unpack_from(data, start + 8)
        stop = start + KEEPS_LENGTH + length
        if length < SMALLEST.get(magic, 1 << 31):
            magic_was = _magic_before_damage(data, start, length, min(end, known), old)
            if magic_was == NO_MAGIC:
                raise BatchError(start, f"magic {magic} and length {length} are no batch")
            yield _message(data, start, stop, known, limit, magic_was)
            start = stop
            continue
        if stop > end:
            if lenient:
                return
            raise BatchError(start, f"a batch of {stop - start} bytes where {end - start} are left")
        if magic == 2 or start + 18 + 8 * magic > known:
            return
        yield _message(data, start, stop, known, limit, magic)
        start = stop


def checksum(data: bytes, unit: RecordBatch) -> int:
    """The checksum of a unit that is whole, computed."""
    if unit.magic == 2:
        return record_batch.checksum(data, unit.start, unit.end)
    return compute(CRC32, memoryview(data)[unit.start + 16 : unit.end])


CHECKSUM_KINDS = (CRC32, CRC32, CRC32C)
"""By magic."""


def records_of(data: bytes, unit: RecordBatch, limit: int) -> bytes:
    """The records of a unit, decompressed; of an uncompressed message of the older formats the message itself."""
    if unit.codec != "none":
        return decompress(unit.codec, memoryview(data)[unit.body : unit.end], limit=limit)
    return data[unit.body if unit.magic == 2 else unit.start : unit.end]


def _magic_before_damage(data: bytes, start: int, length: int, end: int, old: int) -> int:
    """The magic, 0 or 1, with which a message's checksum is right, for theirs covers that byte; else `old`.

    NO_MAGIC where it cannot be such a message.
    """
    stop = start + KEEPS_LENGTH + length
    if not SMALLEST[0] <= length <= end - start - KEEPS_LENGTH:
        return NO_MAGIC
    stored = int.from_bytes(data[start + 12 : start + 16], "big")
    for magic in (0, 1):
        if length >= SMALLEST[magic] and compute(CRC32, bytes([magic]) + data[start + 17 : stop]) == stored:
            return magic
    return old if old != NO_MAGIC and length >= SMALLEST[old] else NO_MAGIC


def old_format(produce: bool, version: int) -> int:
    """The magic of the messages that a Produce, or a Fetch, of some version carries: an older one, or NO_MAGIC."""
    newest = 2 if produce else 3
    return NO_MAGIC if version > newest else int(version >= 2)


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
    base, last, first, n, body, odd = offset, offset, timestamp, 1 if codec == "none" else ABSENT, stop, 0
    if codec != "none" and whole:
        key = int.from_bytes(data[at : at + 4], "big", signed=True)
        body = min(stop, at + 4 + max(0, key) + 4)
        try:
            held = _inner(decompress(codec, memoryview(data)[body:stop], limit=limit))
        except CodecError:
            held = None
        if held is not None:
            n, odd = held.messages, held.odd_bytes
            base = _within_64_bits(offset - held.last_offset + held.first_offset) if magic == 1 else held.first_offset
            last = offset if magic == 1 else held.last_offset
            first = timestamp if log_append else held.first_timestamp
    return RecordBatch(
        start, stop - start, magic, base, last, 1, n, codec, log_append, False, False,
        first, first, timestamp, -1, -1, -1, crc, body, whole, odd,
    )  # fmt: skip


def _within_64_bits(number: int) -> int:
    return number if -(1 << 63) <= number < 1 << 63 else ABSENT


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
