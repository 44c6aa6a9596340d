"""Frames of VSR: what clients and servers say to each other; what replicas say goes to replica.py.

A request names its operation, or, as operation 2, a command. Its answer names the operation too, sometimes the internal
one that it became, and begins with a result section where the operation changes anything.
"""

from __future__ import annotations

from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.iggy import layouts, replica, tables
from dissectors.iggy.decode import NO_BODY, Body
from dissectors.iggy.era import Era
from dissectors.iggy.errors import error, eviction
from dissectors.iggy.exchanges import IggyExchanges
from dissectors.iggy.frames import COMMAND_END
from dissectors.iggy.headers import (
    CLUSTER_AT,
    COMMAND_AT,
    EVICTION,
    HEADER,
    NON_REPLICATED,
    REASON_AT,
    REPLY,
    REQUEST,
    VsrHeader,
    number,
    result_section,
    vsr_reply,
    vsr_request,
)
from dissectors.iggy.message import MASK64
from dissectors.iggy.pending import Answer, IggyRequest
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import ORPHAN, PUSH, UNKNOWN
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import CLIENT

_REGISTER = 1
_LOGINS = {"LOGIN_REGISTER": (38, "LOGIN_USER"), "LOGIN_REGISTER_WITH_PAT": (44, "LOGIN_WITH_PERSONAL_ACCESS_TOKEN")}
_CHECKED, _MULTIPLEXED = "iggy-vsr-0.9", "iggy-vsr-0.10"


@final
@carried
@compiled
class Vsr:
    """Takes the frames of one connection."""

    _exchanges: IggyExchanges
    _era: Era

    def __init__(self, exchanges: IggyExchanges) -> None:
        self._exchanges = exchanges
        self._era = exchanges.era

    @compiled
    def on_frame(self, frame: Frame, lost: cython.longlong) -> None:
        """Take a frame, after `lost` bytes of its direction."""
        if frame.known - frame.start < COMMAND_END:
            self._cut_in_header(frame, lost)
        else:
            command = frame.data[frame.start + COMMAND_AT]
            if command == REQUEST:
                self._request(frame, lost)
            elif command == REPLY:
                self._reply(frame, lost)
            elif command == EVICTION:
                self._eviction(frame, lost)
            else:
                replica.report(frame, command, self._exchanges.rows)

    def _cut_in_header(self, frame: Frame, lost: int) -> None:
        """A frame of which the snap length left too little to know more than its size and time."""
        if not any(frame.data[frame.start : min(frame.known, frame.end, frame.start + CLUSTER_AT)]):
            self._unread(frame, lost)  # else it is the middle of a larger frame

    def _unread(self, frame: Frame, lost: int) -> None:
        """A request or an answer whose header is not all there."""
        exchanges = self._exchanges
        if frame.direction == CLIENT:
            exchanges.unanswered(exchanges.pairing.send(exchanges.request(frame, ABSENT, None, NO_BODY)))
            return
        _, request = exchanges.pair(Answer(frame.order, frame.first_ns, 0, 0, cut_in_header=True), lost)
        if request is not None:
            exchanges.rows.report_answer(request, frame.facts(), (), UNKNOWN)

    @compiled
    def _request(self, frame: Frame, lost: cython.longlong) -> None:
        header: VsrHeader | None = vsr_request(frame)
        exchanges: IggyExchanges = self._exchanges
        if header is None:
            self._unread(frame, lost)
            return
        if header.later:
            self._era.narrow(tables.span("vsr-0.10", ""), "routing fields in a request's header")
        code, api, read = self._read_request(frame, header.operation, header.code)
        request: IggyRequest = exchanges.request(frame, code or ABSENT, api, read)
        request.correlation_id, request.operation = header.request, header.operation
        if header.operation != _REGISTER:
            request.user = None  # nobody logs in by a command of the other framing
        if header.checksum or header.checksum_high:
            self._check(frame, header)
        exchanges.send(request, read, frame)

    def _read_request(self, frame: Frame, operation: int, command: int) -> tuple[int, str, Body]:
        """Command code (0 where the operation has none), name and body of a request."""
        exchanges, start = self._exchanges, frame.start + HEADER
        if operation == _REGISTER:
            read = exchanges.body(layouts.REQUEST, layouts.REGISTER, frame, start)
            return *_LOGINS.get(read.name or "", _LOGINS["LOGIN_REGISTER"]), read
        known = tables.operations().get(operation)
        code = command if operation == NON_REPLICATED else known.code if known else 0
        if not code and operation != NON_REPLICATED:
            return 0, known.name if known else f"OPERATION_{operation}", NO_BODY
        return code, exchanges.api(code), exchanges.body(layouts.REQUEST, code, frame, start)

    def _check(self, frame: Frame, header: VsrHeader) -> None:
        """request_checksum: in 0.9 the XXH3-64 of the body where it is not zero; later 128 random bits."""
        stored = header.checksum & MASK64
        if header.checksum_high:
            self._era.narrow(tables.span("vsr-0.10", ""), "a random id in place of a request's checksum")
        elif frame.complete:
            if not self._era.settled and replica.body_checksum(frame) == stored:
                self._era.narrow(tables.span("vsr-0.9", "vsr-0.9"), "a request's checksum fits its body")
            if self._era.settled and self._era.dialect == _CHECKED:
                replica.check_body(self._exchanges.conversation, frame, stored, "request_checksum")

    @compiled
    def _reply(self, frame: Frame, lost: cython.longlong) -> None:
        header: VsrHeader | None = vsr_reply(frame)
        exchanges: IggyExchanges = self._exchanges
        if header is None:
            self._unread(frame, lost)
            return
        if header.later:
            self._era.narrow(tables.span("vsr-0.10", ""), "a committed marker in a reply's header")
        cluster = number(frame.data, frame.start + CLUSTER_AT, 16)
        if cluster:
            exchanges.state.names.learn_cluster(cluster, frame.first_ns)
        exchanges.pairing.multiplex(self._era.settled and self._era.dialect == _MULTIPLEXED)
        operation = tables.operations().get(header.operation)
        requested = operation.request if operation else header.operation
        status, start = header.status, frame.start + HEADER
        cut: cython.bint = header.request == ABSENT
        answer = Answer(
            frame.order, frame.first_ns, status, frame.size - HEADER, header.request, requested, cut_in_header=cut
        )
        _, request = exchanges.pair(answer, lost)
        if not status and operation and operation.result:
            status, start = result_section(frame.data, start, min(frame.known, frame.end))
        if request is not None:
            exchanges.answered(request, frame, status, start)
            return
        code = operation.code if operation and header.operation != NON_REPLICATED else 0
        if code:
            failed = error(status, self._era.allowed) if status else None
            api = exchanges.api(code)
            exchanges.rows.lone(frame.facts(), ORPHAN, api, code, correlation_id=header.request, error=failed)
        else:
            exchanges.orphans.unknown(frame, status)

    def _eviction(self, frame: Frame, lost: int) -> None:
        if frame.known - frame.start < HEADER:  # the reason is its last byte
            self._unread(frame, lost)
            return
        evicted = eviction(frame.data[frame.start + REASON_AT], self._era.allowed)
        request, facts = self._exchanges.pairing.oldest(frame.order), frame.facts()
        if request is None:
            self._exchanges.rows.lone(facts, PUSH, "EVICTION", EVICTION, error=evicted)
        else:
            self._exchanges.diagnostics.refused(request, evicted, frame)
            self._exchanges.rows.report_answer(request, facts, (evicted,))
