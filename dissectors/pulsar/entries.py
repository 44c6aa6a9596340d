"""What SEND and MESSAGE carry: verified, decompressed, kept until its rows can be written.

The rows of a consumed entry are written at once. A produced entry has no position before its receipt: its rows wait
with the request, which is why they hold values and no buffer.
"""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.pulsar import batches
from dissectors.pulsar.batches import CRC32C, FORMAT, PulsarEntry, entry_of, is_chunk, position, records
from dissectors.pulsar.commands import SEND
from dissectors.pulsar.decode import PulsarCommand
from dissectors.pulsar.fields import (
    META_COMPACTED_BATCH_INDEXES,
    META_ENCRYPTION_KEYS,
    META_REPLICATED_FROM,
    META_UNCOMPRESSED_SIZE,
    PUSH_ACK_SET,
    PUSH_MESSAGE_ID,
    SEND_HIGHEST_SEQUENCE_ID,
)
from dissectors.pulsar.messages import MessageRows, within
from dissectors.pulsar.pending import Columns, PulsarRequest
from dissectors.pulsar.replication import receipt_key
from dissectors.pulsar.rows import PulsarRows
from dissectors.pulsar.state import PulsarState
from dissectors.rows.layout import ABSENT
from dissectors.session.conversation import Conversation
from dissectors.session.exchange import CONSUME, FAILED, OK, PRODUCE, REPLICATE, UNKNOWN, ErrorCode, Report, SentBatch
from dissectors.session.frame import Frame
from dissectors.wire.codecs import CodecError
from dissectors.wire.memory import crc32c, part

_ENCRYPTED = 1000  # producers and consumers of which a finding says that they encrypt


