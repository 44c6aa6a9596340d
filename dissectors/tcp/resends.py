"""Which bytes of a stream were sent more than once, and by when: disjoint stretches, each with its first repetition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt

from dissectors.tcp.chunk import Ints


class Resends:
    """Stretches [start, end) of stream offsets, ascending, each with the smallest order at which it was sent again.

    However often bytes are sent again, a question costs no more than the stretches that it meets.
    """

    __slots__ = ("_ends", "_orders", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._orders: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

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

    def within(self, start: int, end: int, order: int) -> bool:
        """Whether, by the delivery `order`, a byte of [start, end) had been sent more than once."""
        a, b = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return a < b and min(self._orders[a:b]) <= order

    def among(self, start: Ints, end: Ints, order: Ints) -> npt.NDArray[np.bool_]:
        """The same of many stretches."""
        first, last = np.searchsorted(self._ends, start, "right"), np.searchsorted(self._starts, end)
        found = first < last
        for i in np.flatnonzero(found).tolist():
            found[i] = min(self._orders[first[i] : last[i]]) <= order[i]
        return found

    def forget(self, before: int) -> None:
        """Nobody will ask for bytes before this offset."""
        a = bisect_right(self._ends, before)
        if a:
            for column in (self._starts, self._ends, self._orders):
                del column[:a]
