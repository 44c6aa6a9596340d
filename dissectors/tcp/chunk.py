"""What TCP hands to a conversation: runs of bytes that know where they came from, and holes.

Both carry `order`: a count of delivered segments on the connection, over both directions. What was delivered first has
the smaller order, and a segment is delivered only when everything that it acknowledges has been delivered or given up
for lost; so orders of the two directions can be compared, and do not depend on how a capture is cut into blocks.
"""

from __future__ import annotations

from typing import NamedTuple

CLIENT, SERVER = 0, 1  # who sent the bytes
SIDES = ("client", "server")


class Chunk(NamedTuple):
    """Contiguous bytes of one direction, made of one or more pieces (segments)."""

    offset: int  # stream offset of data[0]
    data: bytes
    starts: list[int]  # stream offset of each piece, ascending; starts[0] == offset
    orders: list[int]  # delivery order of each piece, ascending
    places: list[int]  # packet of each piece (records.Place)
    times: list[int]  # ns since the epoch: first arrival of each piece


class Gap(NamedTuple):
    """Bytes that were sent but are not in the capture."""

    offset: int  # stream offset of the first missing byte
    length: int
    reason: str  # "not captured", "snaplen" or "limit"
    order: int
    place: int  # the packet at which the hole was noticed
    time: int


class Resent(NamedTuple):
    """Bytes already delivered that were sent again."""

    start: int  # stream offsets
    end: int
    order: int
