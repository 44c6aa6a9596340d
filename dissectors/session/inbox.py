"""One direction of a conversation: the bytes that are not framed yet, and where each of them came from.

    framed │ window: contiguous, holes filled with zeros │ parts │ queue: delivered, with gaps between
           └ position

The window is a chunk as TCP delivered it, so that most frames are cut without a copy; only the bytes of a frame that
lies in several chunks are joined, once the frame is whole. Until then what is pulled from the queue waits as parts. Of
the first chunk in the queue some bytes may be `taken` already. Positions in the window are indices of its buffer; the
stream counts offsets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import Derived, carried
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import Chunk, Gap, Piece
from dissectors.tcp.numbers import SEGMENT_FIELDS, SEGMENT_ORDER, SEGMENT_PACKET, SEGMENT_START, SEGMENT_TIME
from dissectors.wire.arrays import Bytes, Numbers

MORE = 0  # size of a frame: the length is not there yet
INVALID = -1  # size of a frame: this is no frame

_HEAD = 512  # bytes that are joined to a frame whose size is not known, at most at a time
_NO_SEGMENTS = array("q")  # of an empty window; never added to
_ZEROS = memoryview(bytes(1 << 16))  # of which the bytes of holes are made
_offset = attrgetter("offset")


class _Hole(NamedTuple):
    """Stream offsets [start, end) that were not captured."""

    start: int
    end: int
    timed: bool  # the packet that carried them was captured, cut by the snap length: their time is known


@final
@carried
@compiled
class Inbox:
    """Bytes of one direction that are not framed yet.

    direction: CLIENT or SERVER
    size: of the frame at the position, INVALID where there is none, MORE where it is not measured
    buf, pos, end: the window is buf[pos:end]
    search: the search for the start of a frame that is under way; None where frames follow each other
    remembers: how many bytes right before the position stay known (`before`) when the window moves on
    """

    direction: cython.int
    search: Any = None
    size: cython.longlong
    pos: cython.Py_ssize_t = 0
    end: Derived[cython.Py_ssize_t] = 0
    buf: bytes
    _base: cython.longlong = 0  # stream offset of buf[0]
    _segments: array[int]  # those in buf, as in Chunk; the first may begin before it
    _numbers: Derived[Numbers]  # the same, to be read fast
    _count: Derived[cython.Py_ssize_t] = 0  # segments
    _mark: Derived[cython.Py_ssize_t] = 0  # of them: the one that holds pos
    _parts: list[Chunk | Gap] | None = None  # behind the window
    _parts_size: cython.longlong = 0
    _gathers: cython.bint = False  # what is pulled waits as parts until `join`
    _queue: list[Chunk | Gap]
    _queued: cython.longlong = 0  # bytes in queue
    _taken: cython.longlong = 0  # bytes of queue[0] that were pulled
    _holes: list[_Hole]  # in buf and parts
    _given_up: cython.longlong = 0  # bytes of a frame that are dropped as they come
    remembers: cython.longlong = 0
    _past: bytes  # the window before this one, or its end: only where `remembers` is set
    _past_base: cython.longlong = 0
    _past_segments: array[int]

    def __init__(self, direction: int) -> None:
        self.direction = direction
        self.size = MORE
        self.buf = b""
        self._segments = _NO_SEGMENTS
        self._numbers = _NO_SEGMENTS
        self._queue = []
        self._holes = []
        self._past = b""
        self._past_segments = _NO_SEGMENTS

    def restored(self) -> None:
        """Set what follows from the window."""
        self._show(self._base, self.buf, self._segments, self.pos)

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
        if not isinstance(event, Gap):
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
        return (event.behind(event.offset + gone) if gone < len(event.data) else None), gone

    # --- what is at hand ---

    def __bool__(self) -> bool:
        """Whether anything waits: bytes, or news of a gap."""
        return self.pos < self.end or bool(self._queue)

    @property
    def held(self) -> int:
        """Bytes in memory."""
        return self.end + self._parts_size + self._queued

    @property
    def drained(self) -> bool:
        """Whether nothing waits behind what was pulled."""
        return not self._queue

    @property
    def queued(self) -> int:
        """Bytes that nobody has looked at."""
        return self._queued

    @property
    def have(self) -> int:
        """Bytes at hand of the frame at the position."""
        return self.end - self.pos + self._parts_size

    @property
    def base(self) -> int:
        """Stream offset of the first byte of the buffer."""
        return self._base

    @property
    def offset(self) -> int:
        """Stream offset of the position."""
        return self._base + self.pos

    @property
    def inside_frame(self) -> bool:
        """Whether a frame of known size is under way."""
        return self.size > 0 and self.pos < self.end

    @property
    def gap_ahead(self) -> Gap | None:
        """The gap that follows what was pulled, if one does."""
        event = self._queue[0] if self._queue else None
        return event if isinstance(event, Gap) else None

    @compiled
    def order_at(self, index: cython.Py_ssize_t) -> cython.longlong:
        """Order of the segment that delivered the byte at an index of the window."""
        order: cython.longlong = self._numbers[SEGMENT_FIELDS * self._segment(self._base + index) + SEGMENT_ORDER]
        return order

    def origin(self, offset: int) -> tuple[int, int]:
        """(time in ns, packet) of the byte of the window at a stream offset."""
        row = SEGMENT_FIELDS * self._segment(offset)
        return self._segments[row + SEGMENT_TIME], self._segments[row + SEGMENT_PACKET]

    @compiled
    def located(self, offset: cython.longlong) -> tuple[int, int] | None:
        """(time in ns, packet) of the byte of the window at a stream offset, framed or not; None where it has none."""
        if self._count == 0 or offset < self._numbers[SEGMENT_START] or offset >= self._base + self.end:
            return None
        row: cython.Py_ssize_t = SEGMENT_FIELDS * self._segment_from(0, offset)
        return self._numbers[row + SEGMENT_TIME], self._numbers[row + SEGMENT_PACKET]

    def segment(self, offset: int) -> tuple[int, int]:
        """(order, end as a stream offset) of the segment that delivered a byte of the window or of what was pulled."""
        segments, end = self._segments, self._base + self.end
        if offset >= end and self._parts:
            part = self._parts[bisect_right(self._parts, offset, key=_offset) - 1]
            if isinstance(part, Gap):
                return part.order, part.offset + part.length
            segments, end = part.segments, part.offset + len(part.data)
        starts = segments[SEGMENT_START::SEGMENT_FIELDS]
        at = bisect_right(starts, offset) - 1
        return segments[SEGMENT_FIELDS * at + SEGMENT_ORDER], starts[at + 1] if at + 1 < len(starts) else end

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
        window = Chunk(self._base, self.buf, self._segments)
        for hole_start, hole_end in [*self.holes(start, end), (end, end)]:
            if start < hole_start:
                yield window.part(start, hole_start)
            start = hole_end

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Where the bytes [start, end) of the stream came from, as far as they are at hand."""
        found: list[Piece] = []
        if self.buf:
            found += Chunk(self._base, self.buf, self._segments).pieces(start, end)
            start = max(start, self._base + self.end)
        for event in self._queue:
            if not isinstance(event, Gap) and start < end:
                found += [piece for piece in event.pieces(start, end) if not found or piece.start > found[-1].start]
        return found

    # --- frame by frame ---

    @compiled
    def pull(self) -> cython.bint:
        """Bring the next delivered bytes into the window; False where there are none, or a gap comes first.

        Behind a frame that is not whole only those are pulled that it needs.
        """
        if not self._queue:
            return False
        event: Any = self._queue[0]
        if isinstance(event, Gap):
            return False
        start: cython.longlong = event.offset + self._taken
        if self.pos >= self.end and not self._parts:
            if self.remembers and self.end:
                self._past, self._past_base, self._past_segments = self.buf, self._base, self._segments
            self._next_event()
            self._show(event.offset, event.data, event.segments, start - event.offset)
            return True
        stop: cython.longlong = event.end
        if not self._gathers:
            stop = min(stop, start + (_HEAD if self.size == MORE else self.size - self.have))
        if stop == event.end:
            self._next_event()
        else:
            self._taken += stop - start
            self._queued -= stop - start
        self._wait(event if stop - start == len(event.data) else event.part(start, stop), stop - start)
        return True

    def gather(self, on: bool) -> None:
        """From now on, whether what is pulled waits until it is joined: a search looks at it seldom."""
        self._gathers = on

    @compiled
    def cut(self, end: cython.Py_ssize_t) -> Frame:
        """The frame at the position, of which the window has the bytes to index `end`. Move on."""
        start: cython.Py_ssize_t = self.pos
        first: cython.Py_ssize_t = SEGMENT_FIELDS * self._mark
        at: cython.Py_ssize_t = self._segment(self._base + end - 1)
        last: cython.Py_ssize_t = SEGMENT_FIELDS * at
        frame: Frame = Frame.__new__(Frame)
        frame.direction = self.direction
        frame.data = self.buf
        frame.start = start
        frame.end = frame.known = end
        frame.size = self.size
        frame.offset = self._base + start
        frame.order = self._numbers[last + SEGMENT_ORDER]
        frame.first_ns = self._numbers[first + SEGMENT_TIME]
        frame.packet_ref = self._numbers[first + SEGMENT_PACKET]
        frame.complete = end - start == self.size
        frame.undivided = last == first and not self._holes
        frame.last_ns = self._numbers[last + SEGMENT_TIME] if frame.complete else ABSENT
        if self._holes:
            self._mark_holes(frame)
        while last > first:  # a segment may have come after those behind it: it was lost, and sent again
            if self._numbers[last + SEGMENT_TIME] < frame.first_ns:
                frame.first_ns = self._numbers[last + SEGMENT_TIME]
            last -= SEGMENT_FIELDS
            if frame.complete and self._numbers[last + SEGMENT_TIME] > frame.last_ns:
                frame.last_ns = self._numbers[last + SEGMENT_TIME]
        self.pos, self.size = end, MORE
        if at + 1 < self._count and self._numbers[SEGMENT_FIELDS * (at + 1) + SEGMENT_START] <= self._base + end:
            at += 1
        self._mark = at
        return frame

    def _mark_holes(self, frame: Frame) -> None:
        """Say in a frame what of it was not captured."""
        stop, shift = frame.offset + frame.size, frame.start - frame.offset
        for hole in self._holes:
            if hole.start < stop and hole.end > frame.offset:
                frame.known = min(frame.known, max(frame.start, hole.start + shift))
                frame.complete = False
                if hole.end >= stop and not hole.timed:
                    frame.last_ns = ABSENT

    def skip(self, end: int) -> None:
        """Move on to an index of the window: what lies before it is in no frame."""
        self.pos, self.size = end, MORE
        if end < self.end:
            self._mark = self._segment(self._base + end)

    def cross(self) -> None:
        """Step over the gap ahead, inside the frame at the position: zeros stand in for it."""
        gap = self._next_event()
        self._holes.append(_Hole(gap.offset, gap.offset + gap.length, gap.reason == "snaplen"))
        self._wait(gap, gap.length)

    def jump(self) -> None:
        """Go on behind the gap ahead. What is in the window must have been cut or skipped."""
        gap = self._next_event()
        self.size = MORE
        self._show(gap.offset + gap.length, b"", _NO_SEGMENTS, 0)

    def give_up(self, rest: int) -> None:
        """Drop the next bytes that come. rest: how many."""
        self._given_up = rest

    def join(self) -> None:
        """Bring all that was pulled into the window."""
        if not self._parts:
            return
        if self.remembers and self.pos:
            self._remember_end()
        buffers: list[Bytes] = [self.buf[self.pos :]]
        segments = self._segments[SEGMENT_FIELDS * self._mark :]
        for part in self._parts:
            if isinstance(part, Gap):
                buffers += [_ZEROS] * (part.length // len(_ZEROS))
                buffers.append(_ZEROS[: part.length % len(_ZEROS)])
                segments += part.segment
            else:
                buffers.append(part.data)
                same = segments[-SEGMENT_FIELDS:][SEGMENT_ORDER:] == part.segments[SEGMENT_ORDER:SEGMENT_FIELDS]
                segments += part.segments[SEGMENT_FIELDS:] if same else part.segments  # it was cut within a segment
        self._parts, self._parts_size = None, 0
        self._show(self._base + self.pos, b"".join(buffers), segments, 0)

    @compiled
    def settle(self) -> None:
        """Let go of bytes that were framed, where they are more than those that stay."""
        left: cython.Py_ssize_t = self.end - self.pos
        if self.pos > left:
            if self.remembers:
                self._remember_end()
            segments = self._segments[SEGMENT_FIELDS * self._mark :] if left else _NO_SEGMENTS
            self._show(self._base + self.pos, self.buf[self.pos :], segments, 0)

    @compiled
    def _remember_end(self) -> None:
        """Keep the last bytes of the window that were framed, and their segments."""
        if self._past_base + len(self._past) == self._base + self.pos:
            return  # they lie in the window before it, of which no more was framed since
        start: cython.longlong = max(self._base, self._base + self.pos - self.remembers)
        first: cython.Py_ssize_t = self._segment_from(0, start)
        last: cython.Py_ssize_t = self._segment_from(first, self._base + self.pos - 1)
        self._past, self._past_base = self.buf[start - self._base : self.pos], start
        self._past_segments = self._segments[SEGMENT_FIELDS * first : SEGMENT_FIELDS * (last + 1)]
        self._past_segments[SEGMENT_START] = start

    # --- back ---

    def before(self, start: int) -> Chunk | None:
        """The framed bytes from a stream offset up to the position, the last `remembers` of them; None if none.

        start: of the frame that was cut last. It lies in one window: this one or the one before it.
        """
        start = max(start, self.offset - self.remembers)
        if start >= self._base:
            return Chunk(self._base, self.buf, self._segments).part(start, self.offset) if start < self.offset else None
        start = max(start, self._past_base)
        if not self._past_base <= start < self.offset == self._past_base + len(self._past):
            return None
        return Chunk(self._past_base, self._past, self._past_segments).part(start, self.offset)

    def put_back(self, framed: Chunk) -> None:
        """Go back to the beginning of bytes that end at the position: they are in no frame any more."""
        self.join()
        rest = self._segments[SEGMENT_FIELDS * self._mark :]
        if rest[SEGMENT_ORDER:SEGMENT_FIELDS] == framed.segments[-SEGMENT_FIELDS:][SEGMENT_ORDER:]:
            rest = rest[SEGMENT_FIELDS:]  # the position lies within a segment
        elif rest:
            rest[SEGMENT_START] = self.offset
        self.size = MORE
        self._show(framed.offset, framed.data + self.buf[self.pos :], framed.segments + rest, 0)

    # --- within ---

    @compiled
    def _segment(self, offset: cython.longlong) -> cython.Py_ssize_t:
        """Which segment of the window, from that at the position on, holds a stream offset."""
        low: cython.Py_ssize_t = self._mark
        if low >= self._count - 1 or self._numbers[SEGMENT_FIELDS * (low + 1) + SEGMENT_START] > offset:
            return low
        return self._segment_from(low, offset)

    @compiled
    def _segment_from(self, low: cython.Py_ssize_t, offset: cython.longlong) -> cython.Py_ssize_t:
        """Which segment of the window, from `low` on, holds a stream offset that is not before it."""
        high: cython.Py_ssize_t = self._count - 1
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high + 1) // 2
            if self._numbers[SEGMENT_FIELDS * middle + SEGMENT_START] <= offset:
                low = middle
            else:
                high = middle - 1
        return low

    @compiled
    def _next_event(self) -> Any:
        """Take the first event from the queue."""
        event: Any = self._queue.pop(0)
        if not isinstance(event, Gap):
            self._queued -= len(event.data) - self._taken
        self._taken = 0
        return event

    def _wait(self, part: Chunk | Gap, size: int) -> None:
        """Append to the frame at the position what follows; to the window only once it is whole."""
        if self._parts is None:
            self._parts = []
        self._parts.append(part)
        self._parts_size += size
        if not self._gathers and self.have >= self.size:
            self.join()

    @compiled
    def _show(self, base: cython.longlong, buf: bytes, segments: array[int], pos: cython.Py_ssize_t) -> cython.int:
        """Make this the window, from an index of the buffer on."""
        self._base, self.buf, self._segments, self.pos, self.end = base, buf, segments, pos, len(buf)
        self._numbers, self._count, self._mark = segments, len(segments) // SEGMENT_FIELDS, 0
        if pos:
            self._mark = self._segment(base + pos)
        if self._holes:
            self._forget_holes()
        return 0

    def _forget_holes(self) -> None:
        """Holes before the window concern nobody any more."""
        self._holes = [hole for hole in self._holes if hole.end > self._base]
