"""Tells whether packets with the same addresses and ports in several VLANs or VNIs belong to one TCP connection.

Where both directions of a connection are tagged in different ways, or a packet is captured in two segments, the packets
are of one TCP stream: their sequence numbers fit together. Tenants of a data centre, whose addresses may be the same,
have streams of their own, with other numbers. So each lane, the packets of one direction in one segment, is given to
the connection whose numbers its first packet fits; where none fits, it begins another connection beside them.

Few connections are in several segments: nothing is kept of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dissectors.tcp.flow import Flow
from dissectors.tcp.grouping import Grouped
from dissectors.tcp.numbers import ACK, MASK, SYN, WINDOW

STREAMS = 16  # connections between the same endpoints at a time, at most: what more begins is taken for the first


class Lanes:
    """The lanes of those connections whose packets are in several segments, or were."""

    def __init__(self) -> None:
        self._of: dict[bytes, dict[int, bytes]] = {}  # key of the endpoints -> lane -> key of its connection

    def __contains__(self, key: bytes) -> bool:
        return key in self._of

    def keys(self, key: bytes) -> set[bytes]:
        """The keys of the connections between these endpoints."""
        return set(self._of.get(key, {}).values())

    def segments(self, key: bytes, stream: bytes) -> tuple[int, ...]:
        """The segments of a connection."""
        return tuple(sorted({lane >> 1 for lane, its in self._of.get(key, {}).items() if its == stream}))

    def forget(self, key: bytes, stream: bytes) -> None:
        """A connection has ended."""
        left = {lane: its for lane, its in self._of.get(key, {}).items() if its != stream}
        if left:
            self._of[key] = left
        else:
            self._of.pop(key, None)

    def split(
        self, grouped: Grouped, start: int, end: int, key: bytes, find: Callable[[bytes], Flow | None]
    ) -> Iterator[tuple[int, int, bytes]]:
        """(start, end, key of the connection) of the packets [start, end) between the same endpoints, in their order.

        find: the connection of a key, None where there is none. It is asked when the packets before have been taken.
        """
        lanes = grouped.lanes(start, end)
        at = 0
        while at < len(lanes):
            stream = self._stream(key, lanes[at], grouped.numbers(start + at), find)
            first, known = at, self._of[key]
            while at < len(lanes) and known.get(lanes[at]) == stream:
                at += 1
            yield start + first, start + at, stream

    def _stream(
        self, key: bytes, lane: int, numbers: tuple[int, int, int], find: Callable[[bytes], Flow | None]
    ) -> bytes:
        """The key of the connection that a lane belongs to; numbers: of its packet at hand."""
        lanes = self._of.get(key)
        if lanes is None:
            lanes = self._of[key] = {}
            flow = find(key)
            if flow is not None:
                lanes[flow.segment << 1] = lanes[flow.segment << 1 | 1] = key
        if lane in lanes:
            return lanes[lane]
        used = sorted(set(lanes.values()))
        chosen = next((each for each in used if fits(find(each), lane & 1, *numbers)), None)
        if chosen is None:
            free = (key, *(key + bytes([n]) for n in range(1, STREAMS)))
            chosen = next((each for each in free if each not in used), key)
        lanes[lane] = chosen
        return chosen


def fits(flow: Flow | None, direction: int, seq: int, ack: int, flags: int) -> bool:
    """Whether a packet of a direction goes on with what a connection has shown of its sequence numbers."""
    if flow is None:
        return False
    half, other = flow.halves[direction], flow.halves[1 - direction]
    says_ack = bool(flags & ACK) and other.started
    if flags & SYN:
        sent = half.syn and (seq + 1) & MASK == half.base
        acked = ack == other.base
    else:
        sent = _is_near(seq, half.base + half.next)
        acked = _is_near(ack, other.base + other.next)
    return (sent or not half.started) and (acked or not says_ack) and (half.started or says_ack)


def _is_near(number: int, expected: int) -> bool:
    """Whether a sequence number lies within a window of the expected one, before or behind it."""
    return (number - expected + WINDOW) & MASK <= 2 * WINDOW
