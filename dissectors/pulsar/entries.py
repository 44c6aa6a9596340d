"""What SEND and MESSAGE carry -> rows of `batches` and `messages`.

The rows of a consumed entry are written at once. A produced entry has no position before its receipt: its rows wait
with the request, which is why they hold values and no buffer.
"""

from __future__ import annotations

from typing import Any

from dissectors import checksum
from dissectors.conversation import Conversation
from dissectors.frame import Frame
from dissectors.pulsar import batches
from dissectors.pulsar.api import text
from dissectors.pulsar.batches import MS, PulsarEntry
from dissectors.pulsar.commands import SEND
from dissectors.pulsar.decode import DecodedCommand
from dissectors.pulsar.emit import signed
from dissectors.pulsar.entry_view import EntryView
from dissectors.pulsar.messages import MessageRows, within
from dissectors.pulsar.pending import Columns, PulsarRequest
from dissectors.pulsar.state import PulsarState
from dissectors.rows.exchange import FAILED, OK, REPLICATE, UNKNOWN, ErrorCode, Report
from dissectors.wire.codecs import CodecError

FORMAT = "entry"
NO_ID = (1 << 64) - 1  # ledger and entry of a position that the broker does not give
_ENCRYPTED = 1000  # producers and consumers of which a finding says that they encrypt