@final
@carried
@compiled
class Entries:
    """Reads the entries of one connection."""

    _conversation: Conversation
    _rows: PulsarRows
    _state: PulsarState
    messages: MessageRows
    encrypted: set[tuple[int, int]]  # producers and consumers that are known to encrypt
    _held: cython.longlong = 0  # bytes of values that wait for receipts
    _overflowed: cython.bint = False
    _command_limit: cython.longlong
    _unpacked_limit: int

    def __init__(self, conversation: Conversation, rows: PulsarRows, state: PulsarState) -> None:
        self._conversation = conversation
        self._rows = rows
        self._state = state
        self.messages = MessageRows(conversation, self.unpack, self.finding)
        self.encrypted = set()
        self._command_limit = conversation.options.limits.command_bytes
        self._unpacked_limit = conversation.options.limits.decompressed_bytes

    @compiled
    def read(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> PulsarEntry | None:
        """Read the entry of a SEND or MESSAGE: note in `request` what its row needs, write or prepare the others.

        None where the frame is not known up to the entry.
        """
        if command.after > frame.known:
            return None
        entry: PulsarEntry = entry_of(frame, command.after, self._command_limit)
        if entry.defect is not None:
            self._conversation.finding_at(frame, "malformed_frame", entry.defect, api=request.api)
        elif entry.marked:
            request.payload_bytes = entry.stop - entry.payload
        entry.to_deliver = ()
        if request.api_code != SEND and command.readable and command.fields.has(PUSH_ACK_SET):
            entry.to_deliver = command.fields.integers(PUSH_ACK_SET)
        if entry.has_meta:
            request.records = _count(entry) if entry.to_deliver else records(entry.meta)
        if request.api_code == SEND and command.readable:
            request.last_sequence = command.number(SEND_HIGHEST_SEQUENCE_ID)
            if entry.has_meta and self._state.source_receipts and entry.meta.has(META_REPLICATED_FROM):
                request.key = receipt_key(entry.meta, request) or request.key
        compacted: cython.bint = request.endpoint is not None and request.endpoint.compacted
        if command.readable and (self._rows.report.looks_into_batches or compacted):
            self._look_into(frame, command, request, entry, compacted)
        return entry

    @compiled
    def _look_into(
        self, frame: Frame, command: PulsarCommand, request: PulsarRequest, entry: PulsarEntry, compacted: cython.bint
    ) -> None:
        produced: cython.bint = request.api_code == SEND
        entry.request = request
        entry.role = PRODUCE if produced else CONSUME
        entry.time, entry.packet_ref = frame.first_ns, frame.packet_ref
        if not frame.undivided:
            entry.time, entry.packet_ref = self._conversation.locate(frame, entry.at)
        entry.ledger = entry.entry = ABSENT
        if not produced and command.read_id(PUSH_MESSAGE_ID):
            entry.ledger, entry.entry = command.ledger(), command.entry()
        self._verify(frame, entry)
        self._unfold(frame, entry, compacted or self._rows.report.wants_messages)
        if compacted and entry.plain is not None:
            request.records = self.messages.count(entry)
        report: Report = self._rows.report
        slot: cython.Py_ssize_t
        messages = list(self.messages.rows(entry)) if report.wants_messages else []
        if report.wants_batches:
            slot = self._rows.open_batch(entry)
            if produced:
                request.batch = SentBatch(report.sink, slot)
            else:
                self._rows.finish_batch(slot, request, entry.ledger, entry.entry, OK)
        if produced and messages:
            request.messages = self._hold(request, entry, messages)
        elif messages:
            self._rows.messages(request, messages)
        entry.request = entry.plain = None  # type: ignore[assignment]

    def _hold(self, request: PulsarRequest, entry: PulsarEntry, messages: list[Columns]) -> list[Columns]:
        """Those that may wait for their receipt. Beyond a limit of values, rows are written without a position."""
        size = _value_bytes(messages)
        if self._held + size <= self._conversation.options.limits.held_bytes:
            request.kept = self._conversation.sink.keep(size, len(messages))
            if request.kept:
                self._held += size
                return messages
        if not self._overflowed:
            self._overflowed = True
            self.finding(entry, "limit", "Too many values wait for receipts: their messages have no position")
        self._rows.messages(request, [message | {"position": None} for message in messages])
        return []

    @compiled
    def settle(self, request: PulsarRequest, answer: PulsarRequest | None, error: ErrorCode | None) -> None:
        """Write the rows that waited for an answer, which is None where there is none."""
        ledger: cython.longlong = ABSENT
        entry: cython.longlong = ABSENT
        fenced: cython.bint = answer is None and request.endpoint is not None and request.endpoint.fenced
        if answer is not None:
            ledger, entry = answer.ledger, answer.entry
        if request.batch is not None:
            outcome = FAILED if error is not None or fenced else UNKNOWN if answer is None else OK
            self._rows.finish_batch(request.batch.slot, request, ledger, entry, outcome)
            request.batch = None
        if request.messages:
            self._settle_messages(request, position(ledger, entry))

    def _settle_messages(self, request: PulsarRequest, place: str | None) -> None:
        self._held -= _value_bytes(request.messages)
        self._conversation.sink.let_go(request.kept)
        request.kept = 0
        rows = [message | {"position": within(place, message["position"])} for message in request.messages]
        self._rows.messages(request, rows)
        request.messages = ()

    # --- the entry as a whole ---

    @compiled
    def _verify(self, frame: Frame, entry: PulsarEntry) -> None:
        """Compare the checksum, if every byte is there."""
        entry.computed = ABSENT
        if entry.stored == ABSENT:
            entry.verdict = "absent" if entry.marked else "unverifiable"
        elif not frame.complete:
            entry.verdict = "unverifiable"
        else:
            entry.computed = crc32c(frame.data, entry.covered, entry.stop)
            entry.verdict = "ok"
            if entry.computed != entry.stored:
                entry.verdict = "bad"
                self._report_bad(frame, entry)

    def _report_bad(self, frame: Frame, entry: PulsarEntry) -> None:
        self.finding(
            entry,
            "checksum_mismatch",
            "The crc32c of an entry does not match its bytes",
            checksum=CRC32C,
            stored=f"0x{entry.stored:08x}",
            computed=f"0x{entry.computed:08x}",
        )
        self._conversation.suspect(
            frame,
            FORMAT,
            CRC32C,
            entry.stored,
            entry.computed,
            unit=(entry.at, entry.stop),
            covered=[(entry.covered, entry.stop)],
            checksum=(entry.covered - 4, entry.covered),
            byteorder="big",
        )

    @compiled
    def _unfold(self, frame: Frame, entry: PulsarEntry, wanted: cython.bint) -> None:
        """Decompress the payload, where it is whole and not encrypted. wanted: it is read, not only its size."""
        entry.plain = None
        entry.uncompressed = ABSENT
        if entry.has_meta:
            if (
                entry.role == PRODUCE
                and entry.meta.has(META_REPLICATED_FROM)
                and entry.meta.octets(META_REPLICATED_FROM)
            ):
                entry.role = REPLICATE  # old clients set it to nothing
            if entry.meta.has(META_ENCRYPTION_KEYS):
                self._report_encryption(entry)
            elif frame.complete and (entry.verdict == "ok" or entry.verdict == "absent"):
                payload = part(frame.data, entry.payload, entry.stop)
                if not entry.codec():
                    entry.plain, entry.uncompressed = payload, len(payload)
                elif is_chunk(entry.meta):
                    entry.plain = payload
                elif wanted:
                    entry.plain = self.unpack(entry, payload)
                    entry.uncompressed = ABSENT if entry.plain is None else len(entry.plain)
                else:
                    entry.uncompressed = self._unpacked_size(entry, payload)

    @compiled
    def unpack(self, entry: PulsarEntry, payload: bytes) -> bytes | None:
        """A payload, decompressed; None, and a finding, where that cannot be done."""
        room = self._conversation.sink.room if self._rows.report.wants_messages else self._unpacked_limit
        try:
            return batches.unpacked(entry.meta, payload, min(self._unpacked_limit, room))
        except CodecError as trouble:
            self._report_packed(entry, trouble, room)
            return None

    @compiled
    def _unpacked_size(self, entry: PulsarEntry, payload: bytes) -> cython.longlong:
        """Bytes of a payload, decompressed; ABSENT, and a finding, where that cannot be done."""
        try:
            return batches.unpacked_size(entry.meta, payload, self._unpacked_limit)
        except CodecError as trouble:
            self._report_packed(entry, trouble, self._unpacked_limit)
            return ABSENT

    def _report_packed(self, entry: PulsarEntry, trouble: CodecError, room: int) -> None:
        name = batches.CODEC_NAMES.get(entry.codec())
        if room < entry.meta.number(META_UNCOMPRESSED_SIZE, 0) <= self._unpacked_limit:
            message = f"An entry is not unfolded: no room is left in the limit `message_bytes` ({trouble})"
            self.finding(entry, "limit", message, codec=name)
        else:
            self.finding(entry, "decompress_failed", f"An entry does not decompress: {trouble}", codec=name)

    def _report_encryption(self, entry: PulsarEntry) -> None:
        """Once for each producer and consumer."""
        who = (entry.request.api_code, entry.request.endpoint_id)
        if who not in self.encrypted and len(self.encrypted) < _ENCRYPTED:
            self.encrypted.add(who)
            names = [
                batches.key_name(entry.meta.data, start, end) for start, end in entry.meta.each(META_ENCRYPTION_KEYS)
            ]
            self.finding(entry, "encrypted", "Payloads are encrypted: sizes and checksums only", keys=names)

    def finding(self, entry: PulsarEntry, kind: str, message: str, **evidence: Any) -> None:
        """A finding about an entry."""
        topic = entry.request.topic
        self._conversation.finding(
            kind,
            message,
            direction=entry.frame.direction,
            time=entry.time,
            packet_ref=entry.packet_ref,
            offset=entry.offset,
            length=entry.stop - entry.at,
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            position=position(entry.ledger, entry.entry),
            format=FORMAT,
            **evidence,
        )


def _count(entry: PulsarEntry) -> int:
    """Messages of an entry that are still to be delivered."""
    words, meta = entry.to_deliver, entry.meta
    if meta.has(META_COMPACTED_BATCH_INDEXES):
        return sum(batches.delivered(words, index) for index in meta.integers(META_COMPACTED_BATCH_INDEXES))
    return batches.still_to_deliver(words, records(meta))


def _value_bytes(messages: Any) -> int:
    return sum(len(message["value"]) for message in messages if message["value"])
