"""The exchange layer: what an open request is, what an error is, and how rows are reported. One way for all protocols.

    FrameFacts       what a frame says of itself (dissectors.frame)
    PendingRequest   what is kept of a request until its answer comes
    ErrorCode        one error in an answer
    Report           writes rows
    columns_from_frames  what the frames of exchanges say of them, by column

To add a column to `exchanges`: name it in records.py, and write it in `Report.exchange`, or in `_write_frames` if it
follows from times and sizes of frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cython
import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.frame import FrameFacts
from dissectors.records import Conn
from dissectors.resends import Resends
from dissectors.rows.sink import Coded, Masked, Sink, text_column
from dissectors.rows.table import RowTable
from dissectors.tcp.chunk import CLIENT

if not cython.compiled:
    from dissectors.rows.fields import (
        BATCH_API,
        BATCH_CLIENT_ID,
        BATCH_CONN,
        BATCH_CORRELATION_ID,
        BATCH_EXCHANGE_ID,
        BATCH_GROUP,
        ERROR_API,
        ERROR_CLIENT_ID,
        ERROR_CODE,
        ERROR_CONN,
        ERROR_CORRELATION_ID,
        ERROR_EXCHANGE_ID,
        ERROR_EXPECTED,
        ERROR_MESSAGE,
        ERROR_NAME,
        ERROR_PACKET_REF,
        ERROR_PARTITION,
        ERROR_RETRIABLE,
        ERROR_SCOPE,
        ERROR_TIME,
        ERROR_TOPIC,
        ERROR_VERSION,
        EXCHANGE_API,
        EXCHANGE_API_CODE,
        EXCHANGE_CLIENT_ID,
        EXCHANGE_COMPLETE,
        EXCHANGE_CONN,
        EXCHANGE_CORRELATION_ID,
        EXCHANGE_ERROR_CODE,
        EXCHANGE_ERROR_COUNT,
        EXCHANGE_ERROR_NAME,
        EXCHANGE_EXCHANGE_ID,
        EXCHANGE_GROUP,
        EXCHANGE_KIND,
        EXCHANGE_PARTITIONS,
        EXCHANGE_PAYLOAD_BYTES,
        EXCHANGE_RECORDS,
        EXCHANGE_REQUEST,
        EXCHANGE_REQUEST_BYTES,
        EXCHANGE_REQUEST_NS,
        EXCHANGE_REQUEST_PACKET_REF,
        EXCHANGE_RESPONSE,
        EXCHANGE_RESPONSE_BYTES,
        EXCHANGE_RESPONSE_NS,
        EXCHANGE_RESPONSE_PACKET_REF,
        EXCHANGE_RETRANSMITTED,
        EXCHANGE_STATUS,
        EXCHANGE_TIME,
        EXCHANGE_TOPICS,
        EXCHANGE_TOTAL_NS,
        EXCHANGE_VERSION,
        EXCHANGE_WAIT_NS,
        MESSAGE_API,
        MESSAGE_CONN,
        MESSAGE_CORRELATION_ID,
        MESSAGE_EXCHANGE_ID,
        MESSAGE_GROUP,
    )
    from dissectors.rows.layout import ABSENT

CALL, UNANSWERED, ONE_WAY, PUSH, ORPHAN = "call", "unanswered", "oneway", "push", "orphan"  # kinds of exchange
OK, FAILED, UNKNOWN = "ok", "error", "unknown"  # status of an exchange, outcome of a batch
PRODUCE, CONSUME, REPLICATE = "produce", "consume", "replicate"  # roles of a batch


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


class PendingRequest:
    """What is kept of a request until its answer comes. None of its bytes are kept.

    A protocol's own requests are a subclass with what that protocol needs besides.
    """

    __slots__ = (
        "api",
        "api_code",
        "body",
        "client_id",
        "correlation_id",
        "frame",
        "group",
        "partitions",
        "payload_bytes",
        "records",
        "topics",
        "version",
    )

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
        self.frame = frame  # None: the request was not captured
        self.api = api
        self.api_code = api_code
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.group: str | None = None
        self.topics: Sequence[str] | None = None
        self.partitions: int | None = None
        self.records: int | None = None
        self.payload_bytes: int | None = None
        self.body: str | None = None  # decoded, as JSON


# --- formulas: of single values, or of columns -----------------------------------------------------------------------


def elapsed(start: int | None, end: int | None) -> int | None:
    """From start to end, ns: None where a time is not known, or where the clock of the capture ran backwards."""
    ns = _elapsed(_number(start), _number(end))
    return None if ns == ABSENT else ns


def _elapsed(start: cython.longlong, end: cython.longlong) -> cython.longlong:
    return ABSENT if start < 0 or end < start else end - start  # ABSENT and NO_TIME are below 0


def _number(value: Any) -> cython.longlong:
    return ABSENT if value is None else value


def _elapsed_columns(start: Ints, end: Ints) -> Masked:
    """`elapsed` of columns."""
    return Masked(end - start, (end < start) | (start < 0))


def queued(request: FrameFacts, response: FrameFacts, before_ns: Any) -> Any:
    """How long a whole request waited, ns, until the answer before it had been sent, at `before_ns`.

    For servers that serve the requests of one connection one at a time. `before_ns` is None (in a column: 0) where no
    answer came before.
    """
    if request.last_ns is None:
        return None
    if isinstance(before_ns, np.ndarray):
        waited = np.minimum(before_ns, response.first_ns) - request.last_ns
        return Masked(np.maximum(waited, 0), (response.first_ns < request.last_ns) | (request.last_ns < 0))
    if response.first_ns < request.last_ns or request.last_ns < 0:
        return None
    return 0 if before_ns is None else max(0, min(before_ns, response.first_ns) - request.last_ns)


HELD_NS = 4_000_000  # a request that need not wait is answered sooner …
HELD_NS_PER_BYTE = 10  # … and an answer with data needs the time to read it: 100 MB/s


def held(wait_ns: Any, queued_ns: Any, payload_bytes: Any) -> Any:
    """Whether a server held a request back, which allowed it to wait for data: by the time that its service took.

    Against the logs of brokers: 99.9 % of 5,850 fetches that were held 5 ms and more, none of 1,557 that were ready.
    A slow disk looks the same.
    """
    if isinstance(payload_bytes, np.ndarray):
        service = wait_ns.values - queued_ns.values
        return ~wait_ns.missing & (service > HELD_NS + payload_bytes * HELD_NS_PER_BYTE)
    if wait_ns is None:
        return None
    return wait_ns - (queued_ns or 0) > HELD_NS + (payload_bytes or 0) * HELD_NS_PER_BYTE


def exchange_ids(conns: Coded, frames: FrameFacts) -> Any:
    """The ids of the exchanges that frames begin, by column: connection, direction, stream offset of the first byte."""
    ids = Coded([conn.id for conn in conns.values], conns.codes)
    sides = Coded(["-c", "-s"], (frames.direction != CLIENT).astype(np.int64))
    return text_column(ids, sides, frames.offset)


def columns_from_frames(request: FrameFacts | None, response: FrameFacts | None) -> dict[str, Any]:
    """Columns of `exchanges` that follow from columns of frames, of exchanges of one kind; but for `retransmitted`."""
    if request is None:
        assert response is not None
        return {
            "time": response.first_ns,
            "response_ns": _elapsed_columns(response.first_ns, response.last_ns),
            "response_bytes": response.size,
            "complete": response.complete,
            "response_packet_ref": response.packet_ref,
        }
    sent = {
        "time": request.first_ns,
        "request_ns": _elapsed_columns(request.first_ns, request.last_ns),
        "request_bytes": request.size,
        "request_packet_ref": request.packet_ref,
    }
    if response is None:
        return sent | {"complete": request.complete}
    return sent | {
        "wait_ns": _elapsed_columns(request.last_ns, response.first_ns),
        "response_ns": _elapsed_columns(response.first_ns, response.last_ns),
        "total_ns": _elapsed_columns(request.first_ns, response.last_ns),
        "response_bytes": response.size,
        "complete": request.complete & response.complete,
        "response_packet_ref": response.packet_ref,
    }


_OF_REQUEST = ("request_ns", "request_bytes", "request_packet_ref")
_OF_RESPONSE = ("response_ns", "response_bytes", "response_packet_ref")
_OF_BOTH = ("wait_ns", "total_ns", "queued_ns")


def columns_of_some(columns: dict[str, Any], no_request: Bools, no_response: Bools) -> dict[str, Any]:
    """Columns of exchanges, some of which have no request or no response: what is not there is null in them."""
    return columns | {
        name: _without(columns[name], missing)
        for names, missing in (
            (_OF_REQUEST, no_request),
            (_OF_RESPONSE, no_response),
            (_OF_BOTH, no_request | no_response),
        )
        if missing.any()
        for name in names
    }


def _without(column: Ints | Masked, missing: Bools) -> Masked:
    """A column in which more values are missing."""
    return Masked(column.values, column.missing | missing) if isinstance(column, Masked) else Masked(column, missing)


# --- rows ------------------------------------------------------------------------------------------------------------


class Report:
    """Writes the rows of one connection."""

    __slots__ = (
        "conn",
        "_resends",
        "sink",
        "wants_batches",
        "wants_errors",
        "wants_exchanges",
        "wants_findings",
        "wants_messages",
    )

    def __init__(self, conn: Conn, sink: Sink, resends: Resends) -> None:
        self.conn = conn
        self.sink = sink
        self._resends = resends
        self.wants_exchanges = "exchanges" in sink.tables
        self.wants_errors = "errors" in sink.tables
        self.wants_batches = "batches" in sink.tables
        self.wants_messages = "messages" in sink.tables
        self.wants_findings = "findings" in sink.tables

    @property
    def looks_into_batches(self) -> bool:
        """Whether any wanted table needs more of a batch than its size and count."""
        return self.wants_batches or self.wants_messages or self.wants_findings

    def exchange(
        self,
        kind: str,
        request: PendingRequest,
        response: FrameFacts | None = None,
        *,
        status: str = UNKNOWN,
        errors: Sequence[ErrorCode] = (),
        topics: Sequence[str] | None = None,
        partitions: int | None = None,
        records: int | None = None,
        payload_bytes: int | None = None,
        body: str | None = None,
        until: int | None = None,
        **columns: Any,
    ) -> None:
        """Write a row for a request with its answer, or for one of the two; and one of `errors` for each error in it.

        request: what is known of the exchange, also where its frame was not captured. topics, partitions, records,
        payload_bytes: what the answer says; None where it says no more than the request. body: the decoded answer.
        until: the delivery at which an answer was waited for no longer. columns: further ones of `exchanges`, or that
        override what the frames say.
        """
        if errors and response is not None:
            for error in errors:
                self.error(error, request, response)
        if not self.wants_exchanges:
            return
        table: RowTable = self.sink.exchanges
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, EXCHANGE_CONN, self.conn)
        table.put(slot, EXCHANGE_KIND, kind)
        table.put(slot, EXCHANGE_API, request.api)
        table.put(slot, EXCHANGE_API_CODE, request.api_code)
        table.put(slot, EXCHANGE_VERSION, request.version)
        table.put(slot, EXCHANGE_CORRELATION_ID, request.correlation_id)
        table.put(slot, EXCHANGE_CLIENT_ID, request.client_id)
        table.put(slot, EXCHANGE_GROUP, request.group)
        table.put(slot, EXCHANGE_STATUS, FAILED if errors else status)
        if errors:
            table.put(slot, EXCHANGE_ERROR_CODE, errors[0].code)
            table.put(slot, EXCHANGE_ERROR_NAME, errors[0].name)
        table.put(slot, EXCHANGE_ERROR_COUNT, len(errors))
        table.put(slot, EXCHANGE_TOPICS, request.topics if topics is None else topics)
        table.put(slot, EXCHANGE_PARTITIONS, request.partitions if partitions is None else partitions)
        table.put(slot, EXCHANGE_RECORDS, request.records if records is None else records)
        table.put(slot, EXCHANGE_PAYLOAD_BYTES, request.payload_bytes if payload_bytes is None else payload_bytes)
        if self.sink.wants_body(request.api):
            table.put(slot, EXCHANGE_REQUEST, request.body)
            table.put(slot, EXCHANGE_RESPONSE, body)
        again = bool(self._resends.by_direction)
        table.put(slot, EXCHANGE_RETRANSMITTED, again and self._retransmitted(request.frame, response, until))
        _write_frames(table, slot, request.frame, response)
        _write(table, slot, columns)
        self._finish(table, slot)

    def _retransmitted(self, request: FrameFacts | None, response: FrameFacts | None, until: int | None) -> bool:
        frames = [frame for frame in (request, response) if frame is not None]
        order = frames[-1].order if until is None else until
        return any(self._resends.within(frame, order) for frame in frames)

    def error(self, error: ErrorCode, request: PendingRequest, response: FrameFacts) -> None:
        """Write a row for an error in the answer to a request."""
        if not self.wants_errors:
            return
        table: RowTable = self.sink.errors
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, ERROR_CONN, self.conn)
        table.put(slot, ERROR_API, request.api)
        table.put(slot, ERROR_VERSION, request.version)
        table.put(slot, ERROR_SCOPE, error.scope)
        table.put(slot, ERROR_TOPIC, error.topic)
        table.put(slot, ERROR_PARTITION, error.partition)
        table.put(slot, ERROR_CODE, error.code)
        table.put(slot, ERROR_NAME, error.name)
        table.put(slot, ERROR_RETRIABLE, error.retriable)
        table.put(slot, ERROR_MESSAGE, error.message)
        table.put(slot, ERROR_CLIENT_ID, request.client_id)
        table.put(slot, ERROR_CORRELATION_ID, request.correlation_id)
        table.put(slot, ERROR_TIME, response.first_ns)
        table.put(slot, ERROR_PACKET_REF, response.packet_ref)
        table.put(slot, ERROR_EXPECTED, error.expected)
        _write_id(table, slot, ERROR_EXCHANGE_ID, request.frame or response)
        self._finish(table, slot)

    def batch(self, request: PendingRequest, frame: FrameFacts | None, **columns: Any) -> None:
        """Write a row for a checksummed unit of messages, which `frame` of an exchange carried.

        frame: None where bytes carried it whose exchange is not known, and has no row. columns: of `batches`.
        """
        if not self.wants_batches:
            return
        table: RowTable = self.sink.batches
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, BATCH_CONN, self.conn)
        table.put(slot, BATCH_API, request.api)
        table.put(slot, BATCH_CLIENT_ID, request.client_id)
        table.put(slot, BATCH_CORRELATION_ID, request.correlation_id)
        table.put(slot, BATCH_GROUP, request.group)
        _write_id(table, slot, BATCH_EXCHANGE_ID, request.frame or frame)
        _write(table, slot, columns)
        self._finish(table, slot)

    def message(self, request: PendingRequest, frame: FrameFacts | None, **columns: Any) -> None:
        """Write a row for a message, which `frame` of an exchange carried, as for `batch`. columns: of `messages`."""
        if not self.wants_messages:
            return
        table: RowTable = self.sink.messages
        slot: cython.Py_ssize_t = table.open()
        table.put(slot, MESSAGE_CONN, self.conn)
        table.put(slot, MESSAGE_API, request.api)
        table.put(slot, MESSAGE_CORRELATION_ID, request.correlation_id)
        table.put(slot, MESSAGE_GROUP, request.group)
        _write_id(table, slot, MESSAGE_EXCHANGE_ID, request.frame or frame)
        _write(table, slot, columns)
        self._finish(table, slot)

    def _finish(self, table: RowTable, slot: int) -> None:
        """Hand a row to the sink, of which it is a slot of a table."""
        table.finish(slot)


def _write(table: RowTable, slot: cython.Py_ssize_t, columns: dict[str, Any]) -> None:
    """Set fields by name. Raises KeyError for a name that the table does not have."""
    places: dict[str, int] = table.layout.places
    for name, value in columns.items():
        table.put(slot, places[name], value)


def _write_id(table: RowTable, slot: cython.Py_ssize_t, field: cython.Py_ssize_t, begins: FrameFacts | None) -> None:
    """Set the id of the exchange that a frame begins, as `records.LOOSE_KINDS` has it."""
    if begins is not None:
        table.waiting[slot, field] = begins.offset << 1 | (begins.direction != CLIENT)


def _write_frames(
    table: RowTable, slot: cython.Py_ssize_t, request: FrameFacts | None, response: FrameFacts | None
) -> None:
    """Set what the frames of an exchange say of it: its times, sizes and places. One of them may be None."""
    first_sent: cython.longlong = ABSENT
    last_sent: cython.longlong = ABSENT
    first_answered: cython.longlong = ABSENT
    last_answered: cython.longlong = ABSENT
    complete: cython.bint = True
    _write_id(table, slot, EXCHANGE_EXCHANGE_ID, request or response)
    if request is not None:
        first_sent, last_sent = request.first_ns, _number(request.last_ns)
        table.waiting[slot, EXCHANGE_REQUEST_BYTES] = request.size
        table.waiting[slot, EXCHANGE_REQUEST_PACKET_REF] = request.packet_ref
        complete = request.complete
    if response is not None:
        first_answered, last_answered = response.first_ns, _number(response.last_ns)
        table.waiting[slot, EXCHANGE_RESPONSE_BYTES] = response.size
        table.waiting[slot, EXCHANGE_RESPONSE_PACKET_REF] = response.packet_ref
        complete = complete and response.complete
    table.waiting[slot, EXCHANGE_TIME] = first_answered if first_sent == ABSENT else first_sent
    table.waiting[slot, EXCHANGE_REQUEST_NS] = _elapsed(first_sent, last_sent)
    table.waiting[slot, EXCHANGE_WAIT_NS] = _elapsed(last_sent, first_answered)
    table.waiting[slot, EXCHANGE_RESPONSE_NS] = _elapsed(first_answered, last_answered)
    table.waiting[slot, EXCHANGE_TOTAL_NS] = _elapsed(first_sent, last_answered)
    table.waiting[slot, EXCHANGE_COMPLETE] = complete
