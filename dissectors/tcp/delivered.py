"""Segments of one direction on their way to a chunk: numbers in arrays, bytes still where they lie."""

from __future__ import annotations

from array import array
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.tcp.chunk import Chunk
from dissectors.tcp.numbers import SEGMENT_FIELDS, SEGMENT_ORDER, SEGMENT_PACKET, SEGMENT_START, SEGMENT_TIME
from dissectors.wire.arrays import AnyBytes, Bytes, Numbers
from dissectors.wire.memory import gather

_ROOM = 64  # segments, at first
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor


@final
@compiled
class Delivered:
    """Segments that follow each other. Used again for each connection: `chunk` takes what was added."""

    count: cython.Py_ssize_t = 0  # segments
    _offset: cython.longlong = 0  # stream offset of the first byte
    _size: cython.longlong = 0  # bytes
    _buffers: list[Bytes]  # in which the bytes lie
    _last: Any = None  # of them
    _room: cython.Py_ssize_t = 0  # segments
    _array: array[int]  # as Chunk.segments
    _segments: Numbers = None  # the array, to be written to
    _which: Numbers = None  # of each segment: number of its buffer, index in it, bytes
    _at: Numbers = None
    _sizes: Numbers = None

    def __init__(self) -> None:
        self._buffers = []
        self._array = array("q")
        self._make_room(_ROOM)

    @compiled
    def add(
        self,
        start: cython.longlong,
        order: cython.longlong,
        packet_ref: cython.longlong,
        time: cython.longlong,
        buffer: AnyBytes,
        at: cython.longlong,
        size: cython.longlong,
    ) -> cython.int:
        """The next segment: its bytes are buffer[at : at + size]."""
        if self.count == self._room:
            self._make_room(2 * self._room)
        if not self.count:
            self._offset = start
        if buffer is not self._last:
            self._buffers.append(buffer)
            self._last = buffer
        i: cython.Py_ssize_t = self.count
        row: cython.Py_ssize_t = SEGMENT_FIELDS * i
        self._segments[row + SEGMENT_START] = start
        self._segments[row + SEGMENT_ORDER] = order
        self._segments[row + SEGMENT_PACKET] = packet_ref
        self._segments[row + SEGMENT_TIME] = time
        self._which[i] = len(self._buffers) - 1
        self._at[i] = at
        self._sizes[i] = size
        self.count = i + 1
        self._size += size
        return 0

    @compiled
    def chunk(self) -> Chunk:
        """What was added since the last call; not to be called where nothing was."""
        data = gather(self._buffers, self._which, self._at, self._sizes, self.count, self._size)
        made: Chunk = _new(Chunk, (self._offset, data, self._array[: SEGMENT_FIELDS * self.count]))
        self.count = self._size = 0
        self._buffers = []
        self._last = None
        return made

    def _make_room(self, room: int) -> None:
        """Room for so many segments."""
        known, more = self._room, room - self._room
        self._array = self._array + array("q", bytes(8 * SEGMENT_FIELDS * more))
        which, at, sizes = [array("q", bytes(8 * room)) for _ in range(3)]
        for i in range(known):
            which[i], at[i], sizes[i] = self._which[i], self._at[i], self._sizes[i]
        self._segments, self._which, self._at, self._sizes, self._room = self._array, which, at, sizes, room
