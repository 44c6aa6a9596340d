"""Frames of VSR: what clients and servers say to each other; what replicas say goes to replica.py.

A request names its operation, or, as operation 2, a command. Its answer names the operation too, sometimes the internal
one that it became, and begins with a result section where the operation changes anything.
"""

from __future__ import annotations

from dissectors.frame import Frame
from dissectors.iggy import frames, layouts, replica, tables
from dissectors.iggy.calls import Calls
from dissectors.iggy.decode import NON_REPLICATED, Body, result_section, vsr_reply, vsr_request
from dissectors.iggy.errors import error, eviction
from dissectors.iggy.frames import EVICTION, REPLY, REQUEST
from dissectors.iggy.match import PAIRED
from dissectors.iggy.pending import Answer
from dissectors.rows.exchange import CALL, ORPHAN, PUSH, UNKNOWN
from dissectors.tcp.chunk import CLIENT

_REGISTER = 1
_LOGINS = {"LOGIN_REGISTER": (38, "LOGIN_USER"), "LOGIN_REGISTER_WITH_PAT": (44, "LOGIN_WITH_PERSONAL_ACCESS_TOKEN")}
_CHECKED, _MULTIPLEXED = "iggy-vsr-0.9", "iggy-vsr-0.10"
_CLUSTER = 32  # bytes up to the cluster: zero between clients and servers


class Vsr:
    """Takes the frames of one connection."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._era = calls.era
        self._takes = {REQUEST: self._request, REPLY: self._reply, EVICTION: self._eviction}

    def on_frame(self, frame: Frame, lost: int) -> None:
        """A frame, after `lost` bytes of its direction."""
        if frame.known - frame.start < frames.COMMAND_END:
            self._beheaded(frame, lost)
            return
        command = frame.data[frame.start + frames.COMMAND_AT]
        take = self._takes.get(command)
        if take is None:
            replica.rows(frame, command, self._calls.emit)
        else:
            take(frame, lost)

    def _beheaded(self, frame: Frame, lost: int) -> None:
        """A frame of which the snap length left too little to know more than its size and time."""
        if not any(frame.data[frame.start : min(frame.known, frame.end, frame.start + _CLUSTER)]):
            self._unread(frame, lost)  # else it is the middle of a larger frame

    def _unread(self, frame: Frame, lost: int) -> None:
        """A request or an answer whose header is not all there."""
        calls = self._calls
        if frame.direction == CLIENT:
            calls.unanswered(calls.pairing.call(calls.request(frame, None, None, Body(None, {}))))
            return
        answer = Answer(frame.order, frame.first_ns, 0, 0)
        answer.beheaded = True
        judged, call = calls.pair(answer, lost)
        if judged == PAIRED and call is not None:
            calls.emit.exchange(CALL, call, frame, status=UNKNOWN)

    def _request(self, frame: Frame, lost: int) -> None:
        header, calls = vsr_request(frame), self._calls
        if header is None:
            self._unread(frame, lost)
            return
        if header.routed:
            self._era.narrow(tables.span("vsr-0.10", ""), "routing fields in a request's header")
        operation = tables.operations().get(header.operation)
        start = frame.start + frames.HEADER
        if header.operation == NON_REPLICATED:
            code, api = header.code, calls.api(header.code)
            read = calls.body(layouts.REQUEST, code, frame, start)
        elif header.operation == _REGISTER:
            read = calls.body(layouts.REQUEST, layouts.REGISTER, frame, start)
            code, api = _LOGINS.get(read.name or "", _LOGINS["LOGIN_REGISTER"])
        else:
            code = operation.code if operation else 0
            api = calls.api(code) if code else operation.name if operation else f"OPERATION_{header.operation}"
            read = calls.body(layouts.REQUEST, code, frame, start) if code else Body(None, {})
        call = calls.request(frame, code or None, api, read)
        call.correlation_id, call.operation = header.request, header.operation
        if header.operation != _REGISTER:
            call.user = None  # nobody logs in by a command of the other framing
        calls.diagnostics.request(call)
        self._check(frame, header.checksum)
        calls.send(call, read, frame)

    def _check(self, frame: Frame, stored: int) -> None:
        """request_checksum: in 0.9 the XXH3-64 of the body where it is not zero; later 128 random bits."""
        if stored >> 64:
            self._era.narrow(tables.span("vsr-0.10", ""), "a random id in place of a request's checksum")
        elif stored and frame.complete:
            if not self._era.settled and replica.body_checksum(frame) == stored:
                self._era.narrow(tables.span("vsr-0.9", "vsr-0.9"), "a request's checksum fits its body")
            if self._era.settled and self._era.dialect == _CHECKED:
                replica.check_body(self._calls.conversation, frame, stored, "request_checksum")

    def _reply(self, frame: Frame, lost: int) -> None:
        header, calls = vsr_reply(frame), self._calls
        if header is None:
            self._unread(frame, lost)
            return
        if header.committed:
            self._era.narrow(tables.span("vsr-0.10", ""), "a committed marker in a reply's header")
        calls.pairing.multiplex(self._era.settled and self._era.dialect == _MULTIPLEXED)
        operation = tables.operations().get(header.operation)
        requested = operation.request if operation else header.operation
        status, start = header.status, frame.start + frames.HEADER
        answer = Answer(frame.order, frame.first_ns, status, frame.size - frames.HEADER, header.request, requested)
        judged, call = calls.pair(answer, lost)
        if not status and operation and operation.result:
            status, start = result_section(frame.data, start, min(frame.known, frame.end))
        if judged == PAIRED and call is not None:
            calls.answered(call, frame, status, start)
            return
        code = operation.code if operation and header.operation != NON_REPLICATED else 0
        if code:
            failed = error(status, self._era.allowed) if status else None
            calls.emit.lone(frame, ORPHAN, calls.api(code), code, correlation_id=header.request, error=failed)
        else:
            calls.orphans.unknown(frame, status)

    def _eviction(self, frame: Frame, lost: int) -> None:
        if frame.known - frame.start < frames.HEADER:  # the reason is its last byte
            self._unread(frame, lost)
            return
        evicted = eviction(frame.data[frame.start + frames.REASON_AT], self._era.allowed)
        call = self._calls.pairing.oldest(frame.order)
        if call is None:
            self._calls.emit.lone(frame, PUSH, "EVICTION", EVICTION, error=evicted)
        else:
            self._calls.emit.exchange(CALL, call, frame, errors=(evicted,))
