"""Where messages lie, whatever their layout: one message, what has a row in `batches`, all messages of a frame.

A message is a row of int64 with the fields of Msg. Its numbers of 64 bits are unsigned on the wire: those from 2^63 on
are negative in a row, and as they are in Msg.
"""

from __future__ import annotations

from typing import NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy.field_types import Misfit
from dissectors.rows.layout import ABSENT
from dissectors.wire.arrays import Grid, grid

START, COVERED, END, ID_AT, OFFSET, TIMESTAMP, ORIGIN, PAYLOAD, PAYLOAD_LENGTH, HEADERS, HEADERS_LENGTH = range(11)
STORED, STATE, CELLS = range(11, 14)

MASK64 = (1 << 64) - 1

_FIRST, _MOST = 16, 1 << 14
"""Rows of a new grid, and beyond how many it is not used again."""


class Msg(NamedTuple):
    """One message: indexes in the buffer, times in microseconds."""

    start: int
    covered: int  # first byte that the checksum covers; to the end of the message
    end: int
    id_at: int  # see `message_id`
    offset: int | None
    timestamp: int
    origin: int
    payload: int
    payload_length: int
    headers: int
    headers_length: int
    stored: int
    state: int  # 0 where the layout has none

    @property
    def checksum(self) -> tuple[int, int]:
        """[start, end) of its checksum: it begins the message, but in polls of 2023 to 0.4."""
        return (self.start, self.covered) if self.covered == self.start + 8 else (self.start + 33, self.start + 37)


class Producer(NamedTuple):
    """Who wrote a VSR batch, where it wants each batch to be stored once."""

    id: int
    epoch: int
    sequence: int  # of the first message


class VsrBatch(NamedTuple):
    """Header of a VSR batch: its fields that are not about its messages."""

    partition: int
    checksum: int
    producer: Producer | None


@final
@compiled(freelist=16)
class IggyUnit:
    """One row of `batches`: a VSR batch, or all messages of a frame where each has its own checksum.

    start, end: indices in the buffer
    total: messages as announced; as found where nothing announces them
    first, last: its messages are the rows [first, last) of the run
    batch: the header of a VSR batch
    """

    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    total: cython.longlong
    first: cython.Py_ssize_t
    last: cython.Py_ssize_t
    batch: VsrBatch | None

    def __init__(
        self,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        total: cython.longlong,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        batch: VsrBatch | None = None,
    ) -> None:
        self.start = start
        self.end = end
        self.total = total
        self.first = first
        self.last = last
        self.batch = batch

    @property
    def partition(self) -> int | None:
        """The partition that a VSR batch names."""
        return None if self.batch is None else self.batch.partition


@final
@compiled
class MessageRun:
    """The messages of one frame.

    format: as `batches.format` has it
    checksum_kind: as `dissectors.checksum` names it
    typed: whether user headers have typed keys
    total: messages as announced; as found where nothing announces them
    base, base_time, origin: of the VSR batch that is read: what the numbers of its messages count from
    units: what has a row in `batches`, in order
    buf, limit: what is read, and up to where it was captured
    problem: what does not fit although every message could be read
    misfit: why they are no such messages
    """

    cells: Grid
    format: str
    checksum_kind: str
    typed: cython.bint
    total: cython.longlong
    count: cython.Py_ssize_t
    base: cython.longlong = 0
    base_time: cython.longlong = 0
    origin: cython.longlong = 0
    units: list[IggyUnit]
    buf: bytes
    limit: cython.Py_ssize_t = 0
    problem: str | None
    misfit: Misfit

    def __init__(self, misfit: Misfit | None = None) -> None:
        self.misfit = Misfit() if misfit is None else misfit
        self.cells = grid(_FIRST, CELLS)
        self.begin("", "", False, b"", 0)

    @compiled
    def begin(self, format: str, checksum_kind: str, typed: cython.bint, buf: bytes, limit: cython.Py_ssize_t) -> None:
        """Forget the run before."""
        self.buf = buf
        self.limit = limit
        self.format = format
        self.checksum_kind = checksum_kind
        self.typed = typed
        self.total = 0
        self.count = 0  # messages that were read
        self.units = []
        self.problem = None
        self.misfit.found = False
        if self.cells.shape[0] > _MOST:
            self.cells = grid(_FIRST, CELLS)

    @compiled
    def add(self) -> cython.Py_ssize_t:
        """One message more: the index of its row, which holds what was there before."""
        i: cython.Py_ssize_t = self.count
        if i == self.cells.shape[0]:
            self._grow()
        self.count = i + 1
        return i

    @compiled
    def cut(self, count: cython.Py_ssize_t) -> None:
        """Keep so many messages only."""
        self.count = count

    @compiled
    def put(self, message: Msg) -> None:
        """Add a message that was read apart."""
        i: cython.Py_ssize_t = self.add()
        k: cython.Py_ssize_t
        for k in range(CELLS):
            self.cells[i, k] = _signed(message[k])

    @compiled
    def message(self, i: cython.Py_ssize_t) -> Msg:
        """A message by its index."""
        offset, timestamp, origin = self.cells[i, OFFSET], self.cells[i, TIMESTAMP], self.cells[i, ORIGIN]
        return Msg(
            self.cells[i, START],
            self.cells[i, COVERED],
            self.cells[i, END],
            self.cells[i, ID_AT],
            None if offset == ABSENT else offset & MASK64,
            timestamp & MASK64,
            origin & MASK64,
            self.cells[i, PAYLOAD],
            self.cells[i, PAYLOAD_LENGTH],
            self.cells[i, HEADERS],
            self.cells[i, HEADERS_LENGTH],
            self.cells[i, STORED] & MASK64,
            self.cells[i, STATE],
        )

    @property
    def messages(self) -> list[Msg]:
        """All messages that were read."""
        return [self.message(i) for i in range(self.count)]

    def of(self, unit: IggyUnit) -> list[Msg]:
        """The messages of a unit."""
        return [self.message(i) for i in range(unit.first, unit.last)]

    @compiled
    def payload_bytes(self) -> cython.longlong:
        """Bytes of all payloads."""
        size: cython.longlong = 0
        i: cython.Py_ssize_t
        for i in range(self.count):
            size += self.cells[i, PAYLOAD_LENGTH]
        return size

    @compiled
    def _grow(self) -> None:
        """Double the room."""
        old: Grid = self.cells
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        self.cells = grid(2 * old.shape[0], CELLS)
        for i in range(self.count):
            for k in range(CELLS):
                self.cells[i, k] = old[i, k]


def message_id(buf: bytes, at: int) -> int:
    """The id of a message: 16 bytes."""
    return int.from_bytes(buf[at : at + 16], "little")


def _signed(number: int | None) -> int:
    """A number of 64 bits as a cell holds it."""
    if number is None:
        return ABSENT
    return number - (1 << 64) if number >> 63 else number
