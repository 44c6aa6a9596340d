"""The search for a frame start among any bytes, at a bounded cost a byte.

A search has two steps. A test picks, of many places, the few whose fixed bytes allow a frame (`places`); a judge
looks at each of them, from left to right (`first_start`). What a judge reads is paid from a budget, which earns
`SEARCH_COST_PER_BYTE` (limits.py) with every byte searched; a place that finds it overdrawn is passed over unjudged.
So a search is linear in the bytes, whatever they are, and does not depend on how they were cut into segments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Protocol

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.limits import SEARCH_CANDIDATE_COST, SEARCH_COST_PER_BYTE, SEARCH_CREDIT

NO_LAST = 1 << 62  # behind any place
_FIRST_WINDOW, _LARGEST_WINDOW = 1 << 11, 1 << 16  # places; a start is mostly near


class Judgement(Enum):
    """Whether a frame starts at a place."""

    YES = 1
    NO = 2
    WAIT = 3  # more bytes must come first


@carried
@compiled
class SearchBudget:
    """What the searches in one direction of a connection may still cost, in bytes read by judges."""

    base: cython.longlong = 0  # stream offset of the first byte of the buffer that is searched
    last: cython.longlong  # stream offset of the last place that may be judged for now
    left: cython.longlong
    needs: cython.longlong = 0  # bytes that the place which waits must have to be judged again; 0: any more
    passed_over: cython.longlong = 0  # places that were not judged: the budget was overdrawn
    _earned_to: cython.longlong = 0  # stream offset
    _open: cython.longlong = 0  # what judging the place at hand has cost so far

    def __init__(self) -> None:
        self.left = SEARCH_CREDIT
        self.last = NO_LAST

    @compiled
    def allows(self, at: cython.longlong) -> cython.bint:
        """Whether the place at index `at` may be judged."""
        offset: cython.longlong = self.base + at
        if offset > self._earned_to:
            self.left += (offset - self._earned_to) * SEARCH_COST_PER_BYTE
            self._earned_to = offset
        if self.left < 0:
            self.passed_over += 1
            return False
        return True

    def next_allowed(self) -> int:
        """The first index whose place may be judged."""
        left: int = self.left  # a Python number: C's division would round towards 0
        return self._earned_to - self.base + max(0, -(left // SEARCH_COST_PER_BYTE))

    @compiled
    def spend(self, size: cython.longlong) -> None:
        """A judge reads `size` bytes. It is paid when the place is decided, however often it had to wait before."""
        self._open += size

    @compiled
    def begin(self) -> None:
        """Begin to judge a place, perhaps again."""
        self._open = self.needs = 0

    @compiled
    def settle(self) -> None:
        """Pay for the place at hand: it is decided."""
        self.left -= self._open + SEARCH_CANDIDATE_COST
        self.needs = 0

    def reject(self, places: int) -> None:
        """Pay for so many places that were rejected."""
        self.left -= places * SEARCH_CANDIDATE_COST

    def wait_for(self, size: int) -> Judgement:
        """A judge can decide nothing more before `size` bytes from its place on are there."""
        self.needs = size
        return Judgement.WAIT


def new_budget() -> SearchBudget:
    """The budget of a direction."""
    return SearchBudget()


class Recogniser(Protocol):
    """Looks for one protocol in a connection that began before the capture."""

    @property
    def passed_over(self) -> int:
        """Places that were not judged."""

    def see(self, client: bytes, server: bytes, final: bool) -> float:
        """How sure it is, by all bytes so far: each time at least those of the time before. See Protocol.recognise."""


class NeverInMidstream:
    """A Recogniser of a protocol that is known by its first bytes only."""

    passed_over = 0

    def see(self, client: bytes, server: bytes, final: bool) -> float:
        return 0.0


def places(
    test: Callable[[bytes, int, int, int], Sequence[int]], width: int, buf: bytes, pos: int, end: int
) -> Iterator[Sequence[int]]:
    """Indexes in [pos, end - width] at which `test` finds fixed bytes that fit, in order, many at a time.

    test(buf, begin, stop, end) -> those of [begin, stop) that fit; of each, `width` bytes at least are there.
    """
    window = _FIRST_WINDOW
    while pos + width <= end:
        stop = min(pos + window, end - width + 1)
        if found := test(buf, pos, stop, end):
            yield found
        pos = stop
        window = min(window * 4, _LARGEST_WINDOW)


def first_start(
    found: Iterable[Sequence[int]],
    judge: Callable[[int], Judgement],
    budget: SearchBudget,
    pos: int,
    end: int,
    width: int,
    final: bool,
) -> tuple[int, bool]:
    """The first place that is a frame's start (index, True), or up to where there is none (index, False).

    found: places in order, some at a time. A place that waits for more bytes ends the search, unless no more will come;
    so does one behind the budget's last. width: bytes before which no place can be judged at all.
    """
    budget.needs = 0
    behind = budget.last - budget.base + 1
    for some in found:
        i = 0
        while i < len(some):
            at = some[i]
            i += 1
            if at >= behind:
                return behind, False
            if not budget.allows(at):
                over = bisect_left(some, budget.next_allowed(), i)
                budget.passed_over += over - i
                i = over
                continue
            budget.begin()
            verdict = judge(at)
            if verdict is Judgement.YES:
                return at, True
            if verdict is Judgement.WAIT and not final:
                return at, False
            budget.settle()
    return min(behind, end if final else max(pos, end - width + 1)), False


class GrowingSearch:
    """A search over bytes that grow: what was rejected once is not looked at again."""

    __slots__ = ("_at", "_done", "_found")

    def __init__(self) -> None:
        self._at = 0
        self._done: tuple[int, bool] = (0, False)  # bytes and finality of the last search
        self._found = False

    def over(self, data: bytes, final: bool, find: Callable[[bytes, int, int, bool], tuple[int, bool]]) -> bool:
        """Whether a frame starts somewhere in `data`, which begins as it did the last time.

        find(data, pos, end, final): as Conversation.resync.
        """
        if not self._found and self._done != (len(data), final):
            self._at, self._found = find(data, self._at, len(data), final)
            self._done = len(data), final
        return self._found
