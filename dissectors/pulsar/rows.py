"""Rows of `exchanges` and `errors`."""

from __future__ import annotations

from typing import Any, final

import cython

from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.pulsar.commands import REQUEST, request_of
from dissectors.pulsar.pending import PulsarRequest
from dissectors.pulsar.state import PulsarState
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import (
    CALL,
    ONE_WAY,
    ORPHAN,
    PUSH,
    UNANSWERED,
    UNKNOWN,
    ErrorCode,
    Report,
    queued,
)
from dissectors.session.frame import Frame, FrameFacts
from dissectors.tcp.chunk import CLIENT


@final
@carried
@compiled
class PulsarEmitter:
    """Writes the rows of exchanges that a conversation has found.

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
                report.exchanges.put(slot, fields.EXCHANGE_STATUS, status)
            report.exchanges.put(slot, fields.EXCHANGE_DIALECT, self.state.dialect)
            report.exchanges.waiting[slot, fields.EXCHANGE_LONG_POLL] = (
                request.answer_announced if request.frame is not None else ABSENT
            )
            report.exchanges.waiting[slot, fields.EXCHANGE_PERMITS] = request.permits
            report.exchanges.waiting[slot, fields.EXCHANGE_PERMITS_LEFT] = request.permits_left
            if body is not None and report.sink.wants_body(request.api):
                report.exchanges.put(slot, fields.EXCHANGE_RESPONSE, body)
            report.finish_exchange(slot)
