"""An entry: the metadata and payload that follow a SEND or MESSAGE command. All integers are big-endian.

    u16  0x0e02                       only to clients that want it
    u32  size | BrokerEntryMetadata
    u16  0x0e01                       not from or to peers before protocol version 6
    u32  CRC32C                       of everything that follows: what the producer sent, compressed and encrypted
    u32  size | MessageMetadata
         payload                      to the end of the frame

A metadata size that began 0x0e01 would be over 234 MB, so two bytes suffice. The payload is one message; or, where
num_messages_in_batch is present (be it 1), a batch; or, where num_chunks_from_msg is present, a piece of a message.
Producers batch, compress the whole, cut it into chunks, encrypt each, and compute the checksum last.

    batch:  ( u32 size | SingleMessageMetadata | payload_size bytes ) ...

Source: Pulsar binary protocol specification, "Message commands" and "Batch messages".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.pulsar import api
from dissectors.pulsar.fields import (
    BROKER_BROKER_TIMESTAMP,
    BROKER_INDEX,
    KEY_KEY,
    META_CHUNK_ID,
    META_COMPACTED_BATCH_INDEXES,
    META_COMPRESSION,
    META_MARKER_TYPE,
    META_NUM_CHUNKS_FROM_MSG,
    META_NUM_MESSAGES_IN_BATCH,
    META_PUBLISH_TIME,
    META_UNCOMPRESSED_SIZE,
    SINGLE_PAYLOAD_SIZE,
)
from dissectors.pulsar.pending import PulsarRequest
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame
from dissectors.wire.codecs import CodecError, decompress
from dissectors.wire.codecs.sizes import decompressed_size
from dissectors.wire.per_thread import PerThread
from dissectors.wire.protobuf import MessageFields
from dissectors.wire.reader import WireReader

BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC = 0x0E02, 0x0E01
CRC32C, NO_CHECKSUM = "crc32c", "none"
MS = 1_000_000  # ns, of the times in metadata
LATEST_MS = ((1 << 63) - 1) // MS
FORMAT = "entry"
"""What the column `format` of `batches` says of an entry of Pulsar."""

CODECS = {1: "lz4-block", 2: "zlib", 3: "zstd", 4: "snappy"}
CODEC_NAMES = {0: "none", 1: "lz4", 2: "zlib", 3: "zstd", 4: "snappy"}
METADATA, SINGLE = api.shape("MessageMetadata"), api.shape("SingleMessageMetadata")
BROKER, KEYS = api.shape("BrokerEntryMetadata"), api.shape("EncryptionKeys")


class MalformedEntryError(ValueError):
    """The bytes are not what their sizes say."""


@final
@compiled
class PulsarEntry:
    """Where the parts of an entry are in frame.data, and its metadata as far as it is there; until the next is read.

    at: the first byte that the broker stores: checksum magic, or metadata size
    covered: the first byte that the checksum covers
    stored: the checksum; ABSENT where there is none
    marked: whether the bytes are there that say if there is a checksum
    payload: the first byte of the payload; stop: the index after it
    has_meta, has_broker: whether `meta` and `broker` hold MessageMetadata and BrokerEntryMetadata
    defect: what is wrong with it, if anything is

    What `entries` finds of it besides:

    request: the command that carries it; role: of its row
    time (ns), packet_ref: of the byte at `at`
    ledger, entry: its position, ABSENT where it is not known
    to_deliver: the words of a MESSAGE that say which of its batch are still to be delivered; SEND has none
    computed: the checksum over the bytes captured, ABSENT where some are missing; verdict: of `batches`
    uncompressed: bytes of the payload, decompressed; ABSENT where it cannot be read, or is a chunk of what can
    plain: these bytes, or those of a chunk, where messages are to be read; None where they cannot be
    """

    reader: WireReader
    meta: MessageFields
    broker: MessageFields
    frame: Frame = None  # type: ignore[assignment]
    at: cython.Py_ssize_t = 0
    covered: cython.Py_ssize_t = 0
    payload: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t = 0
    stored: cython.longlong = 0
    marked: cython.bint = False
    has_meta: cython.bint = False
    has_broker: cython.bint = False
    defect: str | None = None
    request: PulsarRequest = None  # type: ignore[assignment]
    role: str
    time: cython.longlong = 0
    packet_ref: cython.longlong = 0
    ledger: cython.longlong = 0
    entry: cython.longlong = 0
    to_deliver: Sequence[int]
    computed: cython.longlong = 0
    verdict: str
    uncompressed: cython.longlong = 0
    plain: bytes | None = None

    def __init__(self) -> None:
        self.reader = WireReader()
        self.meta = MessageFields(self.reader)
        self.broker = MessageFields(self.reader)
        self.role = ""
        self.to_deliver = ()
        self.verdict = ""

    @compiled
    def read(self, frame: Frame, after: cython.Py_ssize_t, limit: cython.longlong) -> None:
        """Read the entry that follows a command which ends at index `after`; its metadata of at most `limit` bytes."""
        self.frame = frame
        self.at = self.covered = self.payload = after
        self.stop = frame.start + frame.size
        self.stored = ABSENT
        self.marked = self.has_meta = self.has_broker = False
        self.defect = None
        if self._read_broker(frame) and self._read_checksum(frame):
            self._read_meta(frame, limit)

    @compiled
    def _read_broker(self, frame: Frame) -> cython.bint:
        """Read what the broker put in front, if it did; whether the rest can be read."""
        after: cython.Py_ssize_t = self.at
        begin: cython.Py_ssize_t = after + 6
        if self._magic(frame, after) != BROKER_ENTRY_MAGIC:
            return True
        if begin > frame.known:
            return self._ends_early(frame)
        self.reader.open(frame.data, after + 2, begin)
        size: cython.longlong = self.reader.u32()
        if size > self.stop - begin:
            self.payload = self.stop
            self.defect = "Broker entry metadata goes beyond the frame"
            return False
        self.at = self.covered = self.payload = begin + size
        if self.at > frame.known:
            return False
        self.has_broker = self.broker.read(BROKER, frame.data, begin, self.at)
        if not self.has_broker:
            self.payload = self.stop
            self.defect = "Broker entry metadata is no protobuf message"
        return self.has_broker

    @compiled
    def _read_checksum(self, frame: Frame) -> cython.bint:
        """Read the checksum, if there is one; whether the rest can be read."""
        if self._magic(frame, self.at) == CHECKSUM_MAGIC:
            if self.at + 6 > frame.known:
                return self._ends_early(frame)
            self.reader.open(frame.data, self.at + 2, self.at + 6)
            self.stored = self.reader.u32()
            self.covered = self.at + 6
        return self.covered + 4 <= frame.known or self._ends_early(frame)

    @compiled
    def _read_meta(self, frame: Frame, limit: cython.longlong) -> None:
        begin: cython.Py_ssize_t = self.covered + 4
        self.reader.open(frame.data, self.covered, begin)
        size: cython.longlong = self.reader.u32()
        self.marked = True
        if size > self.stop - begin:
            self.payload = self.stop
            self.defect = "Message metadata goes beyond the frame"
        else:
            self.payload = begin + size
            if self.payload > frame.known:
                self.has_meta = False
            elif size > limit:
                self.defect = f"Message metadata of {size} bytes is not decoded"
            else:
                self.has_meta = self.meta.read(METADATA, frame.data, begin, self.payload)
                if not self.has_meta:
                    self.defect = "Message metadata is no protobuf message"

    @compiled
    def _magic(self, frame: Frame, at: cython.Py_ssize_t) -> cython.longlong:
        """The two bytes at an index, zeros where they are missing; -1 where the bytes at hand end before."""
        if at + 2 > frame.end:
            return -1
        self.reader.open(frame.data, at, at + 2)
        return self.reader.u16()

    @compiled
    def _ends_early(self, frame: Frame) -> cython.bint:
        """Not even the size of the metadata is there, though the frame may be whole. False."""
        if frame.complete:
            self.defect = "The frame ends before the message metadata"
        return False

    @property
    def offset(self) -> int:
        """Stream offset of the entry's first byte."""
        return int(self.frame.offset + self.at - self.frame.start)

    # --- what the metadata say; times are ns, and ABSENT where no record can hold them ---

    @compiled
    def published_ns(self) -> cython.longlong:
        """When its producer published it."""
        return ns_of(self.meta.number(META_PUBLISH_TIME, 0))

    @compiled
    def broker_ns(self) -> cython.longlong:
        """When the broker received it, if that says so."""
        return ns_of(self.broker.number(BROKER_BROKER_TIMESTAMP, -1)) if self.has_broker else ABSENT

    @compiled
    def broker_index(self) -> cython.longlong:
        """The number of its last message in the partition; ABSENT where the broker gave none."""
        index: cython.longlong = self.broker.number(BROKER_INDEX, -1) if self.has_broker else -1
        return ABSENT if index < 0 else index

    @compiled
    def codec(self) -> cython.longlong:
        """Number of the codec; it may be none of CODECS."""
        return self.meta.number(META_COMPRESSION, 0)


