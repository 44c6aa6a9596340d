"""Rows of one connection: exchanges, errors, batches, messages."""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.pulsar.batches import (
    CODEC_NAMES,
    CRC32C,
    FORMAT,
    NO_CHECKSUM,
    PulsarEntry,
    ns_of,
    position,
)
from dissectors.pulsar.commands import REQUEST, request_of
from dissectors.pulsar.fields import (
    META_DELIVER_AT_TIME,
    META_MARKER_TYPE,
    META_PRODUCER_NAME,
    META_SEQUENCE_ID,
    META_TXNID_LEAST_BITS,
    META_TXNID_MOST_BITS,
)
from dissectors.pulsar.names import Topic
from dissectors.pulsar.pending import Columns, PulsarRequest
from dissectors.pulsar.state import PulsarState
from dissectors.records import HALF, HALF_BITS, PAIR
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.rows.table import RowTable
from dissectors.session.exchange import CALL, ONE_WAY, ORPHAN, PUSH, UNANSWERED, UNKNOWN, ErrorCode, Report, queued
from dissectors.session.frame import Frame, FrameFacts
from dissectors.tcp.chunk import CLIENT
from dissectors.wire.protobuf import MessageFields


@final
@carried
@compiled
class PulsarRows:
    """Writes the rows of what a conversation has found.

    A broker serves the requests of one connection side by side: none waits for the answer to another, so `queued_ns` is
    0 for every call.
    """

    report: Report
    state: PulsarState

    def __init__(self, report: Report, state: PulsarState) -> None:
        self.report = report
        self.state = state

    @compiled
    def call(self, request: PulsarRequest, frame: Frame, answer: PulsarRequest, error: ErrorCode | None) -> None:
        """A request and its answer, which came in `frame`."""
        assert request.frame is not None
        assert answer.frame is not None
        response: FrameFacts = answer.frame
        request.queued_ns = queued(request.frame, response, ABSENT)
        self._write(CALL, request, response, answer.status, error, answer.body, None)

    @compiled
    def unanswered(self, request: PulsarRequest, until: Any) -> None:
        """A request that has no answer; for a command that no table knows, none is to be expected.

        until: the delivery at which an answer was waited for no longer; None where it was the request's own.
        """
        kind = ONE_WAY if request.type is None else UNANSWERED
        self._write(kind, request, None, UNKNOWN, None, None, until)

    @compiled
    def orphan(self, answer: PulsarRequest, error: ErrorCode | None) -> None:
        """An answer whose request was not captured: half of that request's exchange, where it says which."""
        if answer.type is not None:
            request = answer.type if answer.type.part == REQUEST else request_of(answer.type)
            if request is not None:
                answer.api, answer.api_code = request.name, request.code
        self._response(ORPHAN, answer, error)

    @compiled
    def one_way(self, direction: cython.int, command: PulsarRequest, error: ErrorCode | None) -> None:
        """A command that is not answered by protocol."""
        if direction == CLIENT:
            self._write(ONE_WAY, command, None, UNKNOWN, None, None, None)
        else:
            self._response(PUSH, command, error)

    @compiled
    def error(self, error: ErrorCode, request: PulsarRequest) -> None:
        """A row of `errors` for an error that this very command reports."""
        assert request.frame is not None
        self.report.error(error, request, request.frame)

    @compiled
    def _response(self, kind: str, answer: PulsarRequest, error: ErrorCode | None) -> None:
        """A row for what the other side sent without a request that was captured."""
        frame: FrameFacts | None = answer.frame
        body = answer.body
        answer.frame = answer.body = None
        self._write(kind, answer, frame, answer.status, error, body, None)

    @compiled
    def _write(
        self,
        kind: str,
        request: PulsarRequest,
        response: FrameFacts | None,
        status: str,
        error: ErrorCode | None,
        body: str | None,
        until: Any,
    ) -> None:
        report: Report = self.report
        slot: cython.Py_ssize_t
        if error is not None and response is not None:
            report.error(error, request, response)
        if report.wants_exchanges:
            slot = report.open_exchange(kind, request, response, until)
            if error is not None:
                report.fail(slot, (error,))
            else:
                report.exchanges.put_text(slot, fields.EXCHANGE_STATUS, status)
            report.exchanges.put_text(slot, fields.EXCHANGE_DIALECT, self.state.dialect)
            report.exchanges.waiting[slot, fields.EXCHANGE_LONG_POLL] = (
                request.answer_announced if request.frame is not None else ABSENT
            )
            report.exchanges.waiting[slot, fields.EXCHANGE_PERMITS] = request.permits
            report.exchanges.waiting[slot, fields.EXCHANGE_PERMITS_LEFT] = request.permits_left
            if body is not None and report.sink.wants_body(request.api):
                report.exchanges.put(slot, fields.EXCHANGE_RESPONSE, body)
            report.finish_exchange(slot)

    @compiled
    def open_batch(self, entry: PulsarEntry) -> cython.Py_ssize_t:
        """Open a row for an entry that a SEND or MESSAGE carries, if batches are wanted; its slot."""
        table: RowTable = self.report.batches
        meta: MessageFields = entry.meta
        topic: Topic | None = entry.request.topic
        codec: cython.longlong
        slot: cython.Py_ssize_t = self.report.open_batch(entry.request, entry.request.frame)
        table.put_text(slot, fields.BATCH_ROLE, entry.role)
        table.put_text(slot, fields.BATCH_FORMAT, FORMAT)
        table.put_text(slot, fields.BATCH_CHECKSUM_KIND, NO_CHECKSUM if entry.stored == ABSENT else CRC32C)
        table.put_text(slot, fields.BATCH_VERDICT, entry.verdict)
        table.waiting[slot, fields.BATCH_RECORDS] = entry.request.records
        table.waiting[slot, fields.BATCH_STORED_BYTES] = entry.stop - entry.at
        table.waiting[slot, fields.BATCH_CHECKSUM_STORED] = entry.stored
        table.waiting[slot, fields.BATCH_CHECKSUM_COMPUTED] = entry.computed
        table.waiting[slot, fields.BATCH_TIME] = entry.time
        table.waiting[slot, fields.BATCH_PACKET_REF] = entry.packet_ref
        table.waiting[slot, fields.BATCH_STREAM_OFFSET] = entry.frame.offset + entry.at - entry.frame.start
        table.waiting[slot, fields.BATCH_BROKER_TIMESTAMP] = entry.broker_ns()
        table.waiting[slot, fields.BATCH_BROKER_INDEX] = entry.broker_index()
        if topic is not None:
            table.put_text(slot, fields.BATCH_TOPIC, topic.name)
            table.put(slot, fields.BATCH_PARTITION, topic.partition)
        if entry.has_meta:
            codec = entry.codec()
            table.put_text(slot, fields.BATCH_CODEC, CODEC_NAMES.get(codec) or str(codec))
            self._put_producer(table, slot, meta)
            table.waiting[slot, fields.BATCH_UNCOMPRESSED_BYTES] = entry.uncompressed
            table.waiting[slot, fields.BATCH_BASE_SEQUENCE] = meta.number(META_SEQUENCE_ID, 0)
            table.waiting[slot, fields.BATCH_TRANSACTIONAL] = meta.has(META_TXNID_MOST_BITS) or meta.has(
                META_TXNID_LEAST_BITS
            )
            table.waiting[slot, fields.BATCH_CONTROL] = meta.has(META_MARKER_TYPE)
            table.waiting[slot, fields.BATCH_FIRST_TIMESTAMP] = entry.published_ns()
            table.waiting[slot, fields.BATCH_MAX_TIMESTAMP] = entry.published_ns()
            table.waiting[slot, fields.BATCH_DELIVER_AT] = ns_of(meta.number(META_DELIVER_AT_TIME, -1))
        return slot

    @compiled
    def _put_producer(self, table: RowTable, slot: cython.Py_ssize_t, meta: MessageFields) -> None:
        """The name of the producer, which each of its entries repeats."""
        start: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        if meta.has(META_PRODUCER_NAME):
            start, end = meta.start(META_PRODUCER_NAME), meta.stop(META_PRODUCER_NAME)
        meta.reader.open(meta.data, start, end)
        table.put_octets(slot, fields.BATCH_PRODUCER, meta.reader.data, start, end)

    @compiled
    def finish_batch(
        self,
        slot: cython.Py_ssize_t,
        request: PulsarRequest,
        ledger: cython.longlong,
        entry: cython.longlong,
        outcome: str,
    ) -> None:
        """Complete the row of an entry by its position, which may be ABSENT, and what became of it."""
        table: RowTable = self.report.batches
        if 0 <= ledger <= HALF and 0 <= entry <= HALF:
            table.waiting[slot, fields.BATCH_POSITION] = PAIR | ledger << HALF_BITS | entry
        else:
            table.put(slot, fields.BATCH_POSITION, position(ledger, entry))
        table.put_text(slot, fields.BATCH_OUTCOME, outcome)
        table.put_text(slot, fields.BATCH_DIALECT, self.state.dialect)
        table.waiting[slot, fields.BATCH_CORRELATION_ID] = request.correlation_id  # its answer may have told it
        self.report.finish_batch(slot)

    def messages(self, request: PulsarRequest, messages: list[Columns]) -> None:
        """A row for each message of an entry."""
        for message in messages:
            slot = self.report.open_message(request, request.frame)
            self.report.messages.put_named(slot, message)
            self.report.finish_message(slot)
