"""One Iggy connection: which framing it uses, where its frames begin, and which module takes them."""

from __future__ import annotations

from itertools import islice, takewhile

from dissectors.conversation import Conversation, ConversationSummary
from dissectors.frame import Frame
from dissectors.iggy import frames, layouts, tables
from dissectors.iggy.calls import Calls
from dissectors.iggy.decode import legacy
from dissectors.iggy.era import Era
from dissectors.iggy.frames import LEGACY, VSR
from dissectors.iggy.loss import resync
from dissectors.iggy.loss.places import Clues
from dissectors.iggy.match import HELD, PAIRED, UNSURE
from dissectors.iggy.pending import Answer, IggyRequest
from dissectors.iggy.vsr import Vsr
from dissectors.inbox import MORE
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.resends import AT_END
from dissectors.search import Judgement
from dissectors.sink import Sink
from dissectors.tcp.chunk import CLIENT, SERVER, Gap

_LOOKED_AT = 64  # requests in flight
LIKELY = 0.75  # confidence from which other connections may take over what is believed here


class IggyConversation(Conversation):
    """One connection between a client and a server, or between two replicas."""

    steady = True

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.era = Era(tables.asked_for(options.dialects["iggy"]) if "iggy" in options.dialects else 0)
        self.calls = Calls(self, self.era, midstream=midstream)
        self.vsr = Vsr(self.calls)
        self.framing: str | None = None
        if not (self.era.has(LEGACY) and self.era.has(VSR)):
            self._frame_as(LEGACY if self.era.has(LEGACY) else VSR)
        self._ends = [0, 0]  # stream offset after the last frame of a direction
        self._begun: int | None = None  # when the first frame came
        self._latest = 0  # when the latest came
        self._reported: str | None = None  # the dialect, to other connections
        self._late = False  # answers are dealt with that were held back

    # --- what the base class asks ---

    def release(self) -> None:
        for part in (self.calls, self.vsr):  # they refer to themselves, too
            vars(part).clear()
        super().release()

    @property
    def measurable(self) -> bool:
        return self.framing is not None

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        most = self.options.limits.frame_bytes
        if self.framing is None:
            framing = frames.detect(direction, buf, pos, end, most)
            if framing is None and self._cut_after(direction, pos, end) and frames.begins_vsr(buf, pos, end, most):
                framing = VSR
            if framing is None:
                return MORE
            self._frame_as(framing)
        size = frames.measure(self.framing or LEGACY, direction, buf, pos, end, most)
        if size == MORE and self.framing == VSR:
            return self._beheaded(direction, buf, pos, end)
        return size

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        clues = Clues(
            self.era.allowed,
            self.options.limits.frame_bytes,
            stranger=not self.frames,
            alone=-self.inboxes[direction].base,
        )
        budget = self.budget(direction)
        needs = resync.FAR  # index without which the answer that is expected next cannot be judged
        if direction == SERVER:
            pairing = self.calls.pairing
            newest = [entry for entry in islice(reversed(pairing.queue), _LOOKED_AT) if isinstance(entry, IggyRequest)]
            empty = list(takewhile(lambda call: not self.calls.has_payload(call), newest))
            clues = clues._replace(
                awaited=frozenset(call.api_code or -1 for call in newest),
                waiting=len(newest),
                empties=0 if pairing.pipelined else len(empty),
                earliest=self._after(empty[-1].order, end) if empty else 0,
            )
            oldest = next((entry for entry in pairing.queue if isinstance(entry, IggyRequest)), None)
            if oldest is not None:
                pos = max(pos, self._after(oldest.order, end))
                if self.framing == LEGACY and newest and not pairing.pipelined:
                    turn = self._after(newest[0].order, end)
                    if turn == end:
                        needs = 0  # whatever comes next may be that answer
                    elif pos < turn:
                        verdict, needs = resync.starts_answer(buf, turn, end, final, clues, budget)
                        if verdict is Judgement.YES:
                            return turn, True  # a client that takes turns has had all of the answers before
                        needs += turn if needs else 0
        at, found, framing = resync.search(self.framing, direction, buf, pos, end, final, clues, budget)
        budget.needs = max(0, min(budget.needs, needs - at))
        if found and framing:
            self._frame_as(framing)
        return at, found

    def on_frame(self, frame: Frame) -> None:
        lost = frame.offset - self._ends[frame.direction]
        self._ends[frame.direction] = frame.offset + frame.size
        if self._begun is None:
            self._begun = frame.first_ns
        self._latest = frame.first_ns
        if self.era.settled and self._reported != self.era.dialect:
            self._report_dialect()
        if frame.direction == CLIENT:
            self.search_again(SERVER)  # a new request may decide what a search in the answers could not
            if lost:
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
        within = self.inboxes[direction].inside_frame
        lost = gap.offset + gap.length - max(self._ends[direction], gap.offset)
        if direction == CLIENT and not within and lost > 0:
            self.calls.pairing.hole(gap.order)

    def on_close(self) -> None:
        calls = self.calls
        calls.unanswered(calls.pairing.close(), until=AT_END)
        self._resolved()
        calls.orphans.report_surplus()
        calls.emit.report.flush()
        if self.era.confidence() >= LIKELY:
            self._report_dialect()
        calls.diagnostics.close()

    def summary(self) -> ConversationSummary:
        state = self.calls.state
        return (
            super()
            .summary()
            ._replace(
                dialect=self.calls.emit.report.dialect() if self.frames else None,
                client_software=state.client_software,
                client_version=state.client_version,
                server_version=state.server_version,
            )
        )

    def _report_dialect(self) -> None:
        if self._begun is not None:
            self._reported = self.era.dialect
            self.calls.emit.report.report_dialect(self._begun if self.era.settled else self._latest)

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
        self._late = True
        while held:
            answer, call = held.pop(0)
            assert answer.frame is not None
            if call is not None:
                self.calls.answered(call, answer.frame, answer.status, frames.PREFIX)
            else:
                self.calls.orphans.legacy(UNSURE, answer.frame, answer.status)
        self._late = False

    def locate(self, frame: Frame, at: int) -> tuple[int, int]:
        """Time and packet of a byte of a frame; of an answer that was held back they are those of its first byte."""
        return (frame.first_ns, frame.packet_ref) if self._late else super().locate(frame, at)

    # --- framing ---

    def _frame_as(self, framing: str) -> None:
        if self.framing is None:
            self.framing = framing
            self.era.frame_as(framing)

    def _after(self, order: int, end: int) -> int:
        """Index of the first byte from the server that was delivered after a request: no answer begins before."""
        return self.inboxes[SERVER].delivered_after(order, end)

    def _beheaded(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        """Size of a VSR frame whose packet was cut by the snap length before the command, else MORE.

        Where the size was not captured either, the packet is taken for the frame.
        """
        lost = self._cut_after(direction, pos, end)
        if not lost:
            return MORE
        size = frames.size_before_command(buf, pos, end, self.options.limits.frame_bytes)
        return size if size > 0 else end - pos + lost

    def _cut_after(self, direction: int, pos: int, end: int) -> int:
        """Bytes that the snap length cut off behind a beginning of a frame that shows VSR."""
        gap = self.inboxes[direction].gap_ahead
        return gap.length if end - pos >= frames.LEAST_CUT and gap is not None and gap.reason == "snaplen" else 0


def _alone(frame: Frame) -> Frame:
    """A frame with a buffer of its own, to be kept."""
    size, known = frame.end - frame.start, frame.known - frame.start
    return frame._replace(data=frame.data[frame.start : frame.end], start=0, end=size, known=known)
