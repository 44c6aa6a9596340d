"""From the bytes of two directions to frames, in the order in which they were complete on the wire.

A frame is cut by the length that the protocol reads from its first bytes. A gap inside a frame of known length is
stepped over; after any other, and where bytes are no frame, the protocol looks for the next frame. Every captured byte
is counted once: framed, skipped, or pending (of a frame that never ended).
"""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar

import cython

from dissectors.frame import Frame
from dissectors.inbox import INVALID, MORE, Inbox
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.reporter import ConnectionReporter
from dissectors.resends import Resends
from dissectors.rows.sink import Sink
from dissectors.search import SearchBudget
from dissectors.tcp.chunk import CLIENT, SERVER, Gap, Piece
from dissectors.wording import counted, were

_NEVER = 1 << 62  # later than any order
_ORDER = attrgetter("order")


class _Search:
    """How far a direction looks for the start of a frame."""

    __slots__ = ("looked", "needs", "skipped")

    def __init__(self) -> None:
        self.looked = 0  # stream offset up to which it has looked
        self.needs = 0  # bytes from the position on without which it comes no further
        self.skipped = 0  # bytes


class Framing(ConnectionReporter):
    """The frames of one connection. A subclass supplies measure, resync, on_frame and on_gap."""

    CARRIED = (
        *ConnectionReporter.CARRIED, "inboxes", "resends", "_searches", "_budgets", "_gave_up", "frames",
        "framed_bytes", "skipped_bytes", "pending_bytes", "waited",
    )  # fmt: skip
    steady: ClassVar[bool] = False
    """The size of a frame does not depend on the frames before it: many may be cut before the first is decoded."""

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> None:
        super().__init__(conn, sink, options)
        self.inboxes = (Inbox(CLIENT), Inbox(SERVER))
        self.resends = Resends()
        self._searches: list[_Search | None] = [None, None]  # those that are under way
        if midstream:
            for direction in (CLIENT, SERVER):
                self._begin_search(direction)
        self._budgets: tuple[SearchBudget, SearchBudget] | None = None  # of searches, once there is one
        self._gave_up = False  # that a search passed places over is a finding already
        self.frames = 0
        self.framed_bytes = 0
        self.skipped_bytes = 0
        self.pending_bytes = 0
        self.waited = 0  # stream offset up to which the client's requests have waited for their answers

    # --- what a protocol supplies ---

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

    def on_frame(self, frame: Frame) -> None:
        """A frame, complete or with bytes missing; in the order of `frame.order` over both directions."""
        raise NotImplementedError

    def on_gap(self, direction: int, gap: Gap) -> None:
        """Bytes are missing between frames or within one: answers or requests may have been in them."""

    def on_skipped(self, direction: int, start: int, end: int) -> None:
        """The bytes [start, end) of a direction's stream, still in its inbox, are in no frame."""

    def budget(self, direction: int) -> SearchBudget:
        """What `resync` may spend in a direction."""
        if self._budgets is None:
            self._budgets = SearchBudget(), SearchBudget()
        budget = self._budgets[direction]
        budget.base = self.inboxes[direction].base
        return budget

    @property
    def measurable(self) -> bool:
        """Whether it is known how frames are measured."""
        return True

    # --- what others may ask ---

    @property
    def proven(self) -> bool:
        """Whether a frame has shown that this is the protocol."""
        return self.frames > 0

    @property
    def plain(self) -> bool:
        """Whether nothing is missing in what is at hand, so that all its whole frames may be cut at once."""
        (a, b), (first, second) = self.inboxes, self._searches
        return a.intact and b.intact and not (first and a) and not (second and b)

    @property
    def held(self) -> int:
        """Bytes kept for frames that are not whole yet."""
        return self.inboxes[CLIENT].held + self.inboxes[SERVER].held

    def searched(self, direction: int) -> int:
        """Bytes that were skipped in the search that is under way."""
        search = self._searches[direction]
        return search.skipped if search else 0

    def search_again(self, direction: int) -> None:
        """Something new is known: a search that waits for more bytes looks at those at hand once more."""
        if search := self._searches[direction]:
            search.needs = 0

    def holes(self, frame: Frame) -> list[tuple[int, int]]:
        """The bytes [start, end) that are missing in a frame that is being handed over, as indices of its data."""
        if frame.complete:
            return []
        shift, stop = frame.start - frame.offset, frame.start + frame.size
        end = frame.offset + frame.end - frame.start
        found = [(a + shift, b + shift) for a, b in self.inboxes[frame.direction].holes(frame.offset, end)]
        return [*found, (frame.end, stop)] if frame.end < stop else found

    def pieces(self, direction: int, start: int, end: int) -> list[Piece]:
        """Where the bytes [start, end) of a direction's stream came from, as far as they are at hand."""
        return self.inboxes[direction].pieces(start, end)

    # --- cutting ---

    def cut_frames(self, *, final: bool) -> None:
        """Hand over every frame that is complete; with `final`, no more bytes will come."""
        if self.steady and self.plain:
            self._cut_many()
        self._cut_one_by_one(final)
        for inbox in self.inboxes:
            inbox.settle()

    def cut_rest(self, direction: int) -> None:
        """What is left will never be whole: a frame without its end, or bytes that fit nothing."""
        inbox, search = self.inboxes[direction], self._searches[direction]
        inbox.join()
        _, pos, end = inbox.window
        if pos == end:
            return
        if search or not inbox.inside_frame:
            captured = end - pos - inbox.missing(inbox.offset, inbox.offset + end - pos)
            if search:
                self.skipped_bytes += captured
                search.skipped += end - pos
            else:
                self.pending_bytes += captured
            self._skip(inbox, direction, end)
            return
        before = self.framed_bytes
        self._hand_over(inbox, end)
        self.pending_bytes += self.framed_bytes - before
        self.framed_bytes = before

    def give_up(self, direction: int) -> None:
        """Let go of a frame that is not whole: too much memory is held. Its rest is skipped as it comes."""
        inbox = self.inboxes[direction]
        inbox.join()
        _, pos, end = inbox.window
        left = end - pos
        if not left:
            return
        time, packet_ref = inbox.origin(inbox.offset)
        size, searching = inbox.size, self._searches[direction]
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

    def _cut_many(self) -> None:
        """Cut and hand over all whole frames at hand: the common case, in which nothing is missing, quickly.

        Where bytes are no frame, nothing is done: the order of frames matters then, and `_cut_one_by_one` keeps it.
        """
        client, server = self.inboxes
        requests = client.split(self.measure)
        if requests is None:
            return
        answers = server.split(self.measure)
        if answers and not requests:
            requests = client.split(self.measure)  # what the server sent may say how the client's frames are measured
        if answers is None or requests is None:
            return
        self.framed_bytes += client.taken(requests) + server.taken(answers)
        frames = requests + answers
        self.frames += len(frames)
        frames.sort(key=_ORDER)  # two ascending runs: merged, not sorted
        on_frame = self.on_frame
        for frame in frames:
            on_frame(frame)

    def _cut_one_by_one(self, final: bool) -> None:
        """One event at a time, whichever direction has the earlier one."""
        while (direction := self._next_direction(final)) is not None:
            self._take(direction, final)

    def _next_direction(self, final: bool) -> int | None:
        """The direction that has the earlier event; None where there is none, or more bytes must come first."""
        client, server = self.inboxes
        first, second = self._next_order(CLIENT, final), self._next_order(SERVER, final)
        if first == _NEVER != second and client:
            first = self._next_order(CLIENT, final)  # as in _cut_many
        if first == second == _NEVER:
            return None
        if not self._searches[CLIENT]:
            return CLIENT if first <= second else SERVER
        if self._waits_for_server(final):
            return None
        if client.have and second < client.segment(client.offset)[0]:
            return SERVER  # it came before anything that the client's search may find
        if first != _NEVER:
            return CLIENT
        if not final and server.queued < self.options.limits.held_bytes and client:
            return None  # what the server answered makes sense only once the client's frames are found again
        return SERVER

    def _waits_for_server(self, final: bool) -> bool:
        """Whether the server's first frame is at hand, and how long it is shows in what follows: it comes first."""
        client, server = self.inboxes
        undetermined = not self.measurable and server.have > 0 and not self._searches[SERVER]
        return undetermined and not final and client.queued < self.options.limits.held_bytes

    def _next_order(self, direction: int, final: bool) -> int:
        """Order of the next event of a direction (a frame, bytes that are none, a gap), or _NEVER."""
        inbox, search = self.inboxes[direction], self._searches[direction]
        while True:
            if search:
                if self._unsearched(inbox, search, final):
                    return inbox.segment(max(search.looked, inbox.offset))[0]
            else:
                buf, pos, end = inbox.window
                if pos < end:
                    size = inbox.size
                    if size == MORE:
                        size = self.measure(direction, buf, pos, end)
                        inbox.measured(size)
                    if 0 < size <= end - pos:
                        return inbox.order_of(inbox.offset + size - 1)
                    if size == INVALID:
                        return inbox.order_of(inbox.offset)
            if not inbox.pull():
                gap = inbox.gap_ahead
                return _NEVER if gap is None else gap.order

    def _take(self, direction: int, final: bool) -> None:
        """Deal with what _next_order announced."""
        inbox, search = self.inboxes[direction], self._searches[direction]
        if search:
            if self._unsearched(inbox, search, final):
                self._look(direction, search, final)
                return
        elif inbox:
            buf, pos, end = inbox.window
            size = inbox.size
            if pos < end and size == INVALID:
                size = self.measure(direction, buf, pos, end)  # with what is known by now
                inbox.measured(size)
            if pos < end and 0 < size <= end - pos:
                self._hand_over(inbox, pos + size)
                return
            if pos < end and size == INVALID:
                self._reject(direction)
                return
        gap = inbox.gap_ahead
        if gap is None:
            return
        if not search and 0 < gap.length <= inbox.size - inbox.have:
            self._report_gap(direction, gap)
            inbox.cross()
            return
        self.cut_rest(direction)
        self._report_gap(direction, gap)
        inbox.jump()
        self._begin_search(direction)

    def _hand_over(self, inbox: Inbox, end: int) -> None:
        """Cut the frame of which the bytes up to an index are at hand."""
        start = inbox.offset
        captured = end - inbox.window[1]
        if not inbox.intact:
            captured -= inbox.missing(start, start + captured)
        frame = inbox.cut(end)
        self.frames += 1
        self.framed_bytes += captured
        self.on_frame(frame)

    def _skip(self, inbox: Inbox, direction: int, end: int) -> None:
        """Move on to an index of the window: what lies before it is in no frame."""
        _, pos, _ = inbox.window
        if end > pos:
            self.on_skipped(direction, inbox.offset, inbox.offset + end - pos)
        inbox.skip(end)

    def _reject(self, direction: int) -> None:
        """The bytes at the position are no frame: look for one from the next byte on."""
        inbox = self.inboxes[direction]
        time, packet_ref = inbox.origin(inbox.offset)
        self.finding(
            "malformed_frame",
            "These bytes are no frame; looking for the next one",
            direction=direction,
            time=time,
            packet_ref=packet_ref,
            offset=inbox.offset,
        )
        self._skip(inbox, direction, inbox.window[1] + 1)
        self._begin_search(direction).skipped = 1
        self.skipped_bytes += 1

    def _begin_search(self, direction: int) -> _Search:
        search = self._searches[direction] = _Search()
        self.inboxes[direction].gather(True)
        return search

    @staticmethod
    def _unsearched(inbox: Inbox, search: _Search, final: bool) -> bool:
        """Whether a search has bytes to look at: new ones, or, once no more will come, the rest again."""
        return inbox.have > 0 and search.looked < inbox.offset + inbox.have + (final and inbox.drained)

    def _look(self, direction: int, search: _Search, final: bool) -> None:
        """Look for a frame in one more segment: what may start there depends on the frames before it."""
        inbox = self.inboxes[direction]
        start = inbox.offset
        looked = max(search.looked, start)
        stop = inbox.segment(looked)[1]
        ended = final and inbox.drained and stop == start + inbox.have
        if stop - start < search.needs and not ended:
            search.looked = stop
            return
        inbox.join()
        buf, pos, _ = inbox.window
        time, packet_ref = inbox.origin(looked)
        search.looked = stop + ended
        at, found = self.resync(direction, buf, pos, pos + stop - start, ended)
        budget = None if self._budgets is None else self._budgets[direction]
        search.needs = 0 if found or budget is None else budget.needs
        offset = start + at - pos
        self.skipped_bytes += at - pos - inbox.missing(start, offset)
        search.skipped += at - pos
        self._skip(inbox, direction, at)
        if budget is not None:
            self.report_passed_over(budget, direction, time, packet_ref)
        if not found:
            return
        inbox.gather(False)
        self._searches[direction] = None
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
