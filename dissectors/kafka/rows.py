"""What a conversation learnt -> rows of records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka import secrets
from dissectors.kafka.batches import CHECKSUM_KINDS
from dissectors.kafka.body_notes import Fault, Topic
from dissectors.kafka.errors import EXPECTED, error
from dissectors.kafka.messages import Header
from dissectors.kafka.names import TopicNames
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.record_batch import RecordBatch, plus
from dissectors.records import PAIR
from dissectors.redaction import without_tokens
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.rows.table import RowTable
from dissectors.rows.trace_ids import HEADER, trace_id
from dissectors.session.exchange import PRODUCE, ErrorCode, Report
from dissectors.session.frame import FrameFacts

NS, LATEST_MS = 1_000_000, 9_223_372_036_854

_TRACE = HEADER.encode()
FORMATS = ("magic 0", "magic 1", "magic 2")


@final
@carried
@compiled
class KafkaRows:
    """Writes the rows of one connection."""

    report: Report
    names: TopicNames

    def __init__(self, report: Report, names: TopicNames) -> None:
        self.report = report
        self.names = names

    @compiled
    def open_exchange(
        self,
        kind: str,
        call: KafkaRequest,
        response: FrameFacts | None,
        topics: tuple[Topic, ...],
        faults: list[Fault],
        until: Any,
    ) -> cython.Py_ssize_t:
        """Open the row of an exchange, and write the rows of its errors; its slot, to be finished by `report`.

        topics, faults: what the answer says. until: see `Report.open_exchange`.
        """
        call.topics = self.names.all(call.topic_keys, topics)
        slot: cython.Py_ssize_t = self.report.open_exchange(kind, call, response, until)
        exchanges: RowTable = self.report.exchanges
        exchanges.waiting[slot, fields.EXCHANGE_ACKS] = call.acks
        exchanges.waiting[slot, fields.EXCHANGE_ALLOWED_NS] = call.allowed_ns
        if faults:
            self.report.fail(slot, self.errors(call, response, faults))
        return slot

    def errors(self, call: KafkaRequest, response: FrameFacts | None, faults: Sequence[Fault]) -> list[ErrorCode]:
        """Write the rows of the errors in an answer."""
        errors = [self._error(fault, call.api) for fault in faults]
        if response is not None:
            for each in errors:
                self.report.error(each, call, response)
        return errors

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

    # --- what exchanges carry ---

    @compiled
    def batches(
        self,
        role: str,
        call: KafkaRequest,
        frame: FrameFacts | None,
        topic: Topic | None,
        partition: cython.longlong,
        found: list[RecordBatch],
        outcome: str,
        base: cython.longlong,
    ) -> None:
        """The rows of a partition's batches. frame: that carried them; None where its exchange has no row.

        base: the offset that the broker gave to the first one produced; ABSENT where it gave none.
        """
        batch: RecordBatch
        first: cython.longlong
        last: cython.longlong
        follows: cython.Py_ssize_t = -1
        name = self.names.name(topic)
        for batch in found:
            first, last = batch.base_offset, batch.last_offset
            if role == PRODUCE:
                if follows >= 0 and follows != batch.start:
                    base = ABSENT  # bytes are missing between them: so may batches be
                follows = batch.start + batch.size
                first, last = base, ABSENT
                if base != ABSENT and batch.last_offset != ABSENT:
                    last = plus(base, max(batch.last_offset - batch.base_offset, max(batch.count, 1) - 1))
                base = ABSENT if last == ABSENT else plus(last, 1)
            if self.report.wants_messages:
                self.messages(role, call, frame, name, partition, batch, first)
            if self.report.wants_batches:
                self._batch(role, call, frame, name, partition, batch, outcome, first, last)

    @compiled
    def _batch(
        self,
        role: str,
        call: KafkaRequest,
        frame: FrameFacts | None,
        topic: str | None,
        partition: cython.longlong,
        batch: RecordBatch,
        outcome: str,
        first: cython.longlong,
        last: cython.longlong,
    ) -> None:
        """The row of one batch. first, last: its offsets."""
        table: RowTable = self.report.batches
        slot: cython.Py_ssize_t = self.report.open_batch(call, frame)
        table.put_text(slot, fields.BATCH_ROLE, role)
        table.put_text(slot, fields.BATCH_TOPIC, topic)
        table.waiting[slot, fields.BATCH_PARTITION] = partition
        table.waiting[slot, fields.BATCH_BASE_OFFSET] = first
        table.waiting[slot, fields.BATCH_LAST_OFFSET] = last
        if 0 <= first < PAIR or first == ABSENT:
            table.waiting[slot, fields.BATCH_POSITION] = first
        else:
            table.put(slot, fields.BATCH_POSITION, first)
        table.waiting[slot, fields.BATCH_RECORDS] = batch.count
        table.put_text(slot, fields.BATCH_CODEC, batch.codec)
        table.waiting[slot, fields.BATCH_STORED_BYTES] = batch.size
        table.waiting[slot, fields.BATCH_UNCOMPRESSED_BYTES] = batch.uncompressed
        table.waiting[slot, fields.BATCH_KEYED] = batch.keyed
        table.put_text(slot, fields.BATCH_FORMAT, FORMATS[batch.magic])
        if batch.producer_id >= 0:
            table.put(slot, fields.BATCH_PRODUCER, str(batch.producer_id))
        if batch.producer_epoch >= 0:
            table.waiting[slot, fields.BATCH_PRODUCER_EPOCH] = batch.producer_epoch
        if batch.base_sequence >= 0:
            table.waiting[slot, fields.BATCH_BASE_SEQUENCE] = batch.base_sequence
        table.waiting[slot, fields.BATCH_TRANSACTIONAL] = batch.transactional
        table.waiting[slot, fields.BATCH_CONTROL] = batch.control
        table.waiting[slot, fields.BATCH_FIRST_TIMESTAMP] = nanoseconds(batch.first_timestamp)
        table.waiting[slot, fields.BATCH_MAX_TIMESTAMP] = nanoseconds(batch.max_timestamp)
        table.put_text(slot, fields.BATCH_CHECKSUM_KIND, CHECKSUM_KINDS[batch.magic])
        table.waiting[slot, fields.BATCH_CHECKSUM_STORED] = batch.crc
        table.waiting[slot, fields.BATCH_CHECKSUM_COMPUTED] = batch.computed
        table.put_text(slot, fields.BATCH_VERDICT, batch.verdict)
        table.put_text(slot, fields.BATCH_OUTCOME, outcome)
        table.waiting[slot, fields.BATCH_TIME] = batch.time
        table.waiting[slot, fields.BATCH_PACKET_REF] = batch.packet_ref
        table.waiting[slot, fields.BATCH_STREAM_OFFSET] = batch.stream_offset
        self.report.finish_batch(slot)

    def messages(
        self,
        role: str,
        call: KafkaRequest,
        frame: FrameFacts | None,
        topic: str | None,
        partition: int,
        batch: RecordBatch,
        base: int,
    ) -> None:
        """The rows of the messages of a batch. base: its first offset, ABSENT where it is not known."""
        report, table = self.report, self.report.messages
        payloads = report.sink.payloads
        for entry in batch.entries:
            offset = None if base == ABSENT else base + (entry.number if role == PRODUCE else entry.delta)
            key, value = entry.key, entry.value
            slot = report.open_message(call, frame)
            for field, content in (
                (fields.MESSAGE_ROLE, role),
                (fields.MESSAGE_TOPIC, topic),
                (fields.MESSAGE_PARTITION, None if partition == ABSENT else partition),
                (fields.MESSAGE_OFFSET, offset),
                (fields.MESSAGE_POSITION, offset),
                (fields.MESSAGE_TIMESTAMP, _ns(entry.timestamp)),
                (fields.MESSAGE_EVENT_TIME, _ns(batch.max_timestamp) if batch.log_append else None),
                (fields.MESSAGE_SEQUENCE, batch.base_sequence + entry.number if batch.base_sequence >= 0 else None),
                (fields.MESSAGE_PRODUCER, None if batch.producer_id < 0 else str(batch.producer_id)),
                (fields.MESSAGE_KEY_BYTES, None if key is None else len(key)),
                (fields.MESSAGE_VALUE_BYTES, None if value is None else len(value)),
                (fields.MESSAGE_HEADER_COUNT, len(entry.headers)),
                (fields.MESSAGE_HEADER_BYTES, entry.header_bytes),
                (fields.MESSAGE_KEY, key if payloads else None),
                (fields.MESSAGE_VALUE, secrets.payload(topic, value) if payloads else None),
                (fields.MESSAGE_HEADERS, _headers(entry.headers) if payloads else None),
                (fields.MESSAGE_TIME, batch.time),
                (fields.MESSAGE_PACKET_REF, batch.packet_ref),
                (fields.MESSAGE_STREAM_OFFSET, batch.stream_offset),
                (fields.MESSAGE_TRACE_ID, _trace_id(entry.headers)),
            ):
                table.put(slot, field, content)
            report.finish_message(slot)


@compiled
def nanoseconds(ms: cython.longlong) -> cython.longlong:
    """Milliseconds in ns, ABSENT where there are none, or too many."""
    return ABSENT if ms < 0 or ms > LATEST_MS else ms * NS


def _ns(ms: int) -> int | None:
    return None if ms < 0 else ms * NS


def to_json(body: Any) -> str:
    """A decoded body, or a part of one, as JSON."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def _headers(headers: Sequence[Header]) -> str:
    """Headers as JSON: pairs of name and value, as text; bytes that are no text are escaped."""
    return to_json([[_text(name), None if value is None else _text(value)] for name, value in headers])


def _trace_id(headers: Sequence[Header]) -> str | None:
    return next((trace_id(value) for name, value in headers if name == _TRACE), None)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
