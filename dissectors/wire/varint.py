"""Integers of variable length: seven bits a byte, the lowest first; the high bit says that another byte follows.

Sources: Protocol Buffers, "Encoding"; Kafka protocol guide, UNSIGNED_VARINT and VARLONG (zig-zag).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dissectors.arrow import Ints, Octets
from dissectors.wire.reader import VarintError

MOST = 10  # bytes of 64 bits
_WORD = 8
_HIGH_BITS, _LOW_BITS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_SQUEEZE = [
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
]
"""Bits that stay and bits that move down by so many: seven bits of each byte become 14 of each two, 28, 56."""


def unsigned(data: bytes, at: int, most: int = MOST) -> tuple[int, int]:
    """The integer at data[at], of at most `most` bytes, and the index after it. IndexError where the data end first."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for i in range(1, most):
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at + i + 1
    raise VarintError(f"a varint of more than {most} bytes")


def within(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """The integer at data[at], and the index after it; None where it does not end before index `end`."""
    try:
        value, after = unsigned(data, at)
    except (IndexError, VarintError):
        return None
    return (value, after) if after <= end else None


def size(value: int) -> int:
    """Bytes of an unsigned integer."""
    return max(1, -(-value.bit_length() // 7))


def zigzag(data: bytes, at: int, most: int = MOST) -> tuple[int, int]:
    """A signed integer, and the index after it: 0, -1, 1, -2 … are written as 0, 1, 2, 3 … Errors as of `unsigned`."""
    value, after = unsigned(data, at, most)
    return (value >> 1) ^ -(value & 1), after


def many(octets: Octets, at: Ints) -> tuple[Ints, Ints, Ints]:
    """The integers at some indices as signed 64-bit numbers, the indices after them, and which of them are malformed.

    Behind each index there must be ten bytes; one that goes on after them, or has more than 64 bits, is malformed.
    """
    value = octets[at].astype(np.int64)
    after = at + 1
    malformed = long = np.flatnonzero(value > 0x7F)
    if len(long):
        value[long], after[long], wrong = _long(octets, at[long])
        malformed = long[wrong]
    return value, after, malformed


def _long(octets: Octets, at: Ints) -> tuple[Any, Any, Any]:
    """Read integers of more than one byte: eight bytes at once, and two more where they do not suffice."""
    words = np.ndarray((len(octets) - _WORD + 1,), "<u8", octets, 0, (1,))[at]
    ends = ~words & _HIGH_BITS
    last = ends & (~ends + np.uint64(1))  # the high bit of the last byte; 0 where it is not among the eight
    size = np.frexp(last.astype(np.float64))[1] >> 3
    value = words & (last - np.uint64(1)) & _LOW_BITS
    for stay, move, shift in _SQUEEZE:
        value = (value & stay) | ((value & move) >> shift)
    value = value.view(np.int64)
    wrong = rest = np.flatnonzero(last == 0)
    if len(rest):
        ninth, tenth = (octets[at[rest] + i].astype(np.int64) for i in (8, 9))
        ends_early = ninth < 0x80
        tenth[ends_early] = 0
        value[rest] |= (ninth & 0x7F) << 56 | tenth << 63
        size[rest] = np.where(ends_early, 9, 10)
        wrong = rest[tenth > 1]
    return value, at + size, wrong
