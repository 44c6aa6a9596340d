"""One direction of a conversation: the bytes that are not framed yet, and where each of them came from.

    framed │ window: contiguous, holes filled with zeros │ parts │ queue: delivered, with gaps between
           └ position

The window begins with the first byte that is in no frame. What was delivered waits in the queue until somebody looks at
it, so that a whole block costs one step; while a frame of known size is not whole, what is pulled waits as parts and is
joined to the window once. Positions in the window are indices of its buffer; the stream counts offsets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

from dissectors.frame import Frame
from dissectors.rows.layout import ABSENT
from dissectors.tcp.chunk import Chunk, Gap, Piece

MORE = 0  # size of a frame: the length is not there yet
INVALID = -1  # size of a frame: this is no frame
Measure = Callable[[int, bytes, int, int], int]
"""(direction, buffer, position, end) -> size of the frame that begins there, MORE or INVALID."""

_NO_PIECES = array("q")  # of an empty window; never added to
_OFFSET = attrgetter("offset")
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor


class _Hole(NamedTuple):
    """Stream offsets [start, end) that were not captured."""

    start: int
    end: int
    timed: bool  # the packet that carried them was captured, cut by the snap length: their time is known


class Inbox:
    """Bytes of one direction that are not framed yet."""

    __slots__ = (
        "_base",
        "_buf",
        "_direction",
        "_gathers",
        "_given_up",
        "_gaps",
        "_holes",
        "_mark",
        "_orders",
        "_packet_refs",
        "_parts",
        "_parts_size",
        "_pos",
        "_queue",
        "_queued",
        "_size",
        "_starts",
        "_times",
    )

    def __init__(self, direction: int) -> None:
        self._direction = direction
        self._gathers = False  # what is pulled waits as parts until `join`
        self._buf = b""
        self._base = 0  # stream offset of buf[0]
        self._pos = 0  # index of the first byte not framed
        self._starts = self._orders = self._packet_refs = self._times = _NO_PIECES  # pieces in buf, as in Chunk
        self._mark = 0  # index of the piece that holds pos
        self._size = MORE  # of the frame at pos, once measured
        self._parts: list[Chunk] | tuple[()] = ()
        self._parts_size = 0
        self._queue: list[Chunk | Gap] = []
        self._queued = 0  # bytes in queue
        self._gaps = 0  # in queue
        self._holes: tuple[_Hole, ...] = ()  # in buf and parts
        self._given_up = 0  # bytes of a frame that are dropped as they come

    # --- what comes in ---

    def add(self, event: Chunk | Gap) -> int:
        """Take bytes or a hole; how many bytes were dropped of it, because their frame was given up."""
        dropped = 0
        if self._given_up:
            rest, dropped = self._drop_given_up(event)
            if rest is None:
                return dropped
            event = rest
        self._queue.append(event)
        if isinstance(event, Gap):
            self._gaps += 1
        else:
            self._queued += len(event.data)
        return dropped

    def _drop_given_up(self, event: Chunk | Gap) -> tuple[Chunk | Gap | None, int]:
        """(what is left of an event behind the rest of a frame that was given up, bytes dropped)."""
        if isinstance(event, Gap):
            gone = min(self._given_up, event.length)
            self._given_up -= gone
            left = event._replace(offset=event.offset + gone, length=event.length - gone)
            return (left if left.length else None), 0
        gone = min(self._given_up, len(event.data))
        self._given_up -= gone
        return (_behind(event, gone) if gone < len(event.data) else None), gone

    # --- what is at hand ---

    def __bool__(self) -> bool:
        """Whether anything waits: bytes, or news of a gap."""
        return self._pos < len(self._buf) or bool(self._queue)

    @property
    def held(self) -> int:
        """Bytes in memory."""
        return len(self._buf) + self._parts_size + self._queued

    @property
    def drained(self) -> bool:
        """Whether nothing waits behind what was pulled."""
        return not self._queue

    @property
    def queued(self) -> int:
        """Bytes that nobody has looked at."""
        return self._queued

    @property
    def intact(self) -> bool:
        """Whether no byte is missing in all that waits."""
        return not (self._holes or self._gaps)

    @property
    def window(self) -> tuple[bytes, int, int]:
        """(buffer, position, end)."""
        return self._buf, self._pos, len(self._buf)

    @property
    def have(self) -> int:
        """Bytes at hand of the frame at the position."""
        return len(self._buf) - self._pos + self._parts_size

    @property
    def size(self) -> int:
        """Size of the frame at the position, as `measured`; MORE where it is not known."""
        return self._size

    @property
    def base(self) -> int:
        """Stream offset of the first byte of the buffer."""
        return self._base

    @property
    def offset(self) -> int:
        """Stream offset of the position."""
        return self._base + self._pos

    @property
    def inside_frame(self) -> bool:
        """Whether a frame of known size is under way."""
        return self._size > 0 and self._pos < len(self._buf)

    @property
    def gap_ahead(self) -> Gap | None:
        """The gap that follows what was pulled, if one does."""
        event = self._queue[0] if self._queue else None
        return event if isinstance(event, Gap) else None

    def order_of(self, offset: int) -> int:
        """Order of the segment that delivered the byte of the window at a stream offset."""
        return self._orders[self._piece(offset)]

    def origin(self, offset: int) -> tuple[int, int]:
        """(time in ns, packet) of the byte of the window at a stream offset."""
        piece = self._piece(offset)
        return self._times[piece], self._packet_refs[piece]

    def segment(self, offset: int) -> tuple[int, int]:
        """(order, end as a stream offset) of the segment that delivered a byte of the window or of what was pulled."""
        starts, orders, end = self._starts, self._orders, self._base + len(self._buf)
        if offset >= end and self._parts:
            part = self._parts[bisect_right(self._parts, offset, key=_OFFSET) - 1]
            starts, orders, end = part.starts, part.orders, part.offset + len(part.data)
        at = bisect_right(starts, offset) - 1
        return orders[at], starts[at + 1] if at + 1 < len(starts) else end

    def delivered_after(self, order: int, end: int) -> int:
        """Index of the first byte of the window that was delivered after `order`, at most `end`."""
        piece = bisect_right(self._orders, order)
        return end if piece == len(self._orders) else min(end, self._starts[piece] - self._base)

    def missing(self, start: int, end: int) -> int:
        """How many bytes of [start, end) of the stream were not captured."""
        return sum(hole_end - hole_start for hole_start, hole_end in self.holes(start, end))

    def holes(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts [start, end) of these bytes of the stream that were not captured, in order."""
        return [
            (max(start, hole.start), min(end, hole.end))
            for hole in self._holes
            if hole.start < end and hole.end > start
        ]

    def captured(self, start: int, end: int) -> Iterator[Chunk]:
        """Those of the bytes [start, end) of the window, as stream offsets, that were captured."""
        for hole_start, hole_end in [*self.holes(start, end), (end, end)]:
            if start < hole_start:
                first, stop = self._piece(start), self._piece(hole_start - 1) + 1
                yield Chunk(
                    start,
                    self._buf[start - self._base : hole_start - self._base],
                    array("q", (start,)) + self._starts[first + 1 : stop],
                    self._orders[first:stop],
                    self._packet_refs[first:stop],
                    self._times[first:stop],
                )
            start = hole_end

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Where the bytes [start, end) of the stream came from, as far as they are at hand."""
        found: list[Piece] = []
        if self._buf:
            own = Chunk(self._base, self._buf, self._starts, self._orders, self._packet_refs, self._times)
            found += own.pieces(start, end)
        for event in self._queue:
            if not isinstance(event, Gap):
                found += event.pieces(start, end)
        return found

    # --- frame by frame ---

    def pull(self) -> bool:
        """Bring the next delivered bytes into the window; False where there are none, or a gap comes first."""
        event = self._queue[0] if self._queue else None
        if event is None or isinstance(event, Gap):
            return False
        del self._queue[0]
        self._queued -= len(event.data)
        self._put(event)
        return True

    def measured(self, size: int) -> None:
        """The frame at the position has this size; until it is whole, the window does not grow."""
        self._size = size

    def gather(self, on: bool) -> None:
        """From now on, whether what is pulled waits until it is joined: a search looks at it seldom."""
        self._gathers = on

    def cut(self, end: int) -> Frame:
        """The frame at the position, of which the window has the bytes to index `end`. Move on."""
        start, size, base = self._pos, self._size, self._base
        offset = base + start
        stop = offset + size
        first, last = self._mark, self._piece(base + end - 1)
        order = self._orders[last]
        known, last_ns = end, ABSENT if end - start < size else self._times[last]
        for hole in self._holes:
            if hole.start < stop and hole.end > offset:
                known = min(known, max(start, hole.start - base))
                if hole.end >= stop and not hole.timed:
                    last_ns = ABSENT
        frame = Frame(self._direction, self._buf, start, end, size, known, offset, order, self._times[first], last_ns,
                      self._packet_refs[first])  # fmt: skip
        self._pos, self._size = end, MORE
        following = last + 1 < len(self._starts) and self._starts[last + 1] <= base + end
        self._mark = last + following
        return frame

    def skip(self, end: int) -> None:
        """Move on to an index of the window: what lies before it is in no frame."""
        self._pos, self._size = end, MORE
        if end < len(self._buf):
            self._mark = self._piece(self._base + end)

    def cross(self) -> None:
        """Step over the gap ahead, inside the frame at the position: zeros stand in for it."""
        gap = self._next_gap()
        self._put(Chunk.zeros(gap))
        self._holes += (_Hole(gap.offset, gap.offset + gap.length, gap.reason == "snaplen"),)

    def jump(self) -> None:
        """Go on behind the gap ahead. What is in the window must have been cut or skipped."""
        gap = self._next_gap()
        self._base, self._buf, self._pos, self._mark, self._size = gap.offset + gap.length, b"", 0, 0, MORE

    def give_up(self, rest: int) -> None:
        """So many bytes that are still to come are dropped."""
        self._given_up = rest

    def join(self) -> None:
        """Bring all that was pulled into the window."""
        if not self._parts:
            return
        at = self._mark
        self._buf = b"".join([self._buf[self._pos :], *(part.data for part in self._parts)])
        self._base += self._pos
        self._starts, self._orders = self._starts[at:], self._orders[at:]
        self._packet_refs, self._times = self._packet_refs[at:], self._times[at:]
        for part in self._parts:
            self._starts += part.starts
            self._orders += part.orders
            self._packet_refs += part.packet_refs
            self._times += part.times
        self._pos = self._mark = 0
        self._parts, self._parts_size = (), 0
        self._forget()

    def settle(self) -> None:
        """Let go of bytes that were framed."""
        self._trim()

    # --- many frames at once: nothing may be missing ---

    def split(self, measure: Measure) -> list[Frame] | None:
        """The whole frames at hand, still to be `taken`; None where something is no frame."""
        self._absorb()
        frames: list[Frame] = []
        direction, buf, pos, end, base = self._direction, self._buf, self._pos, len(self._buf), self._base
        starts, orders, times, packet_refs = self._starts, self._orders, self._times, self._packet_refs
        first, final = self._mark, len(starts) - 1
        while pos < end:
            size = measure(direction, buf, pos, end)
            if size == INVALID:
                return None
            after = pos + size
            if size == MORE or after > end:
                break
            stop = base + after
            last = first
            if last < final and starts[last + 1] < stop:
                last = bisect_right(starts, stop - 1, last + 1) - 1
            frame = Frame(direction, buf, pos, after, size, after, base + pos, orders[last], times[first], times[last],
                          packet_refs[first])  # fmt: skip
            frames.append(frame)
            pos = after
            first = last + 1 if last < final and starts[last + 1] == stop else last
        return frames

    def taken(self, frames: list[Frame]) -> int:
        """Move on behind frames that `split` gave; how many bytes they are."""
        if not frames:
            return 0
        end, size = frames[-1].end, frames[-1].end - self._pos
        self._pos, self._size = end, MORE
        self._mark = min(self._piece(self._base + end), len(self._starts) - 1)
        return size

    # --- within ---

    def _piece(self, offset: int) -> int:
        """Index of the piece that holds a stream offset."""
        return bisect_right(self._starts, offset, self._mark) - 1

    def _next_gap(self) -> Gap:
        gap = self._queue.pop(0)
        assert isinstance(gap, Gap)
        self._gaps -= 1
        return gap

    def _put(self, *chunks: Chunk) -> None:
        """Append chunks to the window; while a frame of known size is under way, only once it is whole."""
        for chunk in chunks:
            if self._pos >= len(self._buf) and not self._parts:
                self._base, self._buf = chunk.offset, chunk.data
                self._starts, self._orders = chunk.starts, chunk.orders
                self._packet_refs, self._times = chunk.packet_refs, chunk.times
                self._pos = self._mark = 0
                self._forget()
                continue
            if isinstance(self._parts, tuple):
                self._parts = []
            self._parts.append(chunk)
            self._parts_size += len(chunk.data)
        if self._parts and not self._gathers and self.have >= self._size:
            self.join()

    def _absorb(self) -> None:
        """Bring all that was delivered into the window; no gap is among it."""
        if self._queue:
            queue, self._queue, self._queued = self._queue, [], 0
            self._put(*[event for event in queue if not isinstance(event, Gap)])

    def _forget(self) -> None:
        """Holes before the window concern nobody any more."""
        if self._holes:
            self._holes = tuple(hole for hole in self._holes if hole.end > self._base)

    def _trim(self) -> None:
        """Let go of framed bytes, where they are more than those that stay."""
        left = len(self._buf) - self._pos
        if self._pos > left:
            at = self._mark if left else len(self._starts)
            self._base += self._pos
            self._buf = self._buf[self._pos :]
            self._starts, self._orders = self._starts[at:], self._orders[at:]
            self._packet_refs, self._times = self._packet_refs[at:], self._times[at:]
            self._pos = self._mark = 0


def _behind(chunk: Chunk, size: int) -> Chunk:
    """What follows the first bytes of a chunk."""
    offset = chunk.offset + size
    first = bisect_right(chunk.starts, offset) - 1
    return Chunk(
        offset,
        chunk.data[size:],
        array("q", (offset,)) + chunk.starts[first + 1 :],
        chunk.orders[first:],
        chunk.packet_refs[first:],
        chunk.times[first:],
    )
