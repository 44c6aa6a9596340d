"""What TCP hands to a conversation: contiguous bytes that know where they came from, and holes.

Chunks and holes carry `order`: a count of delivered segments on the connection, over both directions. What was
delivered first has the smaller order, and a segment is delivered only when everything that it acknowledges has been
delivered or given up for lost; so orders of the two directions can be compared, and do not depend on how a capture is
cut into blocks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from dissectors.tcp.numbers import SEGMENT_FIELDS, SEGMENT_ORDER, SEGMENT_PACKET, SEGMENT_START, SEGMENT_TIME

CLIENT, SERVER = 0, 1  # who sent the bytes
SIDES = ("client", "server")


class Piece(NamedTuple):
    """A segment, or what was delivered of it."""

    start: int  # stream offset
    packet_ref: int
    time: int


class Chunk(NamedTuple):
    """Contiguous bytes of one direction, made of one or more segments."""

    offset: int  # stream offset of data[0]
    data: bytes
    segments: array[int]
    """array("q"), SEGMENT_FIELDS numbers a segment: stream offset of its first byte, delivery order, packet
    (records.PacketRef), first arrival in ns since the epoch. Ascending."""

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
        """A chunk whose segments are told by column."""
        return cls(offset, data, array("q", chain.from_iterable(zip(starts, orders, packet_refs, times, strict=True))))

    @classmethod
    def zeros(cls, gap: Gap) -> Chunk:
        """The chunk of zeros that stands in for the bytes of a hole."""
        return cls(gap.offset, bytes(gap.length), gap.segment)

    @property
    def starts(self) -> array[int]:
        """Stream offset of each segment."""
        return self.segments[SEGMENT_START::SEGMENT_FIELDS]

    @property
    def orders(self) -> array[int]:
        """Delivery order of each segment."""
        return self.segments[SEGMENT_ORDER::SEGMENT_FIELDS]

    @property
    def packet_refs(self) -> array[int]:
        """Packet of each segment."""
        return self.segments[SEGMENT_PACKET::SEGMENT_FIELDS]

    @property
    def times(self) -> array[int]:
        """Time of each segment."""
        return self.segments[SEGMENT_TIME::SEGMENT_FIELDS]

    @property
    def head(self) -> bytes:
        """The bytes of the first segment."""
        if len(self.segments) == SEGMENT_FIELDS:
            return self.data
        return self.data[: self.segments[SEGMENT_FIELDS + SEGMENT_START] - self.offset]

    @property
    def end(self) -> int:
        """Stream offset after the last byte."""
        return self.offset + len(self.data)

    def pieces(self, start: int, end: int) -> list[Piece]:
        """The segments with bytes of [start, end), which are stream offsets."""
        if end <= self.offset or start >= self.end:
            return []
        rows = self._rows(start, end)
        columns = (rows[field::SEGMENT_FIELDS] for field in (SEGMENT_START, SEGMENT_PACKET, SEGMENT_TIME))
        return [Piece(*piece) for piece in zip(*columns, strict=True)]

    def behind(self, offset: int) -> Chunk:
        """The chunk from a stream offset on, which must be inside."""
        return self.part(offset, self.end)

    def last(self, size: int) -> Chunk:
        """Its last segments, with `size` bytes or somewhat more, of those that it has."""
        first = segments_up_to(self.segments, SEGMENT_START, self.end - size) - 1
        segments = self.segments[SEGMENT_FIELDS * first :]
        return Chunk(segments[SEGMENT_START], self.data[segments[SEGMENT_START] - self.offset :], segments)

    def part(self, start: int, end: int) -> Chunk:
        """The bytes [start, end) of the chunk, at least one; they are stream offsets."""
        rows = self._rows(start, end)
        rows[SEGMENT_START] = start
        return Chunk(start, self.data[start - self.offset : end - self.offset], rows)

    def _rows(self, start: int, end: int) -> array[int]:
        """The segments of the stream's bytes [start, end), some of which are in the chunk."""
        first = max(0, segments_up_to(self.segments, SEGMENT_START, start) - 1)
        last = segments_up_to(self.segments, SEGMENT_START, end - 1)
        return self.segments[SEGMENT_FIELDS * first : SEGMENT_FIELDS * last]


class Gap(NamedTuple):
    """Bytes that were sent but are not in the capture."""

    offset: int  # stream offset of the first missing byte
    length: int
    reason: str  # "not captured", "snaplen" or "limit"
    order: int
    packet_ref: int  # the packet at which the hole was noticed
    time: int

    @property
    def segment(self) -> array[int]:
        """What `Chunk.segments` is for the bytes that stand in for the hole."""
        return array("q", (self.offset, self.order, self.packet_ref, self.time))


class Resent(NamedTuple):
    """Bytes already delivered that were sent again."""

    start: int  # stream offsets
    end: int
    order: int


def segments_up_to(segments: array[int], field: int, value: int) -> int:
    """How many segments of a `Chunk.segments` have at most this value in a field that is ascending."""
    count = len(segments) // SEGMENT_FIELDS
    return bisect_right(range(count), value, key=lambda i: segments[SEGMENT_FIELDS * i + field])


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks that follow each other, as one."""
    if len(chunks) == 1:
        return chunks[0]
    segments = array("q")
    for chunk in chunks:
        segments += chunk.segments
    return Chunk(chunks[0].offset, b"".join([chunk.data for chunk in chunks]), segments)
