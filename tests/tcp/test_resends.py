"""What was sent again is known exactly, however it overlaps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dissectors.tcp.resends import Resends

OFFSETS = st.integers(0, 40)
REPEATS = st.lists(st.tuples(OFFSETS, st.integers(1, 12), st.integers(0, 30)))


@given(REPEATS, OFFSETS, st.integers(1, 12), st.integers(0, 30))
def test_a_byte_was_repeated_when_one_of_the_repetitions_by_then_covers_it(
    repeats: list[tuple[int, int, int]], start: int, size: int, order: int
) -> None:
    resends = Resends()
    for at, length, when in repeats:
        resends.add(at, at + length, when)
    want = any(at < start + size and at + length > start and when <= order for at, length, when in repeats)
    assert resends.within(start, start + size, order) == want
    others = np.arange(-3, 4)
    each = [resends.within(start + i, start + i + size, order) for i in others.tolist()]
    assert resends.among(start + others, start + others + size, np.full(7, order)).tolist() == each


@given(REPEATS, OFFSETS, OFFSETS)
def test_what_lies_before_is_forgotten_and_the_rest_is_not(
    repeats: list[tuple[int, int, int]], before: int, start: int
) -> None:
    resends = Resends()
    for at, length, when in repeats:
        resends.add(at, at + length, when)
    start = max(start, before)
    want = resends.within(start, start + 1, 30)
    resends.forget(before)
    assert resends.within(start, start + 1, 30) == want
