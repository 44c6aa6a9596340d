"""The exchange layer: what an open request is, what an error is, and how rows are reported. One way for all protocols.

    FrameFacts       what a frame says of itself (dissectors.frame)
    PendingRequest   what is kept of a request until its answer comes
    ErrorCode        one error in an answer
    columns_from_frames  the formulas of the table `exchanges`: of one exchange, or of columns of exchanges
    Report           rows by keyword

To add a column to `exchanges`: name it in records.py, and compute it in `columns_from_frames` or `Report.exchange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.frame import FrameFacts
from dissectors.records import Batch, Conn, Error, Exchange, Message
from dissectors.resends import Resends
from dissectors.sink import Coded, Masked, Sink, text_column
from dissectors.tcp.chunk import CLIENT

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


def elapsed(start: Any, end: Any) -> Any:
    """From start to end, ns: null where either is not known, or where the clock of the capture ran backwards."""
    if start is None or end is None:
        return None
    ns = end - start
    if isinstance(ns, np.ndarray):
        return Masked(ns, ns < 0)
    return ns if ns >= 0 else None


def queued(request: FrameFacts, response: FrameFacts, before_ns: Any) -> Any:
    """How long a whole request waited, ns, until the answer before it had been sent, at `before_ns`.

    For servers that serve the requests of one connection one at a time. `before_ns` is None (in a column: 0) where no
    answer came before.
    """
    if request.last_ns is None:
        return None
    if isinstance(before_ns, np.ndarray):
        waited = np.minimum(before_ns, response.first_ns) - request.last_ns
        return Masked(np.maximum(waited, 0), response.first_ns < request.last_ns)
    if response.first_ns < request.last_ns:
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


def exchange_id(conn: Conn, frame: FrameFacts) -> str:
    """The name of the exchange that this frame begins: connection, direction, stream offset of its first byte."""
    return f"{conn.id}-{'c' if frame.direction == CLIENT else 's'}{frame.offset}"


def exchange_ids(conns: Coded, frames: FrameFacts) -> Any:
    """The same for columns of frames."""
    ids = Coded([conn.id for conn in conns.values], conns.codes)
    sides = Coded(["-c", "-s"], (frames.direction != CLIENT).astype(np.int64))
    return text_column(ids, sides, frames.offset)


def columns_from_frames(request: FrameFacts | None, response: FrameFacts | None) -> dict[str, Any]:
    """What the frames of an exchange say of it: columns of `exchanges`, by name; but for `retransmitted`.

    The fields of the frames are those of one exchange, or columns of many of one kind.
    """
    if request is None:
        assert response is not None
        return {
            "time": response.first_ns,
            "response_ns": elapsed(response.first_ns, response.last_ns),
            "response_bytes": response.size,
            "complete": response.complete,
            "response_packet_ref": response.packet_ref,
        }
    sent = {
        "time": request.first_ns,
        "request_ns": elapsed(request.first_ns, request.last_ns),
        "request_bytes": request.size,
        "request_packet_ref": request.packet_ref,
    }
    if response is None:
        return sent | {"complete": request.complete}
    return sent | {
        "wait_ns": elapsed(request.last_ns, response.first_ns),
        "response_ns": elapsed(response.first_ns, response.last_ns),
        "total_ns": elapsed(request.first_ns, response.last_ns),
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
    """The rows of one connection, by keyword."""

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
        """A request with its answer, or one of the two; and a row of `errors` for each error of the answer.

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
        first = errors[0] if errors else None
        begins = request.frame or response
        assert begins is not None
        bodies = request.body, body
        if not self.sink.wants_body(request.api):
            bodies = None, None
        row: dict[str, Any] = {
            "kind": kind,
            "api": request.api,
            "api_code": request.api_code,
            "version": request.version,
            "correlation_id": request.correlation_id,
            "client_id": request.client_id,
            "group": request.group,
            "exchange_id": exchange_id(self.conn, begins),
            "status": FAILED if errors else status,
            "error_code": None if first is None else first.code,
            "error_name": None if first is None else first.name,
            "error_count": len(errors),
            "topics": request.topics if topics is None else topics,
            "partitions": request.partitions if partitions is None else partitions,
            "records": request.records if records is None else records,
            "payload_bytes": request.payload_bytes if payload_bytes is None else payload_bytes,
            "request": bodies[0],
            "response": bodies[1],
        }
        again = bool(self._resends.by_direction)
        row["retransmitted"] = again and self._retransmitted(request.frame, response, until)
        row |= columns_from_frames(request.frame, response)
        row |= columns
        self._append("exchanges", Exchange(self.conn, **row))

    def _retransmitted(self, request: FrameFacts | None, response: FrameFacts | None, until: int | None) -> bool:
        frames = [frame for frame in (request, response) if frame is not None]
        order = frames[-1].order if until is None else until
        return any(self._resends.within(frame, order) for frame in frames)

    def error(self, error: ErrorCode, request: PendingRequest, response: FrameFacts) -> None:
        """An error in the answer to a request."""
        if not self.wants_errors:
            return
        self._append(
            "errors",
            Error(
                self.conn,
                api=request.api,
                version=request.version,
                scope=error.scope,
                topic=error.topic,
                partition=error.partition,
                code=error.code,
                name=error.name,
                retriable=error.retriable,
                message=error.message,
                client_id=request.client_id,
                correlation_id=request.correlation_id,
                time=response.first_ns,
                packet_ref=response.packet_ref,
                expected=error.expected,
                exchange_id=exchange_id(self.conn, request.frame or response),
            ),
        )

    def batch(self, request: PendingRequest, frame: FrameFacts | None, **columns: Any) -> None:
        """A checksummed unit of messages, which `frame` of an exchange carried. columns: of `batches`.

        frame: None where bytes carried it whose exchange is not known, and has no row.
        """
        if self.wants_batches:
            self._append("batches", Batch(self.conn, **self._carried_by(request, frame), **columns))

    def message(self, request: PendingRequest, frame: FrameFacts | None, **columns: Any) -> None:
        """A message, which `frame` of an exchange carried, as for `batch`. columns: of `messages`."""
        if self.wants_messages:
            shared = self._carried_by(request, frame)
            del shared["client_id"]
            self._append("messages", Message(self.conn, **shared, **columns))

    def _carried_by(self, request: PendingRequest, frame: FrameFacts | None) -> dict[str, Any]:
        begins = request.frame or frame
        return {
            "api": request.api,
            "client_id": request.client_id,
            "correlation_id": request.correlation_id,
            "group": request.group,
            "exchange_id": None if begins is None else exchange_id(self.conn, begins),
        }

    def _append(self, table: str, row: Any) -> None:
        """Hand a row to the sink."""
        getattr(self.sink, table).append(row)
