"""Segments of one direction on their way to a chunk: numbers by column, bytes still where they lie."""

from __future__ import annotations

from array import array
from typing import Any

import cython

from dissectors.tcp.chunk import Chunk
from dissectors.wire.arrays import Bytes, Numbers

if cython.compiled:
    from cython.cimports.dissectors.wire.memory import gather
else:
    from dissectors.tcp.numbers import COLUMNS
    from dissectors.wire.memory import gather

_ROOM = 64  # segments, at first
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor


class Delivered:
    """Segments that follow each other. Used again for each connection: `chunk` takes what was added."""

    def __init__(self) -> None:
        self.count = 0  # segments
        self._offset = 0  # stream offset of the first byte
        self._size = 0  # bytes
        self._buffers: list[Bytes] = []  # in which the bytes lie
        self._last: Any = None  # of them
        self._room = _ROOM  # segments
        self._numbers = array("q", bytes(8 * COLUMNS * _ROOM))  # [COLUMNS, room]
        self._columns: Numbers = self._numbers

    def add(
        self,
        start: cython.longlong,
        order: cython.longlong,
        packet_ref: cython.longlong,
        time: cython.longlong,
        buffer: Bytes,
        at: cython.longlong,
        size: cython.longlong,
    ) -> cython.int:
        """The next segment: its bytes are buffer[at : at + size]."""
        if self.count == self._room:
            self._grow()
        if not self.count:
            self._offset = start
        if buffer is not self._last:
            self._buffers.append(buffer)
            self._last = buffer
        room: cython.Py_ssize_t = self._room
        i: cython.Py_ssize_t = self.count
        self._columns[i] = start
        self._columns[room + i] = order
        self._columns[2 * room + i] = packet_ref
        self._columns[3 * room + i] = time
        self._columns[4 * room + i] = len(self._buffers) - 1
        self._columns[5 * room + i] = at
        self._columns[6 * room + i] = size
        self.count = i + 1
        self._size += size
        return 0

    def chunk(self) -> Chunk:
        """What was added since the last call; not to be called where nothing was."""
        room: cython.Py_ssize_t = self._room
        n: cython.Py_ssize_t = self.count
        numbers = self._numbers
        which, at, sizes = self._columns[4 * room :], self._columns[5 * room :], self._columns[6 * room :]
        data = gather(self._buffers, which, at, sizes, n, self._size)
        starts, orders = numbers[:n], numbers[room : room + n]
        packet_refs, times = numbers[2 * room : 2 * room + n], numbers[3 * room : 3 * room + n]
        made: Chunk = _new(Chunk, (self._offset, data, starts, orders, packet_refs, times))
        self.count = self._size = 0
        self._buffers = []
        self._last = None
        return made

    def _grow(self) -> None:
        room = self._room
        columns = [self._numbers[i * room : (i + 1) * room] for i in range(COLUMNS)]
        more = array("q", bytes(8 * room))
        self._numbers = array("q")
        for column in columns:
            self._numbers.extend(column)
            self._numbers.extend(more)
        self._columns = self._numbers
        self._room = 2 * room