class Entries:
    """Reads the entries of one connection."""

    def __init__(self, conversation: Conversation, state: PulsarState, report: Report) -> None:
        self._conversation = conversation
        self._state = state
        self._report = report
        self._limits = conversation.options.limits
        self.messages = MessageRows(conversation, self.unpack, self.finding)
        self.encrypted: set[tuple[int | None, int | None]] = set()  # producers and consumers that are known to encrypt
        self._held = 0  # bytes of values that wait for receipts
        self._overflowed = False

    def read(self, frame: Frame, decoded: DecodedCommand, request: PulsarRequest) -> PulsarEntry | None:
        """Read the entry of a SEND or MESSAGE: note in `request` what its row needs, write or prepare the others."""
        if decoded.after > frame.known:
            return None
        entry = batches.read(frame, decoded.after, self._limits.command_bytes)
        if entry.defect is not None:
            self._conversation.finding_at(frame, "malformed_frame", entry.defect, api=request.api)
        elif entry.marked:
            request.payload_bytes = frame.start + frame.size - entry.payload
        if entry.meta is not None:
            request.records = _count(entry.meta, getattr(decoded.body, "ack_set", ()))
        compacted = request.endpoint is not None and request.endpoint.compacted
        if decoded.body is None or not (self._report.looks_into_batches or compacted):
            return entry
        view = self._view(frame, entry, decoded, request)
        if compacted and view.plain is not None:
            request.records = self.messages.count(view)
        batch = self._batch(view)
        messages = list(self.messages.rows(view, batch)) if self._report.wants_messages else []
        if request.api_code == SEND:
            request.batch, request.messages = batch, self._hold(request, view, messages)
        else:
            self._write(request, batch, messages)
        return entry

    def _hold(self, request: PulsarRequest, view: EntryView, messages: list[Columns]) -> list[Columns]:
        """Those that may wait for their receipt. Beyond a limit of values, rows are written without a position."""
        size = _value_bytes(messages)
        if self._held + size <= self._limits.held_bytes:
            request.kept = self._conversation.sink.keep(size, len(messages))
            if request.kept or not messages:
                self._held += size
                return messages
        if not self._overflowed:
            self._overflowed = True
            self.finding(view, "limit", "Too many values wait for receipts: their messages have no position")
        self._write(view.request, None, [message | {"position": None} for message in messages])
        return []

    def settle(self, request: PulsarRequest, answer: PulsarRequest | None, error: ErrorCode | None) -> None:
        """Write the rows that waited for an answer, which is None where there is none."""
        batch = request.batch
        if batch is None:
            return
        position = None if answer is None else answer.position
        self._held -= _value_bytes(request.messages)
        self._conversation.sink.let_go(request.kept)
        request.kept = 0
        messages = [message | {"position": within(position, message["position"])} for message in request.messages]
        outcome = OK
        if error is not None or (answer is None and request.endpoint is not None and request.endpoint.fenced):
            outcome = FAILED
        elif answer is None:
            outcome = UNKNOWN
        self._write(request, batch | {"position": position, "outcome": outcome}, messages)
        request.batch, request.messages = None, ()

    def _write(self, request: PulsarRequest, batch: Columns | None, messages: list[Columns]) -> None:
        assert request.frame is not None
        if batch is not None:
            self._report.batch(request, request.frame, **batch)
        for message in messages:
            self._report.message(request, request.frame, **message)

    # --- the entry as a whole ---

    def _view(self, frame: Frame, entry: PulsarEntry, decoded: DecodedCommand, request: PulsarRequest) -> EntryView:
        time, packet_ref = self._conversation.locate(frame, entry.at)
        produced = request.api_code == SEND
        view = EntryView(frame, entry, decoded.body, request, time, packet_ref)
        if not produced and decoded.body.HasField("message_id"):
            view.position = position_of(decoded.body.message_id)
        self._verify(view)
        meta = view.meta
        if meta is None:
            return view
        if produced and meta.replicated_from:  # old clients set it to nothing
            view.role = REPLICATE
        stop = frame.start + frame.size
        view.codec = batches.codec(meta, stop - entry.payload)
        if meta.encryption_keys:
            self._report_encryption(view)
        elif frame.complete and view.verdict in ("ok", "absent"):
            payload = memoryview(frame.data)[entry.payload : stop]
            if not view.codec or batches.is_chunk(meta):
                view.plain = payload
            else:
                view.plain = self.unpack(view, payload)
        return view

    def _verify(self, view: EntryView) -> None:
        """Compare the checksum, if every byte is there."""
        frame, entry = view.frame, view.entry
        if entry.stored is None:
            view.verdict = "absent" if entry.marked else "unverifiable"
            return
        view.kind = checksum.CRC32C
        view.stored = checksum.shown(view.kind, entry.stored)
        if not frame.complete:
            view.verdict = "unverifiable"
            return
        stop = frame.start + frame.size
        computed = checksum.compute(view.kind, memoryview(frame.data)[entry.covered : stop])
        view.computed = checksum.shown(view.kind, computed)
        view.verdict = "ok" if computed == entry.stored else "bad"
        if view.verdict == "bad":
            self.finding(
                view,
                "bad_checksum",
                f"The {view.kind} of an entry does not match its bytes",
                checksum=view.kind,
                stored=view.stored,
                computed=view.computed,
            )
            self._conversation.suspect(
                frame,
                FORMAT,
                view.kind,
                entry.stored,
                computed,
                unit=(entry.at, stop),
                covered=[(entry.covered, stop)],
                checksum=(entry.covered - 4, entry.covered),
                byteorder="big",
            )

    def unpack(self, view: EntryView, payload: memoryview) -> bytes | memoryview | None:
        """A payload, decompressed; None, and a finding, where that cannot be done."""
        sink, limit = self._conversation.sink, self._limits.decompressed_bytes
        room = sink.room if "messages" in sink.tables else limit
        try:
            return batches.unpacked(view.meta, view.codec, payload, min(limit, room))
        except CodecError as trouble:
            name = batches.CODEC_NAMES.get(view.codec)
            if room < view.meta.uncompressed_size <= limit:
                message = f"An entry is not unfolded: no room is left in the limit `message_bytes` ({trouble})"
                self.finding(view, "limit", message, codec=name)
            else:
                self.finding(view, "decompress_failed", f"An entry does not decompress: {trouble}", codec=name)
            return None

    def _report_encryption(self, view: EntryView) -> None:
        """Once for each producer and consumer."""
        who = (view.request.api_code, view.request.endpoint_id)
        if who in self.encrypted or len(self.encrypted) >= _ENCRYPTED:
            return
        self.encrypted.add(who)
        names = [text(key.key) for key in view.meta.encryption_keys]
        self.finding(view, "encrypted", "Payloads are encrypted: sizes and checksums only", keys=names)

    def _batch(self, view: EntryView) -> Columns:
        frame, entry, meta, topic = view.frame, view.entry, view.meta, view.request.topic
        columns: Columns = {
            "role": view.role,
            "topic": None if topic is None else topic.name,
            "partition": None if topic is None else topic.partition,
            "position": view.position,
            "records": view.request.records,
            "stored_bytes": frame.start + frame.size - entry.at,
            "format": FORMAT,
            "checksum_kind": view.kind,
            "checksum_stored": view.stored,
            "checksum_computed": view.computed,
            "verdict": view.verdict,
            "outcome": OK,
            "dialect": self._state.dialect,
            "time": view.time,
            "packet_ref": view.packet_ref,
            "stream_offset": view.offset,
        }
        if meta is None:
            return columns
        unpacked = view.plain is not None and not (view.codec and batches.is_chunk(meta))
        return columns | {
            "codec": batches.CODEC_NAMES.get(view.codec, str(view.codec)),
            "uncompressed_bytes": len(view.plain) if unpacked and view.plain is not None else None,
            "producer": text(meta.producer_name),
            "base_sequence": signed(meta.sequence_id),
            "transactional": meta.HasField("txnid_most_bits") or meta.HasField("txnid_least_bits"),
            "control": meta.HasField("marker_type"),
            "first_timestamp": meta.publish_time * MS,
            "max_timestamp": meta.publish_time * MS,
        }

    def finding(self, view: EntryView, kind: str, message: str, **evidence: Any) -> None:
        """A finding about an entry."""
        topic = view.request.topic
        self._conversation.finding(
            kind,
            message,
            direction=view.frame.direction,
            time=view.time,
            packet_ref=view.packet_ref,
            offset=view.offset,
            length=view.frame.start + view.frame.size - view.entry.at,
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            position=view.position,
            format=FORMAT,
            **evidence,
        )


def position_of(message_id: Any) -> str | None:
    """`ledger:entry`; None where the broker gave none (a duplicate that it dropped)."""
    ledger, entry = message_id.ledgerId, message_id.entryId
    return None if ledger == NO_ID and entry == NO_ID else f"{signed(ledger)}:{signed(entry)}"


def _count(meta: Any, words: Any) -> int:
    if words and meta.compacted_batch_indexes:
        return sum(batches.delivered(words, index) for index in meta.compacted_batch_indexes)
    count = batches.records(meta)
    return batches.still_to_deliver(words, count) if words else count


def _value_bytes(messages: Any) -> int:
    return sum(len(message["value"]) for message in messages if message["value"])
