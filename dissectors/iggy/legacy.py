"""Frames with the 8-byte prefix: nothing in them ties an answer to its request, so the order does (match.py)."""

from __future__ import annotations

from dissectors.frame import Frame
from dissectors.iggy import layouts
from dissectors.iggy.exchanges import IggyExchanges
from dissectors.iggy.frames import PAIR, PREFIX
from dissectors.iggy.match import HELD, UNSURE
from dissectors.iggy.pending import Answer
from dissectors.tcp.chunk import CLIENT


class Legacy:
    """Takes the frames of one connection."""

    def __init__(self, exchanges: IggyExchanges) -> None:
        self._exchanges = exchanges
        self.resolving = False  # answers are being reported that were held back

    def on_frame(self, frame: Frame, lost: int) -> None:
        """A frame, after `lost` bytes of its direction."""
        if frame.known - frame.start < PREFIX:
            return  # neither a length nor what it is
        first, second = PAIR.unpack_from(frame.data, frame.start)
        if frame.direction == CLIENT:
            self._request(frame, second)
        else:
            self._answer(frame, first, second, lost)
        if self._exchanges.pairing.resolved:
            self.resolve()

    def _request(self, frame: Frame, code: int) -> None:
        exchanges = self._exchanges
        read = exchanges.body(layouts.REQUEST, code, frame, frame.start + PREFIX)
        exchanges.send(exchanges.request(frame, code, None, read), read, frame)

    def _answer(self, frame: Frame, status: int, length: int, lost: int) -> None:
        exchanges = self._exchanges
        answer = Answer(frame.order, frame.first_ns, status, length, frame=frame)
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
