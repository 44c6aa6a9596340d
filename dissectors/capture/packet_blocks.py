"""The packets of a pcapng file: each lies in a block, whose length leads to the next one; layout: see pcapng.py."""

from __future__ import annotations

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Bytes, Grid, Numbers

PACKET, SIMPLE, ENHANCED = 2, 3, 6  # types of blocks with a packet
LEAST = 16  # bytes of such a block
INDEX, CAPTURED, ORIGINAL, TICKS, INTERFACE, COLUMNS = range(6)
"""Columns of what is found: where the packet begins, its bytes, those on the wire, its time on the clock of its
interface (the 64 bits of an unsigned number), the number of its interface; -1 - number where no time is given."""

_SIGN, _UINT32 = 1 << 31, 1 << 32


@compiled
def _u32(data: Bytes, at: cython.Py_ssize_t, big_endian: cython.bint) -> cython.longlong:
    first: cython.int = 0 if big_endian else 3
    step: cython.int = 1 if big_endian else -1
    number: cython.longlong = data[at + first]
    number = number << 8 | data[at + first + step]
    number = number << 8 | data[at + first + 2 * step]
    return number << 8 | data[at + first + 3 * step]


@compiled
def packet_blocks(
    data: Bytes,
    at: cython.Py_ssize_t,
    big_endian: cython.bint,
    interfaces: Numbers,
    longest: cython.longlong,
    found: Grid,
    count: Numbers,
) -> cython.Py_ssize_t:
    """Note the packets of blocks that follow each other, until a block is of another type or wrong; gives its index.

    interfaces: number of the section's first one in the file, how many it has, the snap length of the first (0: none)
    longest: bytes of a block, at most; found: int64[COLUMNS, n], room for all; count: int64[1], of those found so far
    """
    n: cython.Py_ssize_t = count[0]
    end: cython.Py_ssize_t = len(data)
    stop: cython.Py_ssize_t
    start: cython.Py_ssize_t
    kind: cython.longlong
    length: cython.longlong
    captured: cython.longlong
    original: cython.longlong
    which: cython.longlong
    ticks: cython.longlong
    high: cython.longlong
    while at + LEAST <= end:
        kind = _u32(data, at, big_endian)
        if kind != ENHANCED and kind != SIMPLE and kind != PACKET:
            break
        length = _u32(data, at + 4, big_endian)
        if length < LEAST or length % 4 or length > longest or at + length > end:
            break
        stop = at + length - 4
        captured = original = -1
        start = at + 12 if kind == SIMPLE else at + 28
        which = ticks = 0
        if kind == SIMPLE:
            if interfaces[1] > 0:
                original = _u32(data, at + 8, big_endian)
                captured = min(original, interfaces[2] or original, stop - start)
                which = -1 - interfaces[0]
        elif start <= stop:
            which = _u32(data, at + 8, big_endian)
            if kind == PACKET:  # 16 bits, before others
                which = which >> 16 if big_endian else which & 0xFFFF
            high = _u32(data, at + 12, big_endian)
            ticks = (high - _UINT32 if high & _SIGN else high) << 32 | _u32(data, at + 16, big_endian)
            original = _u32(data, at + 24, big_endian)
            if which < interfaces[1]:
                captured = _u32(data, at + 20, big_endian)
                which += interfaces[0]
        if captured >= 0 and start + captured <= stop:
            found[INDEX, n] = start
            found[CAPTURED, n] = captured
            found[ORIGINAL, n] = max(captured, original)
            found[TICKS, n] = ticks
            found[INTERFACE, n] = which
            n += 1
        at += length
    count[0] = n
    return at
