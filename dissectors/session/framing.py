"""From the bytes of two directions to frames, in the order in which they were complete on the wire.

A frame is cut by the length that the protocol reads from its first bytes. A gap inside a frame of known length is
stepped over; after any other, and where bytes are no frame, the protocol looks for the next frame. Every captured byte
is counted once: framed, skipped, or pending (of a frame that never ended).
"""

from __future__ import annotations

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.rows.sink import Sink
from dissectors.session import search
from dissectors.session.closing import Closing
from dissectors.session.frame import Frame
from dissectors.session.inbox import INVALID, MORE, Inbox
from dissectors.session.reporter import ConnectionReporter
from dissectors.session.resends import Resends
from dissectors.session.search import NO_LAST, SearchBudget
from dissectors.tcp.chunk import CLIENT, SERVER, Chunk, Gap, Piece
from dissectors.wording import counted, were

NEVER = 1 << 62  # later than any order


class _Search:
    """How far a direction looks for the start of a frame."""

    __slots__ = ("framed", "looked", "needs", "skipped")

    def __init__(self, framed: int = 0) -> None:
        self.framed = framed  # bytes at its beginning that count as framed already
        self.looked = 0  # stream offset up to which it has looked
        self.needs = 0  # bytes from the position on without which it comes no further
        self.skipped = 0  # bytes


