"""Integers of variable length: seven bits a byte, the lowest first; the high bit says that another byte follows.

Sources: Protocol Buffers, "Encoding"; Kafka protocol guide, UNSIGNED_VARINT and VARLONG (zig-zag).
"""

from __future__ import annotations

MOST = 10  # bytes of 64 bits


class VarintError(ValueError):
    """An integer goes on for too many bytes."""


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


def zigzag(data: bytes, at: int) -> tuple[int, int]:
    """The same of a signed integer: 0, -1, 1, -2 … are written as 0, 1, 2, 3 …"""
    value, after = unsigned(data, at)
    return (value >> 1) ^ -(value & 1), after
