"""The only module that touches memory by address: copying bytes, and CRC32C over them.

Every function checks the bounds itself before it takes an address; all other modules use indices only. Bytes are
contiguous uint8: bytes, bytearray, or a memoryview of them.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.dissectors.wire.crc32c_of import crc32c_of
    from cython.cimports.libc.string import memmove
else:
    from dissectors.wire import crc32c_library

    crc32c_of = crc32c_library.crc32c()


def copy(
    target: bytearray | memoryview,
    at: cython.Py_ssize_t,
    source: bytes | bytearray | memoryview,
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


def crc32c(data: bytes | bytearray | memoryview, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """CRC32C of data[start:end]. Raises IndexError."""
    _check(start, end - start, len(data))
    if not cython.compiled:
        return crc32c_of(memoryview(data)[start:end])
    return crc32c_of(cython.address(data[start]), end - start) if start < end else 0


def _check(at: cython.Py_ssize_t, size: cython.Py_ssize_t, length: cython.Py_ssize_t) -> None:
    """Raises IndexError unless `size` items from `at` on lie within `length`."""
    if at < 0 or size < 0 or at > length - size:
        raise IndexError(f"{size} bytes at {at} of {length}")
