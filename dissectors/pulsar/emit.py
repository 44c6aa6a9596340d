"""Rows of `exchanges` and `errors`."""

from __future__ import annotations

from collections.abc import Sequence

from dissectors.frame import Frame
from dissectors.pulsar.commands import REQUEST, request_of
from dissectors.pulsar.pending import PulsarRequest
from dissectors.pulsar.state import PulsarState
from dissectors.rows.exchange import CALL, ONE_WAY, ORPHAN, PUSH, UNANSWERED, UNKNOWN, ErrorCode, Report, queued
from dissectors.rows.layout import ABSENT
from dissectors.tcp.chunk import CLIENT


def signed(value: int) -> int:
    """A 64-bit number as the columns hold it: 2^64-1 is -1."""
    return value if value < 1 << 63 else value - (1 << 64)


class PulsarEmitter:
    """Writes the rows of exchanges that a conversation has found.

    A broker serves the requests of one connection side by side: none waits for the answer to another, so `queued_ns` is
    0 for every call.
    """

    def __init__(self, report: Report, state: PulsarState) -> None:
        self.report = report
        self.state = state

    def call(self, request: PulsarRequest, frame: Frame, answer: PulsarRequest, error: ErrorCode | None) -> None:
        """A request and its answer, which came in `frame`."""
        assert request.frame is not None
        response = frame.facts
        request.queued_ns = queued(request.frame, response, ABSENT)
        self.report.exchange(
            CALL,
            request,
            response,
            status=answer.status,
            errors=_errors(error),
            body=answer.body,
            long_poll=request.answer_announced,
            dialect=self.state.dialect,
        )

    def unanswered(self, request: PulsarRequest, *, until: int | None) -> None:
        """A request that has no answer; for a command that no table knows, none is to be expected."""
        self._request(ONE_WAY if request.command is None else UNANSWERED, request, until=until)

    def orphan(self, answer: PulsarRequest, error: ErrorCode | None) -> None:
        """An answer whose request was not captured: half of that request's exchange, where it says which."""
        if answer.command is not None:
            request = answer.command if answer.command.part is REQUEST else request_of(answer.command)
            if request is not None:
                answer.api, answer.api_code = request.name, request.code
        self._response(ORPHAN, answer, error)

    def one_way(self, direction: int, command: PulsarRequest, error: ErrorCode | None = None) -> None:
        """A command that is not answered by protocol."""
        if direction == CLIENT:
            self._request(ONE_WAY, command)
        else:
            self._response(PUSH, command, error)

    def error(self, error: ErrorCode, request: PulsarRequest) -> None:
        """A row of `errors` for an error that this very command reports."""
        assert request.frame is not None
        self.report.error(error, request, request.frame)

    def _request(self, kind: str, request: PulsarRequest, *, until: int | None = None) -> None:
        self.report.exchange(
            kind,
            request,
            status=UNKNOWN,
            until=until,
            long_poll=request.answer_announced,
            dialect=self.state.dialect,
        )

    def _response(self, kind: str, answer: PulsarRequest, error: ErrorCode | None) -> None:
        frame, answer.frame = answer.frame, None
        body, answer.body = answer.body, None
        self.report.exchange(
            kind,
            answer,
            frame,
            status=answer.status,
            errors=_errors(error),
            body=body,
            dialect=self.state.dialect,
        )


def _errors(error: ErrorCode | None) -> Sequence[ErrorCode]:
    return () if error is None else (error,)
