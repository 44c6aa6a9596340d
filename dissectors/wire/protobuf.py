"""Protobuf messages without a schema, one by one: the fields that lie in some bytes.

A field is a tag (field number << 3 | wire type) and what the wire type says:

    0  a varint
    1  eight bytes
    2  a length, as a varint, and so many bytes
    5  four bytes

Source: Protocol Buffers, "Encoding", "Message Structure".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.wire.varint import within

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
_FIXED = {FIXED64: 8, FIXED32: 4}


class WireField(NamedTuple):
    """One field. What it holds lies in data[start:end]."""

    number: int
    kind: int  # its wire type
    value: int  # of a varint, else 0
    start: int
    end: int  # index after the field


def fields(data: bytes, at: int, end: int) -> Iterator[WireField]:
    """The fields in data[at:end], as far as they are whole and of a wire type that is known."""
    while tag := within(data, at, end):
        kind, value, start = tag[0] & 7, 0, tag[1]
        if kind in _FIXED:
            after = start + _FIXED[kind]
        elif (number := within(data, start, end)) is None:
            return
        elif kind == VARINT:
            value, after = number
        elif kind == BYTES:
            start = number[1]
            after = start + number[0]
        else:
            return
        if after > end:
            return
        yield WireField(tag[0] >> 3, kind, value, start, after)
        at = after
