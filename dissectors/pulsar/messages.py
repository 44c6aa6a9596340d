"""The messages of an entry, as rows of `messages`: one of a batch each, or one that came whole or in chunks."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from dissectors.conversation import Conversation
from dissectors.pulsar import batches
from dissectors.pulsar.api import text
from dissectors.pulsar.batches import MS, MalformedEntryError, Single
from dissectors.pulsar.chunks import Chunks
from dissectors.pulsar.emit import signed
from dissectors.pulsar.entry_view import EntryView
from dissectors.pulsar.pending import Columns
from dissectors.pulsar.secrets import property_value

Unpack = Callable[[EntryView, memoryview], "bytes | memoryview | None"]
ReportFinding = Callable[[EntryView, str, str], None]


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

    def count(self, view: EntryView) -> int:
        """Messages that a compacted entry still holds, and that are still to be delivered."""
        words = view.still_to_deliver
        here = (single for single in self._singles(view) if not _compacted_out(single))
        return sum(batches.delivered(words, single.number) for single in here)

    def rows(self, view: EntryView, batch: Columns) -> Iterator[Columns]:
        """One row a message. Before a receipt, `position` is what will follow ledger and entry."""
        meta = view.meta
        if meta is None or batch["control"]:
            return
        if batches.is_chunk(meta):
            whole: bytes | memoryview | None = self.chunks.add(view)
            if meta.chunk_id + 1 != meta.num_chunks_from_msg:
                return
            if whole is not None and view.codec:
                whole = self._unpack(view, memoryview(whole))
            size = len(whole) if whole is not None else meta.uncompressed_size or max(0, meta.total_chunk_msg_size)
            yield self._row(view, batch, Single(None, meta, 0, size), whole)
        elif view.plain is None:
            if not meta.HasField("num_messages_in_batch"):
                packed = view.codec or meta.encryption_keys
                size = meta.uncompressed_size if packed else max(view.request.payload_bytes, 0)
                yield self._row(view, batch, Single(None, meta, 0, size), None)
        else:
            words = view.still_to_deliver
            for single in self._singles(view):
                if not _compacted_out(single) and batches.delivered(words, single.number):
                    yield self._row(view, batch, single, view.plain)

    def _singles(self, view: EntryView) -> list[Single]:
        """The messages of an entry; as many as can be read of one that is malformed."""
        out: list[Single] = []
        try:
            plain = view.plain or b""
            places = max(1, view.meta.num_messages_in_batch)
            most = self._sink.unfold(len(plain), min(self._most, places))
            out.extend(islice(batches.singles(view.meta, plain), most))
            if len(out) == most < places:
                self._finding(view, "limit", f"Of {places} messages of a batch only {most} are read")
        except MalformedEntryError as trouble:
            self._finding(view, "malformed_frame", str(trouble))
        return out

    def _row(self, view: EntryView, batch: Columns, single: Single, data: bytes | memoryview | None) -> Columns:
        meta, own, index = view.meta, single.meta, single.number
        sequence = meta.sequence_id
        if index is not None:
            sequence = own.sequence_id if own.HasField("sequence_id") else sequence + index
        suffix = "" if index is None else f":{index}"
        key = _key(own)
        shown = self._payloads
        value = bytes(data[single.start : single.end]) if shown and data is not None and not own.null_value else None
        return {
            "role": view.role,
            "topic": batch["topic"],
            "partition": batch["partition"],
            "position": suffix if view.position is None else view.position + suffix,
            "timestamp": batch["first_timestamp"],
            "event_time": own.event_time * MS if own.event_time else None,
            "sequence": signed(sequence),
            "producer": batch["producer"],
            "key_bytes": None if key is None else len(key),
            "value_bytes": None if own.null_value else single.end - single.start,
            "header_count": len(own.properties),
            "header_bytes": sum(len(pair.SerializePartialToString()) for pair in own.properties),
            "key": key if shown else None,
            "value": value,
            "headers": _headers(own) if shown else None,
            "time": view.time,
            "packet_ref": view.packet_ref,
            "stream_offset": view.offset,
            "ordering_key": bytes(own.ordering_key) if shown and own.HasField("ordering_key") else None,
        }


def within(position: str | None, suffix: str | None) -> str | None:
    """`ledger:entry` and `:batch index` as one."""
    return None if position is None else position + (suffix or "")


def _compacted_out(single: Single) -> bool:
    """Whether compaction took the message away and left its empty place in the batch."""
    return single.number is not None and bool(single.meta.compacted_out)


def _key(own: Any) -> bytes | None:
    if own.null_partition_key or not own.HasField("partition_key"):
        return None
    value = own.partition_key
    key = value if isinstance(value, bytes) else value.encode()
    if own.partition_key_b64_encoded:
        try:
            return base64.b64decode(key, validate=True)
        except binascii.Error:
            return key
    return key


def _headers(own: Any) -> str:
    """Properties as JSON."""
    shown = {}
    for pair in own.properties:
        key = text(pair.key)
        shown[key] = property_value(key, text(pair.value))
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
