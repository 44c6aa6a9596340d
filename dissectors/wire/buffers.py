"""Names for the buffers of compiled modules, and how they are made. Their C types stand in the .pxd files."""

from __future__ import annotations

from array import array
from typing import Any, TypeAlias

ABSENT = -(1 << 63)
"""An int64 that stands for no number."""

Bytes: TypeAlias = bytes
"""uint8[n], read only."""

Words: TypeAlias = "array[int]"
"""int32[n]."""

Grid: TypeAlias = Any
"""int64[n, m]: a memoryview, made by `grid`."""


def grid(rows: int, columns: int) -> Grid:
    """int64[rows, columns] of zeros, one row after the other."""
    return memoryview(bytearray(8 * rows * columns)).cast("q", (rows, columns))
