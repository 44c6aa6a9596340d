"""A chunk knows which of its bytes came in which packet."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from dissectors.tcp.chunk import Chunk, joined

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def chunks(sizes: list[int], offset: int) -> list[Chunk]:
    """Segments of these sizes that follow each other; segment n came in packet n."""
    starts = accumulate(sizes, initial=offset)
    return [
        Chunk.of(start, bytes([n]) * size, [start], [7 * n], [n], [1000 * n])
        for n, (start, size) in enumerate(zip(starts, sizes, strict=False))
    ]


@given(sizes=SIZES, offset=st.integers(0, 100), start=st.integers(0, 130), size=st.integers(1, 30))
def test_joined_chunks_say_what_each_of_them_says(sizes: list[int], offset: int, start: int, size: int) -> None:
    each = chunks(sizes, offset)
    one = joined(each)
    assert (one.offset, one.data) == (offset, b"".join(chunk.data for chunk in each))
    assert one.head == each[0].data
    assert list(one.orders) == [7 * n for n in range(len(sizes))]
    assert one.pieces(start, start + size) == [piece for chunk in each for piece in chunk.pieces(start, start + size)]


@given(sizes=SIZES, start=st.integers(0, 80), size=st.integers(1, 30))
def test_the_pieces_of_a_stretch_are_those_that_hold_its_bytes(sizes: list[int], start: int, size: int) -> None:
    chunk = joined(chunks(sizes, 0))
    stops = [*chunk.starts[1:], sum(sizes)]
    holding = [a for a, b in zip(chunk.starts, stops, strict=True) if a < start + size and b > start]
    assert [piece.start for piece in chunk.pieces(start, start + size)] == holding


@given(sizes=SIZES, offset=st.integers(0, 100), data=st.data())
def test_the_last_segments_of_a_chunk_are_those_that_hold_its_last_bytes(
    sizes: list[int], offset: int, data: st.DataObject
) -> None:
    chunk = joined(chunks(sizes, offset))
    size = data.draw(st.integers(1, sum(sizes)))
    last = chunk.last(size)
    assert last.end == chunk.end
    assert size <= len(last.data) < size + max(sizes)
    assert last == chunk.part(last.offset, chunk.end)
    assert last.offset in chunk.starts
