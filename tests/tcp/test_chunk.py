"""A span says what the chunk says that is made of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dissectors.tcp.chunk import Segments, Span, whole

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def span(before: list[int], sizes: list[int], offset: int) -> Span:
    """A span behind the segments of others, in a block."""
    every = [*before, *sizes, 3]
    at = np.cumsum([0, *every])
    data = memoryview(bytes(i & 0xFF for i in range(int(at[-1]))))
    segments = Segments(at, *(np.arange(len(every)) * step for step in (7, 1, 1000)))
    first, last = len(before), len(before) + len(sizes)
    return Span(offset, data[at[first] : at[last]], segments, first, last)


@given(before=SIZES, sizes=SIZES, offset=st.integers(0, 100), start=st.integers(0, 130), size=st.integers(1, 30))
def test_a_span_and_its_chunk_are_the_same_bytes(
    before: list[int], sizes: list[int], offset: int, start: int, size: int
) -> None:
    one = span(before, sizes, offset)
    chunk = whole(one)
    assert whole(chunk) is chunk
    assert (chunk.offset, chunk.data) == (offset, bytes(one.data))
    assert chunk.starts == [offset + sum(sizes[:i]) for i in range(len(sizes))]
    assert chunk.packet_refs == list(range(len(before), len(before) + len(sizes)))
    assert one.head == chunk.head == chunk.data[: sizes[0]]
    assert one.pieces(start, start + size) == chunk.pieces(start, start + size)


@given(sizes=SIZES, start=st.integers(0, 80), size=st.integers(1, 30))
def test_the_pieces_of_a_stretch_are_those_that_hold_its_bytes(sizes: list[int], start: int, size: int) -> None:
    chunk = span([2], sizes, 0).chunk
    stops = [*chunk.starts[1:], sum(sizes)]
    holding = [a for a, b in zip(chunk.starts, stops, strict=True) if a < start + size and b > start]
    assert [piece.start for piece in chunk.pieces(start, start + size)] == holding
