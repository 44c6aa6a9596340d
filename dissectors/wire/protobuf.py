"""Protobuf messages: the fields of one type by their numbers, or any fields one by one.

A field is a tag (field number << 3 | wire type) and what the wire type says:

    0  a varint
    1  eight bytes
    2  a length, as a varint, and so many bytes
    3  fields up to the tag of wire type 4 with the same number (a group)
    5  four bytes

A field that is not in the schema, or has another wire type than there, is passed over. Of a field that comes again the
last one holds. What the protobuf library refuses is refused here too.

Source: Protocol Buffers, "Encoding", "Message Structure".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Grid, Numbers, grid, numbers
from dissectors.wire.memory import part
from dissectors.wire.reader import WireReader
from dissectors.wire.varint import within

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = 0, 1, 2, 3, 4, 5
OTHER, INT64, INT32, UINT32, FLAG, INTEGERS, OCTETS, MESSAGE = 0, 1, 2, 3, 4, 5, 6, 7
MOST_FIELDS, DEEPEST, LARGEST_TAG = 96, 100, 0xFFFFFFFF
LOW32, SIGN32, VARINT_BYTES = 0xFFFFFFFF, 1 << 31, 10


@final
@compiled
class MessageShape:
    """What a message type's fields hold.

    kinds: int64[n], by field number: INT64 (of either sign), INT32 (enums too), UINT32, FLAG, INTEGERS (a list of any
        of these), OCTETS (text or bytes), MESSAGE; OTHER for what is no field, or one that is only passed over
    inner: by field number, the shape of the messages in a field
    """

    size: cython.Py_ssize_t
    kinds: Numbers
    inner: list[MessageShape | None]

    def __init__(self, kinds: Mapping[int, int]) -> None:
        self.size = max(kinds, default=0) + 1
        if self.size > MOST_FIELDS:
            raise ValueError(f"a field number above {MOST_FIELDS - 1}")
        self.kinds = numbers(self.size)
        for number, kind in kinds.items():
            self.kinds[number] = kind
        self.inner = [None] * self.size


@final
@compiled
class MessageFields:
    """The fields of one message, by number. Valid until the next one is read.

    What does not fit puts the reader behind its end, and so do all steps from there: nothing is raised.
    """

    reader: WireReader
    data: bytes  # what it was read from
    begin: cython.Py_ssize_t = 0  # index of the first field
    end: cython.Py_ssize_t = 0  # index after the last field that is whole
    shape: MessageShape
    _cells: Grid  # the number, or where bytes begin; where it ends; the turn in which it was read
    _turn: cython.longlong

    def __init__(self, reader: WireReader) -> None:
        """reader: may be shared with others; no two may read at the same time."""
        self.reader = reader
        self.data = b""
        self.shape = NO_FIELDS
        self._cells = grid(MOST_FIELDS, 3)
        self._turn = 1

    # --- reading ---

    @compiled
    def read(self, shape: MessageShape, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Read data[start:end]; False where it is no such message: then `end` is behind its last whole field."""
        r: WireReader = self.reader
        self.shape, self.data = shape, data
        self._turn += 1
        self.begin = self.end = start
        r.open(data, start, end)
        if r.end < end:
            return False
        while r.pos < r.end:
            self._field(shape, True, 0)
            if r.pos <= r.end:
                self.end = r.pos
        return r.pos == r.end

    @compiled
    def _field(self, shape: MessageShape, keep: cython.bint, depth: cython.int) -> cython.int:
        """Read one field; the messages in it must be well formed. keep: note what it holds."""
        r: WireReader = self.reader
        tag: cython.longlong = self._varint()
        number: cython.longlong = tag >> 3
        wire: cython.int = tag & 7
        kind: cython.longlong = OTHER
        value: cython.longlong
        if tag < 8 or tag > LARGEST_TAG:  # a field without a number
            return self._misfit()
        if number < shape.size:
            kind = shape.kinds[number]
        if wire == VARINT:
            value = self._varint()
            keep = keep and OTHER < kind < OCTETS
            if kind == INT32:
                value = ((value & LOW32) ^ SIGN32) - SIGN32
            elif kind == UINT32:
                value &= LOW32
            elif kind == FLAG:
                value = value != 0
        elif wire == BYTES:
            value = self._bytes(self._varint())
            keep = keep and kind >= INTEGERS
            if kind == MESSAGE:
                self._message(shape.inner[number], value, r.pos, depth + 1)
            elif kind == INTEGERS:
                self._message(None, value, r.pos, depth + 1)
        elif wire in (FIXED64, FIXED32):
            value = self._bytes(8 if wire == FIXED64 else 4)
            keep = False
        elif wire == GROUP:
            value = self._group(number, depth + 1)
            keep = False
        else:
            return self._misfit()
        if keep and r.pos <= r.end:
            self._cells[number, 0] = value
            self._cells[number, 1] = r.pos
            self._cells[number, 2] = self._turn
        return 0

    @compiled
    def _misfit(self) -> cython.int:
        """What comes next is no part of such a message."""
        self.reader.pos = self.reader.end + 1
        return 0

    @compiled
    def _varint(self) -> cython.longlong:
        """A varint of 64 bits, as the signed number with these bits."""
        r: WireReader = self.reader
        at: cython.Py_ssize_t = r.pos
        value: cython.ulonglong = 0
        byte: cython.ulonglong
        shift: cython.int = 0
        while at < r.end and shift < 7 * VARINT_BYTES:
            byte = r.data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                r.pos = at
                return value if cython.compiled else signed(value)
            shift += 7
        return self._misfit()

    @compiled
    def _bytes(self, size: cython.longlong) -> cython.Py_ssize_t:
        """Move over `size` bytes: the index of the first."""
        r: WireReader = self.reader
        at: cython.Py_ssize_t = r.pos
        if size < 0 or size > r.end - at:
            return self._misfit()
        r.pos = at + size
        return at

    @compiled
    def _message(
        self, shape: MessageShape | None, start: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.int
    ) -> cython.int:
        """Check that [start, end) is a message of this shape, or integers one after the other where there is none."""
        r: WireReader = self.reader
        outer: cython.Py_ssize_t = r.end
        if end > outer or depth > DEEPEST:
            return self._misfit()
        r.pos, r.end = start, end
        while r.pos < end:
            if shape is None:
                self._varint()
            else:
                self._field(shape, False, depth)
        r.end = outer
        return 0 if r.pos == end else self._misfit()

    @compiled
    def _group(self, number: cython.longlong, depth: cython.int) -> cython.int:
        """Move over the fields of a group, and over the tag that ends it."""
        r: WireReader = self.reader
        at: cython.Py_ssize_t = r.pos
        tag: cython.longlong = self._varint()
        while tag & 7 != GROUP_END and r.pos <= r.end and depth <= DEEPEST:
            r.pos = at
            self._field(NO_FIELDS, False, depth)
            at = r.pos
            tag = self._varint()
        return 0 if tag & 7 == GROUP_END and tag >> 3 == number and depth <= DEEPEST else self._misfit()

    # --- what was read ---

    @compiled
    def has(self, number: cython.Py_ssize_t) -> cython.bint:
        """Whether there is such a field."""
        turn: cython.longlong = self._cells[number, 2]
        return turn == self._turn

    @compiled
    def number(self, number: cython.Py_ssize_t, default: cython.longlong) -> cython.longlong:
        """A number; uint64 from 2^63 on is negative. `default`: where there is no such field."""
        return self._cells[number, 0] if self.has(number) else default

    @compiled
    def start(self, number: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Index in `data` of the bytes of a field that is there."""
        start: cython.Py_ssize_t = self._cells[number, 0]
        return start

    @compiled
    def stop(self, number: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Index after the bytes of a field that is there."""
        stop: cython.Py_ssize_t = self._cells[number, 1]
        return stop

    @compiled
    def octets(self, number: cython.Py_ssize_t) -> bytes | None:
        """The bytes of a field; None where there is none."""
        if not self.has(number):
            return None
        return part(self.data, self._cells[number, 0], self._cells[number, 1])

    @compiled
    def text(self, number: cython.Py_ssize_t) -> str | None:
        """The text of a field, escaped where it is no UTF-8; None where there is none."""
        raw = self.octets(number)
        return None if raw is None else raw.decode("utf-8", "backslashreplace")

    @compiled
    def each(self, number: cython.longlong) -> list[tuple[int, int]]:
        """Where the bytes of a field lie in `data`, which may come several times."""
        r: WireReader = self.reader
        start: cython.Py_ssize_t
        wire: cython.longlong
        found = []
        r.open(self.data, self.begin, self.end if self.has(number) else self.begin)
        while (wire := self._next(number)) >= 0:
            if wire == VARINT:
                self._varint()
            else:
                start = self._bytes(self._varint())
                found.append((start, r.pos))
        return found

    @compiled
    def integers(self, number: cython.longlong) -> list[int]:
        """The numbers of a field which may come several times, one by one or packed; signed, of 64 bits."""
        r: WireReader = self.reader
        wire: cython.longlong
        after: cython.Py_ssize_t
        found = []
        r.open(self.data, self.begin, self.end if self.has(number) else self.begin)
        while (wire := self._next(number)) >= 0:
            if wire == VARINT:
                found.append(self._varint())
                continue
            after = self._bytes(self._varint())
            r.pos, after = after, r.pos
            while r.pos < after:
                found.append(self._varint())
        return found

    @compiled
    def _next(self, number: cython.longlong) -> cython.longlong:
        """Move behind the next tag of a field that is a varint or has bytes; its wire type, -1 at the end."""
        r: WireReader = self.reader
        at: cython.Py_ssize_t
        tag: cython.longlong
        while r.pos < r.end:
            at = r.pos
            tag = self._varint()
            if tag >> 3 == number and (tag & 7 == BYTES or tag & 7 == VARINT):
                return tag & 7
            r.pos = at
            self._field(NO_FIELDS, False, 0)
        return -1

    def __reduce__(self) -> tuple[type[MessageFields], tuple[WireReader]]:
        """What was read is not carried on."""
        return MessageFields, (self.reader,)


NO_FIELDS = MessageShape({})


def signed(value: int) -> int:
    """The signed number with the low 64 bits of a number."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


# --- any message -----------------------------------------------------------------------------------------------------


class WireField(NamedTuple):
    """One field. What it holds lies in data[start:end]."""

    number: int
    kind: int  # its wire type
    value: int  # of a varint, else 0
    start: int
    end: int  # index after the field


def fields(data: bytes, at: int, end: int, *, cut: bool = False) -> Iterator[WireField]:
    """The fields in data[at:end], as far as they are whole and not of a group.

    cut: yield the bytes, text or message that goes on behind `end`, too; its `end` is where it would end
    """
    while tag := within(data, at, end):
        kind, value, start = tag[0] & 7, 0, tag[1]
        if kind in (FIXED32, FIXED64):
            after = start + (4 if kind == FIXED32 else 8)
        elif (number := within(data, start, end)) is None:
            return
        elif kind == VARINT:
            value, after = number
        elif kind == BYTES:
            start = number[1]
            after = start + number[0]
        else:
            return
        if after > end and not (cut and kind == BYTES):
            return
        yield WireField(tag[0] >> 3, kind, value, start, after)
        at = after
