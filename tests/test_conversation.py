"""What all conversations share: framing, holes, the way back, limits. The protocol here is four bytes of length."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors.conversation import Conversation, Protocol
from dissectors.frame import Frame
from dissectors.inbox import INVALID, MORE, Inbox
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.rows.sink import Sink
from dissectors.search import Recogniser
from dissectors.tcp.chunk import Chunk
from tests.feeding import CLIENT, SERVER, feed

MARK = b"\xaa\x55"


class Letters(Conversation):
    """u32 length of what follows | aa 55 | text."""

    steady = True

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
    captured = sum(len(data) for _, data in script if isinstance(data, bytes))
    assert conversation.framed_bytes + conversation.skipped_bytes + conversation.pending_bytes == captured
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
def test_a_frame_in_many_pieces_is_joined_once(holes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = 0
    original = Inbox.join

    def counting(self: Inbox) -> None:
        nonlocal joined
        _, pos, end = self.window
        joined += self.have > end - pos
        original(self)

    monkeypatch.setattr(Inbox, "join", counting)
    pieces: list[tuple[int, bytes | int]] = [(CLIENT, 50 if holes and i % 2 else b"x" * 50) for i in range(4000)]
    _, conversation = play([(CLIENT, (2 + 200_000).to_bytes(4, "big") + MARK), *pieces])
    ((_, text, complete, _),) = conversation.seen
    assert len(text) == 200_000
    assert complete is not holes
    assert joined <= 2


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
