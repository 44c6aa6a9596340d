"""Arrays of numbers without numpy, which compiled and uncompiled code index alike."""

from __future__ import annotations

from typing import Any, TypeAlias

Bytes: TypeAlias = Any
"""uint8[n], read only: bytes, or a memoryview of them."""

Writable: TypeAlias = Any
"""uint8[n]: a bytearray, or a memoryview of one."""

Numbers: TypeAlias = Any
"""int64[n], or int64[n, m] where two indices are used: a memoryview that `numbers` or `grid` made."""


def numbers(n: int) -> Numbers:
    """int64[n] of zeros."""
    return memoryview(bytearray(8 * n)).cast("q")


def grid(rows: int, columns: int) -> Numbers:
    """int64[rows, columns] of zeros, one row after the other; neither may be 0."""
    return memoryview(bytearray(8 * rows * columns)).cast("q", (rows, columns))
