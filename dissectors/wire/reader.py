"""The checked reader: numbers, varints and lengths in a piece of a buffer, from left to right.

Numbers have their highest byte first, but those of the methods whose names end in `le`.

Every method reads at `pos` and moves on. One that would read beyond `end` raises EndsEarlyError, and `pos` is then
where the value would have ended. A length or a count from the wire is compared with what is left before it is used;
only `announced` gives it as it stands.

    kind      on the wire
    PLAIN     int16 length; -1 is null
    WIDE      int32 length; -1 is null
    COMPACT   unsigned varint of length + 1; 0 is null

A varint has seven bits a byte, the lowest first; the high bit says that another byte follows.
Sources: Kafka protocol guide, "Protocol Primitive Types"; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Bytes
from dissectors.wire.per_thread import PerThread

PLAIN, WIDE, COMPACT = 0, 1, 2
SIGN32, TWO32 = 1 << 31, 1 << 32
LENGTH_BYTES = 5


class ReadError(ValueError):
    """The bytes are not what was to be read."""


class EndsEarlyError(ReadError):
    """The bytes end before what was to be read does."""


class VarintError(ReadError):
    """A varint goes on for too many bytes."""


@final
@compiled
class WireReader:
    """data[pos:end] of a buffer."""

    source: bytes  # what `data` is a view of
    data: Bytes
    _source_before: bytes  # the one before, for who reads two in turn, as both directions of a connection
    _data_before: Bytes
    pos: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = 0

    def __init__(self) -> None:
        self.source = self._source_before = b""
        self.data = self._data_before = b""

    @compiled
    def open(self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Read data[start:end] next, at most to where the data end. Raises IndexError where `start` is negative."""
        if start < 0:
            raise IndexError(f"{start} is no index to read from")
        if data is not self.source:  # to make a view costs more than to read a number
            view: Bytes = self._data_before
            if data is not self._source_before:
                view = data
            self._data_before, self._source_before = self.data, self.source
            self.data, self.source = view, data
        self.pos = start
        self.end = min(end, len(data))

    @compiled
    def left(self) -> cython.Py_ssize_t:
        """Bytes that are left; negative behind a `skip` beyond the end."""
        return self.end - self.pos

    @compiled
    def skip(self, size: cython.longlong) -> None:
        """Move over `size` bytes, none where it is negative, as the length of null is.

        They need not all be there: beyond the end, the next read raises EndsEarlyError.
        """
        if size > 0:
            self.pos += size

    @compiled
    def take(self, size: cython.longlong) -> cython.Py_ssize_t:
        """Move over `size` bytes, which must all be there: the index of the first. Raises EndsEarlyError."""
        p: cython.Py_ssize_t = self.pos
        self.pos = p + size
        if self.pos > self.end:
            raise EndsEarlyError("it ends early")
        return p

    @compiled
    def u8(self) -> cython.longlong:
        """One byte, unsigned."""
        return self.data[self.take(1)]

    @compiled
    def i8(self) -> cython.longlong:
        """One byte, signed."""
        value: cython.int = self.data[self.take(1)]
        return value - 0x100 if value & 0x80 else value

    @compiled
    def u16(self) -> cython.longlong:
        """Two bytes, unsigned."""
        p: cython.Py_ssize_t = self.take(2)
        return (self.data[p] << 8) | self.data[p + 1]

    @compiled
    def i16(self) -> cython.longlong:
        """Two bytes, signed."""
        p: cython.Py_ssize_t = self.take(2)
        value: cython.int = (self.data[p] << 8) | self.data[p + 1]
        return value - 0x10000 if value & 0x8000 else value

    @compiled
    def u32(self) -> cython.longlong:
        """Four bytes, unsigned."""
        p: cython.Py_ssize_t = self.take(4)
        high: cython.longlong = self.data[p]
        return (high << 24) | (self.data[p + 1] << 16) | (self.data[p + 2] << 8) | self.data[p + 3]

    @compiled
    def i32(self) -> cython.longlong:
        """Four bytes, signed."""
        p: cython.Py_ssize_t = self.take(4)
        high: cython.longlong = self.data[p]
        high = (high << 24) | (self.data[p + 1] << 16) | (self.data[p + 2] << 8) | self.data[p + 3]
        return (high ^ SIGN32) - SIGN32

    @compiled
    def i64(self) -> cython.longlong:
        """Eight bytes, signed."""
        p: cython.Py_ssize_t = self.take(8)
        high: cython.longlong = self.data[p]
        low: cython.longlong = self.data[p + 4]
        high = (high << 24) | (self.data[p + 1] << 16) | (self.data[p + 2] << 8) | self.data[p + 3]
        low = (low << 24) | (self.data[p + 5] << 16) | (self.data[p + 6] << 8) | self.data[p + 7]
        return ((high ^ SIGN32) - SIGN32) * TWO32 + low

    @compiled
    def integer(self, size: cython.int) -> cython.longlong:
        """A signed number of 1, 2, 4 or 8 bytes."""
        if size == 4:
            return self.i32()
        if size == 2:
            return self.i16()
        return self.i64() if size == 8 else self.i8()

    @compiled
    def u16le(self) -> cython.longlong:
        """Two bytes, unsigned, the lowest first."""
        p: cython.Py_ssize_t = self.take(2)
        return self.data[p] | (self.data[p + 1] << 8)

    @compiled
    def u32le(self) -> cython.longlong:
        """Four bytes, unsigned, the lowest first."""
        p: cython.Py_ssize_t = self.take(4)
        high: cython.longlong = self.data[p + 3]
        return (high << 24) | (self.data[p + 2] << 16) | (self.data[p + 1] << 8) | self.data[p]

    @compiled
    def i64le(self) -> cython.longlong:
        """Eight bytes, signed, the lowest first."""
        p: cython.Py_ssize_t = self.take(8)
        low: cython.longlong = self.data[p + 3]
        high: cython.longlong = self.data[p + 7]
        low = (low << 24) | (self.data[p + 2] << 16) | (self.data[p + 1] << 8) | self.data[p]
        high = (high << 24) | (self.data[p + 6] << 16) | (self.data[p + 5] << 8) | self.data[p + 4]
        return ((high ^ SIGN32) - SIGN32) * TWO32 + low

    @compiled
    def uvarint(self) -> cython.longlong:
        """An unsigned varint of at most LENGTH_BYTES bytes. Raises VarintError where it is longer."""
        value: cython.longlong = self.data[self.take(1)]
        byte: cython.longlong
        i: cython.int
        if value < 128:
            return value
        value &= 127
        for i in range(1, LENGTH_BYTES):
            byte = self.data[self.take(1)]
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                return value
        raise VarintError(f"a varint of more than {LENGTH_BYTES} bytes")

    @compiled
    def announced(self, kind: cython.int) -> cython.longlong:
        """The length of what follows, negative for null. It may be more than is left."""
        if kind == COMPACT:
            return self.uvarint() - 1
        return self.i32() if kind == WIDE else self.i16()

    @compiled
    def length(self, kind: cython.int) -> cython.longlong:
        """The length of what follows, of which all is there; negative for null. Raises EndsEarlyError."""
        n: cython.longlong = self.announced(kind)
        if n > self.end - self.pos:
            self.take(n)
        return n

    @compiled
    def skip_tags(self) -> None:
        """Move over tagged fields (KIP-482): their count, then number, size and bytes of each."""
        left: cython.longlong = self.uvarint()
        while left > 0:
            self.uvarint()
            self.skip(self.uvarint())
            left -= 1


_readers: PerThread = PerThread(WireReader)


@compiled
def reader() -> WireReader:
    """The reader of this thread, which all share: whoever uses it opens it first, and is done before others run."""
    found: WireReader = _readers.get()
    return found
