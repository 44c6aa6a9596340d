"""What the functions over Arrow columns give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dissectors.arrow import slices


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=5)), max_size=12), st.data())
def test_slices_are_the_ranges_in_the_order_asked_for(parts: list[tuple[int, bytes]], data: st.DataObject) -> None:
    """The ranges lie in the buffer in any order, with gaps; those without bytes lie anywhere, also beyond it."""
    buffer, begin = b"", []
    for gap, part in parts:
        buffer += bytes(gap)
        begin.append(len(buffer) if part else data.draw(st.integers(0, 100)))
        buffer += part
    turn = data.draw(st.permutations(range(len(parts))))
    index = data.draw(st.lists(st.sampled_from(range(len(parts))), max_size=20)) if parts else []
    places, lengths = ([column[i] for i in turn] for column in (begin, [len(part) for _, part in parts]))
    got = slices(buffer, *(np.array(column, np.int64) for column in (places, lengths, index)))
    assert bytes(got) == b"".join(parts[turn[i]][1] for i in index)
