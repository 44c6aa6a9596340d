"""Rows of `batches` and `messages`: what SEND and MESSAGE carry.

A consumed entry's rows are written at once. A produced entry has no position before its receipt: its rows wait with
the request, which is why they hold values and no buffer.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from dissectors import checksum
from dissectors.conversation import Conversation, Frame
from dissectors.pulsar import batches
from dissectors.pulsar.api import text
from dissectors.pulsar.batches import Entry, MalformedError, Single
from dissectors.pulsar.chunks import Chunks
from dissectors.pulsar.commands import SEND
from dissectors.pulsar.decode import REDACTED, Decoded, sensitive
from dissectors.pulsar.emit import signed
from dissectors.pulsar.errors import Fault
from dissectors.pulsar.match import Asked
from dissectors.pulsar.seen import Seen
from dissectors.pulsar.state import State
from dissectors.records import Batch, Message
from dissectors.wire.codecs import CodecError

FORMAT = "entry"
_MS = 1_000_000  # ns
_NONE = (1 << 64) - 1
_OPAQUE = 1000  # producers and consumers of which it is told that they encrypt


class Entries:
    """Reads the entries of one connection."""

    def __init__(self, talk: Conversation, state: State) -> None:
        self._talk = talk
        self._state = state
        self._sink = talk.sink
        tables = talk.sink.tables
        self._batches = "batches" in tables
        self._messages = "messages" in tables
        self._verify = self._batches or "findings" in tables
        self._chunks = Chunks(talk.options.limits.decompressed_bytes)
        self._opaque: set[tuple[int, int | None]] = set()  # producers and consumers whose payloads are encrypted
        self._held = 0  # bytes of values that wait for receipts
        self._overflowed = False

    def read(self, frame: Frame, decoded: Decoded, noted: Asked) -> Entry | None:
        """Look at the entry of a SEND or MESSAGE. Says on `noted` what its row needs; adds or prepares the rows."""
        if decoded.after > frame.known:
            return None
        entry = batches.read(frame, decoded.after, self._talk.options.limits.command_bytes)
        if entry.defect is not None:
            self._talk.finding_at(frame, "malformed_frame", "error", entry.defect, api=noted.api)
        elif entry.told:
            noted.payload_bytes = frame.start + frame.size - entry.payload
        if entry.meta is not None:
            noted.records = _count(entry.meta, _ack_set(decoded.body))
        compacted = noted.party is not None and noted.party.compacted
        if decoded.body is None or not (self._verify or self._messages or compacted):
            return entry
        seen = self._look(frame, entry, decoded, noted)
        if compacted and seen.plain is not None:
            noted.records = sum(1 for single in self._singles(seen) if not _gone(single))
        batch = self._batch(seen)
        messages = list(self._rows(seen, batch)) if self._messages and seen.meta is not None else []
        if noted.code == SEND:
            noted.batch, noted.messages = batch, self._hold(seen, messages)
        else:
            self._write(batch, messages)
        return entry

    def _hold(self, seen: Seen, messages: list[Message]) -> list[Message]:
        """Those that may wait for their receipt. Beyond a limit of values, rows are written without a place."""
        if not messages:
            return messages
        size = sum(len(message.value) for message in messages if message.value)
        if self._held + size <= self._talk.options.limits.held_bytes:
            self._held += size
            return messages
        if not self._overflowed:
            self._overflowed = True
            self._finding(
                seen, "limit", "Too many values wait for receipts: their messages have no position", severity="warning"
            )
        self._sink.messages += [message._replace(position=None) for message in messages]
        return []

    def settle(self, asked: Asked, told: Asked | None, fault: Fault | None) -> None:
        """Write the rows that waited for an answer. `told`: the answer, None where there is none."""
        batch = asked.batch
        if batch is None:
            return
        position = None if told is None else told.position
        messages = asked.messages or []
        if messages:
            self._held -= sum(len(message.value) for message in messages if message.value)
            messages = [message._replace(position=_within(position, message.position)) for message in messages]
        outcome = "ok"
        if fault is not None or (told is None and asked.party is not None and asked.party.fenced):
            outcome = "error"
        elif told is None:
            outcome = "unknown"
        self._write(batch._replace(position=position, outcome=outcome), messages)
        asked.batch = asked.messages = None

    def _write(self, batch: Batch, messages: list[Message]) -> None:
        if self._batches:
            self._sink.batches.append(batch)
        self._sink.messages += messages

    # --- the entry as a whole ---

    def _look(self, frame: Frame, entry: Entry, decoded: Decoded, noted: Asked) -> Seen:
        time, place = self._locate(frame, entry.at)
        produced = noted.code == SEND
        seen = Seen(frame, entry, decoded.body, noted, entry.meta, time, place)
        if not produced and decoded.body.HasField("message_id"):
            seen.position = position_of(decoded.body.message_id)
        self._check(seen)
        if seen.meta is None:
            return seen
        meta = seen.meta
        if not produced:
            seen.role = "consume"
        elif meta.replicated_from:  # old clients set it to nothing
            seen.role = "replicate"
        stop = frame.start + frame.size
        seen.codec = batches.codec(meta, stop - entry.payload)
        if meta.encryption_keys:
            self._tell_opaque(seen)
        elif frame.complete and seen.verdict in ("ok", "absent"):
            payload = memoryview(frame.data)[entry.payload : stop]
            if not seen.codec or batches.is_chunk(meta):
                seen.plain = payload
            else:
                seen.plain = self._unpacked(seen, payload)
        return seen

    def _check(self, seen: Seen) -> None:
        """Compare the checksum, if every byte is there."""
        frame, entry = seen.frame, seen.entry
        if entry.stored is None:
            seen.verdict = "absent" if entry.told else "unverifiable"
            return
        seen.kind = checksum.CRC32C
        seen.stored = checksum.shown(seen.kind, entry.stored)
        if not frame.complete:
            seen.verdict = "unverifiable"
            return
        stop = frame.start + frame.size
        computed = checksum.compute(seen.kind, memoryview(frame.data)[entry.covered : stop])
        seen.computed = checksum.shown(seen.kind, computed)
        seen.verdict = "ok" if computed == entry.stored else "bad"
        if seen.verdict == "bad":
            self._finding(
                seen,
                "bad_checksum",
                f"The {seen.kind} of an entry does not match its bytes",
                checksum=seen.kind,
                stored=seen.stored,
                computed=seen.computed,
            )
            self._talk.suspect(
                frame,
                FORMAT,
                seen.kind,
                entry.stored,
                computed,
                unit=(entry.at, stop),
                covered=[(entry.covered, stop)],
                checksum=(entry.covered - 4, entry.covered),
                byteorder="big",
            )

    def _unpacked(self, seen: Seen, payload: memoryview) -> bytes | memoryview | None:
        limit = self._talk.options.limits.decompressed_bytes
        try:
            return batches.unpacked(seen.meta, seen.codec, payload, limit)
        except CodecError as trouble:
            name = batches.CODEC_NAMES.get(seen.codec)
            self._finding(seen, "decompress_failed", f"An entry does not decompress: {trouble}", codec=name)
            return None

    def _tell_opaque(self, seen: Seen) -> None:
        """Once for each producer and consumer."""
        who = (seen.noted.code, seen.noted.id)
        if who in self._opaque or len(self._opaque) >= _OPAQUE:
            return
        self._opaque.add(who)
        names = [text(key.key) for key in seen.meta.encryption_keys]
        self._finding(
            seen, "encrypted", "Payloads are encrypted: sizes and checksums only", severity="info", keys=names
        )

    def _batch(self, seen: Seen) -> Batch:
        frame, entry, meta, noted = seen.frame, seen.entry, seen.meta, seen.noted
        published = None if meta is None else meta.publish_time * _MS
        codec = uncompressed = None
        if meta is not None:
            codec = batches.CODEC_NAMES.get(seen.codec, str(seen.codec))
            if seen.plain is not None and not (seen.codec and batches.is_chunk(meta)):
                uncompressed = len(seen.plain)
        topic = noted.topic
        return Batch(
            self._talk.conn,
            seen.role,
            None if topic is None else topic.name,
            None if topic is None else topic.partition,
            None,
            None,
            seen.position,
            noted.records,
            codec,
            frame.start + frame.size - entry.at,
            uncompressed,
            FORMAT,
            None if meta is None else text(meta.producer_name),
            None,
            None if meta is None else signed(meta.sequence_id),
            None if meta is None else meta.HasField("txnid_most_bits") or meta.HasField("txnid_least_bits"),
            None if meta is None else meta.HasField("marker_type"),
            published,
            published,
            seen.kind,
            seen.stored,
            seen.computed,
            seen.verdict,
            "unknown" if noted.code == SEND else "ok",
            self._state.dialect,
            None if noted.party is None else noted.party.name,
            noted.correlation_id,
            noted.api,
            seen.time,
            seen.place,
            seen.offset,
            None if noted.party is None else noted.party.subscription,
        )

    # --- its messages ---

    def _singles(self, seen: Seen) -> list[Single]:
        """The messages of an entry; as many as can be read of one that is malformed."""
        out: list[Single] = []
        most = self._talk.options.limits.pending
        try:
            out.extend(islice(batches.singles(seen.meta, seen.plain or b""), most))
            if len(out) == most:
                self._finding(seen, "limit", f"Of a batch only {most} messages are read", severity="warning")
        except MalformedError as trouble:
            self._finding(seen, "malformed_frame", str(trouble))
        return out

    def _rows(self, seen: Seen, batch: Batch) -> Iterator[Message]:
        """One row a message. Before a receipt, `position` is what will stand after ledger and entry."""
        meta = seen.meta
        if batch.control:
            return
        if batches.is_chunk(meta):
            whole: bytes | memoryview | None = self._chunks.add(seen)
            if meta.chunk_id + 1 != meta.num_chunks_from_msg:
                return
            if whole is not None and seen.codec:
                whole = self._unpacked(seen, memoryview(whole))
            size = len(whole) if whole is not None else meta.uncompressed_size or max(0, meta.total_chunk_msg_size)
            yield self._row(seen, batch, Single(None, meta, 0, size), whole)
        elif seen.plain is None:
            if not meta.HasField("num_messages_in_batch"):
                size = meta.uncompressed_size if seen.codec or meta.encryption_keys else seen.noted.payload_bytes or 0
                yield self._row(seen, batch, Single(None, meta, 0, size), None)
        else:
            words = _ack_set(seen.body)
            for single in self._singles(seen):
                if not _gone(single) and batches.delivered(words, single.number):
                    yield self._row(seen, batch, single, seen.plain)

    def _row(self, seen: Seen, batch: Batch, single: Single, data: bytes | memoryview | None) -> Message:
        meta, own = seen.meta, single.meta
        index = single.number
        sequence = meta.sequence_id
        if index is not None:
            sequence = own.sequence_id if own.HasField("sequence_id") else sequence + index
        place = "" if index is None else f":{index}"
        key = _key(own)
        value = headers = None
        if self._sink.payloads:
            value = None if own.null_value or data is None else bytes(data[single.start : single.end])
            headers = _headers(own)
        return Message(
            self._talk.conn,
            seen.role,
            batch.topic,
            batch.partition,
            None,
            place if seen.position is None else seen.position + place,
            batch.first_timestamp,
            own.event_time * _MS if own.event_time else None,
            signed(sequence),
            batch.producer,
            None,
            None if key is None else len(key),
            None if own.null_value else single.end - single.start,
            len(own.properties),
            sum(len(pair.SerializePartialToString()) for pair in own.properties),
            key if self._sink.payloads else None,
            value,
            headers,
            batch.correlation_id,
            batch.api,
            batch.time,
            batch.place,
            batch.stream_offset,
            batch.subscription,
            bytes(own.ordering_key) if self._sink.payloads and own.HasField("ordering_key") else None,
        )

    # --- places ---

    def _locate(self, frame: Frame, at: int) -> tuple[int, int]:
        """Time and packet of the byte at index `at` of a frame that is being handed over."""
        if frame.first_ns == frame.last_ns:
            return frame.first_ns, frame.place
        return self._talk.locate(frame, at)

    def _finding(self, seen: Seen, kind: str, message: str, *, severity: str = "error", **evidence: Any) -> None:
        topic = seen.noted.topic
        self._talk.finding(
            kind,
            severity,
            message,
            direction=seen.frame.direction,
            time=seen.time,
            place=seen.place,
            offset=seen.offset,
            length=seen.frame.start + seen.frame.size - seen.entry.at,
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            position=seen.position,
            format=FORMAT,
            **evidence,
        )


def position_of(message_id: Any) -> str | None:
    """`ledger:entry`; None where the broker gave none (2^64-1: a duplicate that it dropped)."""
    ledger, entry = message_id.ledgerId, message_id.entryId
    return None if ledger == _NONE and entry == _NONE else f"{signed(ledger)}:{signed(entry)}"


def _within(position: str | None, place: str | None) -> str | None:
    """`ledger:entry` and `:batch index` as one."""
    return None if position is None else position + (place or "")


def _ack_set(body: Any) -> Any:
    """The words of a MESSAGE that tell which of its batch are still to be delivered; SEND has none."""
    return getattr(body, "ack_set", ())


def _count(meta: Any, words: Any) -> int:
    count = batches.records(meta)
    return batches.still_to_deliver(words, count) if words and not meta.compacted_batch_indexes else count


def _gone(single: Single) -> bool:
    """Whether compaction took the message away and left its empty place in the batch."""
    return single.number is not None and bool(single.meta.compacted_out)


def _key(own: Any) -> bytes | None:
    if own.null_partition_key or not own.HasField("partition_key"):
        return None
    told = own.partition_key
    key = told if isinstance(told, bytes) else told.encode()
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
        shown[key] = REDACTED if sensitive(key) else text(pair.value)
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
