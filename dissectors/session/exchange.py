"""The exchange layer: what an open request is, what an error is, and how rows are reported. One way for all protocols.

    FrameFacts       what a frame says of itself (dissectors.session.frame)
    PendingRequest   what is kept of a request until its answer comes
    ErrorCode        one error in an answer
    Report           opens rows, sets what all protocols have, and finishes them

A protocol writes a row in three steps:

    slot = report.open_exchange(CALL, request, response, None)     what the request and the two frames say
    report.exchanges.put(slot, fields.EXCHANGE_TOPICS, topics)            what the answer says: values with `put`,
    report.exchanges.waiting[slot, fields.EXCHANGE_RECORDS] = n           numbers at their place
    report.finish_exchange(slot)

Numbers that are not known are ABSENT. To add a column to `exchanges`: name it in records.py, and set it where a
protocol sets its columns, or in `_write_frames` if it follows from times and sizes of frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.records import Conn, Exchange
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.rows.table import RowTable, int64
from dissectors.session.closing import Closing
from dissectors.session.frame import FrameFacts
from dissectors.session.resends import Resends
from dissectors.tcp.chunk import CLIENT, SIDES

CALL, UNANSWERED, ONE_WAY, PUSH, ORPHAN = "call", "unanswered", "oneway", "push", "orphan"  # kinds of exchange
OK, FAILED, UNKNOWN = "ok", "error", "unknown"  # status of an exchange, outcome of a batch
PRODUCE, CONSUME, REPLICATE = "produce", "consume", "replicate"  # roles of a batch
LONGEST_TEXT = 1000
"""Characters of a text that an event keeps; a name in Kafka has 249 at most, others may have 64 KiB."""


class ErrorCode(NamedTuple):
    """One error in an answer."""

    code: int | None  # None where the answer says that it failed, but not why
    name: str | None
    scope: str  # what failed: request, topic, partition, group …
    retriable: bool | None = None  # None where the protocol does not say
    topic: str | None = None
    partition: int | None = None
    message: str | None = None  # text that came with it
    expected: bool = False  # part of normal work


@carried
@compiled
class PendingRequest:
    """What is kept of a request until its answer comes. None of its bytes are kept. Numbers are ABSENT if not known.

    A protocol's own requests are a subclass with what that protocol needs besides.
    """

    frame: FrameFacts | None
    api: str | None
    api_code: cython.longlong
    version: cython.longlong
    correlation_id: cython.longlong
    client_id: str | None
    group: str | None
    topics: Sequence[str] | None
    partitions: cython.longlong
    records: cython.longlong
    payload_bytes: cython.longlong
    queued_ns: cython.longlong
    body: str | None

    def __init__(
        self,
        frame: FrameFacts | None,
        api: str | None,
        api_code: int | None,
        *,
        version: int | None = None,
        correlation_id: int | None = None,
        client_id: str | None = None,
    ) -> None:
        self.begin(frame, api, int64(api_code))
        self.version = int64(version)
        self.correlation_id = int64(correlation_id)
        self.client_id = client_id

    @compiled(python=False)
    def begin(self, frame: FrameFacts | None, api: str | None, api_code: cython.longlong) -> None:
        """Set every attribute of a new request. frame: None where the request was not captured."""
        self.frame = frame
        self.api = api
        self.api_code = api_code
        self.version = ABSENT
        self.correlation_id = ABSENT
        self.client_id = None
        self.group = None
        self.topics = None
        self.partitions = ABSENT
        self.records = ABSENT
        self.payload_bytes = ABSENT
        self.queued_ns = ABSENT
        self.body = None  # decoded, as JSON; where it is wanted only


@final
@compiled
class SentBatch:
    """A unit of messages that was sent: its row of `batches` waits at a slot for the answer to the request."""

    sink: Sink
    slot: cython.Py_ssize_t

    def __init__(self, sink: Sink, slot: cython.Py_ssize_t) -> None:
        self.sink = sink
        self.slot = slot

    def __reduce__(self) -> tuple[Any, tuple[Sink, Sequence[Any]]]:
        return sent_again, (self.sink, self.sink.batches.values(self.slot))


def sent_again(sink: Sink, row: Sequence[Any]) -> SentBatch:
    """A unit whose row waits again, in another process."""
    return SentBatch(sink, sink.batches.reopen(row))


# --- formulas; each time may be ABSENT, and so may the result ---------------------------------------------------------


@compiled
def elapsed(start: cython.longlong, end: cython.longlong) -> cython.longlong:
    """From start to end, ns: ABSENT where either is not known, or where the clock of the capture ran backwards."""
    return ABSENT if start < 0 or end < start else end - start  # times that are not known are below 0


@compiled
def queued(request: FrameFacts, response: FrameFacts, before_ns: cython.longlong) -> cython.longlong:
    """How long a whole request waited, ns, until the answer before it had been sent, at `before_ns`.

    For servers that serve the requests of one connection one at a time. `before_ns` is ABSENT where no answer came
    before.
    """
    if request.last_ns < 0 or response.first_ns < request.last_ns:  # times that are not known are below 0
        return ABSENT
    waited: cython.longlong = (before_ns if before_ns < response.first_ns else response.first_ns) - request.last_ns
    return 0 if before_ns == ABSENT or waited < 0 else waited


HELD_NS = 4_000_000  # a request that need not wait is answered sooner …
HELD_NS_PER_BYTE = 10  # … and an answer with data needs the time to read it: 100 MB/s


@compiled
def held(wait_ns: cython.longlong, queued_ns: cython.longlong, payload_bytes: cython.longlong) -> cython.longlong:
    """Whether a server held a request back, which allowed it to wait for data: 1 or 0, by the time its service took.

    Against the logs of brokers: 99.9 % of 5,850 fetches that were held 5 ms and more, none of 1,557 that were ready.
    A slow disk looks the same: where the answer itself tells, the protocol does (`kafka/fetch.py`).
    """
    if wait_ns == ABSENT:
        return ABSENT
    served: cython.longlong = wait_ns if queued_ns == ABSENT else wait_ns - queued_ns
    needed: cython.longlong = 0 if payload_bytes == ABSENT else payload_bytes * HELD_NS_PER_BYTE
    return served > HELD_NS + needed


# --- rows ------------------------------------------------------------------------------------------------------------


@compiled
class RowHolder:
    """Takes finished rows in their table's place, to complete them later."""

    @compiled
    def hold(self, table: RowTable, slot: cython.Py_ssize_t) -> None:
        """Take the finished row at a slot of `exchanges` or `batches`."""
        raise NotImplementedError


