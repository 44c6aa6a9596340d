"""What a frame is: its bytes while they are at hand, and the facts about it that outlive them."""

from __future__ import annotations

from typing import Any, NamedTuple

_new = tuple.__new__


class FrameFacts(NamedTuple):
    """What a frame says of itself, without its bytes.

    The fields are those of one frame, or columns (int64[n], bool[n]) of many frames: the formulas of
    `dissectors.rows.exchange` take both. Times are ns since the epoch, sizes bytes.
    """

    direction: Any  # int: CLIENT or SERVER, who sent it
    offset: Any  # int: stream offset of the first byte
    size: Any  # int: as announced, length prefix included
    order: Any  # int: delivery order of the last byte
    first_ns: Any  # int: first arrival of the first byte
    last_ns: Any  # int or None: first arrival of the last byte; None where that byte was not captured
    packet_ref: Any  # int: packet of the first byte
    complete: Any  # bool: every byte was captured


class Frame(NamedTuple):
    """One frame. `data[start:end]` holds it, prefix included, with zeros where bytes are missing."""

    direction: int
    data: bytes
    start: int
    end: int  # index after the last byte at hand: less than start + size only for a frame cut off by a hole or the end
    size: int  # as announced, prefix included
    known: int  # index up to which every byte was captured; == start + size for a complete frame
    offset: int  # stream offset of the first byte
    order: int  # delivery order of the last byte
    first_ns: int  # first arrival of the first byte
    last_ns: int | None  # first arrival of the last byte; None where that byte was not captured
    packet_ref: int  # packet of the first byte

    @property
    def complete(self) -> bool:
        """Whether every byte was captured."""
        return self.known == self.start + self.size

    @property
    def facts(self) -> FrameFacts:
        """What remains of the frame once its bytes are gone."""
        direction, _, start, _, size, known, offset, order, first_ns, last_ns, packet_ref = self
        facts = (direction, offset, size, order, first_ns, last_ns, packet_ref, known == start + size)
        return _new(FrameFacts, facts)
