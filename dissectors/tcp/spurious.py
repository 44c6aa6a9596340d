"""Whether bytes were sent again needlessly: the other side had them, and its sender's timer or a re-ordering misled it.

The receiver proves it: by an acknowledgement that came before, by a D-SACK of these bytes (RFC 2883), or by an
acknowledgement of them that echoes a timestamp from before they were sent again (the Eifel algorithm, RFC 3522). Where
it echoes a later one, they were missing. What is proved neither way within WAIT_NS stays open.
"""

from __future__ import annotations

from typing import NamedTuple

from dissectors.tcp.half import Half
from dissectors.tcp.numbers import MASK, SIGN
from dissectors.tcp.stalls import HeldBack

WAIT_NS = 1_000_000_000  # for the answer to bytes that were sent again: more than any round trip
MOST = 32  # segments of a direction that are waited for; of more the first ones stay open


class Doubted(NamedTuple):
    """A segment that was sent again, of which the answer of the other side is waited for."""

    start: int  # stream offsets
    end: int
    time: int  # ns since the epoch
    stamp: int  # the sender's timestamp (TSval) when it was sent again; -1 for none
    held: HeldBack | None  # what it ended


def doubt(half: Half, start: int, end: int, time: int, stamps: int, held: HeldBack | None) -> None:
    """The bytes [start, end) were sent again. stamps: the segment's timestamps; held: the stall that it ended."""
    if end <= half.acked:
        half.spurious += 1
        return
    if not half.doubted:
        half.doubted = []
    elif len(half.doubted) >= MOST:
        _settle(half, half.doubted.pop(0), None)
    half.doubted.append(Doubted(start, end, time, stamps >> 32 & MASK if stamps else -1, held))


def judge(half: Half, acked: int, duplicate: int, stamps: int, time: int) -> None:
    """The other side acknowledges bytes before `acked`; duplicate, stamps: D-SACK and timestamps of its packet."""
    left = right = -1
    if duplicate:
        left, right = half.offset(duplicate >> 32 & MASK), half.offset(duplicate & MASK)
    still = []
    for one in half.doubted:
        if one.start < right and left < one.end:
            _settle(half, one, True)
        elif acked >= one.end and stamps and one.stamp >= 0:
            _settle(half, one, bool(stamps - one.stamp & SIGN))
        elif time - one.time > WAIT_NS:
            _settle(half, one, None)
        else:
            still.append(one)
    half.doubted = still


def give_up(half: Half) -> None:
    """No packet will come."""
    while half.doubted:
        _settle(half, half.doubted.pop(0), None)


def _settle(half: Half, one: Doubted, spurious: bool | None) -> None:
    if spurious:
        half.spurious += 1
    if one.held is not None:
        half.stalls.put(one.held._replace(spurious=spurious))
