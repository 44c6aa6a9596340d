"""Big-endian integers at any index of a buffer."""

from __future__ import annotations

from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import AnyBytes, Bytes

_SIGN, _SPAN = 1 << 31, 1 << 32


@final
@compiled
class BigEndian:
    """A buffer whose numbers have their highest byte first. Every method raises IndexError beyond its end."""

    data: Bytes
    size: cython.Py_ssize_t = 0

    def __init__(self, data: AnyBytes) -> None:
        self.data = data
        self.size = len(data)

    @compiled
    def u8(self, at: cython.Py_ssize_t) -> cython.int:
        """The byte at an index."""
        return self.data[at]

    @compiled
    def u16(self, at: cython.Py_ssize_t) -> cython.int:
        """The unsigned number in two bytes."""
        high: cython.int = self.data[at]
        return high << 8 | self.data[at + 1]

    @compiled
    def u32(self, at: cython.Py_ssize_t) -> cython.longlong:
        """The unsigned number in four bytes."""
        number: cython.longlong = self.data[at]
        number = number << 8 | self.data[at + 1]
        number = number << 8 | self.data[at + 2]
        return number << 8 | self.data[at + 3]

    @compiled
    def i64(self, at: cython.Py_ssize_t) -> cython.longlong:
        """The signed number in eight bytes."""
        high: cython.longlong = self.u32(at)
        return (high - _SPAN if high & _SIGN else high) << 32 | self.u32(at + 4)
