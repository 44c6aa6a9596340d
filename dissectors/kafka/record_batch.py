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

from collections.abc import Sequence
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.rows.layout import ABSENT
from dissectors.wire.arrays import Bytes
from dissectors.wire.memory import crc32c
from dissectors.wire.reader import WireReader, reader

HEADER_BYTES, COVERED_FROM, KEEPS_LENGTH, SMALLEST_LENGTH = 61, 21, 12, 49
UP_TO_MAGIC = 17  # bytes
CODEC_BITS, LOG_APPEND_BIT, TRANSACTIONAL_BIT, CONTROL_BIT, HORIZON_BIT = 7, 8, 16, 32, 64
LAST_CODEC, MOST_ATTRIBUTES = 4, 127  # numbers above them were never given
NO_TIMESTAMP = -1
LARGEST = (1 << 63) - 1

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "codec-5", "codec-6", "codec-7")


@final
@carried
@compiled(freelist=256)
class RecordBatch:
    """One record batch, or one top-level message of the older formats, and what was found out about it.

    Of the wire:
    start: index into the buffer; size: bytes
    announced: records as the header says, 1 for a message
    count: records as the application counts them; ABSENT where that is not known. `records`: None instead
    base_timestamp: ms, or NO_TIMESTAMP: what the records' own count from
    first_timestamp: of the first message, or NO_TIMESTAMP where the header does not say it; max_timestamp: likewise
    producer_id, producer_epoch, base_sequence: below 0 where there is none
    body: index of the (compressed) records
    whole: every byte of it is there
    odd_bytes: of a wrapper: decompressed bytes behind its last message that are no message

    Of the checks, once it was looked at:
    uncompressed: size of the records, ABSENT where that is not known
    keyed: whether its first record has a key, ABSENT where that is not known
    computed: the checksum, ABSENT where bytes are missing; verdict: as in `batches`
    time: ns; packet_ref, stream_offset: of its first byte
    entries: its messages, where they are wanted
    """

    start: cython.Py_ssize_t
    size: cython.longlong
    magic: cython.int
    base_offset: cython.longlong
    last_offset: cython.longlong
    announced: cython.longlong
    count: cython.longlong
    codec: str
    log_append: cython.bint
    transactional: cython.bint
    control: cython.bint
    base_timestamp: cython.longlong
    first_timestamp: cython.longlong
    max_timestamp: cython.longlong
    producer_id: cython.longlong
    producer_epoch: cython.int
    base_sequence: cython.longlong
    crc: cython.longlong
    body: cython.Py_ssize_t
    whole: cython.bint
    odd_bytes: cython.longlong
    uncompressed: cython.longlong
    keyed: cython.longlong
    computed: cython.longlong
    verdict: str
    time: cython.longlong = 0
    packet_ref: cython.longlong = 0
    stream_offset: cython.longlong = 0
    entries: Sequence[Any]

    def __init__(
        self,
        start: cython.Py_ssize_t = 0,
        size: cython.longlong = 0,
        magic: cython.int = 2,
        base_offset: cython.longlong = 0,
        last_offset: cython.longlong = 0,
        announced: cython.longlong = 1,
        count: cython.longlong = 0,
        codec: str = "none",
        log_append: bool = False,
        transactional: bool = False,
        control: bool = False,
        base_timestamp: cython.longlong = -1,
        first_timestamp: cython.longlong = -1,
        max_timestamp: cython.longlong = -1,
        producer_id: cython.longlong = -1,
        producer_epoch: cython.int = -1,
        base_sequence: cython.longlong = -1,
        crc: cython.longlong = 0,
        body: cython.Py_ssize_t = 0,
        whole: bool = True,
        odd_bytes: cython.longlong = 0,
    ) -> None:
        self.start = start
        self.size = size
        self.magic = magic
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.announced = announced
        self.count = count
        self.codec = codec
        self.log_append = log_append
        self.transactional = transactional
        self.control = control
        self.base_timestamp = base_timestamp
        self.first_timestamp = first_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.crc = crc
        self.body = body
        self.whole = whole
        self.odd_bytes = odd_bytes
        self._begin_checks()

    @compiled
    def _begin_checks(self) -> None:
        """Nothing is known yet of what the checks tell."""
        self.verdict = "unverifiable"
        self.uncompressed = self.computed = self.keyed = ABSENT
        self.entries = ()

    @property
    def end(self) -> int:
        """Index after its last byte."""
        return self.start + self.size

    @property
    def records(self) -> int | None:
        """Records as the application counts them."""
        return None if self.count == ABSENT else self.count

    @compiled
    def verify(self, data: bytes) -> cython.bint:
        """Compute the checksum of a whole batch of magic 2 in `data`; whether it is right."""
        self.computed = crc32c(data, self.start + COVERED_FROM, self.start + self.size)
        self.verdict = "ok" if self.computed == self.crc else "bad"
        return self.computed == self.crc

    @compiled
    def _read(self, r: WireReader, known: cython.Py_ssize_t) -> None:
        """The fields behind the magic of a header, 44 bytes. The bytes before index `known` were captured."""
        attributes: cython.longlong
        self.body = self.start + HEADER_BYTES
        self.whole = self.start + self.size <= known
        self.crc = r.u32()
        attributes = r.i16()
        self.last_offset = plus(self.base_offset, r.i32())
        self.base_timestamp = r.i64()
        self.max_timestamp = r.i64()
        self.producer_id = r.i64()
        self.producer_epoch = r.i16()
        self.base_sequence = r.i32()
        self.announced = max(0, r.i32())
        self.codec = CODECS[attributes & CODEC_BITS]
        self.log_append = (attributes & LOG_APPEND_BIT) != 0
        self.transactional = (attributes & TRANSACTIONAL_BIT) != 0
        self.control = (attributes & CONTROL_BIT) != 0
        self.count = 0 if self.control else self.announced
        self.first_timestamp = NO_TIMESTAMP if attributes & HORIZON_BIT else self.base_timestamp
        self.odd_bytes = 0


