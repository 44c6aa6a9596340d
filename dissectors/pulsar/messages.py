"""The messages of an entry, as rows of `messages`: one of a batch each, or one that came whole or in chunks."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from dissectors.pulsar import api, batches
from dissectors.pulsar.batches import MS, MalformedEntryError, PulsarEntry, Single, is_chunk, position
from dissectors.pulsar.chunks import Chunks
from dissectors.pulsar.fields import (
    META_CHUNK_ID,
    META_ENCRYPTION_KEYS,
    META_MARKER_TYPE,
    META_NUM_CHUNKS_FROM_MSG,
    META_NUM_MESSAGES_IN_BATCH,
    META_PRODUCER_NAME,
    META_SCHEMA_VERSION,
    META_SEQUENCE_ID,
    META_TOTAL_CHUNK_MSG_SIZE,
    META_UNCOMPRESSED_SIZE,
    PAIR_KEY,
    PAIR_VALUE,
    SINGLE_COMPACTED_OUT,
    SINGLE_SEQUENCE_ID,
)
from dissectors.pulsar.pending import Columns
from dissectors.pulsar.schemas import schema_version
from dissectors.pulsar.secrets import property_value
from dissectors.rows.layout import ABSENT
from dissectors.rows.trace_ids import HEADER, trace_id
from dissectors.session.conversation import Conversation
from dissectors.wire.protobuf import MessageFields
from dissectors.wire.reader import WireReader

Unpack = Callable[[PulsarEntry, bytes], bytes | None]
ReportFinding = Callable[[PulsarEntry, str, str], None]

_PAIR = api.shape("KeyValue")


class OwnFields(NamedTuple):
    """The numbers of the fields that a message has of its own: in its metadata, or in its place in a batch."""

    properties: int
    partition_key: int
    event_time: int
    partition_key_b64_encoded: int
    ordering_key: int
    null_value: int
    null_partition_key: int


def _own_fields(message: str) -> OwnFields:
    fields = api.DESCRIPTOR.message_types_by_name[message].fields_by_name
    return OwnFields(*(fields[name].number for name in OwnFields._fields))


_ALONE, _IN_BATCH = _own_fields("MessageMetadata"), _own_fields("SingleMessageMetadata")


class MessageRows:
    """Reads the messages in the entries of one connection."""

    def __init__(self, conversation: Conversation, unpack: Unpack, finding: ReportFinding) -> None:
        limits = conversation.options.limits
        self._most = limits.pending  # messages of one batch
        self._sink = conversation.sink
        self._payloads = conversation.sink.payloads
        self.chunks = Chunks(limits.decompressed_bytes)
        self._unpack = unpack
        self._finding = finding

    def count(self, entry: PulsarEntry) -> int:
        """Messages that a compacted entry still holds, and that are still to be delivered."""
        here = (single for single in self._singles(entry) if not _compacted_out(single))
        return sum(batches.delivered(entry.to_deliver, single.number) for single in here)

    def rows(self, entry: PulsarEntry) -> Iterator[Columns]:
        """One row a message. Before a receipt, `position` is what will follow ledger and entry."""
        meta = entry.meta
        if not entry.has_meta or meta.has(META_MARKER_TYPE):
            return
        if is_chunk(meta):
            whole = self.chunks.add(entry)
            if meta.number(META_CHUNK_ID, 0) + 1 != meta.number(META_NUM_CHUNKS_FROM_MSG, 0):
                return
            if whole is not None and entry.codec():
                whole = self._unpack(entry, whole)
            announced = meta.number(META_UNCOMPRESSED_SIZE, 0) or max(0, meta.number(META_TOTAL_CHUNK_MSG_SIZE, 0))
            size = announced if whole is None else len(whole)
            yield self._row(entry, Single(None, meta, 0, size), whole)
        elif entry.plain is None:
            if not meta.has(META_NUM_MESSAGES_IN_BATCH):
                packed = entry.codec() or meta.has(META_ENCRYPTION_KEYS)
                size = meta.number(META_UNCOMPRESSED_SIZE, 0) if packed else max(entry.request.payload_bytes, 0)
                yield self._row(entry, Single(None, meta, 0, size), None)
        else:
            for single in self._singles(entry):
                if not _compacted_out(single) and batches.delivered(entry.to_deliver, single.number):
                    yield self._row(entry, single, entry.plain)

    def _singles(self, entry: PulsarEntry) -> Iterator[Single]:
        """The messages of an entry, each valid until the next; as many as can be read of one that is malformed."""
        plain = entry.plain or b""
        places = max(1, entry.meta.number(META_NUM_MESSAGES_IN_BATCH, 1))
        most = self._sink.unfold(len(plain), min(self._most, places))
        count = 0
        try:
            for single in islice(batches.singles(entry.meta, plain), most):
                count += 1
                yield single
        except MalformedEntryError as trouble:
            self._finding(entry, "malformed_frame", str(trouble))
        else:
            if count == most < places:
                self._finding(entry, "limit", f"Of {places} messages of a batch only {most} are read")

    def _row(self, entry: PulsarEntry, single: Single, data: bytes | None) -> Columns:
        own, index, topic = single.meta, single.number, entry.request.topic
        published_ns, broker_ns = entry.published_ns(), entry.broker_ns()
        field = _ALONE if index is None else _IN_BATCH
        sequence = entry.meta.number(META_SEQUENCE_ID, 0)
        suffix = ""
        if index is not None:
            sequence = own.number(SINGLE_SEQUENCE_ID, sequence + index)
            suffix = f":{index}"
        key = _key(own, field)
        shown = self._payloads
        is_null = bool(own.number(field.null_value, 0))
        value = data[single.start : single.end] if shown and data is not None and not is_null else None
        place = position(entry.ledger, entry.entry)
        event_ms = own.number(field.event_time, 0)
        properties = own.each(field.properties)
        return {
            "role": entry.role,
            "topic": None if topic is None else topic.name,
            "partition": None if topic is None else topic.partition,
            "position": suffix if place is None else place + suffix,
            "timestamp": None if published_ns == ABSENT else published_ns,
            "event_time": event_ms * MS if event_ms > 0 else None,
            "sequence": sequence,
            "producer": entry.meta.text(META_PRODUCER_NAME) or "",
            "key_bytes": None if key is None else len(key),
            "value_bytes": None if is_null else single.end - single.start,
            "header_count": len(properties),
            "header_bytes": sum(end - start for start, end in properties),
            "key": key if shown else None,
            "value": value,
            "headers": _headers(own, properties) if shown else None,
            "time": entry.time,
            "packet_ref": entry.packet_ref,
            "stream_offset": entry.offset,
            "ordering_key": own.octets(field.ordering_key) if shown else None,
            "broker_timestamp": None if broker_ns == ABSENT else broker_ns,
            "broker_index": _broker_index(entry, index),
            "schema_version": schema_version(entry.meta.octets(META_SCHEMA_VERSION)),
            "trace_id": _trace_id(own, properties),
        }


def within(position: str | None, suffix: str | None) -> str | None:
    """`ledger:entry` and `:batch index` as one."""
    return None if position is None else position + (suffix or "")


def _broker_index(entry: PulsarEntry, number: int | None) -> int | None:
    """The number of a message in its partition; None where the broker gave none. number: its place in its batch.

    A broker gives the number of the last message of an entry.
    """
    last = entry.broker_index()
    if last == ABSENT:
        return None
    after = 0 if number is None else entry.meta.number(META_NUM_MESSAGES_IN_BATCH, 0) - 1 - number
    return last - after if 0 <= after <= last else None


def _compacted_out(single: Single) -> bool:
    """Whether compaction took the message away and left its empty place in the batch."""
    return single.number is not None and bool(single.meta.number(SINGLE_COMPACTED_OUT, 0))


def _key(own: MessageFields, field: OwnFields) -> bytes | None:
    key = own.octets(field.partition_key)
    if key is None or own.number(field.null_partition_key, 0):
        return None
    if own.number(field.partition_key_b64_encoded, 0):
        try:
            return base64.b64decode(key, validate=True)
        except binascii.Error:
            return key
    return key


def _pairs(own: MessageFields, properties: list[tuple[int, int]]) -> Iterator[tuple[str, str]]:
    """Names and values of properties."""
    pair = MessageFields(WireReader())
    for start, end in properties:
        pair.read(_PAIR, own.data, start, end)
        yield pair.text(PAIR_KEY) or "", pair.text(PAIR_VALUE) or ""


def _trace_id(own: MessageFields, properties: list[tuple[int, int]]) -> str | None:
    return next((trace_id(value) for name, value in _pairs(own, properties) if name == HEADER), None)


def _headers(own: MessageFields, properties: list[tuple[int, int]]) -> str:
    """Properties as JSON."""
    shown = {name: property_value(name, value) for name, value in _pairs(own, properties)}
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
