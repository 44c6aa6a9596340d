"""What a frame is: its bytes while they are at hand, and the facts about it that outlive them.

Times are ns since the epoch, sizes bytes.
"""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.rows.layout import ABSENT


@carried
@compiled(freelist=256)
class FrameFacts:
    """What a frame says of itself, without its bytes.

    direction: CLIENT or SERVER, who sent it
    offset: stream offset of the first byte
    size: as announced, length prefix included
    order: delivery order of the last byte
    first_ns: first arrival of any byte
    last_ns: when all of it had arrived: the latest first arrival of any of its bytes, or of the last byte where others
        are missing; ABSENT where the last byte was not captured
    packet_ref: packet of the first byte
    complete: whether every byte was captured
    """

    direction: cython.int
    offset: cython.longlong
    size: cython.longlong
    order: cython.longlong
    first_ns: cython.longlong
    last_ns: cython.longlong
    packet_ref: cython.longlong
    complete: cython.bint

    def __init__(
        self,
        direction: int,
        offset: cython.longlong,
        size: cython.longlong,
        order: cython.longlong,
        first_ns: cython.longlong,
        last_ns: cython.longlong,
        packet_ref: cython.longlong,
        complete: bool,
    ) -> None:
        self.direction = direction
        self.offset = offset
        self.size = size
        self.order = order
        self.first_ns = first_ns
        self.last_ns = last_ns
        self.packet_ref = packet_ref
        self.complete = complete

    @compiled
    def arrived_ns(self) -> cython.longlong:
        """When all of it had come, as far as it was captured: its last byte, else its first."""
        return self.first_ns if self.last_ns == ABSENT else self.last_ns

    def _values(self) -> tuple[Any, ...]:
        places = self.direction, self.offset, self.size, self.order
        return (*places, self.first_ns, self.last_ns, self.packet_ref, self.complete)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameFacts) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())


@final
@carried
@compiled(freelist=64)
class Frame(FrameFacts):
    """One frame with its bytes. `data[start:end]` holds it, prefix included, with zeros where bytes are missing.

    end: index after the last byte at hand: less than start + size only for a frame cut off by a hole or the end
    known: index up to which every byte was captured; start + size for a complete frame
    undivided: whether one segment brought all of it
    """

    data: bytes
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    known: cython.Py_ssize_t
    undivided: cython.bint

    def __init__(
        self,
        direction: int,
        data: bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        size: cython.longlong,
        known: cython.Py_ssize_t,
        offset: cython.longlong,
        order: cython.longlong,
        first_ns: cython.longlong,
        last_ns: cython.longlong,
        packet_ref: cython.longlong,
    ) -> None:
        self.direction = direction
        self.offset = offset
        self.size = size
        self.order = order
        self.first_ns = first_ns
        self.last_ns = last_ns
        self.packet_ref = packet_ref
        self.complete = known == start + size
        self.data = data
        self.start = start
        self.end = end
        self.known = known
        self.undivided = False

    @compiled
    def facts(self) -> FrameFacts:
        """What remains of the frame once its bytes are gone."""
        facts: FrameFacts = FrameFacts.__new__(FrameFacts)
        facts.direction = self.direction
        facts.offset = self.offset
        facts.size = self.size
        facts.order = self.order
        facts.first_ns = self.first_ns
        facts.last_ns = self.last_ns
        facts.packet_ref = self.packet_ref
        facts.complete = self.complete
        return facts

    def alone(self) -> Frame:
        """The frame with a buffer of its own, to be kept."""
        data = bytes(self.data[self.start : self.end])
        known = min(self.known - self.start, len(data))
        return Frame(
            self.direction,
            data,
            0,
            len(data),
            self.size,
            self.size if self.complete else known,
            self.offset,
            self.order,
            self.first_ns,
            self.last_ns,
            self.packet_ref,
        )
