"""Which bytes of a connection were sent more than once, and by when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.session.frame import FrameFacts
from dissectors.tcp.chunk import Resent

AT_END = (1 << 63) - 1  # an order behind all others
STRETCHES = 4096  # of a direction that are kept when it was decoded: those that lie last in the stream


@final
@carried
@compiled
class Resends:
    """The bytes of both directions of a connection that were sent more than once."""

    by_direction: dict[int, ResentStretches]  # empty, as of most connections, where nothing was sent more than once

    def __init__(self) -> None:
        self.by_direction = {}

    def add(self, direction: int, resent: Resent) -> None:
        """Note bytes of a direction that were sent again."""
        self.by_direction.setdefault(direction, ResentStretches()).add(*resent)

    def shorten(self) -> None:
        """Forget, of very many stretches, those that hardly anybody will ask for: all that is at hand was decoded."""
        for side in self.by_direction.values():
            side.shorten()

    @compiled
    def within(self, frame: FrameFacts, order: cython.longlong) -> cython.bint:
        """Whether a byte of a frame had been sent more than once by the delivery `order`."""
        side: ResentStretches | None = self.by_direction.get(frame.direction)
        return side is not None and side.within(frame.offset, frame.offset + frame.size, order)


@final
@carried
@compiled
class ResentStretches:
    """Disjoint stretches [start, end) of stream offsets, ascending, each with the smallest order of a repetition.

    However often bytes are sent again, a question costs no more than the stretches that it meets.
    """

    _starts: list[int]
    _ends: list[int]
    _orders: list[int]

    def __init__(self) -> None:
        self._starts, self._ends, self._orders = [], [], []

    def add(self, start: int, end: int, order: int) -> None:
        """The bytes [start, end) were sent again."""
        a, b = bisect_right(self._ends, start), bisect_left(self._starts, end)
        new: list[tuple[int, int, int]] = []
        at = start
        for left, right, known in zip(self._starts[a:b], self._ends[a:b], self._orders[a:b], strict=True):
            if left < start:
                new.append((left, start, known))
            elif left > at:
                new.append((at, left, order))
            at = min(right, end)
            new.append((max(left, start), at, min(known, order)))
            if right > end:
                new.append((end, right, known))
        if at < end:
            new.append((at, end, order))
        for column, values in zip((self._starts, self._ends, self._orders), zip(*new, strict=True), strict=True):
            column[a:b] = values

    def shorten(self) -> None:
        """Keep the last STRETCHES."""
        for column in (self._starts, self._ends, self._orders):
            del column[:-STRETCHES]

    @compiled
    def within(self, start: cython.longlong, end: cython.longlong, order: cython.longlong) -> cython.bint:
        """Whether, by the delivery `order`, a byte of [start, end) had been sent more than once."""
        a, b = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return a < b and min(self._orders[a:b]) <= order
