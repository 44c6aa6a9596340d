"""The inbox: bytes wait, whole frames leave, and every byte knows where it came from. Frames are `u8 length | text`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.frame import Frame
from dissectors.inbox import INVALID, MORE, Inbox
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


def origin(one: Frame) -> tuple[int, int, int | None, int]:
    return one.order, one.first_ns, one.last_ns, one.packet_ref


def one_by_one(box: Inbox) -> list[Frame]:
    """Every whole frame, cut step by step."""
    frames = []
    while True:
        buf, pos, end = box.window
        if pos < end and box.size == MORE:
            box.measured(measure(CLIENT, buf, pos, end))
        if 0 < box.size <= end - pos:
            frames.append(box.cut(pos + box.size))
        elif not box.pull():
            return frames


def test_a_frame_says_when_and_in_which_packets_it_came() -> None:
    data = frame(b"abcd") + frame(b"ef")
    box = inbox(chunk(0, data[:2], 1), chunk(2, data[2:6], 2), chunk(6, data[6:], 3))
    first, second = one_by_one(box)
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
    ways = [inbox(*(chunk(*piece) for piece in pieces)) for _ in range(2)]
    ways += [inbox(*(together(some[0][0], *((data, n) for _, data, n in some)) for some in groups)) for _ in range(2)]
    cuts: list[Callable[[Inbox], list[Frame] | None]] = [one_by_one, lambda box: box.split(measure)] * 2
    made = []
    for box, cut in zip(ways, cuts, strict=True):
        made.append([(text(one), one.offset, one.complete, origin(one)) for one in cut(box) or ()])
    assert made[0] == made[1] == made[2] == made[3]
    assert [made_text for made_text, *_ in made[0]] == texts


def test_split_takes_nothing_where_something_is_no_frame() -> None:
    box = inbox(chunk(0, frame(b"a") + b"\xff" + frame(b"b"), 1))
    assert box.split(measure) is None
    assert box.offset == 0


def test_what_split_gave_is_gone_once_it_is_taken() -> None:
    box = inbox(chunk(0, frame(b"a") + frame(b"bcd")[:2], 1))
    frames = box.split(measure)
    assert frames is not None
    assert (box.taken(frames), box.offset) == (2, 2)
    box.add(chunk(4, b"cd", 2))
    (rest,) = one_by_one(box)
    assert (text(rest), origin(rest)) == (b"bcd", (2, 1, 2, 1))


def test_zeros_stand_in_for_a_gap_inside_a_frame_and_the_frame_says_so() -> None:
    data = frame(b"0123456789") + frame(b"next")
    box = inbox(chunk(0, data[:4], 1), gap(4, 3, 2), chunk(7, data[7:], 3))
    assert not box.intact
    assert one_by_one(box) == []
    assert box.gap_ahead == gap(4, 3, 2)
    box.cross()
    holed, whole = one_by_one(box)
    assert (text(holed), holed.complete, holed.known) == (b"012\0\0\0" + b"6789", False, 4)
    assert (text(whole), whole.complete) == (b"next", True)


@pytest.mark.parametrize(("reason", "last"), [("snaplen", 2), ("not captured", None)])
def test_the_time_of_a_missing_last_byte_is_known_only_if_its_packet_was_captured(
    reason: str, last: int | None
) -> None:
    box = inbox(chunk(0, frame(b"0123")[:3], 1), gap(3, 2, 2, reason))
    assert one_by_one(box) == []
    box.cross()
    (cut,) = one_by_one(box)
    assert (cut.first_ns, cut.last_ns) == (1, last)


def test_behind_a_gap_the_window_begins_anew() -> None:
    box = inbox(chunk(0, b"\x09abc", 1), gap(4, 100, 2), chunk(104, frame(b"x"), 3))
    assert one_by_one(box) == []
    box.skip(box.window[2])
    box.jump()
    (found,) = one_by_one(box)
    assert (text(found), found.offset) == (b"x", 104)


def test_a_long_frame_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = []
    join = Inbox.join
    monkeypatch.setattr(Inbox, "join", lambda self: joined.append(self.have) or join(self))  # type: ignore[func-returns-value]
    data = frame(bytes(200))
    box = inbox(*(chunk(at, data[at : at + 1], at + 1) for at in range(len(data))))
    assert len(one_by_one(box)) == 1
    assert joined == [len(data)]


def test_the_rest_of_a_frame_that_was_given_up_is_dropped_as_it_comes() -> None:
    data = frame(b"0123456789") + frame(b"next")
    box = inbox(chunk(0, data[:4], 1))
    assert one_by_one(box) == []
    box.skip(4)
    box.give_up(7)
    assert box.add(chunk(4, data[4:6], 2)) == 2
    assert box.add(gap(6, 3, 3)) == 0
    assert box.add(chunk(9, data[9:], 4)) == 2
    assert [text(one) for one in one_by_one(box)] == [b"next"]


def test_what_settles_keeps_no_framed_bytes() -> None:
    big = frame(bytes(250)) + frame(b"ab")[:2]
    box = inbox(together(0, (big, 1)), gap(len(big), 5, 2), together(len(big) + 5, (b"x", 3)))
    assert len(one_by_one(box)) == 1
    box.settle()
    assert box.held == len(b"\x02a" + b"x")


def test_runs_are_all_that_waits_and_dropping_them_leaves_the_rest() -> None:
    data = frame(b"abc") + frame(b"de") + frame(b"fgh")
    box = inbox(chunk(0, data[:5], 1), together(5, (data[5:6], 2), (data[6:10], 3)))
    assert b"".join(bytes(run.data) for run in box.runs()) == data[:10]
    box.drop(7, measure)
    assert (box.offset, box.size) == (7, 4)
    assert box.runs() == [], "the frame at the position is not whole"
    box.add(chunk(10, data[10:], 4))
    assert [(run.offset, bytes(run.data)) for run in box.runs()] == [(7, data[7:10]), (10, data[10:])]
    box.drop(4, measure)
    assert (bool(box), box.held, box.offset) == (False, 0, 11)


def test_pieces_lead_from_stream_offsets_to_packets() -> None:
    box = inbox(chunk(0, b"\x09abc", 1), together(4, (b"de", 2), (b"fg", 3)))
    assert box.pull()
    assert box.pieces(3, 7) == [Piece(0, 1, 1), Piece(4, 2, 2), Piece(6, 3, 3)]
    assert box.origin(2) == (1, 1)
    assert box.delivered_after(0, 4) == 0
    assert box.delivered_after(1, 4) == 4
