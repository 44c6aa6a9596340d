"""What TCP hands to a conversation: contiguous bytes that know where they came from, and holes.

Chunks and holes carry `order`: a count of delivered segments on the connection, over both directions. What was
delivered first has the smaller order, and a segment is delivered only when everything that it acknowledges has been
delivered or given up for lost; so orders of the two directions can be compared, and do not depend on how a capture is
cut into blocks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

CLIENT, SERVER = 0, 1  # who sent the bytes
SIDES = ("client", "server")


class Piece(NamedTuple):
    """A segment, or what was delivered of it."""

    start: int  # stream offset
    packet_ref: int
    time: int


class Chunk(NamedTuple):
    """Contiguous bytes of one direction, made of one or more pieces (segments). The columns are array("q")."""

    offset: int  # stream offset of data[0]
    data: bytes
    starts: array[int]  # stream offset of each piece, ascending; the first may begin before `offset`
    orders: array[int]  # delivery order of each piece, ascending
    packet_refs: array[int]  # packet of each piece (records.PacketRef)
    times: array[int]  # ns since the epoch: first arrival of each piece

    @classmethod
    def of(
        cls,
        offset: int,
        data: bytes,
        starts: Iterable[int],
        orders: Iterable[int],
        packet_refs: Iterable[int],
        times: Iterable[int],
    ) -> Chunk:
        """A chunk of columns that are any numbers."""
        columns = (array("q", column) for column in (starts, orders, packet_refs, times))
        return cls(offset, data, *columns)

    @classmethod
    def zeros(cls, gap: Gap) -> Chunk:
        """What stands in for the bytes of a hole."""
        return cls.of(gap.offset, bytes(gap.length), [gap.offset], [gap.order], [gap.packet_ref], [gap.time])

    @property
    def head(self) -> bytes:
        """The bytes of the first piece."""
        return self.data if len(self.starts) == 1 else self.data[: self.starts[1] - self.offset]

    def behind(self, offset: int) -> Chunk:
        """What lies from a stream offset on, which must be inside."""
        first = bisect_right(self.starts, offset) - 1
        starts = array("q", (offset,)) + self.starts[first + 1 :]
        columns = (column[first:] for column in self[3:])
        return Chunk(offset, self.data[offset - self.offset :], starts, *columns)

    def pieces(self, start: int, end: int) -> list[Piece]:
        """The pieces with bytes of [start, end)."""
        if end <= self.offset or start >= self.offset + len(self.data):
            return []
        a, b = max(0, bisect_right(self.starts, start) - 1), bisect_left(self.starts, end)
        return [Piece(*piece) for piece in zip(self.starts[a:b], self.packet_refs[a:b], self.times[a:b], strict=True)]


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


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks that follow each other, as one."""
    if len(chunks) == 1:
        return chunks[0]
    columns = array("q"), array("q"), array("q"), array("q")
    for chunk in chunks:
        for column, values in zip(columns, chunk[2:], strict=True):
            column.extend(values)
    return Chunk(chunks[0].offset, b"".join([chunk.data for chunk in chunks]), *columns)
