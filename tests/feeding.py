"""Feed a conversation its bytes in every way that a network may cut them; the records must not care."""

import itertools
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dissectors.options import Options
from dissectors.records import TABLES, Conn
from dissectors.rows.sink import Sink
from dissectors.session.conversation import Conversation, Protocol
from dissectors.tcp.chunk import CLIENT, SERVER, Chunk, Gap

Script = list[tuple[int, bytes]]  # direction, bytes: one "application write" a step


def conn(protocol: str) -> Conn:
    return Conn("test", "10.0.0.2", 40000, "10.0.0.1", 9092, 0, protocol)


START, STEP = 1_700_000_000_000_000_000, 1_000_000  # ns: when a script begins, and from one step to the next


def play(
    protocol: Protocol,
    script: Sequence[tuple[int, Any]],
    *,
    cut: Callable[[bytes], Iterable[bytes]] = lambda data: [data],
    advance_each: bool = True,
    midstream: bool = False,
    options: Options | None = None,
    keep: Callable[[int, int], int] = lambda step, size: size,
    step_ns: int = STEP,
    carried: bool = False,
) -> Conversation:
    """A conversation that has heard a script of (direction, bytes) and (direction, bytes lost), and is still open.

    keep: how much of step n the capture keeps, of so many bytes; a snap length cut the rest. carried: another process
    goes on with it after each step, and with the rows that it has written.
    """
    options = options or Options(tables=tuple(TABLES), full=True, payloads=True)
    sink = Sink(options.tables, full=options.full, payloads=options.payloads)
    sink.files = ["test.pcap"]
    conversation = protocol.conversation(conn(protocol.name), sink, options, midstream=midstream)
    offsets = [0, 0]
    order = itertools.count(1)
    for step, (direction, data) in enumerate(script):
        time = START + step * step_ns
        if isinstance(data, int):
            conversation.receive(direction, Gap(offsets[direction], data, "not captured", next(order), step + 1, time))
            offsets[direction] += data
            continue
        kept, segment = keep(step, len(data)), next(order)
        for piece in cut(data[:kept]):
            offset = offsets[direction]
            conversation.receive(direction, Chunk.of(offset, piece, [offset], [segment], [step + 1], [time]))
            offsets[direction] += len(piece)
            if advance_each:
                conversation.advance()
        if kept < len(data):
            lost = len(data) - kept
            conversation.receive(direction, Gap(offsets[direction], lost, "snaplen", next(order), step + 1, time))
            offsets[direction] += lost
        if carried:
            conversation = pickle.loads(pickle.dumps(conversation))
    conversation.advance()
    return conversation


def feed(
    protocol: Protocol, script: Sequence[tuple[int, Any]], *, hung_up: bool = False, **more: Any
) -> tuple[Sink, Conversation]:
    """Play a script to its end: each byte counts once. hung_up: a peer closes the connection in the end."""
    conversation = play(protocol, script, **more)
    conversation.close(START + (len(script) - 1) * more.get("step_ns", STEP), hung_up)
    keep = more.get("keep", lambda step, size: size)
    said = [(step, data) for step, (_, data) in enumerate(script) if not isinstance(data, int)]
    captured = sum(len(data[: keep(step, len(data))]) for step, data in said)
    assert conversation.framed_bytes + conversation.skipped_bytes + conversation.pending_bytes == captured
    return conversation.sink, conversation


def rows(sink: Sink) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a sink, comparable: the connection object is left out."""
    return {table: [tuple(row)[1:] for row in getattr(sink, table)] for table in TABLES}


def in_any_order(sink: Sink) -> dict[str, list[str]]:
    """All rows of a sink, sorted."""
    return {table: sorted(map(repr, found)) for table, found in rows(sink).items()}


def feed_every_way(protocol: Protocol, script: Sequence[tuple[int, Any]], **more: Any) -> Sink:
    """Whole, byte by byte, in halves, and all at once before the first decode: the same rows each time.

    In whatever order: they are put in that of time when they go out.
    """
    whole, _ = feed(protocol, script, **more)
    want = in_any_order(whole)
    ways: list[dict[str, Any]] = [
        {"cut": lambda data: [data[i : i + 1] for i in range(len(data))]},
        {"cut": lambda data: [data[: len(data) // 2], data[len(data) // 2 :]] if len(data) > 1 else [data]},
        {"advance_each": False},
        {"cut": lambda data: [data[i : i + 3] for i in range(0, len(data), 3)], "advance_each": False},
    ]
    for way in ways:
        got, _ = feed(protocol, script, **way, **more)
        assert in_any_order(got) == want, way
    return whole


__all__ = ["CLIENT", "SERVER", "conn", "feed", "feed_every_way", "in_any_order", "play", "rows"]