@carried
@compiled
class Framing(ConnectionReporter):
    """The frames of one connection. A subclass supplies measure, resync, on_frame and on_gap."""

    inboxes: tuple[Inbox, Inbox]
    measurable: cython.bint  # whether it is known how frames are measured
    resends: Resends
    closing: Closing
    _budgets: tuple[SearchBudget, SearchBudget] | None = None  # of searches, once there is one
    _gave_up: cython.bint = False  # that a search passed places over is a finding already
    frames: cython.longlong = 0
    framed_bytes: cython.longlong = 0
    skipped_bytes: cython.longlong = 0
    pending_bytes: cython.longlong = 0

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options)
        self.inboxes = (Inbox(CLIENT), Inbox(SERVER))
        self.measurable = True
        self.resends = Resends()
        self.closing = Closing()
        if midstream:
            for inbox in self.inboxes:
                self._begin_search(inbox)

    # --- what a protocol supplies ---

    @compiled
    def measure(
        self, direction: cython.int, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.longlong:
        """Whole size of the frame at buf[pos], of which buf[pos:end] is at hand: the size, MORE or INVALID."""
        raise NotImplementedError

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        """The first index in [pos, end) at which a frame starts.

        (index, True) where it is certain; (index, False) where nothing before index can be a start and more bytes are
        needed to judge index itself. With `final` no more bytes will come. The answer must depend on the bytes and on
        frames seen before only, not on how they were cut: judge candidates from left to right.
        """
        raise NotImplementedError

    @compiled
    def on_frame(self, frame: Frame) -> None:
        """A frame, complete or with bytes missing; in the order of `frame.order` over both directions."""
        raise NotImplementedError

    def on_gap(self, direction: int, gap: Gap) -> None:
        """Bytes are missing between frames or within one: answers or requests may have been in them."""

    def on_skipped(self, direction: int, start: int, end: int) -> None:
        """The bytes [start, end) of a direction's stream, still in its inbox, are in no frame."""

    def measure_cut(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        """Size of a frame that `measure` cannot tell and of which no more bytes will come: as `measure`."""
        return MORE

    def mistaken(self, direction: int) -> Chunk | None:
        """The last bytes of the frame before the position, in which the next one may begin; None where it cannot.

        Asked where no frame begins at the position.
        """
        return None

    def on_lost(self, direction: int) -> None:
        """The frame that was handed over last is not as long as it announced; where the next begins is searched."""

    def frame_within(self, direction: int, buf: bytes, start: int, end: int) -> int:
        """Where in buf[start:end], of a frame that never ended, another frame begins: an index, or -1."""
        return -1

    def on_found(self, direction: int, offset: int) -> bool:
        """The next frame begins at a stream offset, which its predecessor did not announce: whether that is told."""
        return False

    def budget(self, direction: int) -> SearchBudget:
        """What `resync` may spend in a direction."""
        if self._budgets is None:
            self._budgets = search.new_budget(), search.new_budget()
        budget = self._budgets[direction]
        budget.base = self.inboxes[direction].base
        return budget

    def told(self, inbox: Inbox) -> int:
        """Order of the segment with which the bytes at hand of a direction told how frames are measured, or NEVER.

        Asked while `measurable` is not set, at the first byte of a direction.
        """
        return NEVER

    # --- what others may ask ---

    @property
    def proven(self) -> bool:
        """Whether a frame has shown that this is the protocol."""
        return self.frames > 0

    @property
    def held(self) -> int:
        """Bytes kept for frames that are not whole yet."""
        return self.inboxes[CLIENT].held + self.inboxes[SERVER].held

    def searched(self, direction: int) -> int:
        """Bytes that were skipped in the search that is under way."""
        search: _Search | None = self.inboxes[direction].search
        return search.skipped if search else 0

    def looked(self, direction: int) -> int:
        """Stream offset up to which the search that is under way has looked."""
        inbox: Inbox = self.inboxes[direction]
        search: _Search = inbox.search
        return max(search.looked, inbox.offset)

    def search_again(self, direction: int) -> None:
        """Something new is known: a search that waits for more bytes looks at those at hand once more."""
        if search := self.inboxes[direction].search:
            search.needs = 0

    def holes(self, frame: Frame) -> list[tuple[int, int]]:
        """The bytes [start, end) that are missing in a frame that is being handed over, as indices of its data."""
        if frame.complete:
            return []
        shift, stop = frame.start - frame.offset, frame.start + frame.size
        end = frame.offset + frame.end - frame.start
        found = [(a + shift, b + shift) for a, b in self.inboxes[frame.direction].holes(frame.offset, end)]
        return [*found, (frame.end, stop)] if frame.end < stop else found

    @compiled(python=False)
    def locate(self, frame: Frame, at: cython.Py_ssize_t) -> tuple[int, int]:
        """Time (ns) and packet of the byte at index `at` of a frame that is being handed over."""
        inbox: Inbox = self.inboxes[frame.direction]
        found = inbox.located(frame.offset + at - frame.start)
        return found or (frame.first_ns, frame.packet_ref)  # it was handed over long ago

    def pieces(self, direction: int, start: int, end: int) -> list[Piece]:
        """Where the bytes [start, end) of a direction's stream came from, as far as they are at hand."""
        return self.inboxes[direction].pieces(start, end)

    # --- cutting ---

    @compiled
    def cut_frames(self, final: cython.bint) -> None:
        """Hand over every frame that is complete; with `final`, no more bytes will come.

        One event at a time, of whichever direction has the earlier one: a frame, bytes that are none, or a gap.
        """
        client: Inbox = self.inboxes[CLIENT]
        server: Inbox = self.inboxes[SERVER]
        taken: Inbox
        if not self.measurable:
            self._measure_earlier_first()
        first: cython.longlong = self._next_order(client, final)
        second: cython.longlong = self._next_order(server, final)
        while True:
            if first == NEVER and second != NEVER and _is_unmeasured(client):
                first = self._next_order(client, final)  # the server's frame may say how the client's are measured
            if first == NEVER and second == NEVER:
                break
            taken = client if first <= second else server
            if client.search is not None:
                found = self._take_while_searching(first, second, final)
                if found is None:
                    break
                taken = found
            self._take(taken, final)
            if taken is client or _is_unmeasured(client):
                first = self._next_order(client, final)
            if taken is server or _is_unmeasured(server):
                second = self._next_order(server, final)
        client.settle()
        server.settle()

    def cut_rest(self, direction: int) -> None:
        """Deal with what is left and will never be whole: a frame without its end, or bytes that fit nothing."""
        inbox: Inbox = self.inboxes[direction]
        search: _Search | None = inbox.search
        inbox.join()
        size = inbox.end - inbox.pos
        if not size:
            return
        if inbox.size == MORE and not search:
            inbox.size = self.measure_cut(direction, inbox.buf, inbox.pos, inbox.end)
        if search:
            size -= self._pass_framed(inbox, search, inbox.end)
        if search or not inbox.inside_frame:
            captured = size - inbox.missing(inbox.offset, inbox.offset + size)
            if search:
                self.skipped_bytes += captured
                search.skipped += size
            else:
                self.pending_bytes += captured
            self._skip(inbox, inbox.end)
            return
        before = self.framed_bytes
        if not inbox.missing(inbox.offset, inbox.offset + size):
            self.closing.note_cut(direction, inbox.offset)
        self._hand_over(inbox, inbox.end)
        self.pending_bytes += self.framed_bytes - before
        self.framed_bytes = before

    def go_on_within(self, direction: int) -> bool:
        """Whether another frame begins in what is left: there the frame before it is cut, and framing can go on.

        For a direction that has ended: a frame that announced more than came has swallowed those behind it.
        """
        inbox: Inbox = self.inboxes[direction]
        inbox.join()
        if inbox.search is not None or inbox.pos == inbox.end:
            return False
        start, size = inbox.offset, inbox.end - inbox.pos
        if inbox.missing(start, start + size):
            return False
        if inbox.inside_frame:
            at = self.frame_within(direction, inbox.buf, inbox.pos + 1, inbox.end)
            if at < 0:
                return False
            self._hand_over(inbox, at)
            self.on_lost(direction)
            self.on_found(direction, inbox.offset)
            return True
        framed = self.mistaken(direction)
        if framed is None:
            return False
        data = framed.data + inbox.buf[inbox.pos :]
        if not 0 <= self.frame_within(direction, data, 0, len(data)) < len(framed.data):
            return False
        self._search_from(inbox, framed)
        return True

    def give_up(self, direction: int) -> None:
        """Let go of a frame that is not whole: too much memory is held. Its rest is skipped as it comes."""
        inbox: Inbox = self.inboxes[direction]
        inbox.join()
        left = inbox.end - inbox.pos
        if not left:
            return
        time, packet_ref = inbox.origin(inbox.offset)
        size, searching = inbox.size, inbox.search is not None
        self.finding(
            "limit",
            f"A frame of {counted(size, 'byte')} was given up after {left}: too much memory was held"
            if size > 0
            else f"{were(left, 'byte')} given up: too much memory was held",
            direction=direction,
            time=time,
            packet_ref=packet_ref,
            offset=inbox.offset,
            length=left,
        )
        self.cut_rest(direction)
        inbox.give_up(0 if searching else max(0, size - left))
        inbox.settle()

    @compiled
    def _next_order(self, inbox: Inbox, final: cython.bint) -> cython.longlong:
        """Order of the next event of a direction (a frame, bytes that are none, a gap), or NEVER."""
        size: cython.longlong
        while True:
            if inbox.search is not None:
                if self._unsearched(inbox, final):
                    search: _Search = inbox.search
                    return inbox.segment(max(search.looked, inbox.offset))[0]
            elif inbox.pos < inbox.end:
                size = inbox.size
                if size == MORE:
                    size = inbox.size = self.measure(inbox.direction, inbox.buf, inbox.pos, inbox.end)
                if 0 < size <= inbox.end - inbox.pos:
                    return inbox.order_at(inbox.pos + size - 1)
                if size == INVALID:
                    return self._rejected(inbox)
            if not inbox.pull():
                gap = inbox.gap_ahead
                return NEVER if gap is None or (not final and self._awaits_framing(inbox)) else gap.order

    @compiled
    def _take(self, inbox: Inbox, final: cython.bint) -> cython.int:
        """Deal with the event that `_next_order` announced."""
        if inbox.search is None and inbox.pos < inbox.end:
            if inbox.size == INVALID:  # with what was known when it was measured: perhaps more is by now
                inbox.size = self.measure(inbox.direction, inbox.buf, inbox.pos, inbox.end)
            if 0 < inbox.size <= inbox.end - inbox.pos:
                self._hand_over(inbox, inbox.pos + inbox.size)
                return 0
        self._take_odd(inbox, final)
        return 0

    @compiled
    def _hand_over(self, inbox: Inbox, end: cython.Py_ssize_t) -> cython.int:
        """Cut the frame of which the bytes up to an index are at hand."""
        frame: Frame = inbox.cut(end)
        self.frames += 1
        self.framed_bytes += end - frame.start
        if not frame.complete:
            self.framed_bytes -= inbox.missing(frame.offset, frame.offset + end - frame.start)
        self.on_frame(frame)
        return 0

    # --- what is odd ---

    def _measure_earlier_first(self) -> None:
        """Measure the direction first whose bytes told first how frames are measured, however many are at hand now."""
        orders = [NEVER if inbox.search is not None else self._told_at(inbox) for inbox in self.inboxes]
        if min(orders) < NEVER:
            inbox = self.inboxes[orders.index(min(orders))]
            inbox.size = self.measure(inbox.direction, inbox.buf, inbox.pos, inbox.end)

    def _told_at(self, inbox: Inbox) -> int:
        while True:
            order = self.told(inbox) if inbox.pos < inbox.end else NEVER
            if order != NEVER or not inbox.pull():
                return order

    def _take_while_searching(self, first: int, second: int, final: bool) -> Inbox | None:
        """The direction to go on with while the client's frames are looked for; None where more bytes must come first.

        first, second: the orders of the next events of client and server, one of them at least not NEVER.
        """
        client, server = self.inboxes
        if self._waits_for_server(final):
            return None
        if client.have and second < client.segment(client.offset)[0]:
            return server  # it came before anything that the client's search may find
        if first != NEVER:
            return client
        if not final and server.queued < self.options.limits.held_bytes and client:
            return None  # what the server answered makes sense only once the client's frames are found again
        return server

    def _waits_for_server(self, final: bool) -> bool:
        """Whether the server's first frame is at hand, and how long it is shows in what follows: it comes first."""
        client, server = self.inboxes
        undetermined = not self.measurable and server.have > 0 and server.search is None
        return undetermined and not final and client.queued < self.options.limits.held_bytes

    def _awaits_framing(self, inbox: Inbox) -> bool:
        """Whether bytes before a gap are to be measured once later bytes show how: the gap must not come first."""
        unmeasured = not self.measurable and inbox.search is None and inbox.pos < inbox.end
        return unmeasured and inbox.queued < self.options.limits.held_bytes

    def _take_odd(self, inbox: Inbox, final: bool) -> None:
        """Deal with an event that is not a frame at hand: bytes to be searched, bytes that are no frame, a gap."""
        if inbox.search is not None:
            if self._unsearched(inbox, final):
                self._look(inbox, inbox.search, final)
                return
        elif inbox.pos < inbox.end and inbox.size == INVALID:
            self._reject(inbox)
            return
        gap = inbox.gap_ahead
        if gap is None:
            return
        if inbox.size == MORE and inbox.search is None and inbox.pos < inbox.end:
            inbox.size = self.measure_cut(inbox.direction, inbox.buf, inbox.pos, inbox.end)
        if inbox.search is None and 0 < gap.length <= inbox.size - inbox.have:
            self._report_gap(inbox.direction, gap)
            inbox.cross()
            return
        self.cut_rest(inbox.direction)
        self._report_gap(inbox.direction, gap)
        inbox.jump()
        self._begin_search(inbox)

    def _rejected(self, inbox: Inbox) -> int:
        """Order of the segment with which it showed that no frame begins at the position."""
        offset = inbox.offset
        while True:
            order, stop = inbox.segment(offset)
            end = inbox.pos + stop - inbox.offset
            if end >= inbox.end or self.measure(inbox.direction, inbox.buf, inbox.pos, end) != MORE:
                return order
            offset = stop

    def _skip(self, inbox: Inbox, end: int) -> None:
        """Move on to an index of the window: what lies before it is in no frame."""
        if end > inbox.pos:
            self.on_skipped(inbox.direction, inbox.offset, inbox.offset + end - inbox.pos)
        inbox.skip(end)

    def _reject(self, inbox: Inbox) -> None:
        """The bytes at the position are no frame: look for one from the next byte on, or within the frame before."""
        framed = self.mistaken(inbox.direction)
        if framed is not None:
            self._search_from(inbox, framed)
            return
        time, packet_ref = inbox.origin(inbox.offset)
        self.finding(
            "malformed_frame",
            "These bytes are no frame; looking for the next one",
            direction=inbox.direction,
            time=time,
            packet_ref=packet_ref,
            offset=inbox.offset,
        )
        self._skip(inbox, inbox.pos + 1)
        self._begin_search(inbox).skipped = 1
        self.skipped_bytes += 1

    @staticmethod
    def _begin_search(inbox: Inbox, framed: int = 0) -> _Search:
        """Look for the start of a frame from here on. framed: bytes from here on that count as framed already."""
        search = inbox.search = _Search(framed)
        inbox.gather(True)
        return search

    def _search_from(self, inbox: Inbox, framed: Chunk) -> None:
        """Look for the start of a frame from the beginning of bytes that were framed, and end at the position."""
        self.on_lost(inbox.direction)
        inbox.put_back(framed)
        self._begin_search(inbox, len(framed.data))

    @staticmethod
    def _pass_framed(inbox: Inbox, search: _Search, end: int) -> int:
        """Move over the bytes before an index of the window that count as framed already; how many they are."""
        again = min(search.framed, end - inbox.pos)
        if again:
            search.framed -= again
            inbox.skip(inbox.pos + again)
        return again

    @staticmethod
    def _unsearched(inbox: Inbox, final: bool) -> bool:
        """Whether a search has bytes to look at: new ones, or, once no more will come, the rest again."""
        search: _Search = inbox.search
        return inbox.have > 0 and search.looked < inbox.offset + inbox.have + (final and inbox.drained)

    def _look(self, inbox: Inbox, search: _Search, final: bool) -> None:
        """Look for a frame in one more segment; of a client first before it: what starts there depends on answers."""
        direction, start = inbox.direction, inbox.offset
        looked = max(search.looked, start)
        stop = inbox.segment(looked)[1]
        ended = final and inbox.drained and stop == start + inbox.have
        if stop - start < search.needs and not ended:
            search.looked = stop
            return
        inbox.join()
        pos = inbox.pos
        time, packet_ref = inbox.origin(looked)
        budget = self.budget(direction)
        budget.last = looked - 1 if direction == CLIENT and start < looked else NO_LAST
        at, found = self.resync(direction, inbox.buf, pos, pos + stop - start, ended)
        offset = start + at - pos
        search.looked = offset if not found and offset > budget.last else stop + ended
        budget.last = NO_LAST  # what looks for a frame within another judges all places
        search.needs = 0 if found else budget.needs
        again = self._pass_framed(inbox, search, at)
        self.skipped_bytes += at - pos - again - inbox.missing(start, offset)
        search.skipped += at - pos
        self._skip(inbox, at)
        self.report_passed_over(budget, direction, time, packet_ref)
        if not found:
            return
        inbox.gather(False)
        inbox.search = None
        self.framed_bytes -= search.framed  # they are of the frame that was found
        if self.on_found(direction, offset):
            return
        if offset > 0 and (search.skipped or offset != search.skipped):
            time, packet_ref = inbox.origin(offset)
            self.finding(
                "resync",
                f"Found a frame again after {search.skipped} bytes",
                direction=direction,
                time=time,
                packet_ref=packet_ref,
                offset=offset,
                length=search.skipped,
            )

    def report_passed_over(self, budget: SearchBudget, direction: int, time: int, packet_ref: int) -> None:
        """Report once that a search did not judge every place; time (ns), packet: of bytes that it searched."""
        if budget.passed_over and not self._gave_up:
            self._gave_up = True
            self.finding(
                "search_abandoned",
                "Many places look like the start of a frame; not all were judged, so frames may be missing",
                direction=direction,
                time=time,
                packet_ref=packet_ref,
            )

    def _report_gap(self, direction: int, gap: Gap) -> None:
        self.finding(
            "gap",
            f"{were(gap.length, 'byte')} not captured",
            direction=direction,
            time=gap.time,
            packet_ref=gap.packet_ref,
            offset=gap.offset,
            length=gap.length,
            reason=gap.reason,
        )
        self.on_gap(direction, gap)


@compiled
def _is_unmeasured(inbox: Inbox) -> cython.bint:
    """Whether bytes are at hand, but not how long their frame is: what comes of the other direction may say it."""
    return inbox.size == MORE and inbox.pos < inbox.end
