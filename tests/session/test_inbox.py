"""The inbox: bytes wait, whole frames leave, and every byte knows where it came from. Frames are `u8 length | text`."""

import pickle
import tracemalloc
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame
from dissectors.session.inbox import INVALID, MORE, Inbox
from dissectors.tcp.chunk import CLIENT, Chunk, Gap, Piece, joined


def measure(direction: int, buf: bytes, pos: int, end: int) -> int:
    return INVALID if buf[pos] == 0xFF else 1 + buf[pos]


def frame(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def chunk(offset: int, data: bytes, number: int) -> Chunk:
    """One segment; its number is its order, packet and time."""
    return Chunk.of(offset, data, [offset], [number], [number], [number])


def together(offset: int, *segments: tuple[bytes, int]) -> Chunk:
    """Segments that follow each other, as one chunk: (bytes, number)."""
    starts = accumulate((len(data) for data, _ in segments), initial=offset)
    return joined([chunk(start, *segment) for start, segment in zip(starts, segments, strict=False)])


def gap(offset: int, length: int, number: int, reason: str = "not captured") -> Gap:
    return Gap(offset, length, reason, number, number, number)


def inbox(*events: Chunk | Gap) -> Inbox:
    box = Inbox(CLIENT)
    for event in events:
        box.add(event)
    return box


def text(one: Frame) -> bytes:
    return one.data[one.start + 1 : one.end]


def origin(one: Frame) -> tuple[int, int, int, int]:
    return one.order, one.first_ns, one.last_ns, one.packet_ref


def cut(box: Inbox) -> list[Frame]:
    """Every whole frame at hand."""
    frames = []
    while True:
        if box.pos < box.end and box.size == MORE:
            box.size = measure(CLIENT, box.buf, box.pos, box.end)
        if 0 < box.size <= box.end - box.pos:
            frames.append(box.cut(box.pos + box.size))
        elif not box.pull():
            return frames


def test_a_frame_says_when_and_in_which_packets_it_came() -> None:
    data = frame(b"abcd") + frame(b"ef")
    box = inbox(chunk(0, data[:2], 1), chunk(2, data[2:6], 2), chunk(6, data[6:], 3))
    first, second = cut(box)
    assert (text(first), first.offset, first.size, origin(first)) == (b"abcd", 0, 5, (2, 1, 2, 1))
    assert (text(second), second.offset, second.size, origin(second)) == (b"ef", 5, 3, (3, 2, 3, 2))
    assert not box


@given(st.lists(st.binary(max_size=9), max_size=8), st.lists(st.integers(1, 7), min_size=1), st.integers(1, 4))
def test_frames_are_the_same_however_they_are_cut_and_delivered(
    texts: list[bytes], sizes: list[int], most: int
) -> None:
    data = b"".join(map(frame, texts))
    pieces: list[tuple[int, bytes, int]] = []
    at = 0
    while at < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append((at, data[at : at + size], len(pieces) + 1))
        at += size
    groups = [pieces[i : i + most] for i in range(0, len(pieces), most)]
    alone = inbox(*(chunk(*piece) for piece in pieces))
    grouped = inbox(*(together(some[0][0], *((data, n) for _, data, n in some)) for some in groups))
    one, other = ([(text(one), one.offset, one.complete, origin(one)) for one in cut(box)] for box in (alone, grouped))
    assert one == other
    assert [made_text for made_text, *_ in one] == texts


def test_frames_that_lie_in_one_chunk_are_not_copied() -> None:
    data = frame(b"a") + frame(b"bcd") + frame(b"ef")
    first, second = chunk(0, data[:4], 1), chunk(4, data[4:], 2)
    a, bcd, ef = cut(inbox(first, second))
    assert a.data is first.data
    assert bcd.data == frame(b"bcd"), "of the second chunk only its own bytes were copied"
    assert ef.data is second.data


def test_a_segment_that_lies_in_two_windows_is_one_piece() -> None:
    data = frame(b"ab") + frame(bytes(250)) * 3
    box = inbox(chunk(0, data[:2], 1), chunk(2, data[2:], 2))
    cut(box)
    assert box.pieces(0, len(data)) == [Piece(2, 2, 2)]


def test_zeros_stand_in_for_a_gap_inside_a_frame_and_the_frame_says_so() -> None:
    data = frame(b"0123456789") + frame(b"next")
    box = inbox(chunk(0, data[:4], 1), gap(4, 3, 2), chunk(7, data[7:], 3))
    assert cut(box) == []
    assert box.gap_ahead == gap(4, 3, 2)
    box.cross()
    holed, whole = cut(box)
    assert (text(holed), holed.complete, holed.known) == (b"012\0\0\0" + b"6789", False, 4)
    assert (text(whole), whole.complete) == (b"next", True)


@pytest.mark.parametrize(("reason", "last"), [("snaplen", 2), ("not captured", ABSENT)])
def test_the_time_of_a_missing_last_byte_is_known_only_if_its_packet_was_captured(reason: str, last: int) -> None:
    box = inbox(chunk(0, frame(b"0123")[:3], 1), gap(3, 2, 2, reason))
    assert cut(box) == []
    box.cross()
    (one,) = cut(box)
    assert (one.first_ns, one.last_ns) == (1, last)


def test_behind_a_gap_the_window_begins_anew() -> None:
    box = inbox(chunk(0, b"\x09abc", 1), gap(4, 100, 2), chunk(104, frame(b"x"), 3))
    assert cut(box) == []
    box.skip(box.end)
    box.jump()
    (found,) = cut(box)
    assert (text(found), found.offset) == (b"x", 104)


def test_the_rest_of_a_frame_that_was_given_up_is_dropped_as_it_comes() -> None:
    data = frame(b"0123456789") + frame(b"next")
    box = inbox(chunk(0, data[:4], 1))
    assert cut(box) == []
    box.skip(4)
    box.give_up(7)
    assert box.add(chunk(4, data[4:6], 2)) == 2
    assert box.add(gap(6, 3, 3)) == 0
    assert box.add(chunk(9, data[9:], 4)) == 2
    assert [text(one) for one in cut(box)] == [b"next"]


def test_what_settles_keeps_no_framed_bytes() -> None:
    big = frame(bytes(250)) + frame(b"ab")[:2]
    box = inbox(together(0, (big, 1)), gap(len(big), 5, 2), together(len(big) + 5, (b"x", 3)))
    assert len(cut(box)) == 1
    box.settle()
    assert box.held == len(b"\x02a" + b"x")


@pytest.mark.parametrize("data", [frame(b"0123456789") + frame(b"next one"), frame(b"0123") + frame(b"a longer one.")])
@given(cuts=st.sets(st.integers(1, 18)))
def test_the_end_of_the_frame_before_stays_known_however_its_bytes_come(data: bytes, cuts: set[int]) -> None:
    """Even where the next frame is joined from several chunks."""
    ends = [*sorted(cuts), len(data)]
    starts = [0, *ends[:-1]]
    box = Inbox(CLIENT)
    box.remembers = 4
    cut_at = 0
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        box.add(chunk(start, data[start:end], number))
        for one in cut(box):
            cut_at = one.offset
        box.settle()
        box.join()
        before = box.before(cut_at)
        framed = data[: box.offset]
        assert (b"" if before is None else before.data) == framed[max(cut_at, len(framed) - 4) :]


def test_an_inbox_goes_on_where_its_pickle_was_made() -> None:
    data = frame(b"0123456789") + frame(b"next")
    box = inbox(chunk(0, data[:3], 1), gap(3, 2, 2), chunk(5, data[5:13], 3))
    assert cut(box) == []
    box.cross()
    copy = pickle.loads(pickle.dumps(box))
    for each in (box, copy):
        each.add(chunk(13, data[13:], 4))
    want, got = ([(text(one), one.known, origin(one)) for one in cut(each)] for each in (box, copy))
    assert got == want
    assert [known for _, known, _ in got] == [3, 5]


def test_pieces_lead_from_stream_offsets_to_packets() -> None:
    box = inbox(chunk(0, b"\x09abc", 1), together(4, (b"de", 2), (b"fg", 3)))
    assert box.pull()
    assert box.pieces(3, 7) == [Piece(0, 1, 1), Piece(4, 2, 2), Piece(6, 3, 3)]
    assert box.origin(2) == (1, 1)


def test_the_zeros_of_a_hole_are_in_memory_once() -> None:
    size, lost, most = 8_000_000, 50_000, 1.2
    box = inbox(chunk(0, b"head", 1), *(gap(4 + at, lost, 2 + at) for at in range(0, size, lost)))
    assert box.pull()
    box.size = 4 + size
    tracemalloc.start()
    for _ in range(0, size, lost):
        box.cross()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(box.cut(box.end).data) == 4 + size
    assert peak < most * size