@compiled
def ns_of(ms: cython.longlong) -> cython.longlong:
    """A time of metadata (ms since the epoch) in ns; ABSENT for one that no record can hold."""
    return ms * MS if 0 <= ms <= LATEST_MS else ABSENT


@compiled
def records(meta: MessageFields) -> cython.longlong:
    """Messages in an entry, as the application counts them: a chunk counts where it completes its message."""
    count: cython.longlong
    if meta.has(META_NUM_MESSAGES_IN_BATCH):
        if meta.has(META_COMPACTED_BATCH_INDEXES):
            return len(meta.integers(META_COMPACTED_BATCH_INDEXES))
        count = meta.number(META_NUM_MESSAGES_IN_BATCH, 0)
        return count if count > 0 else 0
    if meta.has(META_MARKER_TYPE):
        return 0
    if meta.has(META_NUM_CHUNKS_FROM_MSG):
        return meta.number(META_CHUNK_ID, 0) + 1 == meta.number(META_NUM_CHUNKS_FROM_MSG, 0)
    return 1


@compiled
def is_chunk(meta: MessageFields) -> cython.bint:
    """Whether an entry is a piece of a message."""
    return meta.has(META_NUM_CHUNKS_FROM_MSG)


def key_name(data: bytes, start: int, end: int) -> str:
    """The name of the public key in EncryptionKeys that lie in data[start:end]."""
    key = MessageFields(WireReader())
    key.read(KEYS, data, start, end)
    return key.text(KEY_KEY) or ""


