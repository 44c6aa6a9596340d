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

from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from dissectors.frame import Frame
from dissectors.pulsar import api
from dissectors.pulsar.errors import unknown_number
from dissectors.wire.codecs import CodecError, decompress

BROKER_ENTRY_MAGIC = b"\x0e\x02"
CHECKSUM_MAGIC = b"\x0e\x01"

CODECS = {1: "lz4-block", 2: "zlib", 3: "zstd", 4: "snappy"}
CODEC_NAMES = {0: "none", 1: "lz4", 2: "zlib", 3: "zstd", 4: "snappy"}
MS = 1_000_000  # ns, of the times in metadata

_Metadata = api.MessageMetadata
_BrokerEntry = api.BrokerEntryMetadata
_Single = api.SingleMessageMetadata


class MalformedEntryError(ValueError):
    """The bytes are not what their sizes say."""


class PulsarEntry(NamedTuple):
    """Where the parts of an entry are in frame.data, and its metadata as far as it is there."""

    at: int  # the first byte that the broker stores: checksum magic, or metadata size
    covered: int  # the first byte that the checksum covers
    stored: int | None  # the checksum
    marked: bool  # whether the bytes are there that say if there is a checksum
    meta: Any  # None where its bytes are missing or malformed
    payload: int
    broker: Any  # BrokerEntryMetadata, where present
    defect: str | None


def read(frame: Frame, after: int, limit: int) -> PulsarEntry:
    """The entry that follows a command which ends at index `after`; its metadata of at most `limit` bytes."""
    data, known, stop = frame.data, frame.known, frame.start + frame.size
    at, broker, stored = after, None, None
    if data[at : at + 2] == BROKER_ENTRY_MAGIC:
        begin = at + 6
        if begin > known:
            return _ends_early(at, known == stop, None)
        at = begin + int.from_bytes(data[at + 2 : begin], "big")
        if at > stop:
            return PulsarEntry(
                after, after, None, False, None, stop, None, "Broker entry metadata goes beyond the frame"
            )
        if at > known:
            return _ends_early(at, False, None)
        try:
            broker = _BrokerEntry.FromString(data[begin:at])
        except DecodeError:
            return PulsarEntry(at, at, None, False, None, stop, None, "Broker entry metadata is no protobuf message")
    covered = at
    if data[at : at + 2] == CHECKSUM_MAGIC:
        covered = at + 6
        if covered > known:
            return _ends_early(at, known == stop, broker)
        stored = int.from_bytes(data[at + 2 : covered], "big")
    begin = covered + 4
    if begin > known:
        return _ends_early(at, known == stop, broker)._replace(covered=covered, stored=stored)
    payload = begin + int.from_bytes(data[covered:begin], "big")
    if payload > stop:
        return PulsarEntry(at, covered, stored, True, None, stop, broker, "Message metadata goes beyond the frame")
    if payload > known:
        return PulsarEntry(at, covered, stored, True, None, payload, broker, None)
    if payload - begin > limit:
        defect = f"Message metadata of {payload - begin} bytes is not decoded"
        return PulsarEntry(at, covered, stored, True, None, payload, broker, defect)
    try:
        meta = _Metadata.FromString(data[begin:payload])
    except DecodeError:
        return PulsarEntry(at, covered, stored, True, None, payload, broker, "Message metadata is no protobuf message")
    return PulsarEntry(at, covered, stored, True, meta, payload, broker, None)


def _ends_early(at: int, whole: bool, broker: Any) -> PulsarEntry:
    """An entry of which not even the metadata's size is there, though the frame may be whole."""
    return PulsarEntry(
        at, at, None, False, None, at, broker, "The frame ends before the message metadata" if whole else None
    )


def records(meta: Any) -> int:
    """Messages in an entry, as the application counts them: a chunk counts where it completes its message."""
    if meta.HasField("num_messages_in_batch"):
        survivors = len(meta.compacted_batch_indexes)
        return survivors or max(0, meta.num_messages_in_batch)
    if meta.HasField("marker_type"):
        return 0
    if meta.HasField("num_chunks_from_msg"):
        return int(meta.chunk_id + 1 == meta.num_chunks_from_msg)
    return 1


def is_chunk(meta: Any) -> bool:
    return bool(meta.HasField("num_chunks_from_msg"))


def codec(meta: Any, size: int) -> int:
    """Number of the codec. `size`: bytes of the payload."""
    number = int(meta.compression)
    if not number and meta.uncompressed_size not in (0, size) and not meta.HasField("compression"):
        return unknown_number(meta, 8) or 0  # one that is newer than the schema
    return number


def unpacked(meta: Any, number: int, payload: bytes | memoryview, limit: int) -> bytes | memoryview:
    """The payload, decompressed. Raises CodecError."""
    if not number:
        return payload
    if number not in CODECS:
        raise CodecError(f"unknown codec {number}")
    return decompress(CODECS[number], payload, limit=limit, size=meta.uncompressed_size)


class Single(NamedTuple):
    """One message of an entry. `start` and `end` are indices in the decompressed payload."""

    number: int | None  # in its batch; None where the entry is no batch
    meta: Any  # SingleMessageMetadata in a batch, else MessageMetadata
    start: int
    end: int


def singles(meta: Any, payload: bytes | memoryview) -> Iterator[Single]:
    """The messages of a decompressed payload. Raises MalformedEntryError.

    Of a batch that was compacted the metadata may list the places of the survivors. It then holds these alone, or all
    its messages, with empty ones in the other places.
    """
    if not meta.HasField("num_messages_in_batch"):
        yield Single(None, meta, 0, len(payload))
        return
    count, survivors = meta.num_messages_in_batch, meta.compacted_batch_indexes
    if not survivors:
        for i, (single, start, end) in enumerate(_walk(payload, count, 0)):
            yield Single(i, single, start, end)
        return
    found = list(_walk(payload, count, len(survivors)))
    numbers = survivors if len(found) < count else range(count)
    for number, (single, start, end) in zip(numbers, found, strict=True):
        yield Single(number, single, start, end)


def _walk(payload: bytes | memoryview, count: int, enough: int) -> Iterator[tuple[Any, int, int]]:
    """(SingleMessageMetadata, start, end) of each message of a batch. It may end after `enough` of them, if not 0."""
    at, end = 0, len(payload)
    for i in range(count):
        if i and i == enough and at == end:
            return
        begin = at + 4
        after = begin + int.from_bytes(payload[at:begin], "big")
        if after > end:
            raise MalformedEntryError(f"Message {i} of {count} in a batch goes beyond it")
        try:
            single = _Single.FromString(bytes(payload[begin:after]))
        except DecodeError:
            raise MalformedEntryError(
                f"The metadata of message {i} of {count} in a batch is no protobuf message"
            ) from None
        size = single.payload_size
        if size < 0 or after + size > end or not single.HasField("payload_size"):
            raise MalformedEntryError(f"Message {i} of {count} in a batch goes beyond it")
        at = after + size
        yield single, after, at


def delivered(words: Any, number: int | None) -> bool:
    """Whether an ack set (words of 64 bits, a set bit is a message still to be delivered) lets a message through."""
    if not words or number is None:
        return True
    word = number >> 6
    return word < len(words) and bool(words[word] >> (number & 63) & 1)


def still_to_deliver(words: Any, count: int) -> int:
    """How many of a batch's first `count` messages an ack set lets through."""
    return sum(
        (words[i] & (1 << min(64, count - 64 * i)) - 1).bit_count() for i in range(min(len(words), -(-count // 64)))
    )
