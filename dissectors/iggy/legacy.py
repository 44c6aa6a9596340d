"""Frames with the 8-byte prefix: nothing in them ties an answer to its request, so the order does (match.py)."""

from __future__ import annotations

from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.iggy import layouts
from dissectors.iggy.decode import Body
from dissectors.iggy.exchanges import IggyExchanges
from dissectors.iggy.frames import PREFIX
from dissectors.iggy.match import HELD, UNSURE
from dissectors.iggy.pending import Answer
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import CLIENT
from dissectors.wire.reader import WireReader, reader


@final
@carried
@compiled
class Legacy:
    """Takes the frames of one connection."""

    _exchanges: IggyExchanges
    resolving: cython.bint = False  # answers are being reported that were held back

    def __init__(self, exchanges: IggyExchanges) -> None:
        self._exchanges = exchanges

    @compiled
    def on_frame(self, frame: Frame, lost: cython.longlong) -> None:
        """Take a frame, after `lost` bytes of its direction."""
        if frame.known - frame.start >= PREFIX:  # else neither a length nor what it is is known
            r: WireReader = reader()
            r.open(frame.data, frame.start, frame.end)
            first: cython.longlong = r.u32le()
            second: cython.longlong = r.u32le()
            if frame.direction == CLIENT:
                self._request(frame, second)
            else:
                self._answer(frame, first, second, lost)
            if self._exchanges.pairing.resolved:
                self.resolve()

    @compiled
    def _request(self, frame: Frame, code: cython.longlong) -> None:
        exchanges: IggyExchanges = self._exchanges
        read: Body = exchanges.body(layouts.REQUEST, code, frame, frame.start + PREFIX)
        exchanges.send(exchanges.request(frame, code, None, read), read, frame)

    @compiled
    def _answer(self, frame: Frame, status: cython.longlong, length: cython.longlong, lost: cython.longlong) -> None:
        exchanges: IggyExchanges = self._exchanges
        answer = Answer(frame.order, frame.first_ns, status, length, None, 0, frame)
        judged, request = exchanges.pair(answer, lost)
        if exchanges.pairing.resolved:
            self.resolve()  # they came before it
        if request is not None:
            exchanges.answered(request, frame, status, frame.start + PREFIX)
        elif judged == HELD:
            answer.frame = frame.alone()
        else:
            exchanges.orphans.legacy(judged, frame, status)

    def resolve(self) -> None:
        """Report the answers that were held back: now they have their requests, or never will."""
        exchanges, held = self._exchanges, self._exchanges.pairing.resolved
        self.resolving = True
        while held:
            answer, request = held.pop(0)
            assert answer.frame is not None
            if request is not None:
                exchanges.answered(request, answer.frame, answer.status, PREFIX)
            else:
                exchanges.orphans.legacy(UNSURE, answer.frame, answer.status)
        self.resolving = False