def unpacked(meta: MessageFields, payload: bytes, limit: int) -> bytes:
    """The payload, decompressed. Raises CodecError."""
    if not meta.number(META_COMPRESSION, 0):
        return payload
    return decompress(_codec(meta), payload, limit=limit, size=meta.number(META_UNCOMPRESSED_SIZE, 0))


@compiled
def unpacked_size(meta: MessageFields, payload: bytes, limit: cython.longlong) -> cython.longlong:
    """Bytes of a compressed payload, decompressed. Raises CodecError."""
    return decompressed_size(_codec(meta), payload, limit, meta.number(META_UNCOMPRESSED_SIZE, 0))


@compiled
def _codec(meta: MessageFields) -> str:
    """The codec of a compressed payload. Raises CodecError."""
    number = meta.number(META_COMPRESSION, 0)
    if number not in CODECS:
        raise CodecError(f"unknown codec {number}")
    return CODECS[number]


def position(ledger: int, entry: int) -> str | None:
    """`ledger:entry`; None where the broker gave none: ABSENT, or -1 for a duplicate that it dropped."""
    return None if ledger == ABSENT or (ledger == -1 and entry == -1) else f"{ledger}:{entry}"


class Single(NamedTuple):
    """One message of an entry. `start` and `end` are indices in the decompressed payload."""

    number: int | None  # in its batch; None where the entry is no batch
    meta: MessageFields  # SingleMessageMetadata in a batch, valid until the next; else MessageMetadata
    start: int
    end: int


def singles(meta: MessageFields, payload: bytes) -> Iterator[Single]:
    """The messages of a decompressed payload. Raises MalformedEntryError.

    Of a batch that was compacted the metadata may list the places of the survivors. It then holds these alone, or all
    its messages, with empty ones in the other places.
    """
    if not meta.has(META_NUM_MESSAGES_IN_BATCH):
        yield Single(None, meta, 0, len(payload))
        return
    count = meta.number(META_NUM_MESSAGES_IN_BATCH, 0)
    survivors = meta.integers(META_COMPACTED_BATCH_INDEXES)
    numbers: Sequence[int] = range(count)
    if survivors and sum(1 for _ in _walk(payload, count, len(survivors))) < count:
        numbers = survivors
    for number, (single, start, end) in zip(numbers, _walk(payload, count, len(survivors)), strict=False):
        yield Single(number, single, start, end)


def _walk(data: bytes, count: int, enough: int) -> Iterator[tuple[MessageFields, int, int]]:
    """(SingleMessageMetadata, start, end) of each message of a batch. It may end after `enough` of them, if not 0."""
    at, end = 0, len(data)
    single = MessageFields(WireReader())
    for i in range(count):
        if i and i == enough and at == end:
            return
        begin = at + 4
        after = begin + int.from_bytes(data[at:begin], "big")
        if after > end:
            raise MalformedEntryError(f"Message {i} of {count} in a batch goes beyond it")
        if not single.read(SINGLE, data, begin, after):
            raise MalformedEntryError(f"The metadata of message {i} of {count} in a batch is no protobuf message")
        size = single.number(SINGLE_PAYLOAD_SIZE, -1)
        if size < 0 or after + size > end:
            raise MalformedEntryError(f"Message {i} of {count} in a batch goes beyond it")
        at = after + size
        yield single, after, at


def delivered(words: Sequence[int], number: int | None) -> bool:
    """Whether an ack set (words of 64 bits, a set bit is a message still to be delivered) lets a message through."""
    if not words or number is None:
        return True
    word = number >> 6
    return word < len(words) and bool(words[word] >> (number & 63) & 1)


def still_to_deliver(words: Sequence[int], count: int) -> int:
    """How many of a batch's first `count` messages an ack set lets through."""
    return sum(
        (words[i] & (1 << min(64, count - 64 * i)) - 1).bit_count() for i in range(min(len(words), -(-count // 64)))
    )


_entries: PerThread = PerThread(PulsarEntry)


@compiled
def entry_of(frame: Frame, after: cython.Py_ssize_t, limit: cython.longlong) -> PulsarEntry:
    """The entry behind a command that ends at index `after`, read by this thread's reader: valid until the next."""
    entry: PulsarEntry = _entries.get()
    entry.read(frame, after, limit)
    return entry
