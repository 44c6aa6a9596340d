"""What TCP hands to a conversation: runs of bytes that know where they came from, and holes.

A run is a Chunk, or a Span while it still lies among the segments of its block: a Span costs next to nothing to make,
and who needs the lists of one asks for its `chunk`. All carry `order`: a count of delivered segments on the connection,
over both directions. What was delivered first has the smaller order, and a segment is delivered only when everything
that it acknowledges has been delivered or given up for lost; so orders of the two directions can be compared, and do
not depend on how a capture is cut into blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple, overload

from dissectors.arrow import Ints

CLIENT, SERVER = 0, 1  # who sent the bytes
SIDES = ("client", "server")


class Piece(NamedTuple):
    """A segment, or what was delivered of it."""

    start: int  # stream offset
    packet_ref: int
    time: int


class Chunk(NamedTuple):
    """Contiguous bytes of one direction, made of one or more pieces (segments)."""

    offset: int  # stream offset of data[0]
    data: bytes
    starts: list[int]  # stream offset of each piece, ascending; the first may begin before `offset`
    orders: list[int]  # delivery order of each piece, ascending
    packet_refs: list[int]  # packet of each piece (records.PacketRef)
    times: list[int]  # ns since the epoch: first arrival of each piece

    @property
    def head(self) -> bytes:
        """The bytes of the first piece."""
        return self.data if len(self.starts) == 1 else self.data[: self.starts[1] - self.offset]

    def pieces(self, start: int, end: int) -> list[Piece]:
        """The pieces with bytes of [start, end)."""
        if end <= self.offset or start >= self.offset + len(self.data):
            return []
        a, b = max(0, bisect_right(self.starts, start) - 1), bisect_left(self.starts, end)
        return [Piece(*piece) for piece in zip(self.starts[a:b], self.packet_refs[a:b], self.times[a:b], strict=True)]


class Segments(NamedTuple):
    """Segments of many connections by column: those of one direction of one connection follow each other."""

    at: Ints  # index of the first byte of each one in the bytes of all
    orders: Ints
    packet_refs: Ints
    times: Ints


class Span(NamedTuple):
    """As Chunk: segments [first, last)."""

    offset: int
    data: memoryview | bytes
    segments: Segments
    first: int
    last: int

    @property
    def chunk(self) -> Chunk:
        """The same with bytes and lists of its own."""
        at, *rest = (column[self.first : self.last] for column in self.segments)
        starts = (at + (self.offset - at[0])).tolist()
        return Chunk(self.offset, bytes(self.data), starts, *(column.tolist() for column in rest))

    @property
    def head(self) -> bytes:
        """The bytes of the first segment."""
        at = self.segments.at
        return bytes(self.data if self.last - self.first == 1 else self.data[: at[self.first + 1] - at[self.first]])

    def pieces(self, start: int, end: int) -> list[Piece]:
        """The pieces with bytes of [start, end)."""
        if end <= self.offset or start >= self.offset + len(self.data):
            return []
        at, _, packet_refs, times = (column.data for column in self.segments)  # quicker where few values are wanted
        shift = self.offset - at[self.first]
        a = max(self.first, bisect_right(at, start - shift, self.first, self.last) - 1)
        b = bisect_left(at, end - shift, self.first, self.last)
        return [Piece(at[i] + shift, packet_refs[i], times[i]) for i in range(a, b)]


class Gap(NamedTuple):
    """Bytes that were sent but are not in the capture."""

    offset: int  # stream offset of the first missing byte
    length: int
    reason: str  # "not captured", "snaplen" or "limit"
    order: int
    packet_ref: int  # the packet at which the hole was noticed
    time: int


class Resent(NamedTuple):
    """Bytes already delivered that were sent again."""

    start: int  # stream offsets
    end: int
    order: int


@overload
def whole(event: Chunk | Span) -> Chunk: ...
@overload
def whole(event: Chunk | Span | Gap) -> Chunk | Gap: ...
def whole(event: Chunk | Span | Gap) -> Chunk | Gap:
    """The same with bytes and lists of its own: what no longer needs its block."""
    return event.chunk if isinstance(event, Span) else event
