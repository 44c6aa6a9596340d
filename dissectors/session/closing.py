"""How a connection was closed, and which answers reached who asked: the column `answer` of `exchanges`.

    whole   the answer arrived entirely, and its receiver had not closed, or acknowledged it
    cut     it began and never ended: a peer closed or reset the connection in the middle
    late    its receiver had sent a FIN before it came and never acknowledged all of it, or had sent a RST
    none    no answer came before a peer closed the connection

A client that closes only its own direction (a half close) acknowledges what is answered: that is whole. Whether it does
shows in later packets, so the row of such an answer waits for the end of the connection. What holes in the capture, or
its end, leave open is null.
"""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.session.frame import Frame, FrameFacts
from dissectors.tcp.half import Half
from dissectors.tcp.numbers import UNKNOWN_ORDER

WHOLE, CUT, LATE, NONE = "whole", "cut", "late", "none"
UNACKNOWLEDGED_NS = 500_000_000  # bytes that wait longer for their acknowledgement did not arrive
MOST_HELD = 10_000  # rows of a connection that wait for its end


@final
@carried
@compiled
class SideClosing:
    """What one side did to close the connection, and what the other side has of its bytes."""

    fin_order: cython.longlong  # delivery order of its first FIN
    fin_ns: cython.longlong = 0
    rst_order: cython.longlong  # … of its first RST
    acked: cython.longlong = 0  # stream offset up to which the other side acknowledged its bytes
    sent: cython.longlong = 0  # … up to which it sent any
    is_whole: cython.bint  # the capture has its packets, and no byte of them is missing
    cut: cython.longlong  # stream offset of its last frame, which never ended though no captured byte of it is missing

    def __init__(self) -> None:
        self.fin_order = UNKNOWN_ORDER
        self.rst_order = UNKNOWN_ORDER
        self.is_whole = True
        self.cut = -1


@final
@carried
@compiled
class Closing:
    """How a connection was closed. Nothing is noted before a peer sends a FIN or RST."""

    has_begun: cython.bint = False  # a peer has sent a FIN or RST
    is_over: cython.bint = False  # … and no packet will come
    last_ns: cython.longlong = 0  # when the last packet came
    is_plain: cython.bint  # stream offsets of frames are TCP's: it is no TLS
    client: SideClosing
    server: SideClosing
    held: list[tuple[Any, Any, FrameFacts]]  # (report, row, answer): rows that wait for the end

    def __init__(self) -> None:
        self.is_plain = True
        self.client = SideClosing()
        self.server = SideClosing()
        self.held = []

    def see(self, client: Half, server: Half, is_plain: bool) -> None:
        """Note what TCP knows of both sides by now, since a peer has sent a FIN or RST."""
        self.has_begun, self.is_plain = True, is_plain
        for side, half in ((self.client, client), (self.server, server)):
            side.fin_order, side.fin_ns, side.rst_order = half.fin_order, half.fin_ns, half.rst_order
            side.acked, side.sent = half.acked, half.top
            side.is_whole = half.packets > 0 and not half.gaps and not half.cut_bytes

    @compiled
    def side(self, direction: cython.int) -> SideClosing:
        """What is known of who sends in a direction."""
        return self.server if direction else self.client

    @compiled
    def judge(self, answer: FrameFacts) -> str | None:
        """The column `answer`, of an answer of which bytes came; None where it shows at the end only, or not at all."""
        receiver: SideClosing = self.side(1 - answer.direction)
        sender: SideClosing = self.side(answer.direction)
        if not answer.complete:
            if sender.cut != answer.offset:
                return None
            return LATE if receiver.fin_order != UNKNOWN_ORDER and answer.first_ns > receiver.fin_ns else CUT
        if not self.has_begun or (answer.order < receiver.fin_order and answer.order < receiver.rst_order):
            return WHOLE
        if not self.is_over:
            return None
        if self._is_acknowledged(sender, answer):
            return WHOLE
        told: cython.bint = receiver.rst_order != UNKNOWN_ORDER or sender.rst_order != UNKNOWN_ORDER
        return LATE if told or self.last_ns - answer.last_ns >= UNACKNOWLEDGED_NS else None

    @compiled
    def _is_acknowledged(self, sender: SideClosing, answer: FrameFacts) -> cython.bint:
        """Whether the receiver acknowledged every byte of an answer; of TLS, every byte that its sender sent."""
        return sender.acked >= (answer.offset + answer.size if self.is_plain else sender.sent)

    @compiled
    def waits(self, answer: FrameFacts) -> cython.bint:
        """Whether it shows at the end of the connection only what became of an answer."""
        return self.has_begun and not self.is_over and answer.complete and self.judge(answer) is None

    @compiled
    def unanswered(self, request: FrameFacts) -> str | None:
        """The column `answer` of a request of which no answer was read."""
        answering: SideClosing = self.side(1 - request.direction)
        return NONE if self.is_over and answering.is_whole and answering.cut < 0 else None

    def hold(self, report: Any, row: Any, answer: FrameFacts) -> bool:
        """Keep the row of an answer that waits until the end; False where too many do."""
        if len(self.held) >= MOST_HELD:
            return False
        self.held.append((report, row, answer.facts() if isinstance(answer, Frame) else answer))
        return True

    def end(self, last_ns: int | None, hung_up: bool) -> None:
        """No packet will come. last_ns: when the last one came; hung_up: whether a peer closed the connection."""
        self.is_over = hung_up
        self.last_ns = last_ns or 0

    def note_cut(self, direction: int, offset: int) -> None:
        """The last frame of a direction, at a stream offset, never ended, and no captured byte of it is missing."""
        if self.is_over:
            self.side(direction).cut = offset

    def settle(self) -> None:
        """After `end`: write the rows that waited for it."""
        held, self.held = self.held, []
        for report, row, answer in held:
            report.write_exchange(row._replace(answer=self.judge(answer)))
