"""The sizes of the packets of a pcap file: each stands in a header that only the packet before leads to."""

from __future__ import annotations

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Bytes, Numbers

_BYTES = 4  # of a size


@compiled
def captured_sizes(
    data: Bytes,
    at: cython.Py_ssize_t,
    header: cython.Py_ssize_t,
    big_endian: cython.bint,
    most: cython.longlong,
    sizes: Numbers,
) -> cython.Py_ssize_t:
    """Write sizes of packets, captured bytes, until one is above `most` or no size is whole; gives how many.

    at: of the first packet's size; header: bytes of a packet's header; sizes: room for all of them
    """
    n: cython.Py_ssize_t = 0
    size: cython.longlong
    end: cython.Py_ssize_t = len(data) - _BYTES
    first: cython.int = 0 if big_endian else 3
    step: cython.int = 1 if big_endian else -1
    while at <= end:
        size = data[at + first]
        size = size << 8 | data[at + first + step]
        size = size << 8 | data[at + first + 2 * step]
        size = size << 8 | data[at + first + 3 * step]
        if size > most:
            break
        sizes[n] = size
        n += 1
        at += header + size
    return n
