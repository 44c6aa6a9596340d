"""Rows of one connection: exchanges, errors, batches, messages.

Rows that show the dialect wait until the bytes leave one only, at most ROWS_HELD of them: a connection's rows then all
show one dialect. Where a connection's bytes never settle it, those of another connection to the same server may.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.iggy import batches, tables
from dissectors.iggy.decode import Body
from dissectors.iggy.era import Era
from dissectors.iggy.message import MASK64, OFFSET, ORIGIN, TIMESTAMP, IggyUnit, MessageRun, message_id
from dissectors.iggy.pending import IggyRequest
from dissectors.iggy.secrets import without_payload
from dissectors.iggy.state import IggyState
from dissectors.iggy.verify import ChecksumVerdict, suspects, verify
from dissectors.records import Conn, endpoint
from dissectors.rows import fields
from dissectors.rows.late_names import unresolved
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.rows.table import RowTable, int64
from dissectors.rows.trace_ids import HEADER, trace_id
from dissectors.session.conversation import Conversation
from dissectors.session.exchange import (
    CALL,
    CONSUME,
    FAILED,
    OK,
    ONE_WAY,
    PRODUCE,
    UNKNOWN,
    ErrorCode,
    PendingRequest,
    Report,
    RowHolder,
    SentBatch,
)
from dissectors.session.frame import Frame, FrameFacts

LARGEST = (1 << 63) - 1
NS_PER_US = 1000

ROWS_HELD = 256
_Rows = tuple[Sequence[Any], Sequence[Any]]


@final
@compiled
class DialectRows(RowHolder):
    """The dialect of one connection, and its finished rows that show it: they wait until it is settled.

    exchanges, batches: slots of the rows that wait, oldest first
    """

    conn: Conn
    sink: Sink
    era: Era
    exchanges: list[int]
    batches: list[int]

    def __init__(self, conn: Conn, sink: Sink, era: Era, waiting: _Rows = ((), ())) -> None:
        """waiting: rows of `exchanges` and of `batches` that wait from the beginning."""
        self.conn = conn
        self.sink = sink
        self.era = era
        self.exchanges = [sink.exchanges.reopen(row) for row in waiting[0]]
        self.batches = [sink.batches.reopen(row) for row in waiting[1]]

    def __reduce__(self) -> tuple[type[DialectRows], tuple[Conn, Sink, Era, _Rows]]:
        exchanges = [self.sink.exchanges.values(slot) for slot in self.exchanges]
        batches = [self.sink.batches.values(slot) for slot in self.batches]
        return DialectRows, (self.conn, self.sink, self.era, (exchanges, batches))

    def release(self) -> None:
        """Forget the rows that wait: they were carried to where the connection goes on."""
        for table, slots in ((self.sink.exchanges, self.exchanges), (self.sink.batches, self.batches)):
            for slot in slots:
                table.drop(slot)
            slots.clear()

    def flush(self) -> None:
        """Report the rows that wait, with the dialect that is believed now."""
        dialect = self.dialect()
        for table, slots, field in (
            (self.sink.exchanges, self.exchanges, fields.EXCHANGE_DIALECT),
            (self.sink.batches, self.batches, fields.BATCH_DIALECT),
        ):
            for slot in slots:
                table.put(slot, field, dialect)
                table.finish(slot)
            slots.clear()

    def dialect(self) -> str:
        """The dialect; while several releases remain, a token for what another connection to the server shows."""
        era = self.era
        return era.dialect if era.settled else unresolved(self._server_key(), era.dialect)

    def report_dialect(self, time: int) -> None:
        """Report the dialect of this connection: others to this server may show too little."""
        self.sink.name(self._server_key(), time, self.era.dialect, likely=not self.era.settled)

    def _server_key(self) -> str:
        server = endpoint(self.conn.server_ip, self.conn.server_port)
        framing = tables.releases()[self.era.best].framing
        return f"iggy-dialect/{server}/{framing}"

    def hold(self, table: RowTable, slot: cython.Py_ssize_t) -> None:
        """Put the dialect into a row and finish it, once the dialect is settled."""
        of_exchanges: cython.bint = table is self.sink.exchanges
        if self.era.settled:
            if self.exchanges or self.batches:
                self.flush()
            table.put(slot, fields.EXCHANGE_DIALECT if of_exchanges else fields.BATCH_DIALECT, self.era.dialect)
            table.finish(slot)
        else:
            (self.exchanges if of_exchanges else self.batches).append(slot)
            if len(self.exchanges) + len(self.batches) >= ROWS_HELD:
                self.flush()


@final
@carried
@compiled
class IggyRows:
    """Writes the rows of one connection."""

    conversation: Conversation
    dialects: DialectRows
    report: Report
    state: IggyState
    shows_bodies: cython.bint

    def __init__(self, conversation: Conversation, era: Era, state: IggyState) -> None:
        self.conversation = conversation
        self.dialects = DialectRows(conversation.conn, conversation.sink, era)
        conn, sink, resends = conversation.conn, conversation.sink, conversation.resends
        self.report = Report(conn, sink, resends, conversation.closing, self.dialects)
        self.state = state
        self.shows_bodies = conversation.sink.full

    def text(self, read: Body, frame: Frame, **more: Any) -> str:
        """A body as JSON, for `--full`: everything but payloads."""
        values = {**more, **read.values}
        if read.run is not None:
            values["messages"] = _message_dicts(read.run, frame.data)
        if not self.report.sink.payloads:
            values = without_payload(values)
        return json.dumps(values, default=str, allow_nan=False)

    # --- exchanges ---

    @compiled
    def report_request(self, kind: str, request: IggyRequest, until: Any) -> None:
        """Report a request that has no answer. until: the delivery at which it was given up; None at its own."""
        request.client_id = self.state.user or request.user
        if self.report.wants_exchanges:
            self.report.finish_exchange(self.report.open_exchange(kind, request, None, until))
        self._report_sent(request, UNKNOWN)

    @compiled
    def report_answer(
        self,
        request: IggyRequest,
        facts: FrameFacts,
        errors: Sequence[ErrorCode] = (),
        status: str = OK,
        shown: str | None = None,
        long_poll: cython.longlong = ABSENT,
    ) -> None:
        """Report a request with its answer. status: where there are no errors. shown: the answer's body."""
        request.client_id = self.state.user or request.user
        if errors:
            topic = request.topics[0] if request.topics else request.stream
            partition = None if request.partition_id == ABSENT else request.partition_id
            errors = [error._replace(topic=topic, partition=partition) for error in errors]
        self._report_exchange(CALL, request, facts, errors, status, shown, long_poll)
        self._report_sent(request, FAILED if errors else OK)

    @compiled
    def _report_exchange(
        self,
        kind: str,
        request: PendingRequest,
        facts: FrameFacts | None,
        errors: Sequence[ErrorCode],
        status: str,
        shown: str | None,
        long_poll: cython.longlong,
    ) -> None:
        report: Report = self.report
        if facts is not None:
            for error in errors:
                report.error(error, request, facts)
        if report.wants_exchanges:
            slot: cython.Py_ssize_t = report.open_exchange(kind, request, facts, None)
            if errors:
                report.fail(slot, errors)
            else:
                report.exchanges.put(slot, fields.EXCHANGE_STATUS, status)
            report.exchanges.waiting[slot, fields.EXCHANGE_LONG_POLL] = long_poll
            if shown is not None:
                report.exchanges.put(slot, fields.EXCHANGE_RESPONSE, shown)
            report.finish_exchange(slot)

    @compiled
    def _report_sent(self, request: IggyRequest, outcome: str) -> None:
        """Report the batches that a request carried."""
        self._complete(request.batches, request, outcome)

    def lone(
        self,
        facts: FrameFacts,
        kind: str,
        api: str | None,
        code: int | None,
        *,
        correlation_id: int | None = None,
        error: ErrorCode | None = None,
        records: int | None = None,
        payload_bytes: int | None = None,
        body: str | None = None,
    ) -> PendingRequest:
        """Report a frame that is half of nothing: an orphan, a push, or one of a replica."""
        one_way = kind == ONE_WAY
        known = PendingRequest(facts if one_way else None, api, code, correlation_id=correlation_id)
        known.client_id = self.state.user
        known.records, known.payload_bytes = int64(records), int64(payload_bytes)
        if one_way:
            known.body = body
        errors = () if error is None else (error,)
        shown = body if not one_way and self.report.sink.wants_body(api) else None
        self._report_exchange(
            kind, known, None if one_way else facts, errors, UNKNOWN if one_way else OK, shown, ABSENT
        )
        return known

    # --- batches and messages ---

    @compiled
    def batches(
        self,
        run: MessageRun,
        frame: Frame,
        facts: FrameFacts,
        role: str,
        partition: cython.longlong,
        request: PendingRequest,
        key: bytes | None = None,
    ) -> Sequence[SentBatch]:
        """Verify the batches of a run, and open a row of `batches` for each: it lacks the outcome.

        What is wrong with them becomes findings, their messages rows of `messages`. partition: of units that name none;
        ABSENT where nothing says it. key: by which a send places its messages.
        """
        report: Report = self.report
        unit: IggyUnit
        slot: cython.Py_ssize_t
        if not report.looks_into_batches:
            return ()
        if run.problem:
            topic = _plain(request.topics[0] if request.topics else None)
            self.conversation.finding_at(frame, "batch_mismatch", run.problem, api=request.api, topic=topic)
        known: cython.Py_ssize_t = min(frame.known, frame.end)
        found: list[SentBatch] = []
        for unit in run.units:
            verdict = verify(run, unit, frame.data, known)
            if role == CONSUME and unit.batch is not None:
                partition = int64(unit.batch.partition)
            slot = report.open_batch(request, facts)
            report.batches.put(slot, fields.BATCH_ROLE, role)
            report.batches.put(slot, fields.BATCH_TOPIC, request.topics[0] if request.topics else None)
            report.batches.waiting[slot, fields.BATCH_PARTITION] = partition
            self._describe(slot, run, unit, verdict, frame, role == PRODUCE)
            if verdict.verdict == "bad":
                self._bad(run, unit, verdict, frame, slot, request)
            if report.wants_messages:
                self._messages(run, unit, frame, facts, slot, role, request, key)
            if report.wants_batches:
                found.append(SentBatch(report.sink, slot))
            else:
                report.batches.drop(slot)
        return found

    @compiled
    def report_batches(
        self,
        run: MessageRun,
        frame: Frame,
        facts: FrameFacts,
        role: str,
        partition: cython.longlong,
        request: PendingRequest,
    ) -> None:
        """Report the batches of a consumer or replica, which wait for no answer."""
        batches = self.batches(run, frame, facts, role, partition, request)
        self._complete(batches, request, OK if role == CONSUME else UNKNOWN)

    @compiled
    def _complete(self, batches: Sequence[SentBatch], request: PendingRequest, outcome: str) -> None:
        """The outcome of batches is known."""
        report: Report = self.report
        batch: SentBatch
        for batch in batches:
            report.batches.put(batch.slot, fields.BATCH_OUTCOME, outcome)
            report.batches.put(batch.slot, fields.BATCH_CLIENT_ID, request.client_id)
            report.finish_batch(batch.slot)

    @compiled
    def stored(self, batch: SentBatch, partition: Any, offset: Any) -> None:
        """The server says where it stored a batch: partition, and offset of the first message."""
        table: RowTable = self.report.batches
        records: cython.longlong = table.waiting[batch.slot, fields.BATCH_RECORDS]
        table.put(batch.slot, fields.BATCH_PARTITION, partition)
        table.put(batch.slot, fields.BATCH_BASE_OFFSET, offset)
        table.put(batch.slot, fields.BATCH_LAST_OFFSET, offset + max(1, records) - 1)
        self._place(batch.slot, offset)

    @compiled
    def _place(self, slot: cython.Py_ssize_t, offset: Any) -> None:
        """Set the position of a batch: the offset of its first message, as text where it does not fit 63 bits."""
        fits: cython.bint = int64(offset) != ABSENT
        self.report.batches.put(slot, fields.BATCH_POSITION, offset if fits else str(offset))

    @compiled
    def _describe(
        self,
        slot: cython.Py_ssize_t,
        run: MessageRun,
        unit: IggyUnit,
        verdict: ChecksumVerdict,
        frame: Frame,
        produced: cython.bint,
    ) -> None:
        """Set what a unit and its messages say; if they were produced, the server gives offsets and times later."""
        table: RowTable = self.report.batches
        i: cython.Py_ssize_t
        time: cython.longlong
        first_ns: cython.longlong = ABSENT
        last_ns: cython.longlong = ABSENT
        offset: cython.longlong
        for i in range(unit.first, unit.last):
            time = run.cells[i, ORIGIN]
            if not produced and run.cells[i, TIMESTAMP]:
                time = run.cells[i, TIMESTAMP]
            if time:
                time = _ns(time)
                if first_ns == ABSENT:
                    first_ns = time
                if last_ns == ABSENT or time > last_ns:
                    last_ns = time
        table.waiting[slot, fields.BATCH_FIRST_TIMESTAMP] = _known_ns(first_ns)
        table.waiting[slot, fields.BATCH_MAX_TIMESTAMP] = _known_ns(last_ns)
        if unit.last > unit.first and run.cells[unit.first, ORIGIN]:
            table.waiting[slot, fields.BATCH_ORIGIN_TIMESTAMP] = _known_ns(_ns(run.cells[unit.first, ORIGIN]))
        table.waiting[slot, fields.BATCH_RECORDS] = unit.total
        if not produced and unit.last > unit.first and run.cells[unit.first, OFFSET] != ABSENT:
            offset = run.cells[unit.first, OFFSET]
            table.waiting[slot, fields.BATCH_BASE_OFFSET] = offset if offset >= 0 else ABSENT
            self._place(slot, offset & MASK64)
            if unit.last - unit.first == unit.total and run.cells[unit.last - 1, OFFSET] >= 0:
                table.waiting[slot, fields.BATCH_LAST_OFFSET] = run.cells[unit.last - 1, OFFSET]
        table.waiting[slot, fields.BATCH_STORED_BYTES] = unit.end - unit.start
        table.waiting[slot, fields.BATCH_UNCOMPRESSED_BYTES] = unit.end - unit.start
        table.put(slot, fields.BATCH_CODEC, "none")
        table.put(slot, fields.BATCH_FORMAT, run.format)
        table.put(slot, fields.BATCH_CHECKSUM_KIND, run.checksum_kind)
        table.put(slot, fields.BATCH_CHECKSUM_STORED, verdict.stored)
        table.put(slot, fields.BATCH_CHECKSUM_COMPUTED, verdict.computed)
        table.put(slot, fields.BATCH_VERDICT, verdict.verdict)
        if unit.batch is not None and unit.batch.producer is not None:
            table.put(slot, fields.BATCH_PRODUCER, str(unit.batch.producer.id))
            table.put(slot, fields.BATCH_PRODUCER_EPOCH, unit.batch.producer.epoch)
            table.put(slot, fields.BATCH_BASE_SEQUENCE, unit.batch.producer.sequence)
        table.waiting[slot, fields.BATCH_TIME] = frame.first_ns
        table.waiting[slot, fields.BATCH_PACKET_REF] = frame.packet_ref
        if not frame.undivided:
            found = self.conversation.locate(frame, unit.start)
            table.waiting[slot, fields.BATCH_TIME], table.waiting[slot, fields.BATCH_PACKET_REF] = found
        table.waiting[slot, fields.BATCH_STREAM_OFFSET] = frame.offset + unit.start - frame.start

    def _bad(
        self,
        run: MessageRun,
        unit: IggyUnit,
        verdict: ChecksumVerdict,
        frame: Frame,
        slot: int,
        request: PendingRequest,
    ) -> None:
        assert verdict.covered is not None
        row = self.report.batches.values(slot)
        at, size = verdict.covered
        message = None if verdict.bad is None else run.of(unit)[verdict.bad]
        what = "batch" if message is None else f"message {verdict.bad}"
        self.conversation.finding_within(
            frame,
            at,
            "checksum_mismatch",
            f"The checksum of {what} does not fit its bytes",
            length=size,
            api=request.api,
            topic=_plain(row.topic),
            partition=row.partition,
            position=str(message.offset) if message and message.offset is not None else row.position,
            message_index=verdict.bad,
            message_id=str(message_id(frame.data, message.id_at)) if message else None,
            wrong=verdict.wrong,
            checksum_kind=run.checksum_kind,
            stored=verdict.stored,
            computed=verdict.computed,
        )
        for kind, stored, computed, checksum, covered in suspects(run, unit, frame.data):
            self.conversation.suspect(
                frame,
                run.format,
                kind,
                stored,
                computed,
                unit=(unit.start, unit.end),
                covered=covered,
                checksum=checksum,
                byteorder="little",
            )

    def _messages(
        self,
        run: MessageRun,
        unit: IggyUnit,
        frame: Frame,
        facts: FrameFacts,
        batch: int,
        role: str,
        request: PendingRequest,
        key: bytes | None,
    ) -> None:
        """Write a row of `messages` for each message of a unit. key: the one key of all of them."""
        payloads, produced, report = self.report.sink.payloads, role == PRODUCE, self.report
        row = report.batches.values(batch)
        table: RowTable = report.messages
        slot: cython.Py_ssize_t
        for m in run.of(unit):
            headers = batches.headers_of(run, m, frame.data)
            timestamp = m.timestamp or m.origin if produced else m.timestamp
            slot = report.open_message(request, facts)
            table.put(slot, fields.MESSAGE_ROLE, role)
            table.put(slot, fields.MESSAGE_TOPIC, row.topic)
            table.put(slot, fields.MESSAGE_PARTITION, row.partition)
            if not produced and m.offset is not None:
                table.put(slot, fields.MESSAGE_OFFSET, m.offset)
                table.put(slot, fields.MESSAGE_POSITION, str(m.offset))
            table.put(slot, fields.MESSAGE_TIMESTAMP, timestamp * NS_PER_US or None)
            table.put(slot, fields.MESSAGE_EVENT_TIME, m.origin * NS_PER_US or None)
            table.put(slot, fields.MESSAGE_MESSAGE_ID, str(message_id(frame.data, m.id_at)))
            table.put(slot, fields.MESSAGE_STATE, batches.STATES.get(m.state))
            if key is not None:
                table.waiting[slot, fields.MESSAGE_KEY_BYTES] = len(key)
            table.waiting[slot, fields.MESSAGE_VALUE_BYTES] = m.payload_length
            if headers is not None:
                table.waiting[slot, fields.MESSAGE_HEADER_COUNT] = len(headers)
                table.put(slot, fields.MESSAGE_TRACE_ID, _trace_id(headers))
            table.waiting[slot, fields.MESSAGE_HEADER_BYTES] = m.headers_length
            if payloads:
                table.put(slot, fields.MESSAGE_KEY, key)
                table.put(slot, fields.MESSAGE_VALUE, frame.data[m.payload : m.payload + m.payload_length])
                table.put(slot, fields.MESSAGE_HEADERS, json.dumps(headers) if headers else None)
            table.put(slot, fields.MESSAGE_TIME, row.time)
            table.put(slot, fields.MESSAGE_PACKET_REF, row.packet_ref)
            table.put(slot, fields.MESSAGE_STREAM_OFFSET, row.stream_offset)
            report.finish_message(slot)


