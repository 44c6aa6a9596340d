"""Where frames begin and end, in both framings; headers of VSR: headers.py.

legacy, request               legacy, answer
   0  4 length = 4 + n           0  4 status
   4  4 code                     4  4 length = n
   8  n payload                  8  n payload

A connection keeps one framing. The client's first bytes show which: a length of at least 4 and a code, or VSR.
"""

from __future__ import annotations

from struct import Struct

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.errors import UsageError
from dissectors.iggy import tables
from dissectors.iggy.headers import COMMAND_AT, HEADER, RESERVED_AT, RESERVED_END, SIZE_AT
from dissectors.session.conversation import api_code
from dissectors.session.inbox import INVALID, MORE
from dissectors.tcp.chunk import CLIENT, SERVER
from dissectors.wire.reader import WireReader, reader

UNSEALED_END = 32  # bytes of a header that are zero in the first frame of a connection: it has no checksums
COMMAND_END = 64  # bytes without which the size and kind of a VSR frame are not known
PREFIX = 8  # bytes of a legacy frame before its payload
LEAST_CUT = 16  # bytes of a header that show VSR where the rest of it was not captured
MAX_CODE = 0xFFFF  # of commands and errors
SEND_MESSAGES = 101

LEGACY, VSR = "legacy", "vsr"
PAIR = Struct("<II")
SIZE = Struct("<I")


@compiled
def measure_legacy(
    direction: cython.int, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, most: cython.longlong
) -> cython.longlong:
    """Size of the legacy frame at `pos`, MORE or INVALID; `most` is the largest size believed."""
    if end - pos < PREFIX:
        return MORE
    r: WireReader = reader()
    r.open(buf, pos, end)
    first: cython.longlong = r.u32le()
    second: cython.longlong = r.u32le()
    if direction == CLIENT:
        return 4 + first if 4 <= first < most and second <= MAX_CODE else INVALID
    if first and first not in tables.statuses() and (first > MAX_CODE or second):
        return INVALID
    return PREFIX + second if second < most else INVALID


@compiled
def measure_vsr(buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, most: cython.longlong) -> cython.longlong:
    """Size of the VSR frame at `pos`, MORE or INVALID; `most` is the largest size believed."""
    if end - pos < COMMAND_END:
        return MORE
    r: WireReader = reader()
    r.open(buf, pos + SIZE_AT, end)
    size: cython.longlong = r.u32le()
    return size if HEADER <= size <= most and buf[pos + COMMAND_AT] in tables.planes() else INVALID


@compiled
def detect(
    direction: cython.int, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, most: cython.longlong
) -> str | None:
    """The framing of a connection whose first frame starts at `pos`; None while it is not known."""
    have: cython.Py_ssize_t = end - pos
    if have < PREFIX:
        return None
    r: WireReader = reader()
    r.open(buf, pos, end)
    length: cython.longlong = r.u32le()
    code: cython.longlong = r.u32le()
    if direction == CLIENT and 4 <= length < most and 0 < code <= MAX_CODE:
        return LEGACY
    if have < RESERVED_END:
        return None
    return VSR if begins_vsr(buf, pos, end, most) else LEGACY


@compiled
def telling(
    direction: cython.int, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, most: cython.longlong
) -> cython.Py_ssize_t:
    """How many bytes of the first frame, at `pos`, tell the framing of a connection; 0 where those at hand do not."""
    if end - pos >= PREFIX and detect(direction, buf, pos, pos + PREFIX, most):
        return PREFIX
    return RESERVED_END if end - pos >= RESERVED_END and detect(direction, buf, pos, pos + RESERVED_END, most) else 0


def request_head(response: bytes, api: str | int | None) -> bytes:
    """A request, as a frame, that this response answers; nothing where a frame of VSR says that. Raises UsageError."""
    if detect(SERVER, response, 0, len(response), len(response) + 1) == VSR:
        return b""
    if api is None:
        raise UsageError("an Iggy response does not say what it answers: give the command as the API")
    return PAIR.pack(
        4, api_code("Iggy", api, {code: every[0].name for code, every in tables.commands().items() if every})
    )


def begins_vsr(buf: bytes, pos: int, end: int, most: int) -> bool:
    """Whether bytes can be those that a VSR header begins with, as far as they go."""
    if end - pos >= COMMAND_END:
        return measure_vsr(buf, pos, end, most) > 0 and not any(buf[pos + RESERVED_AT : min(end, pos + RESERVED_END)])
    return not any(buf[pos : min(end, pos + SIZE_AT)]) and size_before_command(buf, pos, end, most) != INVALID


def size_before_command(buf: bytes, pos: int, end: int, most: int) -> int:
    """Size that a VSR header of a client or server gives, of which less than the command may be there."""
    if end - pos < SIZE_AT + 4:
        return MORE
    size = int(SIZE.unpack_from(buf, pos + SIZE_AT)[0])
    return size if HEADER <= size <= most and not any(buf[pos : pos + SIZE_AT]) else INVALID
