"""One Iggy connection: which framing it uses, where its frames begin, and which module takes them."""

from __future__ import annotations

from itertools import islice, takewhile

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.iggy import frames, tables
from dissectors.iggy.era import Era
from dissectors.iggy.exchanges import IggyExchanges
from dissectors.iggy.frames import LEGACY, PREFIX, VSR, measure_legacy, measure_vsr
from dissectors.iggy.legacy import Legacy
from dissectors.iggy.loss import resync
from dissectors.iggy.loss.places import Clues
from dissectors.iggy.loss.turns import Turns
from dissectors.iggy.pending import IggyRequest
from dissectors.iggy.vsr import Vsr
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.rows.sink import Sink
from dissectors.session.conversation import Conversation, ConversationSummary
from dissectors.session.frame import Frame, FrameFacts
from dissectors.session.framing import NEVER
from dissectors.session.inbox import MORE, Inbox
from dissectors.session.resends import AT_END
from dissectors.session.search import Judgement
from dissectors.tcp.chunk import CLIENT, SERVER, Gap

_LOOKED_AT = 64  # requests in flight
LIKELY = 0.75  # confidence from which other connections may take over what is believed here


@carried
@compiled
class IggyConversation(Conversation):
    """One connection between a client and a server, or between two replicas."""

    era: Era
    exchanges: IggyExchanges
    legacy: Legacy
    vsr: Vsr
    framing: str | None = None
    is_vsr: cython.bint = False  # whether the framing is VSR
    most: cython.longlong
    _searched: tuple[dict[str, int], dict[str, int]]  # by direction: see resync.search
    _turns: Turns | None = None  # where answers can begin, while one is searched
    client_end: cython.longlong = 0  # stream offset after the last frame of a direction
    server_end: cython.longlong = 0
    _first: FrameFacts | None = None  # the first frame
    _latest: cython.longlong = 0  # when the latest came
    _reported: str | None = None  # the dialect, to other connections
    of_older_server: cython.bint = False  # whether a server in legacy framing answers a client of VSR

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.era = Era(tables.asked_for(options.dialects["iggy"]) if "iggy" in options.dialects else 0)
        self.exchanges = IggyExchanges(self, self.era, midstream=midstream)
        self.legacy = Legacy(self.exchanges)
        self.vsr = Vsr(self.exchanges)
        self.most = options.limits.frame_bytes
        self.measurable = False
        if not (self.era.has(LEGACY) and self.era.has(VSR)):
            self._frame_as(LEGACY if self.era.has(LEGACY) else VSR)
        self._searched = ({}, {})

    # --- what the base class asks ---

    def release(self) -> None:
        self.exchanges.release()
        self.exchanges = self.legacy = self.vsr = None  # type: ignore[assignment]  # they refer to the conversation
        super().release()

    def told(self, inbox: Inbox) -> int:
        direction, buf, pos, end = inbox.direction, inbox.buf, inbox.pos, inbox.end
        needed = frames.telling(direction, buf, pos, end, self.most)
        if needed:
            return inbox.order_at(pos + needed - 1)
        gap = inbox.gap_ahead
        return gap.order if gap is not None and self._is_cut_vsr(direction, buf, pos, end) else NEVER

    def measure(
        self, direction: cython.int, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.longlong:
        most: cython.longlong = self.most
        if self.framing is None:
            framing = frames.detect(direction, buf, pos, end, most)
            if framing is None and self._is_cut_vsr(direction, buf, pos, end):
                framing = VSR
            if framing is None:
                return MORE
            self._frame_as(framing)
        if not self.is_vsr or (direction == SERVER and self._answers_as_older(buf, pos, end)):
            return measure_legacy(direction, buf, pos, end, most)
        size: cython.longlong = measure_vsr(buf, pos, end, most)
        return self._cut_in_header(direction, buf, pos, end) if size == MORE else size

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        clues = Clues(self.era.allowed, self.most, stranger=not self.frames, alone=-self.inboxes[direction].base)
        budget = self.budget(direction)
        turn = -1
        if direction == SERVER:
            if self._turns is None:
                self._turns = Turns(self.inboxes[SERVER].base + pos)
            clues = self._expected(clues, end)
            pos, turn = self._next_answer(pos, end, clues)
            if pos <= turn < end:
                verdict = resync.starts_answer(buf, turn, end, final, clues, budget)
                if verdict is Judgement.YES:
                    self._turns = None
                    return turn, True
                if verdict is Judgement.WAIT and not final:
                    budget.needs = turn - pos + budget.needs if budget.needs else 0
                    return pos, False
        known = LEGACY if self.of_older_server and direction == SERVER else self.framing
        at, found, framing = resync.search(
            known, direction, buf, pos, end, final, clues, budget, self._searched[direction]
        )
        if turn == end:
            budget.needs = 0  # whatever comes next may be that answer
        if found and framing:
            self._frame_as(framing)
        if found and direction == SERVER:
            self._turns = None
        return at, found

    def on_frame(self, frame: Frame) -> None:
        lost: cython.longlong = frame.offset
        if self._first is None:
            self._first = frame.facts()
        self._latest = frame.first_ns
        if self.era.settled and self._reported != self.era.dialect:
            self._report_dialect()
        if frame.direction == CLIENT:
            lost -= self.client_end
            self.client_end = frame.offset + frame.size
            if self.inboxes[SERVER].search is not None:
                self._request_in_search(frame.order)
            if lost:
                self.exchanges.pairing.found(frame.order, lost)
        else:
            if self.of_older_server and not self.server_end:
                self.exchanges.diagnostics.older_server(frame)
            lost -= self.server_end
            self.server_end = frame.offset + frame.size
        if self.is_vsr and not (self.of_older_server and frame.direction == SERVER):
            self.vsr.on_frame(frame, lost)
        else:
            self.legacy.on_frame(frame, lost)

    def on_gap(self, direction: int, gap: Gap) -> None:
        within = self.inboxes[direction].inside_frame
        if direction == SERVER:
            self._turns = None
        end = self.client_end if direction == CLIENT else self.server_end
        lost = gap.offset + gap.length - max(end, gap.offset)
        if direction == CLIENT and not within and lost > 0:
            self.exchanges.pairing.hole(gap.order)

    def on_close(self) -> None:
        exchanges = self.exchanges
        exchanges.unanswered(exchanges.pairing.close(), AT_END)
        self.legacy.resolve()
        exchanges.orphans.report_surplus()
        exchanges.rows.dialects.flush()
        if self.era.confidence() >= LIKELY:
            self._report_dialect()
        exchanges.diagnostics.close(self._first)

    def summary(self) -> ConversationSummary:
        state = self.exchanges.state
        dialect = self.exchanges.rows.dialects.dialect() if self.frames else None
        return ConversationSummary(dialect, state.client_software, state.client_version, state.server_version)

    @compiled(python=False)
    def locate(self, frame: Frame, at: cython.Py_ssize_t) -> tuple[int, int]:
        """Time and packet of a byte of a frame; of an answer that was held back they are those of its first byte."""
        return (frame.first_ns, frame.packet_ref) if self.legacy.resolving else Conversation.locate(self, frame, at)

    def _report_dialect(self) -> None:
        if self._first is not None:
            self._reported = self.era.dialect
            self.exchanges.rows.dialects.report_dialect(self._latest)

    # --- the next answer, after a loss ---

    def _expected(self, clues: Clues, end: int) -> Clues:
        """Add to the clues what the requests in flight say of the answers that are still to come."""
        pairing = self.exchanges.pairing
        newest = [entry for entry in islice(reversed(pairing.queue), _LOOKED_AT) if isinstance(entry, IggyRequest)]
        empty = list(takewhile(lambda request: not self.exchanges.fit.has_payload(request), newest))
        return clues._replace(
            awaited=frozenset(request.api_code for request in newest),
            waiting=len(newest),
            empties=0 if pairing.pipelined() else len(empty),
            earliest=self._after(empty[-1].order, end) if empty else 0,
        )

    def _next_answer(self, pos: int, end: int, clues: Clues) -> tuple[int, int]:
        """Indices: where the search for an answer begins, and where the answer to the newest request is expected.

        No answer begins before the oldest request was there. That to the newest one is expected where the first byte
        came after it, `end` where none came yet; -1 where the client does not wait for answers, or no request does.
        """
        pairing = self.exchanges.pairing
        waiting = [entry for entry in pairing.queue if isinstance(entry, IggyRequest)]
        if waiting:
            pos = max(pos, self._after(waiting[0].order, end))
        if not clues.waiting or self.framing != LEGACY or pairing.pipelined():
            return pos, -1
        return pos, self._after(waiting[-1].order, end)

    # --- framing ---

    def _frame_as(self, framing: str) -> None:
        if self.framing is None:
            self.framing = framing
            self.measurable = True
            self.is_vsr = framing == VSR
            self.era.frame_as(framing)

    @compiled
    def _answers_as_older(self, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Whether the server answers a VSR client in legacy framing.

        Its first eight bytes show that: a status that is an error and a length. A VSR header begins with a checksum of
        16 bytes, or with zeros.
        """
        if self.of_older_server or self.server_end or end - pos < PREFIX:
            return self.of_older_server
        if resync.may_be_error(buf, pos, pos + PREFIX):
            self.of_older_server = True
            self.exchanges.meet_older_server()
        return self.of_older_server

    def _request_in_search(self, order: int) -> None:
        """Note where a request came in the search for an answer, and search again: it may decide more.

        order: its delivery order
        """
        self.search_again(SERVER)
        looked = self.looked(SERVER)
        if self._turns is None:
            self._turns = Turns(looked)
        self._turns.note(order, looked)

    def _after(self, order: int, end: int) -> int:
        """Index of the first byte that can be of the answer to a request, at most `end`; below 0 before the buffer."""
        assert self._turns is not None
        return min(end, self._turns.place(order) - self.inboxes[SERVER].base)

    def _cut_in_header(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        """Size of a VSR frame whose packet was cut by the snap length before the command, else MORE.

        Where the size was not captured either, the packet is taken for the frame.
        """
        lost = self._cut_after(direction, pos, end)
        if not lost:
            return MORE
        size = frames.size_before_command(buf, pos, end, self.most)
        return size if size > 0 else end - pos + lost

    def _is_cut_vsr(self, direction: int, buf: bytes, pos: int, end: int) -> bool:
        """Whether bytes are the beginning of a VSR header of which the snap length cut the rest."""
        return self._cut_after(direction, pos, end) > 0 and frames.begins_vsr(buf, pos, end, self.most)

    def _cut_after(self, direction: int, pos: int, end: int) -> int:
        """Bytes that the snap length cut off behind a beginning of a frame that shows VSR."""
        gap = self.inboxes[direction].gap_ahead
        return gap.length if end - pos >= frames.LEAST_CUT and gap is not None and gap.reason == "snaplen" else 0
