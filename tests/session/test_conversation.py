"""What all conversations share: framing, holes, the way back, limits. The protocol here is four bytes of length."""

import json
from typing import Any

import pytest

from dissectors.options import Options
from dissectors.records import Conn
from dissectors.rows.sink import Sink
from dissectors.session.conversation import Conversation, Protocol
from dissectors.session.frame import Frame
from dissectors.session.inbox import INVALID, MORE
from dissectors.session.search import Recogniser
from dissectors.tcp.chunk import Chunk, Gap
from tests.feeding import CLIENT, SERVER, conn, feed

MARK = b"\xaa\x55"


class Letters(Conversation):
    """u32 length of what follows | aa 55 | text."""

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.seen: list[tuple[int, bytes, bool, int]] = []

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        if end - pos < 6:
            return MORE
        return 4 + int.from_bytes(buf[pos : pos + 4], "big") if buf[pos + 4 : pos + 6] == MARK else INVALID

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        at = buf.find(MARK, pos + 4, end)
        return (at - 4, True) if at >= 0 else (max(pos, end - 5), False) if not final else (end, False)

    def on_frame(self, frame: Frame) -> None:
        self.seen.append(
            (frame.direction, frame.data[frame.start + 6 : frame.end], frame.complete, frame.known - frame.start)
        )


class LettersProtocol(Protocol):
    name, ports = "letters", (1,)

    def recognise(self, client: bytes, server: bytes) -> float:
        return 1.0

    def recogniser(self) -> Recogniser:
        raise NotImplementedError

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Letters:
        return Letters(conn, sink, options, midstream=midstream)


def letter(text: bytes) -> bytes:
    return (2 + len(text)).to_bytes(4, "big") + MARK + text


def play(script: list[tuple[int, bytes | int]], **more: object) -> tuple[list[str], Letters]:
    sink, conversation = feed(LettersProtocol(), script, **more)  # type: ignore[arg-type]
    assert isinstance(conversation, Letters)
    return [f.kind or "" for f in sink.findings], conversation


def test_frames_of_both_directions_come_in_the_order_in_which_they_became_whole() -> None:
    script: list[tuple[int, Any]] = [
        (CLIENT, letter(b"a")[:5]),
        (SERVER, letter(b"b")),
        (CLIENT, letter(b"a")[5:] + letter(b"c")),
    ]
    for advance_each in (True, False):
        _, conversation = play(script, advance_each=advance_each)
        assert [(d, text) for d, text, _, _ in conversation.seen] == [(SERVER, b"b"), (CLIENT, b"a"), (CLIENT, b"c")]


def test_a_hole_inside_a_frame_costs_only_that_frame() -> None:
    whole = letter(b"0123456789")
    kinds, conversation = play([(CLIENT, whole[:9]), (CLIENT, 4), (CLIENT, whole[13:] + letter(b"next"))])
    assert conversation.seen == [(CLIENT, b"012\0\0\0\x00789", False, 9), (CLIENT, b"next", True, 10)]
    assert kinds == ["gap"]


def test_a_hole_over_the_end_of_a_frame_hands_over_what_is_there_and_looks_for_the_next() -> None:
    kinds, conversation = play(
        [(CLIENT, letter(b"0123456789")[:9]), (CLIENT, 100), (CLIENT, b"rest" + letter(b"next"))]
    )
    assert [(text, complete) for _, text, complete, _ in conversation.seen] == [(b"012", False), (b"next", True)]
    assert kinds == ["gap", "resync"]


def test_bytes_that_are_no_frame_are_skipped_and_reported() -> None:
    kinds, conversation = play([(CLIENT, letter(b"a") + b"garbage!" + letter(b"b"))])
    assert [text for _, text, _, _ in conversation.seen] == [b"a", b"b"]
    assert kinds == ["malformed_frame", "resync"]
    assert conversation.skipped_bytes == 8


def test_a_frame_without_its_end_is_pending() -> None:
    _, conversation = play([(CLIENT, letter(b"0123456789")[:9])])
    assert conversation.seen == [(CLIENT, b"012", False, 9)]
    assert conversation.pending_bytes == 9


@pytest.mark.parametrize("holes", [False, True])
def test_a_frame_in_many_pieces_is_joined_only_once_it_is_whole(holes: bool) -> None:
    conversation = Letters(conn("letters"), Sink(frozenset({"findings"})), Options())
    events: list[Chunk | Gap] = [Chunk.of(0, (2 + 200_000).to_bytes(4, "big") + MARK, [0], [1], [1], [1])]
    for at in range(6, 6 + 200_000, 50):
        lost = holes and at % 100 == 56
        piece = Chunk.of(at, b"x" * 50, [at], [at], [at], [at])
        events.append(Gap(at, 50, "not captured", at, at, at) if lost else piece)
    inbox = conversation.inboxes[CLIENT]
    for event in events:
        assert inbox.end <= 6
        conversation.receive(CLIENT, event)
        conversation.advance()
    ((_, text, complete, _),) = conversation.seen
    assert len(text) == 200_000
    assert complete is not holes
    assert inbox.held == 0


def test_too_large_a_frame_is_given_up_and_its_rest_is_skipped() -> None:
    sink, conversation = feed(LettersProtocol(), [(CLIENT, letter(b"a"))])
    assert isinstance(conversation, Letters)
    fresh = Letters(conversation.conn, sink, Options())
    big = letter(b"x" * 1000)

    def give(offset: int, data: bytes, order: int) -> None:
        fresh.receive(CLIENT, Chunk.of(offset, data, [offset], [order], [order], [order]))
        fresh.advance()

    give(0, big[:600], 1)
    fresh.shed()
    assert fresh.held == 0
    give(600, big[600:900], 2)
    give(900, big[900:] + letter(b"after"), 3)
    fresh.close()
    assert [(len(text), complete) for _, text, complete, _ in fresh.seen] == [(594, False), (5, True)]
    assert fresh.pending_bytes + fresh.skipped_bytes + fresh.framed_bytes == len(big) + len(letter(b"after"))
    (limit,) = [f for f in sink.findings if f.kind == "limit"]
    assert limit.length == 600
    assert json.loads(limit.evidence or "{}") == {}
