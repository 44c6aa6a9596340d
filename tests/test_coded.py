"""Values at many places of a buffer: however many there are, each has the number of what stands there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors import coded
from dissectors.coded import CodedValues
from dissectors.frame_columns import PADDING

PLACES = st.tuples(st.integers(0, 40), st.integers(-1, 9))


def check(buf: bytes, places: list[tuple[int, int]]) -> None:
    values = CodedValues(buf, np.frombuffer(buf, np.uint8), bytes.decode)
    values.code("none")
    start, size = np.array(places, np.int64).reshape(-1, 2).T
    numbers = values.at(start, size).tolist()
    assert [values.values[n] for n in numbers] == [buf[a : a + n].decode() if n >= 0 else "none" for a, n in places]


@given(st.text("ab\0", min_size=50, max_size=50), st.lists(PLACES, max_size=12), st.integers(1, 20))
def test_each_place_has_the_number_of_what_stands_there(text: str, places: list[tuple[int, int]], times: int) -> None:
    check(text.encode() + bytes(PADDING), places * times)


def test_a_long_text_among_short_ones_is_itself() -> None:
    check(b"ab" * 2 * PADDING, [(0, 1), (1, 1), (0, 2), (0, PADDING + 1)] * 100)


def test_texts_that_are_mixed_to_the_same_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coded, "_FACTOR", np.uint64(0))
    check(b"abcd" * 20 + bytes(PADDING), [(0, 1), (1, 1), (0, 2), (0, 3)] * 100)
