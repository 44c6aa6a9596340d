"""The options of a TCP header that say what arrived: timestamps (RFC 7323) and D-SACK (RFC 2883).

Both are pairs of 32-bit numbers in one number of 64 bits, `first << 32 | second`; 0 where a packet has none.
"""

from __future__ import annotations

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Numbers
from dissectors.wire.big_endian import BigEndian

STAMPS, DUPLICATE = 0, 1
"""Where `read_options` writes: timestamps, value and echo; bytes that arrived twice, left and right edge."""

_END, _NOP, _SACK, _TIMESTAMPS = 0, 1, 5, 8  # kinds of options
_PADDED_TIMESTAMPS = 0x0101080A  # NOP, NOP, timestamps of 10 bytes: how nearly every sender begins
_PADDED = 12
_ONE_BLOCK, _TWO_BLOCKS = 10, 18  # bytes of a SACK option; timestamps have as many as one block
_MOST = 40  # bytes of options, so options
_HALF, _UINT32 = 1 << 31, 0xFFFFFFFF


@compiled
def read_options(
    buffer: BigEndian, at: cython.Py_ssize_t, stop: cython.Py_ssize_t, ack: cython.longlong, said: Numbers
) -> None:
    """Read the options at [at:stop] of a buffer; ack: the acknowledgement number.

    said: int64[2], written at STAMPS and DUPLICATE
    """
    length: cython.Py_ssize_t
    kind: cython.int
    said[STAMPS] = said[DUPLICATE] = 0
    if at + _PADDED <= stop and buffer.u32(at) == _PADDED_TIMESTAMPS:
        said[STAMPS] = buffer.i64(at + 4)
        at += _PADDED
    for _ in range(_MOST):
        if at >= stop or buffer.u8(at) == _END:
            break
        if buffer.u8(at) == _NOP:
            at += 1
            continue
        if at + 2 > stop:
            break
        kind, length = buffer.u8(at), buffer.u8(at + 1)
        if length < 2 or at + length > stop:
            break
        if kind == _TIMESTAMPS and length == _ONE_BLOCK:
            said[STAMPS] = buffer.i64(at + 2)
        elif kind == _SACK and length >= _ONE_BLOCK and _is_repeated(buffer, at, length, ack):
            said[DUPLICATE] = buffer.i64(at + 2)
        at += length


@compiled
def _is_repeated(
    buffer: BigEndian, at: cython.Py_ssize_t, length: cython.Py_ssize_t, ack: cython.longlong
) -> cython.bint:
    """Whether the first block of a SACK option is of bytes that had come before: acknowledged, or in the second one."""
    left: cython.longlong = buffer.u32(at + 2)
    right: cython.longlong = buffer.u32(at + 6)
    if left == right:
        return False
    if _not_behind(right, ack):
        return True
    return length >= _TWO_BLOCKS and _not_behind(buffer.u32(at + 10), left) and _not_behind(right, buffer.u32(at + 14))


@compiled
def _not_behind(a: cython.longlong, b: cython.longlong) -> cython.bint:
    """Whether sequence number a is at or before b."""
    return b - a & _UINT32 < _HALF
