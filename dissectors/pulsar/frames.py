"""Where a frame ends, and what is one at all. All integers are big-endian.

    0  4  total size      bytes that follow this field
    4  4  command size
    8     command         BaseCommand, a protobuf message:
             0x08, type               field 1, a varint
             (type << 3) | 2, size    the field that has the command's own number, a varint and a length
    then, for SEND and MESSAGE only: entry metadata, checksum, message metadata, payload (batches.py)

A command without payload has total size == command size + 4, and a command holds nothing but its type and its one
field; so the two sizes, the type, the tag and the field's size agree in some 55 bits: one header is proof of a frame.

Source: Pulsar binary protocol specification, "Framing".
"""

from __future__ import annotations

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.pulsar.commands import COMMANDS, PAYLOAD
from dissectors.session.inbox import INVALID, MORE
from dissectors.wire import varint

DEFAULT_MESSAGE_BYTES = 5 * 1024 * 1024
"""The limit of a message where CONNECTED announces none (Commands.DEFAULT_MAX_MESSAGE_SIZE)."""

PADDING = 10 * 1024
"""A frame may be this much larger than max_message_size (Commands.MESSAGE_SIZE_FRAME_PADDING)."""

LEAST = 10  # two sizes, the type's tag and one byte of the type
SIZE_BYTES = 5  # of the varint that says the size of a command's own field, at most
TYPE_TAG = 0x08  # tag of BaseCommand.type


@compiled
def measure(buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, limit: cython.longlong) -> cython.longlong:
    """Size of the frame at `pos`, MORE or INVALID. Types that are not known are frames like any other."""
    total: cython.longlong
    command: cython.longlong
    if end - pos < LEAST:
        return MORE
    total, command = _u32(buf, pos), _u32(buf, pos + 4)
    if command + 4 <= total <= limit and command >= 2 and buf[pos + 8] == TYPE_TAG:
        return total + 4
    return INVALID


@compiled
def _u32(buf: bytes, at: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = buf[at]
    return (high << 24) | (buf[at + 1] << 16) | (buf[at + 2] << 8) | buf[at + 3]


def sender_bit(direction: int) -> int:
    return 1 << direction


def judge(buf: bytes, pos: int, end: int, limit: int, direction: int) -> int:
    """Size of the frame at `pos` if its header proves it, MORE where bytes are wanting, INVALID where it is none."""
    have = end - pos
    if have < LEAST:
        return MORE
    total, command = _u32(buf, pos), _u32(buf, pos + 4)
    known = COMMANDS.get(buf[pos + 9])
    if known is None or not known.sender & sender_bit(direction) or buf[pos + 8] != TYPE_TAG or total > limit:
        return INVALID
    if command + 8 > total if known.code in PAYLOAD else command + 4 != total:
        return INVALID
    own = tag(known.code)
    at = pos + 10
    here = buf[at : min(end, at + len(own))]
    if here != own[: len(here)]:
        return INVALID
    at += len(own)
    size = varint.within(buf, at, end)
    if size is None or size[1] - at > SIZE_BYTES:
        return MORE if end - at < SIZE_BYTES else INVALID
    return total + 4 if size[1] - pos - 8 + size[0] == command else INVALID


def tag(code: int) -> bytes:
    """The tag of the field that has a command's own number, as it lies on the wire."""
    number = code << 3 | 2
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])