@final
@compiled
class Report:
    """Writes the rows of one connection.

    Callers ask `wants_exchanges` and so on first: opening a row of a table that nobody wants is an error of theirs.
    """

    conn: Conn
    sink: Sink
    exchanges: RowTable
    batches: RowTable
    errors: RowTable
    messages: RowTable
    positions: RowTable
    events: RowTable
    wants_exchanges: cython.bint
    wants_errors: cython.bint
    wants_batches: cython.bint
    wants_messages: cython.bint
    wants_findings: cython.bint
    wants_positions: cython.bint
    wants_events: cython.bint
    looks_into_batches: cython.bint  # whether a wanted table needs more of a batch than its size and count
    _resends: Resends
    _closing: Closing
    _unsettled: FrameFacts | None = None  # the answer of the open row, if the end of the connection judges it
    _holder: RowHolder | None

    def __init__(
        self,
        conn: Conn,
        sink: Sink,
        resends: Resends,
        closing: Closing,
        holder: RowHolder | None = None,
    ) -> None:
        """holder: takes finished rows of `exchanges` and `batches` in the table's place."""
        self.conn = conn
        self.sink = sink
        self._resends = resends
        self._closing = closing
        self._holder = holder
        self.exchanges = sink.exchanges
        self.batches = sink.batches
        self.errors = sink.errors
        self.messages = sink.messages
        self.positions = sink.positions
        self.events = sink.events
        self.wants_exchanges = "exchanges" in sink.tables
        self.wants_errors = "errors" in sink.tables
        self.wants_batches = "batches" in sink.tables
        self.wants_messages = "messages" in sink.tables
        self.wants_findings = "findings" in sink.tables
        self.wants_positions = "positions" in sink.tables
        self.wants_events = "events" in sink.tables
        self.looks_into_batches = self.wants_batches or self.wants_messages or self.wants_findings

    def __reduce__(self) -> Any:
        return Report, (self.conn, self.sink, self._resends, self._closing, self._holder)

    # --- exchanges ---

    @compiled
    def open_exchange(
        self, kind: str, request: PendingRequest, response: FrameFacts | None, until: Any
    ) -> cython.Py_ssize_t:
        """Open a row for a request with its answer, or for one of the two; its slot. The status is "unknown".

        request: what is known of the exchange, also where its frame was not captured. until: the delivery at which an
        answer was waited for no longer; None where it came.
        """
        table: RowTable = self.exchanges
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, fields.EXCHANGE_CONN, self.conn)
        table.put_text(slot, fields.EXCHANGE_KIND, kind)
        table.put_text(slot, fields.EXCHANGE_API, request.api)
        table.put_text(slot, fields.EXCHANGE_CLIENT_ID, request.client_id)
        table.put_text(slot, fields.EXCHANGE_GROUP, request.group)
        table.put(slot, fields.EXCHANGE_TOPICS, request.topics)
        table.put_text(slot, fields.EXCHANGE_STATUS, UNKNOWN)
        table.put_text(slot, fields.EXCHANGE_INITIATOR, _initiator(kind, request.frame, response))
        if request.body is not None and self.sink.wants_body(request.api):
            table.put(slot, fields.EXCHANGE_REQUEST, request.body)
        table.waiting[slot, fields.EXCHANGE_API_CODE] = request.api_code
        table.waiting[slot, fields.EXCHANGE_VERSION] = request.version
        table.waiting[slot, fields.EXCHANGE_CORRELATION_ID] = request.correlation_id
        table.waiting[slot, fields.EXCHANGE_PARTITIONS] = request.partitions
        table.waiting[slot, fields.EXCHANGE_RECORDS] = request.records
        table.waiting[slot, fields.EXCHANGE_PAYLOAD_BYTES] = request.payload_bytes
        table.waiting[slot, fields.EXCHANGE_QUEUED_NS] = request.queued_ns
        table.waiting[slot, fields.EXCHANGE_ERROR_COUNT] = 0
        again: cython.bint = bool(self._resends.by_direction) and self._retransmitted(request.frame, response, until)
        table.waiting[slot, fields.EXCHANGE_RETRANSMITTED] = again
        self._write_frames(slot, request.frame, response)
        if response is not None:
            if kind is not PUSH:
                table.put_text(slot, fields.EXCHANGE_ANSWER, self._closing.judge(response))
                self._unsettled = response if self._closing.waits(response) else None
        elif kind is UNANSWERED and request.frame is not None:
            table.put_text(slot, fields.EXCHANGE_ANSWER, self._closing.unanswered(request.frame))
        return slot

    @compiled
    def fail(self, slot: cython.Py_ssize_t, errors: Sequence[ErrorCode]) -> None:
        """Say in an open row of `exchanges` that the answer holds errors, at least one."""
        table: RowTable = self.exchanges
        table.put_text(slot, fields.EXCHANGE_STATUS, FAILED)
        table.put(slot, fields.EXCHANGE_ERROR_CODE, errors[0].code)
        table.put(slot, fields.EXCHANGE_ERROR_NAME, errors[0].name)
        table.put(slot, fields.EXCHANGE_ERROR_COUNT, len(errors))

    @compiled
    def finish_exchange(self, slot: cython.Py_ssize_t) -> None:
        """The row of `exchanges` at a slot is complete."""
        table: RowTable = self.exchanges
        if self._unsettled is not None and self._held_back(slot):
            table.drop(slot)
        else:
            self._finish(table, slot)

    def _held_back(self, slot: cython.Py_ssize_t) -> bool:
        """Whether the row at a slot waits for the end of the connection, to know what became of its answer."""
        answer, self._unsettled = self._unsettled, None
        return answer is not None and self._closing.hold(self, self.exchanges.values(slot), answer)

    def write_exchange(self, row: Exchange) -> None:
        """Add a row of `exchanges` that is complete."""
        self._finish(self.exchanges, self.exchanges.reopen(row))

    @compiled
    def _retransmitted(self, request: FrameFacts | None, response: FrameFacts | None, until: Any) -> cython.bint:
        last = request if response is None else response
        if last is None:
            return False
        order: cython.longlong = last.order if until is None else until
        return self._resends.within(last, order) or (request is not None and self._resends.within(request, order))

    @compiled
    def _write_frames(self, slot: cython.Py_ssize_t, request: FrameFacts | None, response: FrameFacts | None) -> None:
        """Set what the frames of an exchange say of it: its times, sizes and places. One of them may be None."""
        table: RowTable = self.exchanges
        first_sent: cython.longlong = ABSENT
        last_sent: cython.longlong = ABSENT
        first_answered: cython.longlong = ABSENT
        last_answered: cython.longlong = ABSENT
        complete: cython.bint = True
        _write_id(table, slot, fields.EXCHANGE_EXCHANGE_ID, response if request is None else request)
        if request is not None:
            first_sent, last_sent = request.first_ns, request.last_ns
            table.waiting[slot, fields.EXCHANGE_REQUEST_BYTES] = request.size
            table.waiting[slot, fields.EXCHANGE_REQUEST_PACKET_REF] = request.packet_ref
            complete = request.complete
        if response is not None:
            first_answered, last_answered = response.first_ns, response.last_ns
            table.waiting[slot, fields.EXCHANGE_RESPONSE_BYTES] = response.size
            table.waiting[slot, fields.EXCHANGE_RESPONSE_PACKET_REF] = response.packet_ref
            complete = complete and response.complete
        table.waiting[slot, fields.EXCHANGE_TIME] = first_answered if first_sent == ABSENT else first_sent
        table.waiting[slot, fields.EXCHANGE_REQUEST_NS] = elapsed(first_sent, last_sent)
        table.waiting[slot, fields.EXCHANGE_WAIT_NS] = elapsed(last_sent, first_answered)
        table.waiting[slot, fields.EXCHANGE_RESPONSE_NS] = elapsed(first_answered, last_answered)
        table.waiting[slot, fields.EXCHANGE_TOTAL_NS] = elapsed(first_sent, last_answered)
        table.waiting[slot, fields.EXCHANGE_COMPLETE] = complete

    # --- what exchanges carry ---

    @compiled
    def open_batch(self, request: PendingRequest, frame: FrameFacts | None) -> cython.Py_ssize_t:
        """Open a row for a checksummed unit of messages, which `frame` of an exchange carried; its slot.

        frame: None where bytes carried it whose exchange is not known, and has no row.
        """
        table: RowTable = self.batches
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, fields.BATCH_CONN, self.conn)
        table.put_text(slot, fields.BATCH_API, request.api)
        table.put_text(slot, fields.BATCH_CLIENT_ID, request.client_id)
        table.put_text(slot, fields.BATCH_GROUP, request.group)
        table.waiting[slot, fields.BATCH_CORRELATION_ID] = request.correlation_id
        _write_id(table, slot, fields.BATCH_EXCHANGE_ID, frame if request.frame is None else request.frame)
        return slot

    @compiled
    def finish_batch(self, slot: cython.Py_ssize_t) -> None:
        """The row of `batches` at a slot is complete."""
        self._finish(self.batches, slot)

    @compiled
    def open_message(self, request: PendingRequest, frame: FrameFacts | None) -> cython.Py_ssize_t:
        """Open a row for a message, which `frame` of an exchange carried, as for `open_batch`; its slot."""
        table: RowTable = self.messages
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, fields.MESSAGE_CONN, self.conn)
        table.put(slot, fields.MESSAGE_API, request.api)
        table.put(slot, fields.MESSAGE_GROUP, request.group)
        table.waiting[slot, fields.MESSAGE_CORRELATION_ID] = request.correlation_id
        _write_id(table, slot, fields.MESSAGE_EXCHANGE_ID, frame if request.frame is None else request.frame)
        return slot

    @compiled
    def finish_message(self, slot: cython.Py_ssize_t) -> None:
        """The row of `messages` at a slot is complete."""
        self.messages.finish(slot)

    @compiled
    def error(self, error: ErrorCode, request: PendingRequest, response: FrameFacts) -> None:
        """Write a row for an error in the answer to a request, if that table is wanted."""
        if self.wants_errors:
            table: RowTable = self.errors
            slot: cython.Py_ssize_t = table.open()
            table.put(slot, fields.ERROR_CONN, self.conn)
            table.put(slot, fields.ERROR_API, request.api)
            table.put(slot, fields.ERROR_SCOPE, error.scope)
            table.put(slot, fields.ERROR_TOPIC, error.topic)
            table.put(slot, fields.ERROR_PARTITION, error.partition)
            table.put(slot, fields.ERROR_CODE, error.code)
            table.put(slot, fields.ERROR_NAME, error.name)
            table.put(slot, fields.ERROR_RETRIABLE, error.retriable)
            table.put(slot, fields.ERROR_MESSAGE, error.message)
            table.put(slot, fields.ERROR_CLIENT_ID, request.client_id)
            table.put(slot, fields.ERROR_EXPECTED, error.expected)
            table.waiting[slot, fields.ERROR_VERSION] = request.version
            table.waiting[slot, fields.ERROR_CORRELATION_ID] = request.correlation_id
            table.waiting[slot, fields.ERROR_TIME] = response.first_ns
            table.waiting[slot, fields.ERROR_PACKET_REF] = response.packet_ref
            _write_id(table, slot, fields.ERROR_EXCHANGE_ID, response if request.frame is None else request.frame)
            table.finish(slot)

    # --- positions ---

    @compiled
    def open_position(self, request: PendingRequest, frame: FrameFacts) -> cython.Py_ssize_t:
        """Open a row for a position that `frame`, the request or its answer, states; its slot.

        Its caller writes one row from it with `positions.finish`, or several with `positions.add` and `positions.drop`.
        """
        table: RowTable = self.positions
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, fields.POSITION_CONN, self.conn)
        table.put_text(slot, fields.POSITION_API, request.api)
        table.put_text(slot, fields.POSITION_CLIENT_ID, request.client_id)
        table.put_text(slot, fields.POSITION_GROUP, request.group)
        table.waiting[slot, fields.POSITION_CORRELATION_ID] = request.correlation_id
        table.waiting[slot, fields.POSITION_TIME] = frame.first_ns
        table.waiting[slot, fields.POSITION_PACKET_REF] = frame.packet_ref
        _write_id(table, slot, fields.POSITION_EXCHANGE_ID, frame if request.frame is None else request.frame)
        return slot

    # --- events ---

    def event(
        self,
        kind: str,
        request: PendingRequest,
        frame: FrameFacts,
        *,
        thing: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        subject: str | None = None,
        number: int | None = None,
        text: str | None = None,
    ) -> None:
        """Write what `frame`, the request or its answer, says, if that table is wanted: see `records.Event`.

        group: None for the one that the request names.
        """
        if not self.wants_events:
            return
        table: RowTable = self.events
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, fields.EVENT_CONN, self.conn)
        table.put(slot, fields.EVENT_KIND, kind)
        table.put(slot, fields.EVENT_THING, thing)
        table.put(slot, fields.EVENT_TOPIC, topic)
        table.put(slot, fields.EVENT_PARTITION, partition)
        table.put(slot, fields.EVENT_GROUP, request.group if group is None else group)
        table.put(slot, fields.EVENT_SUBJECT, shortened(subject))
        table.put(slot, fields.EVENT_NUMBER, number)
        table.put(slot, fields.EVENT_TEXT, shortened(text))
        table.put(slot, fields.EVENT_CLIENT_ID, request.client_id)
        table.put(slot, fields.EVENT_DIRECTION, SIDES[frame.direction])
        table.put(slot, fields.EVENT_API, request.api)
        table.waiting[slot, fields.EVENT_CORRELATION_ID] = request.correlation_id
        table.waiting[slot, fields.EVENT_TIME] = frame.first_ns
        table.waiting[slot, fields.EVENT_PACKET_REF] = frame.packet_ref
        _write_id(table, slot, fields.EVENT_EXCHANGE_ID, frame if request.frame is None else request.frame)
        table.finish(slot)

    @compiled
    def _finish(self, table: RowTable, slot: cython.Py_ssize_t) -> None:
        if self._holder is None:
            table.finish(slot)
        else:
            self._holder.hold(table, slot)


def shortened(text: str | None) -> str | None:
    """The first characters of a text from the wire, of which an event keeps LONGEST_TEXT."""
    return text if text is None or len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"


@compiled
def _initiator(kind: str, request: FrameFacts | None, response: FrameFacts | None) -> str | None:
    """Who began an exchange: "client" or "server"; None where neither frame is known."""
    frame: FrameFacts | None = response if request is None else request
    if frame is None:
        return None
    direction: cython.int = frame.direction
    if request is None and kind == ORPHAN:  # the frame answers the other side
        direction = 1 - direction
    return SIDES[direction]


@compiled
def _write_id(table: RowTable, slot: cython.Py_ssize_t, field: cython.Py_ssize_t, begins: FrameFacts | None) -> None:
    """Set the id of the exchange that a frame begins, as `records.LOOSE_KINDS` has it."""
    if begins is not None:
        table.waiting[slot, field] = begins.offset << 1 | (begins.direction != CLIENT)
