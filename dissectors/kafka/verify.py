"""The batches of record sets: which there are, whether their checksums hold, and the messages in them.

What is wrong with one becomes a finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, final

from dissectors.checksum import shown
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka import batches, internal, messages
from dissectors.kafka.batches import BatchError
from dissectors.kafka.body_notes import RecordSet
from dissectors.kafka.messages import KafkaRecord, RecordError
from dissectors.kafka.names import TopicNames
from dissectors.kafka.record_batch import RecordBatch, is_cut, read_batches
from dissectors.rows.layout import ABSENT
from dissectors.session.conversation import Conversation
from dissectors.session.exchange import Report
from dissectors.session.frame import Frame
from dissectors.wire.codecs import CodecError, TooLargeError
from dissectors.wire.codecs.sizes import decompressed_size
from dissectors.wire.reader import WireReader, reader
from dissectors.wording import counted

_Conversation = Any  # a KafkaConversation, whose module imports this one

_SMALLEST_RECORD = 7  # bytes, its length included


@final
@carried
@compiled
class BatchVerifier:
    """Looks at the batches of one connection."""

    conversation: _Conversation
    report: Report
    names: TopicNames
    limit: cython.longlong
    reported_early: cython.bint = False

    def __init__(self, conversation: _Conversation, report: Report, names: TopicNames) -> None:
        self.conversation = conversation
        self.report = report
        self.names = names
        self.limit = conversation.options.limits.decompressed_bytes

    @compiled
    def batches_of(self, frame: Frame, records: RecordSet, lenient: cython.bint, old: cython.int) -> list[RecordBatch]:
        """The batches of a record set, as far as it consists of such; lenient, old: see `batches.units`."""
        if frame.complete:
            r: WireReader = reader()
            end: cython.Py_ssize_t = min(records.start + records.size, frame.end)
            r.open(frame.data, records.start, end)
            found = read_batches(r, end, frame.end)
            if r.left() == 0 or (lenient and is_cut(r)):
                return found
        return self._odd_batches(frame, records, lenient, old)

    def _odd_batches(self, frame: Frame, records: RecordSet, lenient: bool, old: int) -> list[RecordBatch]:
        """The batches of a set that holds older messages, holes, the beginning of a batch, or something else."""
        found: list[RecordBatch] = []
        try:
            for batch in self.conversation.recovery().units(frame, records, lenient=lenient, old=old):
                found.append(batch)  # noqa: PERF402 (those before an error count)
        except BatchError as trouble:
            records.malformed = True
            if frame.complete:
                self._malformed(frame, records, trouble.at, trouble)
        return found

    @compiled
    def look(self, frame: Frame, records: RecordSet | None, found: list[RecordBatch]) -> None:
        """Verify the batches of a record set while the bytes of its frame are there. records: None if not known."""
        batch: RecordBatch
        for batch in found:
            batch.time, batch.packet_ref = frame.first_ns, frame.packet_ref
            if not frame.undivided:
                conversation: Conversation = self.conversation
                batch.time, batch.packet_ref = conversation.locate(frame, batch.start)
            batch.stream_offset = frame.offset + batch.start - frame.start
            if batch.whole:
                if batch.magic == 2:
                    batch.verify(frame.data)
                else:
                    self._verify_message(frame.data, batch)
                if batch.computed != batch.crc:
                    self._report_bad(frame, records, batch)
            if batch.codec == "none" and (batch.control or not self.report.wants_messages):
                batch.uncompressed = batch.size - (batch.body - batch.start if batch.magic == 2 else 0)
            else:
                self._unfold(frame, records, batch)
            if batch.codec == "none" and batch.magic == 2 and batch.whole and not batch.control:
                batch.keyed = _has_key(frame.data, batch.body, batch.start + batch.size)

    # --- what is rare ---

    def learn_names(self, frame: Frame, records: RecordSet) -> None:
        """Learn topic ids and names from a part of the controllers' log."""
        with suppress(BatchError, RecordError, CodecError):  # reported where the batches are
            for batch in self._whole(frame, records):
                if not batch.control:
                    raw = batches.records_of(frame.data, batch, self.limit)
                    self.names.learn(internal.topic_names(messages.entries(batch, raw)), frame.first_ns)

    def describe(self, frame: Frame, sets: list[RecordSet], body: dict[str, Any]) -> None:
        """Put beside the record sets in a decoded body what Kafka's own records in them say."""
        for records, holder in zip(sets, internal.holders(body), strict=False):
            topic = self.names.name(records.topic)
            found: list[dict[str, Any]] = []
            with suppress(BatchError, RecordError, CodecError):  # reported where the batches are
                for batch in self._whole(frame, records):
                    if batch.control or topic in internal.TOPICS:
                        raw = batches.records_of(frame.data, batch, self.limit)
                        found += internal.decoded(topic, batch.control, messages.entries(batch, raw))
            if found:
                holder["decoded"] = found

    def _whole(self, frame: Frame, records: RecordSet) -> Iterator[RecordBatch]:
        """The batches of a record set that were captured whole. Raises BatchError."""
        known = min(frame.known, frame.end)
        for batch in batches.units(frame.data, records.start, records.size, known, self.limit, lenient=True):
            if batch.whole:
                yield batch

    def _named(self, records: RecordSet | None) -> dict[str, Any]:
        """Topic and partition, for a finding."""
        if records is None:
            return {"topic": None, "partition": None}
        return {"topic": self.names.name(records.topic), "partition": records.partition}

    def _malformed(self, frame: Frame, records: RecordSet | None, at: int, trouble: Exception) -> None:
        message = f"Records are not as they should be: {trouble}"
        self.conversation.finding_within(frame, at, "malformed_frame", message, **self._named(records))

    def _verify_message(self, data: bytes, batch: RecordBatch) -> None:
        """Compute the checksum of a message of the older formats."""
        batch.computed = batches.checksum(data, batch)
        batch.verdict = "ok" if batch.computed == batch.crc else "bad"

    @compiled
    def _unfold(self, frame: Frame, records: RecordSet | None, batch: RecordBatch) -> None:
        """Set the size of a batch's records, decompressed if need be, and its messages where they are wanted."""
        if batch.odd_bytes and batch.verdict == "ok":
            message = f"A compressed batch ends in {counted(batch.odd_bytes, 'byte')} that are no message"
            self.conversation.finding_within(
                frame, batch.start, "batch_mismatch", message, length=batch.size, **self._named(records)
            )
        wanted = self.report.wants_messages and not batch.control
        if not batch.whole or (batch.verdict == "bad" and batch.codec != "none"):
            return
        room = self.report.sink.room if wanted else self.limit
        try:
            if wanted:
                raw = batches.records_of(frame.data, batch, min(self.limit, room))
                batch.uncompressed = len(raw)
                batch.entries = []
                batch.entries += self._messages(batch, raw)
            else:
                compressed = memoryview(frame.data)[batch.body : batch.end]
                batch.uncompressed = decompressed_size(batch.codec, compressed, self.limit, None)
        except RecordError as trouble:
            if batch.verdict == "ok":
                self._malformed(frame, records, batch.start, trouble)
        except CodecError as trouble:
            crowded = isinstance(trouble, TooLargeError) and room < self.limit
            kind, message = (
                ("limit", f"A batch is not unfolded: no room is left in the limit `message_bytes` ({trouble})")
                if crowded
                else ("decompress_failed", f"A batch does not decompress: {trouble}")
            )
            self.conversation.finding_within(
                frame,
                batch.start,
                kind,
                message,
                length=batch.size,
                **self._named(records),
                codec=batch.codec,
            )

    def _messages(self, batch: RecordBatch, raw: bytes) -> Iterator[KafkaRecord]:
        """The messages of a batch, as many as there is room for."""
        count = min(batch.announced if batch.magic == 2 else batch.records or 1, len(raw) // _SMALLEST_RECORD + 1)
        most = self.report.sink.unfold(len(raw), count)
        yield from islice(messages.entries(batch, raw), most)
        if most < count:
            message = f"Of {count} messages of a batch only {most} are read: more than the limit `message_bytes`"
            self.conversation.finding("limit", message, position=batch.base_offset)

    def _report_bad(self, frame: Frame, records: RecordSet | None, batch: RecordBatch) -> None:
        kind = batches.CHECKSUM_KINDS[batch.magic]
        self.conversation.finding_within(
            frame,
            batch.start,
            "checksum_mismatch",
            f"The {kind} of a batch does not match its bytes",
            length=batch.size,
            **self._named(records),
            position=batch.base_offset,
            format=f"magic {batch.magic}",
            checksum=kind,
            stored=shown(kind, batch.crc),
            computed=shown(kind, batch.computed),
        )
        crc = batch.start + batches.CRC_AT[batch.magic]
        self.conversation.suspect(
            frame,
            f"magic {batch.magic}",
            kind,
            batch.crc,
            batch.computed,
            unit=(batch.start, batch.end),
            covered=[(crc + 4, batch.end)],
            checksum=(crc, crc + 4),
            byteorder="big",
        )

    def report_early(self, frame: Frame) -> None:
        """Report once that messages of a Produce were written before its answer said their offsets."""
        if not self.reported_early:
            self.reported_early = True
            message = "Too many messages wait for the answers to their requests: some have no offset"
            self.conversation.finding_at(frame, "limit", message)


@compiled
def _has_key(data: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """Whether the first record of a batch of magic 2 has a key: 1 or 0, ABSENT where it ends before.

    at: index of its length, a varint; attributes (a byte), differences of timestamp and offset and the length of the
    key follow, which is -1, as a zigzag varint 1, for no key.
    """
    skipped: cython.int
    for skipped in range(4):
        if skipped == 1:
            at += 1
            continue
        while at < end and data[at] & 0x80:
            at += 1
        at += 1
    return ABSENT if at >= end else data[at] != 1