def _trace_id(headers: list[dict[str, Any]]) -> str | None:
    return next((trace_id(each["value"]) for each in headers if each["key"] == HEADER), None)


@compiled
def _ns(us: cython.longlong) -> cython.longlong:
    """Microseconds as ns; beyond 63 bits, and of a number beyond them (it is negative), the largest number."""
    return LARGEST if us < 0 or us > LARGEST // NS_PER_US else us * NS_PER_US


@compiled
def _known_ns(ns: cython.longlong) -> cython.longlong:
    """A time that `_ns` gave; ABSENT where it was too large."""
    return ABSENT if ns == LARGEST else ns


def _plain(topic: str | None) -> str | None:
    """A topic for evidence: tokens are not replaced there, so their fallbacks are shown."""
    if topic is None or "\0" not in topic:
        return topic
    parts = topic.split("\0")
    return "".join(parts[i] if i % 3 != 1 else "" for i in range(len(parts)))


def _message_dicts(run: MessageRun, buf: bytes) -> list[dict[str, Any]]:
    return [
        {
            "id": str(message_id(buf, m.id_at)),
            "offset": m.offset,
            "timestamp": m.timestamp,
            "origin_timestamp": m.origin,
            **({"state": batches.STATES[m.state]} if m.state else {}),
            "payload_length": m.payload_length,
            "user_headers": batches.headers_of(run, m, buf),
        }
        for m in run.messages
    ]