@compiled
def read_batches(r: WireReader, end: cython.Py_ssize_t, known: cython.Py_ssize_t) -> list[RecordBatch]:
    """The batches of magic 2 that follow each other, whose headers are there and which end at index `end` at most.

    The bytes before index `known` were captured. The reader is then where something else stands.
    """
    found: list[RecordBatch] = []
    start: cython.Py_ssize_t
    base: cython.longlong
    length: cython.longlong
    batch: RecordBatch
    while r.left() >= HEADER_BYTES:
        start = r.pos
        base = r.i64()
        length = r.i32()
        r.skip(4)
        if r.i8() != 2 or length < SMALLEST_LENGTH or length > end - start - KEEPS_LENGTH:
            r.pos = start
            break
        batch = RecordBatch.__new__(RecordBatch)  # not by its constructor, which takes a third of the time here
        batch.start = start
        batch.size = KEEPS_LENGTH + length
        batch.magic = 2
        batch.base_offset = base
        batch._read(r, known)
        batch._begin_checks()
        r.pos = start + batch.size
        found.append(batch)
    return found


@compiled
def is_cut(r: WireReader) -> cython.bint:
    """Whether the bytes that are left are the beginning of a batch of magic 2, or too few for any. The reader stays."""
    start: cython.Py_ssize_t = r.pos
    left: cython.Py_ssize_t = r.left()
    length: cython.longlong
    magic: cython.longlong
    if left < UP_TO_MAGIC:
        return True
    r.skip(8)
    length = r.i32()
    r.skip(4)
    magic = r.i8()
    r.pos = start
    return magic == 2 and length >= SMALLEST_LENGTH and length > left - KEEPS_LENGTH


@compiled
def header_places(data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> list[int]:
    """The indices of data[start:end], in order, at which the whole header of a batch of magic 2 may begin.

    There its attributes are known ones, its length is not too small, and its count fits its offsets.
    """
    found: list[int] = []
    octets: Bytes = data
    at: cython.Py_ssize_t
    length: cython.longlong
    delta: cython.longlong
    count: cython.longlong
    r: WireReader = reader()
    r.open(data, start, end)
    for at in range(start, r.end - HEADER_BYTES + 1):
        if octets[at + 16] != 2 or octets[at + 21] or octets[at + 22] > MOST_ATTRIBUTES:
            continue
        if octets[at + 22] & CODEC_BITS > LAST_CODEC:
            continue
        r.pos = at + 8
        length = r.i32()
        r.pos = at + 23
        delta = r.i32()
        r.pos = at + 57
        count = r.i32()
        if length >= SMALLEST_LENGTH and 0 <= count <= delta + 1 and delta >= 0:
            found.append(at)
    return found


@compiled
def checksum(data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """The CRC32C of the batch data[start:end], computed. Raises IndexError."""
    return crc32c(data, start + COVERED_FROM, end)


@compiled
def plus(number: cython.longlong, more: cython.longlong) -> cython.longlong:
    """number + more, of which the latter is within 2^62; ABSENT where the sum is beyond int64."""
    if (more > 0 and number > LARGEST - more) or (more < 0 and number < -LARGEST - more):
        return ABSENT
    return number + more
