"""One Iggy connection: which framing it uses, where its frames begin, and who takes them. The rooms around it work."""

from __future__ import annotations

from bisect import bisect_right
from itertools import takewhile

from dissectors.conversation import Conversation, Frame, Summary
from dissectors.iggy import frames, layouts, tables
from dissectors.iggy.calls import Calls
from dissectors.iggy.decode import legacy
from dissectors.iggy.era import Era
from dissectors.iggy.flight import Answer, Call
from dissectors.iggy.frames import LEGACY, VSR, Clues
from dissectors.iggy.match import HELD, PAIRED, UNSURE
from dissectors.iggy.vsr import Vsr
from dissectors.inbox import MORE
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.sink import Sink
from dissectors.tcp.chunk import CLIENT, SERVER, Gap

_LOOKED_AT = 64  # requests in flight
LIKELY = 0.75  # confidence from which other connections may take over what is believed here …
LAST_RESORT = 1 << 62  # … told as if later than everything (ns): what a connection knows for certain goes before


class IggyConversation(Conversation):
    """One connection between a client and a server, or between two replicas."""

    steady = True

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.era = Era(tables.asked_for(options.iggy_era) if options.iggy_era else 0)
        self.calls = Calls(self, self.era, midstream=midstream)
        self.vsr = Vsr(self.calls)
        self.framing: str | None = None
        if not (self.era.has(LEGACY) and self.era.has(VSR)):
            self._frame_as(LEGACY if self.era.has(LEGACY) else VSR)
        self._ends = [0, 0]  # stream offset after the last frame of a direction
        self._begun: int | None = None  # when the first frame came

    # --- what the base class asks ---

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        most = self.options.limits.frame_bytes
        if self.framing is None:
            framing = frames.detect(direction, buf, pos, end, most)
            if framing is None and not self._beheaded(direction, buf, pos, end):
                return MORE
            self._frame_as(framing or VSR)
        size = frames.measure(self.framing or LEGACY, direction, buf, pos, end, most)
        if size == MORE and self.framing == VSR:
            return self._beheaded(direction, buf, pos, end)
        return size

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        clues = Clues(self.era.allowed, self.options.limits.frame_bytes)
        if direction == SERVER:
            pairing = self.calls.pairing
            waiting = [entry for entry in pairing.queue if isinstance(entry, Call)]
            newest = list(takewhile(lambda call: not self.calls.has_payload(call), reversed(waiting)))
            clues = clues._replace(
                awaited=frozenset(call.code or -1 for call in waiting[-_LOOKED_AT:]),
                waiting=len(waiting),
                empties=0 if pairing.pipelined else len(newest),
                earliest=self._after(newest[-1].order, end) if newest else 0,
            )
            if waiting:
                pos = max(pos, self._after(waiting[0].order, end))
                if self.framing == LEGACY and not pairing.pipelined:
                    next_turn = self._after(waiting[-1].order, end)
                    if pos < next_turn < end and frames.starts_answer(buf, next_turn, end, final, clues):
                        return next_turn, True  # a client that takes turns has had all of the answers before
        at, found, framing = frames.resync(self.framing, direction, buf, pos, end, final, clues)
        if found and framing:
            self._frame_as(framing)
        return at, found

    def on_frame(self, frame: Frame) -> None:
        lost = frame.offset - self._ends[frame.direction]
        self._ends[frame.direction] = frame.offset + frame.size
        if self._begun is None:
            self._begun = frame.first_ns
        if lost and frame.direction == CLIENT:
            self.calls.pairing.found(frame.order, lost)
        if self.framing == VSR:
            self.vsr.on_frame(frame, lost)
        elif frame.known - frame.start < frames.PREFIX:
            return  # neither a length nor what it is
        elif frame.direction == CLIENT:
            self._request(frame)
        else:
            self._answer(frame, lost)

    def on_gap(self, direction: int, gap: Gap) -> None:
        inbox = self.inboxes[direction]
        within = inbox.size > 0 and inbox.pos < len(inbox.buf)
        lost = gap.offset + gap.length - max(self._ends[direction], gap.offset)
        if direction == CLIENT and not within and lost > 0:
            self.calls.pairing.hole(gap.order)

    def on_close(self) -> None:
        calls = self.calls
        calls.unanswered(calls.pairing.close())
        self._resolved()
        calls.orphans.tell_surplus()
        calls.emit.flush()
        if self._begun is not None and self.era.confidence() >= LIKELY:
            calls.emit.tell_dialect(self._begun if self.era.settled else LAST_RESORT)
        calls.meaning.close()

    def summary(self) -> Summary:
        state = self.calls.state
        return (
            super()
            .summary()
            ._replace(
                dialect=self.calls.emit.dialect() if self.frames else None,
                client_software=state.client_software,
                client_version=state.client_version,
                server_version=state.server_version,
            )
        )

    # --- legacy framing ---

    def _request(self, frame: Frame) -> None:
        _, code = legacy(frame)
        read = self.calls.body(layouts.REQUEST, code, frame, frame.start + frames.PREFIX)
        call = self.calls.request(frame, code, self.calls.api(code), read)
        self.calls.send(call, read, frame)
        if self.calls.pairing.resolved:
            self._resolved()

    def _answer(self, frame: Frame, lost: int) -> None:
        status, length = legacy(frame)
        answer = Answer(frame.order, frame.first_ns, status, length)
        answer.frame = frame
        judged, call = self.calls.pair(answer, lost)
        if self.calls.pairing.resolved:
            self._resolved()
        if judged == HELD:
            answer.frame = _alone(frame)
        elif judged == PAIRED and call is not None:
            self.calls.answered(call, frame, status, frame.start + frames.PREFIX)
        else:
            self.calls.orphans.legacy(judged, frame, status)

    def _resolved(self) -> None:
        """Answers that were held back: now they have their requests, or never will."""
        held = self.calls.pairing.resolved
        while held:
            answer, call = held.pop(0)
            assert answer.frame is not None
            if call is not None:
                self.calls.answered(call, answer.frame, answer.status, frames.PREFIX)
            else:
                self.calls.orphans.legacy(UNSURE, answer.frame, answer.status)

    # --- framing ---

    def _frame_as(self, framing: str) -> None:
        if self.framing is None:
            self.framing = framing
            self.era.narrow(tables.of_framing(framing), f"{framing} framing")

    def _after(self, order: int, end: int) -> int:
        """Index of the first byte from the server that was delivered after a request: no answer begins before."""
        inbox = self.inboxes[SERVER]
        piece = bisect_right(inbox.orders, order)
        return end if piece == len(inbox.orders) else min(end, inbox.starts[piece] - inbox.base)

    def _beheaded(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        """Size of a VSR frame whose packet was cut by the snap length before the size could be read, else MORE.

        All that was captured is zero, as a client's header begins; the packet is taken for the frame.
        """
        queue = self.inboxes[direction].queue
        if end - pos < frames.ZEROS_TOLD or not queue:
            return MORE
        gap = queue[0]
        if not isinstance(gap, Gap) or gap.reason != "snaplen":
            return MORE
        if self.framing is None and any(buf[pos:end]):
            return MORE
        return end - pos + gap.length


def _alone(frame: Frame) -> Frame:
    """A frame with a buffer of its own, to be kept."""
    size, known = frame.end - frame.start, frame.known - frame.start
    return frame._replace(data=frame.data[frame.start : frame.end], start=0, end=size, known=known)
