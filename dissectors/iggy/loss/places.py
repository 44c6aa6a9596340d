"""Where a frame may begin: indices in many bytes whose fixed fields allow a header.

Each function looks at the places [begin, stop) of bytes that are at hand up to `end`, a whole header behind the last of
them, and returns those at which a frame may begin, in order. `resync.py` judges them one by one.
"""

from __future__ import annotations

from typing import NamedTuple

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy import headers, tables
from dissectors.iggy.frames import PREFIX, SEND_MESSAGES
from dissectors.iggy.headers import COMMAND_AT, HEADER, RESERVED_AT, RESERVED_END
from dissectors.wire.arrays import Bytes
from dissectors.wire.reader import WireReader, reader

SMALL = 1 << 16  # bodies of all requests but sends
SLACK = 2  # requests in holes, whose answers may be among those in a row
TEXT_MOST = 1 << 12  # bytes of an error's text
_HIGH = 0x0F  # highest byte of a length that a search believes


class Clues(NamedTuple):
    """Facts about the connection that a search may use."""

    allowed: int  # releases that may speak
    most: int  # largest frame believed
    awaited: frozenset[int] = frozenset()  # commands of the requests in flight
    waiting: int = 0  # how many there are
    empties: int = 0  # how many of them, the newest ones, have answers without payload; 0 where pipelined
    earliest: int = 0  # where the first of those answers can begin: bytes before were there before its request
    stranger: bool = False  # nothing is known that speaks for Iggy: one frame alone is no proof
    alone: int = -1  # to a stranger, where all that was captured begins: frames from there to its end are proof


@compiled
def request_places(
    clues: Clues, buf: bytes, begin: cython.Py_ssize_t, stop: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> list[int]:
    """Legacy requests: a plausible length and a known code."""
    found: list[int] = []
    known = tables.commands()
    octets: Bytes = buf
    at: cython.Py_ssize_t
    r: WireReader = reader()
    r.open(buf, begin, end)
    for at in range(begin, stop):
        if octets[at + 6] or octets[at + 7] or octets[at + 3] > _HIGH:
            continue
        r.pos = at
        length: cython.longlong = r.u32le()
        code: cython.longlong = r.u32le()
        if length >= 4 and (length < SMALL or code == SEND_MESSAGES) and code in known:
            found.append(at)
    return found


@compiled
def answer_places(
    clues: Clues, buf: bytes, begin: cython.Py_ssize_t, stop: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> list[int]:
    """Legacy answers: a known status and a plausible length (of errors, zero or that of a text); no run of zeros."""
    found: list[int] = []
    known = tables.statuses()
    octets: Bytes = buf
    at: cython.Py_ssize_t
    filled: cython.Py_ssize_t = begin  # the first byte from `at` on that is not zero, as far as it matters
    zeros: cython.Py_ssize_t = 0  # so many of empty answers nobody waits for: see resync._judge_answer
    if not 0 < clues.waiting == clues.empties:
        zeros = PREFIX * (clues.waiting + SLACK + 1)
    r: WireReader = reader()
    r.open(buf, begin, end)
    for at in range(begin, stop):
        if octets[at + 2] or octets[at + 3] or octets[at + 7] > _HIGH:
            continue
        r.pos = at
        status: cython.longlong = r.u32le()
        if status and not (status in known and _may_have_text(r)):
            continue
        filled = max(filled, at)
        while filled < min(at + zeros, end) and not octets[filled]:
            filled += 1
        if filled < at + zeros or at + zeros > end or not zeros:
            found.append(at)
    return found


@compiled
def _may_have_text(r: WireReader) -> cython.bint:
    """Whether an error has a length, which is read next, that `resync.may_be_error` believes."""
    length: cython.longlong = r.u32le()
    if not 4 < length <= TEXT_MOST:
        return length == 0
    return r.left() <= 4 or r.u32le() == length - 4


@compiled
def header_places(
    clues: Clues, buf: bytes, begin: cython.Py_ssize_t, stop: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> list[int]:
    """VSR headers: a size, a command and 66 zero bytes."""
    found: list[int] = []
    known = tables.planes()
    octets: Bytes = buf
    at: cython.Py_ssize_t
    filled: cython.Py_ssize_t = begin  # the first byte from the zeros on that is none, as far as it matters
    r: WireReader = reader()
    r.open(buf, begin, end)
    for at in range(begin, stop):
        filled = max(filled, at + RESERVED_AT)
        while filled < at + RESERVED_END and not octets[filled]:
            filled += 1
        if filled < at + RESERVED_END:
            continue
        r.pos = at + headers.SIZE_AT
        size: cython.longlong = r.u32le()
        if HEADER <= size < (_HIGH + 1) << 24 and octets[at + COMMAND_AT] in known:
            found.append(at)
    return found
