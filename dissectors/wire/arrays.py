"""Arrays of numbers as memoryviews, which compiled and uncompiled code index alike."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy as np

AnyBytes: TypeAlias = bytes | memoryview
"""An object with uint8[n], read only."""

Bytes: TypeAlias = Annotated[bytes | memoryview, "const unsigned char[::1]"]
"""uint8[n], read only, as compiled code indexes it."""

Writable: TypeAlias = Annotated[Any, "unsigned char[::1]"]
"""uint8[n]: a bytearray, or a memoryview of one."""

Numbers: TypeAlias = Annotated[Any, "long long[::1]"]
"""int64[n]: a memoryview that `numbers` made, or an array."""

ReadOnlyNumbers: TypeAlias = Annotated[Any, "const long long[::1]"]
"""int64[n] that need not be writable."""

Words: TypeAlias = Annotated[Any, "unsigned long long[::1]"]
"""uint64[n]."""

WordGrid: TypeAlias = Annotated[Any, "unsigned long long[:, ::1]"]
"""uint64[n, m]."""

Grid: TypeAlias = Annotated[Any, "long long[:, ::1]"]
"""int64[n, m]: a memoryview that `grid` made."""

Ints: TypeAlias = Annotated[Any, "int[::1]"]
"""int32[n]."""


def numbers(n: int) -> Numbers:
    """int64[n] of zeros."""
    return memoryview(bytearray(8 * n)).cast("q")


def grid(rows: int, columns: int) -> Grid:
    """int64[rows, columns] of zeros, one row after the other; neither may be 0."""
    return memoryview(bytearray(8 * rows * columns)).cast("q", (rows, columns))


def unset_grid(rows: int, columns: int) -> Grid:
    """int64[rows, columns] of any values, for who writes each cell before reading it."""
    return np.empty((rows, columns), np.int64).data
