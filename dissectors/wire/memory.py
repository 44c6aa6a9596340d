"""The only module that touches memory by address: copying bytes, and CRC32C over them.

Every function checks the bounds itself before it takes an address; all other modules use indices only. Bytes are
contiguous uint8: bytes, bytearray, or a memoryview of them.
"""

from __future__ import annotations

from typing import Annotated, Any

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Bytes, Grid, Ints, ReadOnlyNumbers, WordGrid, Writable

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AsString, PyBytes_FromStringAndSize
    from cython.cimports.dissectors.wire.crc32c_of import crc32c_of
    from cython.cimports.libc.string import memcmp, memcpy, memmove
else:
    from dissectors.wire import crc32c_library

    crc32c_of = crc32c_library.crc32c()

_CELL = 8  # bytes of a number in a grid


@compiled
def copy(
    target: Writable,
    at: cython.Py_ssize_t,
    source: Bytes,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> None:
    """target[at : at + size] = source[start : start + size]; both may be one buffer. Raises IndexError."""
    _check(at, size, len(target))
    _check(start, size, len(source))
    if not cython.compiled:
        target[at : at + size] = bytes(source[start : start + size])
    elif size:
        memmove(cython.address(target[at]), cython.address(source[start]), size)


@compiled
def copy_row(cells: Grid, target: cython.Py_ssize_t, source: cython.Py_ssize_t) -> None:
    """cells[target] = cells[source]. Raises IndexError."""
    k: cython.Py_ssize_t
    _check(target, 1, cells.shape[0])
    _check(source, 1, cells.shape[0])
    if cython.compiled:
        memmove(cython.address(cells[target, 0]), cython.address(cells[source, 0]), cells.shape[1] * _CELL)
    else:
        for k in range(cells.shape[1]):
            cells[target, k] = cells[source, k]


@compiled
def is_same_row(cells: WordGrid, i: cython.Py_ssize_t, j: cython.Py_ssize_t) -> cython.bint:
    """Whether cells[i] == cells[j]. Raises IndexError."""
    _check(i, 1, cells.shape[0])
    _check(j, 1, cells.shape[0])
    if cython.compiled:
        return memcmp(cython.address(cells[i, 0]), cython.address(cells[j, 0]), cells.shape[1] * _CELL) == 0
    return bool(cells[i : i + 1] == cells[j : j + 1])


@compiled
def is_one_value(cells: Grid, row: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.bint:
    """Whether the first cells of a row are all the same. Raises IndexError."""
    _check(row, 1, cells.shape[0])
    _check(0, count, cells.shape[1])
    if cython.compiled:
        return count < 2 or not memcmp(
            cython.address(cells[row, 0]), cython.address(cells[row, 1]), (count - 1) * _CELL
        )
    return len({cells[row, k] for k in range(count)}) < 2


@compiled
def copy_row_to_columns(columns: Grid, at: cython.Py_ssize_t, cells: Grid, row: cython.Py_ssize_t) -> None:
    """columns[k, at] = cells[row, k] for each k. Raises IndexError."""
    k: cython.Py_ssize_t
    count: cython.Py_ssize_t = cells.shape[1]
    _check(at, 1, columns.shape[1])
    _check(row, 1, cells.shape[0])
    _check(0, count, columns.shape[0])
    if cython.compiled:
        target: Annotated[Any, "long long*"] = cython.address(columns[0, at])
        source: Annotated[Any, "long long*"] = cython.address(cells[row, 0])
        step: cython.Py_ssize_t = columns.shape[1]
        for k in range(count):
            target[k * step] = source[k]
    else:
        for k in range(count):
            columns[k, at] = cells[row, k]


@compiled
def copy_texts(target: Writable, ends: Ints, source: Bytes, starts: ReadOnlyNumbers, which: ReadOnlyNumbers) -> None:
    """Text i, source[starts[w] : starts[w + 1]] with w = which[i], to target[ends[i] : ends[i + 1]].

    A w below 0 stands for no text. Raises IndexError for one that is not in `starts`, or does not fit.
    """
    i: cython.Py_ssize_t
    w: cython.longlong
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    start: cython.Py_ssize_t
    room: cython.Py_ssize_t = len(target)
    length: cython.Py_ssize_t = len(source)
    for i in range(len(which)):
        w = which[i]
        if w < 0:
            continue
        start, at = starts[w], ends[i]
        size = starts[w + 1] - start
        if start < 0 or size < 0 or at < 0 or start > length - size or at > room - size:
            raise IndexError(f"{size} bytes at {start} of {length}, to {at} of {room}")
        if not cython.compiled:
            target[at : at + size] = bytes(source[start : start + size])
        elif size:
            memcpy(cython.address(target[at]), cython.address(source[start]), size)


@compiled
def is_at(data: bytes, start: cython.Py_ssize_t, sought: bytes) -> cython.bint:
    """Whether data[start : start + len(sought)] is `sought`."""
    if start < 0 or start > len(data) - len(sought):
        return False
    if cython.compiled:
        return memcmp(PyBytes_AsString(data) + start, PyBytes_AsString(sought), len(sought)) == 0
    return data.startswith(sought, start)


@compiled
def address_of(value: object) -> cython.Py_ssize_t:
    """Where an object lies, not negative: the same as long as anybody has it."""
    if cython.compiled:
        return cython.cast(cython.Py_ssize_t, cython.cast(cython.p_void, value))
    return id(value)


@compiled
def part(data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
    """Copy data[start:end]; indices beyond the end stand for the end. Raises IndexError for negative ones."""
    end = min(end, len(data))
    start = min(start, end)
    _check(start, end - start, len(data))
    if cython.compiled:
        return PyBytes_FromStringAndSize(PyBytes_AsString(data) + start, end - start)
    return data[start:end]


@compiled
def gather(
    buffers: list[Bytes],
    which: ReadOnlyNumbers,
    at: ReadOnlyNumbers,
    sizes: ReadOnlyNumbers,
    count: cython.Py_ssize_t,
    total: cython.Py_ssize_t,
) -> bytes:
    """`count` pieces of buffers one after the other, `total` bytes: buffers[which[i]][at[i] : at[i] + sizes[i]].

    Raises IndexError for a piece that is not in its buffer, or where the pieces are not `total` bytes.
    """
    i: cython.Py_ssize_t
    filled: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    start: cython.Py_ssize_t
    now: cython.Py_ssize_t = -1
    if cython.compiled:
        gathered = PyBytes_FromStringAndSize(cython.NULL, total)
        target: Annotated[Any, "char*"] = PyBytes_AsString(gathered)
        buffer: Bytes
        for i in range(count):
            if which[i] != now:
                now = which[i]
                buffer = buffers[now]
            start, size = at[i], sizes[i]
            _check(start, size, len(buffer))
            _check(filled, size, total)
            if size:
                memcpy(target + filled, cython.address(buffer[start]), size)
                filled += size
    else:
        parts = []
        for i in range(count):
            start, size = at[i], sizes[i]
            _check(start, size, len(buffers[which[i]]))
            parts.append(buffers[which[i]][start : start + size])
        gathered = b"".join(parts)
        filled = len(gathered)
    if filled != total:
        raise IndexError(f"{filled} bytes in pieces that should be {total}")
    return gathered


@compiled
def crc32c(data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """CRC32C of data[start:end]. Raises IndexError."""
    _check(start, end - start, len(data))
    if cython.compiled:
        return crc32c_of(PyBytes_AsString(data) + start, end - start)
    return crc32c_of(memoryview(data)[start:end])


@compiled
def _check(at: cython.Py_ssize_t, size: cython.Py_ssize_t, length: cython.Py_ssize_t) -> None:
    """Raises IndexError unless `size` items from `at` on lie within `length`."""
    if at < 0 or size < 0 or at > length - size:
        raise IndexError(f"{size} bytes at {at} of {length}")
