"""What a conversation learnt -> rows of records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from dissectors.checksum import shown
from dissectors.conversation import Conversation
from dissectors.frame import Frame, FrameFacts
from dissectors.kafka import batches, internal, messages, secrets
from dissectors.kafka.batches import BatchError
from dissectors.kafka.body_notes import Fault, RecordSet, Topic
from dissectors.kafka.errors import EXPECTED, error
from dissectors.kafka.messages import Header, KafkaRecord, RecordError
from dissectors.kafka.names import TopicNames
from dissectors.kafka.pending import KafkaRequest, VerifiedBatch
from dissectors.kafka.record_batch import NO_TIMESTAMP, RecordBatch
from dissectors.redaction import without_tokens
from dissectors.rows.exchange import (
    PRODUCE,
    ErrorCode,
    Report,
)
from dissectors.wire.codecs import CodecError, TooLargeError
from dissectors.wording import counted

_SMALLEST_RECORD = 7  # bytes, its length included


class KafkaEmitter:
    """Writes the rows of one connection."""

    __slots__ = ("_wrote_early", "conversation", "limit", "names", "report")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.report = Report(conversation.conn, conversation.sink, conversation.resends)
        self.names = TopicNames(conversation.sink)
        self.limit = conversation.options.limits.decompressed_bytes
        self._wrote_early = False

    def exchange(
        self,
        kind: str,
        request: KafkaRequest,
        frame: Frame | None = None,
        *,
        faults: Sequence[Fault] = (),
        topics: Sequence[Topic] = (),
        partitions: int = 0,
        **more: Any,
    ) -> None:
        """A request with its answer, or one of the two. `frame` and what follows it is what the answer says."""
        report = self.report
        if not report.wants_exchanges and not faults:
            return
        report.exchange(
            kind,
            request,
            None if frame is None else frame.facts,
            errors=[self._error(fault, request.api) for fault in faults],
            topics=self.names.all(request.topic_keys, topics),
            partitions=request.partitions or partitions,
            **more,
        )

    def _error(self, fault: Fault, api: str | None) -> ErrorCode:
        meaning = error(fault.code)
        return ErrorCode(
            fault.code,
            meaning.name,
            fault.scope,
            meaning.retriable,
            self.names.name(fault.topic),
            fault.partition,
            None if fault.message is None else without_tokens(fault.message),
            (api, fault.code) in EXPECTED,
        )

    # --- batches ---

    def look(self, frame: Frame, records: RecordSet | None, units: Iterator[RecordBatch]) -> list[VerifiedBatch]:
        """The batches of a record set, with their checksums' verdicts; what is wrong becomes a finding.

        records: None where the head of the set is not known.
        units: as `batches.units` gives them.
        """
        seen = []
        try:
            for unit in units:
                seen.append(self._seen(frame, records, unit))
        except BatchError as trouble:
            if frame.complete:
                self._malformed_records(frame, records, trouble.at, trouble)
        return seen

    def _malformed_records(self, frame: Frame, records: RecordSet | None, at: int, trouble: Exception) -> None:
        message = f"Records are not as they should be: {trouble}"
        self.conversation.finding_within(frame, at, "malformed_frame", message, **self._named(records))

    def _named(self, records: RecordSet | None) -> dict[str, Any]:
        """Topic and partition, for a finding."""
        if records is None:
            return {"topic": None, "partition": None}
        return {"topic": self.names.name(records.topic), "partition": records.partition}

    def describe(self, frame: Frame, sets: Sequence[RecordSet], body: dict[str, Any]) -> None:
        """Put beside the record sets in a decoded body what Kafka's own records in them say."""
        for records, holder in zip(sets, internal.holders(body), strict=False):
            topic = self.names.name(records.topic)
            found: list[dict[str, Any]] = []
            try:
                for unit in batches.units(
                    frame.data, records.start, records.size, min(frame.known, frame.end), self.limit, lenient=True
                ):
                    if unit.whole and (unit.control or topic in internal.TOPICS):
                        raw = batches.records_of(frame.data, unit, self.limit)
                        found += internal.decoded(topic, unit.control, messages.entries(unit, raw))
            except (BatchError, RecordError, CodecError):
                pass  # reported where the batches are
            if found:
                holder["decoded"] = found

    def learn_from_log(self, frame: Frame, records: RecordSet) -> None:
        """Topic ids and names in the log of the controllers."""
        try:
            for unit in batches.units(
                frame.data, records.start, records.size, min(frame.known, frame.end), self.limit, lenient=True
            ):
                if unit.whole and not unit.control:
                    raw = batches.records_of(frame.data, unit, self.limit)
                    self.names.learn(internal.topic_names(messages.entries(unit, raw)), frame.first_ns)
        except (BatchError, RecordError, CodecError):
            return

    def _seen(self, frame: Frame, records: RecordSet | None, unit: RecordBatch) -> VerifiedBatch:
        time, packet_ref = self.conversation.locate(frame, unit.start)
        computed, verdict = None, "unverifiable"
        if unit.whole:
            computed = batches.checksum(frame.data, unit)
            verdict = "ok" if computed == unit.crc else "bad"
            if verdict == "bad":
                self._report_bad(frame, records, unit, computed)
        if unit.odd_bytes and verdict == "ok":
            message = f"A compressed batch ends in {counted(unit.odd_bytes, 'byte')} that are no message"
            self.conversation.finding_within(
                frame, unit.start, "batch_mismatch", message, length=unit.size, **self._named(records)
            )
        uncompressed = None
        entries: list[KafkaRecord] = []
        wanted = self.report.wants_messages and not unit.control
        if unit.codec == "none" and not self.report.wants_messages:
            uncompressed = batches.records_size(frame.data, unit, self.limit)
        elif unit.whole and (verdict == "ok" or unit.codec == "none"):
            room = self.report.sink.room if wanted else self.limit
            try:
                if wanted:
                    raw = batches.records_of(frame.data, unit, min(self.limit, room))
                    uncompressed = len(raw)
                    entries += self._unfolded(unit, raw)
                else:
                    uncompressed = batches.records_size(frame.data, unit, self.limit)
            except RecordError as trouble:
                if verdict == "ok":
                    self._malformed_records(frame, records, unit.start, trouble)
            except CodecError as trouble:
                crowded = isinstance(trouble, TooLargeError) and room < self.limit
                kind, message = (
                    ("limit", f"A batch is not unfolded: no room is left in the limit `message_bytes` ({trouble})")
                    if crowded
                    else ("decompress_failed", f"A batch does not decompress: {trouble}")
                )
                self.conversation.finding_within(
                    frame,
                    unit.start,
                    kind,
                    message,
                    length=unit.size,
                    **self._named(records),
                    codec=unit.codec,
                )
        return VerifiedBatch(
            unit, entries, uncompressed, computed, verdict, time, packet_ref, frame.offset + unit.start - frame.start
        )

    def _unfolded(self, unit: RecordBatch, raw: bytes) -> Iterator[KafkaRecord]:
        """The messages of a batch, as many as there is room for."""
        count = min(unit.announced if unit.magic == 2 else unit.records or 1, len(raw) // _SMALLEST_RECORD + 1)
        most = self.report.sink.unfold(len(raw), count)
        yield from islice(messages.entries(unit, raw), most)
        if most < count:
            message = f"Of {count} messages of a batch only {most} are read: more than the limit `message_bytes`"
            self.conversation.finding("limit", message, position=unit.base_offset)

    def waiting(
        self, frame: Frame, request: KafkaRequest, records: RecordSet, seen: list[VerifiedBatch]
    ) -> list[VerifiedBatch]:
        """The batches of a Produce, to wait for its answer; where too many messages wait, theirs are written now."""
        out = []
        for batch in seen:
            if batch.entries and request.values.get("acks") != 0:
                kept = self.report.sink.keep(batch.uncompressed or 0, len(batch.entries))
                request.kept += kept
                if not kept:
                    name = self.names.name(records.topic)
                    self._messages(PRODUCE, request, request.frame, name, records.partition, batch, None)
                    batch = batch._replace(entries=())
                    self._report_early(frame)
            out.append(batch)
        return out

    def _report_early(self, frame: Frame) -> None:
        if not self._wrote_early:
            self._wrote_early = True
            message = "Too many messages wait for the answers to their requests: some have no offset"
            self.conversation.finding_at(frame, "limit", message)

    def _report_bad(self, frame: Frame, records: RecordSet | None, unit: RecordBatch, computed: int) -> None:
        kind = batches.checksum_kind(unit)
        self.conversation.finding_within(
            frame,
            unit.start,
            "bad_checksum",
            f"The {kind} of a batch does not match its bytes",
            length=unit.size,
            **self._named(records),
            position=unit.base_offset,
            format=f"magic {unit.magic}",
            checksum=kind,
            stored=shown(kind, unit.crc),
            computed=shown(kind, computed),
        )
        crc = unit.start + (17 if unit.magic == 2 else 12)
        self.conversation.suspect(
            frame,
            f"magic {unit.magic}",
            kind,
            unit.crc,
            computed,
            unit=(unit.start, unit.end),
            covered=[(crc + 4, unit.end)],
            checksum=(crc, crc + 4),
            byteorder="big",
        )

    def batches(
        self,
        role: str,
        request: KafkaRequest,
        frame: FrameFacts | None,
        topic: Topic | None,
        partition: int | None,
        verified: Sequence[VerifiedBatch],
        outcome: str,
        base: int | None,
    ) -> None:
        """The rows of a partition's batches. frame: that carried them; None where its exchange has no row.

        base: the offset that the broker gave to the first one produced.
        """
        name = self.names.name(topic)
        follows: int | None = None  # index behind the batch before
        for batch in verified:
            unit = batch.unit
            if follows not in (None, unit.start):
                base = None  # bytes are missing between them: so may batches be
            follows = unit.end
            first: int | None = unit.base_offset
            last: int | None = unit.last_offset
            if role == PRODUCE:
                first, last = base, None
                if base is not None:
                    last = base + max(unit.last_offset - unit.base_offset, (unit.records or 1) - 1)
                    base = last + 1
            if self.report.wants_messages:
                self._messages(role, request, frame, name, partition, batch, first)
            if not self.report.wants_batches:
                continue
            self.report.batch(
                request,
                frame,
                role=role,
                topic=name,
                partition=partition,
                base_offset=first,
                last_offset=last,
                position=first,
                records=unit.records,
                codec=unit.codec,
                stored_bytes=unit.size,
                uncompressed_bytes=batch.uncompressed,
                format=f"magic {unit.magic}",
                producer=None if unit.producer_id < 0 else str(unit.producer_id),
                producer_epoch=None if unit.producer_epoch < 0 else unit.producer_epoch,
                base_sequence=None if unit.base_sequence < 0 else unit.base_sequence,
                transactional=unit.transactional,
                control=unit.control,
                first_timestamp=_ns(unit.first_timestamp),
                max_timestamp=_ns(unit.max_timestamp),
                checksum_kind=batches.checksum_kind(unit),
                checksum_stored=unit.crc,
                checksum_computed=batch.computed,
                verdict=batch.verdict,
                outcome=outcome,
                time=batch.time,
                packet_ref=batch.packet_ref,
                stream_offset=batch.stream_offset,
            )

    def _messages(
        self,
        role: str,
        request: KafkaRequest,
        frame: FrameFacts | None,
        topic: str | None,
        partition: int | None,
        batch: VerifiedBatch,
        base: int | None,
    ) -> None:
        """One row for each message of a batch."""
        unit = batch.unit
        payloads = self.report.sink.payloads
        for entry in batch.entries:
            offset = None
            if base is not None:
                offset = base + (entry.number if role == PRODUCE else entry.delta)
            key, value = entry.key, entry.value
            self.report.message(
                request,
                frame,
                role=role,
                topic=topic,
                partition=partition,
                offset=offset,
                position=offset,
                timestamp=_ns(entry.timestamp),
                event_time=_ns(unit.max_timestamp) if unit.log_append else None,
                sequence=unit.base_sequence + entry.number if unit.base_sequence >= 0 else None,
                producer=None if unit.producer_id < 0 else str(unit.producer_id),
                key_bytes=None if key is None else len(key),
                value_bytes=None if value is None else len(value),
                header_count=len(entry.headers),
                header_bytes=entry.header_bytes,
                key=key if payloads else None,
                value=secrets.payload(topic, value) if payloads else None,
                headers=_headers(entry.headers) if payloads else None,
                time=batch.time,
                packet_ref=batch.packet_ref,
                stream_offset=batch.stream_offset,
            )


def to_json(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def _headers(headers: Sequence[Header]) -> str:
    """Headers as JSON: pairs of name and value, as text; bytes that are no text are escaped."""
    return to_json([[_text(name), None if value is None else _text(value)] for name, value in headers])


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _ns(ms: int) -> int | None:
    return None if ms <= NO_TIMESTAMP else ms * 1_000_000
