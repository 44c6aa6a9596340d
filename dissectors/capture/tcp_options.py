"""The options of TCP headers that say what arrived: timestamps (RFC 7323) and D-SACK (RFC 2883).

Both are read for all packets of a block at a time, as pairs of 32-bit numbers in one column: `first << 32 | second`, 0
where a packet has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints

_END, _NOP, _SACK, _TIMESTAMPS = 0, 1, 5, 8  # kinds of options
_PADDED_TIMESTAMPS = 0x0101080A  # NOP, NOP, timestamps of 10 bytes: how nearly every sender begins
_PADDED = 12
_ONE_BLOCK, _TWO_BLOCKS = 10, 18  # bytes of a SACK option
_MOST = 40  # bytes of options, so options
_HALF = 1 << 31


def read(u8: npt.NDArray[np.uint8], be32: npt.NDArray[Any], at: Ints, stop: Ints, ack: Ints) -> tuple[Ints, Ints]:
    """(timestamps, D-SACK) of packets whose options lie at [at, stop): value and echo; left and right edge.

    u8: the buffer; be32: element i is the big-endian integer at byte i; ack: acknowledgement numbers.
    """
    stamps, duplicate = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    long = np.flatnonzero(at + _PADDED <= stop)
    usual = long[be32[at[long]] == _PADDED_TIMESTAMPS]
    stamps[usual] = _pair(be32, at[usual] + 4)
    at = at.copy()
    at[usual] += _PADDED
    here = long[at[long] < stop[long]]
    for _ in range(_MOST):
        here = here[at[here] < stop[here]]
        if not len(here):
            break
        here = here[u8[at[here]] != _END]
        padding = u8[at[here]] == _NOP
        at[here[padding]] += 1
        here, padded = here[~padding], here[padding]
        here = here[at[here] + 2 <= stop[here]]
        length = u8[at[here] + 1].astype(np.int64)
        fits = (length >= 2) & (at[here] + length <= stop[here])
        here, length = here[fits], length[fits]
        kind = u8[at[here]]
        found = here[(kind == _TIMESTAMPS) & (length == _ONE_BLOCK)]
        stamps[found] = _pair(be32, at[found] + 2)
        selective = here[(kind == _SACK) & (length >= _ONE_BLOCK)]
        _take_duplicates(duplicate, u8, be32, at[selective], selective, ack)
        at[here] += length
        here = np.concatenate([here, padded])
    return stamps, duplicate


def _take_duplicates(
    duplicate: Ints, u8: npt.NDArray[np.uint8], be32: npt.NDArray[Any], p: Ints, here: Ints, ack: Ints
) -> None:
    """Take the first block of SACK options where it is of bytes that had come before: acknowledged, or in the second.

    p: where the options lie; here: their packets.
    """
    left, right = be32[p + 2].astype(np.int64), be32[p + 6].astype(np.int64)
    below = _not_behind(right, ack[here])
    two = u8[p + 1] >= _TWO_BLOCKS
    q = np.where(two, p + 10, p + 2)
    outer_left, outer_right = be32[q].astype(np.int64), be32[q + 4].astype(np.int64)
    inside = two & _not_behind(outer_left, left) & _not_behind(right, outer_right)
    proven = (below | inside) & (left != right)
    duplicate[here[proven]] = _pair(be32, p[proven] + 2)


def _not_behind(a: Ints, b: Ints) -> npt.NDArray[np.bool_]:
    """Whether sequence number a is at or before b."""
    behind: npt.NDArray[np.bool_] = (b - a & 0xFFFFFFFF) < _HALF
    return behind


def _pair(be32: npt.NDArray[Any], at: Ints) -> Ints:
    pair: Ints = be32[at].astype(np.int64) << 32 | be32[at + 4].astype(np.int64)
    return pair
