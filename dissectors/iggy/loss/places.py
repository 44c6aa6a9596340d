"""Where a frame may begin: indices in many bytes whose fixed fields allow a header, found by column.

Each function looks at the places 0 to n - 1 of `octets`, which hold a whole header behind the last of them, and returns
those at which a frame may begin, in order: int64[m]. `resync.py` judges them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from dissectors.arrow import Bools, Ints, Octets
from dissectors.iggy import headers, tables
from dissectors.iggy.frames import MAX_CODE, PREFIX, SEND_MESSAGES
from dissectors.iggy.headers import HEADER
from dissectors.session.search import Places

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


def request_places(clues: Clues, octets: Octets, n: int) -> Places:
    """Legacy requests: a plausible length and a known code."""
    (at,) = (((octets[6 : 6 + n] | octets[7 : 7 + n]) == 0) & (octets[3 : 3 + n] <= _HIGH)).nonzero()
    if not len(at):
        return at
    code, length = _numbers(octets, at + 4, 2), _numbers(octets, at, 4)
    fits = (length >= 4) & ((length < SMALL) | (code == SEND_MESSAGES))
    return at[_is_key(tables.commands)[code] & fits]


def answer_places(clues: Clues, octets: Octets, n: int) -> Places:
    """Legacy answers: a known status and a plausible length (of errors, zero or that of a text); no run of zeros."""
    (at,) = (((octets[2 : 2 + n] | octets[3 : 3 + n]) == 0) & (octets[7 : 7 + n] <= _HIGH)).nonzero()
    status = _numbers(octets, at, 2)
    (errors,) = status.nonzero()
    if len(errors):
        fits = status == 0
        errors = errors[_is_key(tables.statuses)[status[errors]]]
        fits[errors] = _may_have_text(octets, at[errors])
        at = at[fits]
    if not len(at) or 0 < clues.waiting == clues.empties:
        return at
    zeros = PREFIX * (clues.waiting + SLACK + 1)  # so many empty answers nobody waits for: see resync._judge_answer
    (filled,) = octets[: n + zeros].nonzero()
    stop = at + zeros
    return at[(filled.searchsorted(stop) > filled.searchsorted(at)) | (stop > len(octets))]


def _may_have_text(octets: Octets, at: Places) -> Bools:
    """bool[len(at)]: whether errors have lengths that `resync.may_be_error` believes."""
    length = _numbers(octets, at + PREFIX - 4, 4)
    text = at + PREFIX + 4
    there = text < len(octets)
    size = _numbers(octets, np.where(there, text - 4, at), 4)
    fits: Bools = (length == 0) | ((length > 4) & (length <= TEXT_MOST) & (~there | (size == length - 4)))
    return fits


def header_places(clues: Clues, octets: Octets, n: int) -> Places:
    """VSR headers: a size, a command and 66 zero bytes."""
    first, last = headers.RESERVED_AT, headers.RESERVED_END - 1
    middle = (first + last) // 2
    at = np.flatnonzero((octets[first : first + n] | octets[middle : middle + n] | octets[last : last + n]) == 0)
    at = at[_is_key(tables.planes)[octets[at + headers.COMMAND_AT]]]
    if not len(at):
        return at
    filled = np.concatenate(([0], np.cumsum(octets[: n + last] != 0)))
    at = at[filled[at + headers.RESERVED_END] == filled[at + first]]
    size = _numbers(octets, at + headers.SIZE_AT, 4)
    return at[(size >= HEADER) & (size < (_HIGH + 1) << 24)]


def _numbers(octets: Octets, at: Ints, size: int) -> Ints:
    """The unsigned little-endian integers of 2 or 4 bytes at each index."""
    every: np.ndarray[tuple[int], np.dtype[np.integer]] = np.ndarray(
        (len(octets) - size + 1,), f"<u{size}", octets, 0, (1,)
    )
    return every[at].astype(np.int64, copy=False)


@cache
def _is_key(table: Callable[[], Iterable[int]]) -> Bools:
    """bool[65536]: whether a 16-bit number is a key of a table."""
    known = np.zeros(MAX_CODE + 1, bool)
    known[[number for number in table() if number <= MAX_CODE]] = True
    return known
