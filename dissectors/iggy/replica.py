"""Frames between replicas of a VSR cluster: told by command, checksums verified.

The header's checksum is XXH3-64 of bytes 16 to 256; in Prepare frames of the whole header with `checksum` and `view`
zero, so that it survives a change of view. checksum_body is XXH3-64 of the body. Zero means not sealed.

Source: core/binary_protocol/src/consensus/header.rs; measured on a cluster of three 0.9.0-edge.5.
"""

from __future__ import annotations

from struct import Struct

from dissectors.checksum import XXH3, compute, shown
from dissectors.conversation import Conversation, Frame
from dissectors.iggy import tables
from dissectors.iggy.emit import Emitter
from dissectors.tcp.chunk import CLIENT

_SEALS = Struct("<QQQQ")
_U64 = Struct("<Q")


def row(frame: Frame, command: int, emit: Emitter) -> None:
    """One exchange row: nothing ties what replicas send each other into pairs."""
    plane = tables.planes()[command]
    emit.lone(frame, "oneway" if frame.direction == CLIENT else "push", plane.name, command)
    if frame.complete:
        _check_header(frame, plane.frozen, emit.talk)


def _check_header(frame: Frame, frozen: bool, talk: Conversation) -> None:
    at = frame.start
    stored, _, body, _ = _SEALS.unpack_from(frame.data, at)
    header = bytearray(frame.data[at : at + 256])
    if stored:
        if frozen:
            header[0:16] = bytes(16)
            header[52:56] = bytes(4)
            computed = compute(XXH3, bytes(header))
        else:
            computed = compute(XXH3, bytes(header[16:]))
        if computed != stored:
            _bad(talk, frame, at, 256, "checksum", stored, computed)
    if body:
        check_body(talk, frame, body, "checksum_body")


def check_body(talk: Conversation, frame: Frame, stored: int, field: str) -> None:
    """A checksum over the whole body."""
    start = frame.start + 256
    computed = compute(XXH3, memoryview(frame.data)[start : frame.start + frame.size])
    if computed != stored:
        _bad(talk, frame, start, frame.size - 256, field, stored, computed)


def _bad(talk: Conversation, frame: Frame, at: int, size: int, field: str, stored: int, computed: int) -> None:
    talk.finding(
        "bad_checksum",
        "error",
        f"The {field} of a frame does not fit its bytes",
        direction=frame.direction,
        time=frame.first_ns,
        place=frame.place,
        offset=frame.offset + at - frame.start,
        length=size,
        field=field,
        checksum_kind=XXH3,
        stored=shown(XXH3, stored),
        computed=shown(XXH3, computed),
    )
