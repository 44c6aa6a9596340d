"""What a flow delivered, by direction: chunks, holes, and what was sent again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dissectors.tcp.chunk import Chunk, Gap, Resent
from dissectors.tcp.flow import Events as Side
from dissectors.tcp.numbers import SEGMENT_ORDER

Events = tuple[Side, Side]  # of direction 0 and 1
Notes = tuple[Sequence[Resent], Sequence[Resent]]


def behind(events: Side, size: int) -> Side:
    """Events of a stream without its first bytes, which are whole."""
    start = size
    kept: Side = []
    for event in events:
        if not kept and not isinstance(event, Gap):
            if event is events[0]:
                start += event.offset
            if event.offset + len(event.data) <= start:
                continue
            event = event.behind(start) if event.offset < start else event
        kept.append(event)
    return kept


def by_direction(events: list[tuple[int, Chunk | Gap | Resent]]) -> tuple[Events, Notes]:
    """What a TLS layer gives, by direction."""
    plain: Events = ([], [])
    notes: tuple[list[Resent], list[Resent]] = ([], [])
    for direction, event in events:
        if isinstance(event, Resent):
            notes[direction].append(event)
        else:
            plain[direction].append(event)
    return plain, notes


def first_order(event: Chunk | Gap) -> int:
    return event.segments[SEGMENT_ORDER] if isinstance(event, Chunk) else event.order


def pieces(events: Events) -> Iterator[tuple[int, bytes | None]]:
    """The segments in both directions' events in the order of delivery: (direction, bytes, or None for a hole)."""
    sides = (_split(events[0]), _split(events[1]))
    heads = [next(side, None) for side in sides]
    while True:
        a, b = heads
        if a is None and b is None:
            return
        direction = 0 if b is None or (a is not None and a[0] < b[0]) else 1
        head = heads[direction]
        assert head is not None
        yield direction, head[1]
        heads[direction] = next(sides[direction], None)


def _split(events: list[Chunk | Gap]) -> Iterator[tuple[int, bytes | None]]:
    """(order, bytes, or None for a hole) of each segment."""
    for event in events:
        if isinstance(event, Gap):
            yield event.order, None
            continue
        offset, starts, last = event.offset, event.starts, len(event.starts) - 1
        for i, order in enumerate(event.orders):
            end = starts[i + 1] - offset if i < last else len(event.data)
            yield order, event.data[starts[i] - offset : end]
