"""Record batches of magic 2. Their header, all integers big-endian:

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

Base offset, length and magic lie at the same places in the older formats (batches.py).
Sources: Kafka protocol guide, "Record Batch"; KIP-98, KIP-534.
"""

from __future__ import annotations

from typing import NamedTuple

import cython

from dissectors.wire.reader import WireReader

if not cython.compiled:
    from dissectors.wire.memory import crc32c

    HEADER_BYTES, COVERED_FROM, KEEPS_LENGTH, SMALLEST_LENGTH = 61, 21, 12, 49
    CODEC_BITS, LOG_APPEND_BIT, TRANSACTIONAL_BIT, CONTROL_BIT, HORIZON_BIT = 7, 8, 16, 32, 64

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "codec-5", "codec-6", "codec-7")
NO_TIMESTAMP = -1
_new = tuple.__new__


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


class BatchHeader:
    """The fields of a header; valid until the next one is read."""

    def __init__(self) -> None:
        self.start = 0  # index of its first byte
        self.base_offset = 0
        self.length = 0
        self.magic = 0
        self.crc = 0
        self.attributes = 0
        self.last_offset_delta = 0
        self.base_timestamp = 0
        self.max_timestamp = 0
        self.producer_id = 0
        self.producer_epoch = 0
        self.base_sequence = 0
        self.count = 0

    def begin(self, r: WireReader) -> None:
        """Read as far as the magic, 17 bytes. Raises EndsEarlyError."""
        self.start = r.pos
        self.base_offset = r.i64()
        self.length = r.i32()
        r.skip(4)
        self.magic = r.i8()

    def complete(self, r: WireReader) -> None:
        """Read what follows the magic, 44 bytes. Raises EndsEarlyError."""
        self.crc = r.u32()
        self.attributes = r.i16()
        self.last_offset_delta = r.i32()
        self.base_timestamp = r.i64()
        self.max_timestamp = r.i64()
        self.producer_id = r.i64()
        self.producer_epoch = r.i16()
        self.base_sequence = r.i32()
        self.count = r.i32()

    def batch(self, known: cython.Py_ssize_t) -> RecordBatch:
        """The batch of this header; the bytes before index `known` were captured."""
        size: cython.longlong = KEEPS_LENGTH + self.length
        count: cython.longlong = max(0, self.count)
        control: cython.bint = (self.attributes & CONTROL_BIT) != 0
        values = (
            self.start,
            size,
            self.magic,
            self.base_offset,
            self.base_offset + self.last_offset_delta,
            count,
            0 if control else count,
            CODECS[self.attributes & CODEC_BITS],
            (self.attributes & LOG_APPEND_BIT) != 0,
            (self.attributes & TRANSACTIONAL_BIT) != 0,
            control,
            self.base_timestamp,
            NO_TIMESTAMP if self.attributes & HORIZON_BIT else self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.crc,
            self.start + HEADER_BYTES,
            self.start + size <= known,
            0,
        )
        return _new(RecordBatch, values)

    def count_records(self, r: WireReader, end: cython.Py_ssize_t) -> cython.longlong:
        """The records of the batches that follow each other up to index `end`, but those of control batches.

        The reader is then behind them, or where something else stands, or beyond `end` if a batch is cut there.
        """
        total: cython.longlong = 0
        while r.left() >= HEADER_BYTES:
            self.begin(r)
            if self.magic != 2 or self.length < SMALLEST_LENGTH:
                r.pos = self.start
                break
            self.complete(r)
            r.pos = self.start + KEEPS_LENGTH + self.length
            if r.pos > end:
                break
            if self.count > 0 and not self.attributes & CONTROL_BIT:
                total += self.count
        return total


def checksum(data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """The CRC32C of the batch data[start:end], computed. Raises IndexError."""
    return crc32c(data, start + COVERED_FROM, end)
