"""What the bytes of a frame of Kafka are: as the schema of its message says.

numbers, lengths, counts   structure
text                       names; but the name and version of the client's library are no secret
uuid                       ids
bytes                      data, but for the subscriptions and assignments of consumers, which are messages
record sets                headers of batches are structure; keys of records are keys, and so are those of their
                           headers; values are data. Records of control batches are the brokers' own: structure
unknown tagged fields      data
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dissectors.checksum import CRC32, CRC32C
from dissectors.kafka import nested, schema
from dissectors.kafka.batches import CRC_AT, KEEPS_LENGTH, KEY_AT, MESSAGE
from dissectors.kafka.decode import API_VERSIONS, REQUEST_HEAD, SASL_HANDSHAKE, UNSUPPORTED_VERSION, api_version
from dissectors.kafka.frames import APPENDED, HEAD, HEAD_BYTES, SIZE_BYTES, plausible_request
from dissectors.kafka.full import UNKNOWN, visit
from dissectors.kafka.record_batch import CODEC_BITS, CODECS, CONTROL_BIT, COVERED_FROM, HEADER_BYTES
from dissectors.session.spans import Answered, FrameSpans, SpanVisitor, covered
from dissectors.tcp.chunk import CLIENT
from dissectors.wire.reader import EndsEarlyError, ReadError, WireReader
from dissectors.wire.varint import zigzag

_SOFTWARE = frozenset({"clientSoftwareName", "clientSoftwareVersion"})
_MAGIC_END = 17  # bytes of a batch or message up to its magic
_SMALLEST = 26  # bytes of a message of magic 0 without key and value


class KafkaSpans(FrameSpans):
    """Tells of the frames of one connection."""

    def __init__(self) -> None:
        self._raw_sasl = False
        self._bare_tokens = 0  # of the client, that wait for the broker's
        self._visitor: SpanVisitor | None = None
        self._batches: set[int] = set()  # index of each batch that the visitor was told of

    def frame(self, visitor: SpanVisitor, direction: int, answered: Answered) -> None:
        if direction == CLIENT:
            self._request(visitor)
        else:
            self._response(visitor, answered)

    def _request(self, visitor: SpanVisitor) -> None:
        data, end = visitor.source, len(visitor.source)
        if self._raw_sasl:
            if not plausible_request(data, 0, end):
                self._bare_tokens += 1
                visitor.head(SIZE_BYTES)
                return
            self._raw_sasl = False
        visitor.head(HEAD_BYTES - 2)
        _, key, version, _, client = REQUEST_HEAD.unpack(data[:HEAD].ljust(HEAD, b"\0"))
        api = api_version(key, version)
        self._raw_sasl = key == SASL_HANDSHAKE and version == 0
        at = HEAD_BYTES - 2
        if api.has_client_id:
            visitor.keep(at, HEAD_BYTES)
            at = HEAD_BYTES + max(0, client)
            visitor.name(HEAD_BYTES, at)
        if api.known:
            self._body(visitor, f"{api.name}Request", version, at, tags=api.request_tags)

    def _response(self, visitor: SpanVisitor, answered: Answered) -> None:
        if self._bare_tokens:
            self._bare_tokens -= 1
            visitor.head(SIZE_BYTES)
            return
        r = WireReader()
        r.open(visitor.source, SIZE_BYTES, len(visitor.source))
        request = answered(r.i32()) if r.left() >= SIZE_BYTES else None
        visitor.head(2 * SIZE_BYTES)
        if request is None or request[1] is None:
            return
        key, version = request[0], request[1]
        api = api_version(key, version)
        if not api.known:
            return
        if key == API_VERSIONS and r.left() >= 2 and r.i16() == UNSUPPORTED_VERSION:
            version = 0
        self._body(visitor, f"{api.name}Response", version, 2 * SIZE_BYTES, tags=api.response_tags)

    def _body(self, visitor: SpanVisitor, message: str, version: int, at: int, *, tags: bool) -> None:
        """Tell of a body, if its schema reads it to its end."""
        told = partial(self._value, visitor, message)
        try:
            fits = visitor.size - visit(message, version, visitor.source, at, visitor.size, told, tags=tags) <= APPENDED
        except ReadError:
            fits = not visitor.complete
        if not fits:
            visitor.blank(at, len(visitor.source))  # numbers may have been read where none are

    def _value(self, visitor: SpanVisitor, message: str, name: str, type: str, start: int, end: int) -> None:
        """Tell of one value of a message."""
        if type == "uuid":
            visitor.uuid(start, end)
        elif type == "string" and name not in _SOFTWARE:
            visitor.name(start, end)
        elif type == "records":
            if end > visitor.size:
                raise EndsEarlyError("a record set beyond its frame")
            self._record_set(visitor, start, min(end, len(visitor.source)))
        elif type in ("bytes", UNKNOWN):
            visitor.need(start, end)
            inner = nested.VERSIONED.get((message, name))
            if inner is None or not visitor.part(start, end, partial(self._versioned, inner)):
                visitor.data(start, end)
        else:
            visitor.keep(start, end)

    def _versioned(self, message: str, visitor: SpanVisitor) -> None:
        """Tell of a message that begins with its version. Raises ReadError where the bytes are something else."""
        version = int.from_bytes(visitor.source[:2], "big", signed=True)
        visitor.keep(0, 2)
        if version not in schema.message(message).versions:
            raise ReadError(f"no version {version} of {message}")
        told = partial(self._value, visitor, message)
        if visit(message, version, visitor.source, 2, visitor.size, told) != visitor.size:
            raise ReadError("bytes are left")

    # --- record sets ---

    def batches(self, visitor: SpanVisitor, found: Sequence[tuple[int, int]]) -> None:
        told = self._batches if visitor is self._visitor else ()
        for at, size in found:
            if at not in told and visitor.whole(at, at + size):
                self._batch(visitor, at, at + size)

    def _record_set(self, visitor: SpanVisitor, start: int, end: int) -> None:
        """Tell of the batches of a record set, as far as they follow each other."""
        if visitor is not self._visitor:
            self._visitor, self._batches = visitor, set()
        at = start
        while at + _MAGIC_END <= end and visitor.whole(at, at + _MAGIC_END):
            size = KEEPS_LENGTH + int.from_bytes(visitor.source[at + 8 : at + KEEPS_LENGTH], "big", signed=True)
            if size < _SMALLEST:
                return
            self._batches.add(at)
            self._batch(visitor, at, min(at + size, end), cut=at + size > end)
            at += size

    def _batch(self, visitor: SpanVisitor, at: int, end: int, *, cut: bool = False) -> None:
        """Tell of one batch or message. cut: its end is not there."""
        data, magic = visitor.source, visitor.source[at + _MAGIC_END - 1]
        if magic not in CRC_AT:
            return
        head, crc = at + (HEADER_BYTES if magic == 2 else KEY_AT[magic]), at + CRC_AT[magic]
        if not visitor.whole(at, min(end, head)):
            return
        visitor.keep(at, min(end, head))
        if cut or end < head or not visitor.whole(at, end):
            visitor.unverifiable(crc, crc + 4)  # and it tells of the records
        elif magic == 2:
            attributes = data[at + COVERED_FROM + 1]
            if attributes & CONTROL_BIT:
                visitor.keep(head, end)
            else:
                visitor.packed(CODECS[attributes & CODEC_BITS], head, end, _records)
            visitor.checksum(CRC32C, crc, crc + 4, covered((at + COVERED_FROM, end)))
        else:
            _message(visitor, at, end)


def _message(visitor: SpanVisitor, at: int, end: int) -> None:
    """Tell of a message of magic 0 or 1 that is all there; it may hold others."""
    magic, attributes = visitor.source[at + 16 : at + 18]
    key = at + KEY_AT[magic] + 4
    value = key + max(0, int.from_bytes(visitor.source[key - 4 : key], "big", signed=True)) + 4
    if value > end:
        return
    visitor.keep(key - 4, key)
    visitor.key(key, value - 4)
    visitor.keep(value - 4, value)
    if attributes & CODEC_BITS:
        visitor.packed(CODECS[attributes & CODEC_BITS], value, end, _messages)
    else:
        visitor.data(value, end)
    crc = at + CRC_AT[magic]
    visitor.checksum(CRC32, crc, crc + 4, covered((crc + 4, end)))


def _messages(visitor: SpanVisitor) -> None:
    """Tell of the messages in a wrapper. Raises ReadError."""
    data, at = visitor.source, 0
    while at < len(data):
        end, magic = len(data) + 1, -1
        if at + MESSAGE.size <= len(data):
            _, size, _, magic, attributes = MESSAGE.unpack_from(data, at)
            end = at + KEEPS_LENGTH + size if not attributes & CODEC_BITS else end
        key = at + KEY_AT.get(magic, 0) + 4
        value = key + max(0, int.from_bytes(data[key - 4 : key], "big", signed=True)) + 4
        if magic not in KEY_AT or end > len(data) or value > end:
            if not at:
                raise ReadError("a wrapper that holds something else than messages")
            visitor.data(at, len(data))  # odd bytes behind the last message
            return
        visitor.keep(at, key - 4)
        _message(visitor, at, end)
        at = end


def _records(visitor: SpanVisitor) -> None:
    """Tell of the records of a batch of magic 2: see messages.py. Raises ReadError."""
    data, at = visitor.source, 0

    def pair(at: int, stop: int) -> int:
        """Tell of a key and a value, each behind its length; the index after them."""
        for tell in (visitor.key, visitor.data):
            size, start = zigzag(data, at)
            at = start + max(0, size)
            if at > stop:
                raise ReadError("a value beyond its record")
            tell(start, at)
        return at

    try:
        while at < len(data):
            first = at
            size, at = zigzag(data, at)
            stop = at + size
            if size < 6 or stop > len(data):
                raise ReadError("a record beyond its batch")
            visitor.keep(first, stop)
            _, at = zigzag(data, at + 1)
            _, at = zigzag(data, at)
            count, at = zigzag(data, pair(at, stop))
            for _ in range(count):
                at = pair(at, stop)
            if at != stop:
                raise ReadError("a record of another length")
    except IndexError:
        raise EndsEarlyError("a record ends early") from None
