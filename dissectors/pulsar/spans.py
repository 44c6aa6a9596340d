"""What the bytes of a frame of Pulsar are: as the schema of its command says.

sizes, tags, numbers       structure
strings                    names; but versions of clients and brokers and the method of a login are no secret, and the
                           property by which receipts name what a replicator sent is two numbers
bytes                      keys; but versions of schemas are numbers
unknown fields             data
payload                    data; metadata of a batch's messages as that of commands. Chunks and encrypted payloads are
                           data as a whole
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dissectors.checksum import CRC32C
from dissectors.pulsar import api
from dissectors.pulsar.batches import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC, CODECS, METADATA, MalformedEntryError, singles
from dissectors.pulsar.fields import (
    META_COMPRESSION,
    META_ENCRYPTION_KEYS,
    META_NUM_CHUNKS_FROM_MSG,
    META_UNCOMPRESSED_SIZE,
)
from dissectors.pulsar.replication import position_in
from dissectors.pulsar.schemas import VERSION_BYTES
from dissectors.session.spans import Answered, FrameSpans, SpanVisitor, covered
from dissectors.wire.protobuf import BYTES, MessageFields, WireField, fields
from dissectors.wire.reader import WireReader

_KEPT = frozenset({"client_version", "server_version", "proxy_version", "auth_method_name", "encryption_algo"})
_MESSAGES = api.DESCRIPTOR.message_types_by_name
_SIZES = 8  # bytes of the sizes of frame and command


class PulsarSpans(FrameSpans):
    """Tells of frames, each by itself."""

    def frame(self, visitor: SpanVisitor, direction: int, answered: Answered) -> None:
        visitor.head(_SIZES)
        after = _sized(visitor, _SIZES - 4, "BaseCommand")
        if after < len(visitor.source):
            _entry(visitor, after)


def _entry(visitor: SpanVisitor, at: int) -> None:
    """Tell of an entry, which follows a command: see batches.py."""
    data, end = visitor.source, len(visitor.source)
    if _magic(data, at) == BROKER_ENTRY_MAGIC:
        visitor.keep(at, at + 2)
        at = _sized(visitor, at + 2, "BrokerEntryMetadata")
    begin, marked = at, _magic(data, at) == CHECKSUM_MAGIC
    if marked:
        visitor.keep(at, at + 2)
        begin = at + 6
    payload = _sized(visitor, begin, "MessageMetadata")
    visitor.data(payload, end)
    if not visitor.complete:
        if marked and visitor.whole(at, begin):
            visitor.unverifiable(at + 2, begin)
        return
    meta = MessageFields(WireReader())
    if meta.read(METADATA, data, begin + 4, payload) and not (
        meta.has(META_ENCRYPTION_KEYS) or meta.has(META_NUM_CHUNKS_FROM_MSG)
    ):
        codec, size = meta.number(META_COMPRESSION, 0), meta.number(META_UNCOMPRESSED_SIZE, 0)
        name = CODECS.get(codec, "unknown") if codec else "none"
        visitor.packed(name, payload, end, partial(_messages, meta), size=size)
    if marked:
        visitor.checksum(CRC32C, at + 2, begin, covered((begin, end)))


def _messages(meta: MessageFields, visitor: SpanVisitor) -> None:
    """Tell of the messages of an entry; what is no message of a batch is data too."""
    at = 0
    try:
        for single in singles(meta, visitor.source):
            if single.number is not None:
                visitor.keep(at, at + 4)
                _message(visitor, at + 4, single.start, _MESSAGES["SingleMessageMetadata"])
            visitor.data(single.start, single.end)
            at = single.end
    except MalformedEntryError:
        pass
    visitor.data(at, len(visitor.source))


def _magic(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


def _sized(visitor: SpanVisitor, at: int, message: str) -> int:
    """Tell of a message behind its size, as far as it was captured; the index after it."""
    start = at + 4
    visitor.keep(at, start)
    end = start + int.from_bytes(visitor.source[at:start], "big")
    _message(visitor, start, min(end, visitor.first_hole(start)), _MESSAGES[message])
    visitor.need(start, end)
    return end


def _message(visitor: SpanVisitor, start: int, end: int, descriptor: Any) -> None:
    """Tell of a message of the schema, or of its captured beginning."""
    known = {field.number: field for field in descriptor.fields}
    is_position = descriptor.name == "KeyValue" and position_in(visitor.source, start, end) is not None
    at = start
    for found in fields(visitor.source, start, end, cut=True):
        field, stop = known.get(found.number), min(found.end, end)
        visitor.keep(at, found.start)  # tag and length
        at = stop
        if field is not None and found.kind == BYTES and field.message_type is not None:
            _message(visitor, found.start, stop, field.message_type)
        else:
            tell = visitor.keep if is_position and field is not None else _value(visitor, end, found, field)
            tell(found.start, stop)
    visitor.data(at, end)


def _value(visitor: SpanVisitor, end: int, found: WireField, field: Any) -> Callable[[int, int], None]:
    """How a value is told that is no message."""
    if found.kind != BYTES or (field is not None and field.name in _KEPT):
        return visitor.keep
    if field is None or found.end > end:
        return visitor.data  # a pseudonym of a part would be another than the whole's
    if field.type == field.TYPE_STRING:
        return visitor.name
    is_version = field.name == "schema_version" and found.end - found.start == VERSION_BYTES
    return visitor.key if field.type == field.TYPE_BYTES and not is_version else visitor.keep  # packed numbers
