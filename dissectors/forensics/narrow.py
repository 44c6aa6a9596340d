"""Two checksums see more than one: bursts that the CRC leaves open, narrowed by the TCP sum.

Where the packet's TCP checksum is wrong, it was right before the bytes broke. So of all bursts of up to 32 bits that
the CRC allows (about one for every second bit position) only those count with which the TCP sum is right too: one in
65,535 of the wrong ones. The shortest of these is the answer if chance would hardly have given one as short.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dissectors.checksum.diagnosis import BURST, SINGLE_BIT, STORED, ZEROED, Diagnosis, Flip
from dissectors.checksum.linear import POLYNOMIALS, crc_of
from dissectors.checksum.locate import DOUBTFUL
from dissectors.forensics.packets import Segment
from dissectors.forensics.sums import WRONG, fold, summed
from dissectors.sink import Suspect

_WINDOW = 5  # bytes that 32 bits may touch
_ONES = 65_535  # the ones' complement sum is arithmetic modulo this

Ints = npt.NDArray[np.int64]


def narrow(diagnosis: Diagnosis, suspect: Suspect, segments: Sequence[Segment]) -> Diagnosis:
    """A better diagnosis than one that is open or that the TCP sums contradict, if one of these packets gives one."""
    if diagnosis.pattern in (SINGLE_BIT, STORED) or suspect.kind not in POLYNOMIALS or len(suspect.covered) != 1:
        return diagnosis
    for segment in segments:
        found = _in_segment(suspect, segment) if segment.sums.tcp == WRONG and segment.payload_at is not None else None
        if found is not None:
            return found
    return diagnosis


def _in_segment(suspect: Suspect, segment: Segment) -> Diagnosis | None:
    """The burst in the bytes of this packet that makes both checksums right."""
    first, last = suspect.covered[0]
    start, stop = max(first, segment.start), min(last, segment.end)
    size = last - first
    if stop - start < _WINDOW or suspect.stored >> 32:
        return None
    data = np.frombuffer(suspect.unit, np.uint8)[first:last]
    near, count = 8 * (last - stop), 8 * (stop - start)  # distances, in bits, of what lies in this packet
    crc = crc_of(suspect.kind)
    words = crc.words(crc.advance_one(suspect.stored ^ suspect.computed, -near), count).astype(np.int64)
    distance = near + np.arange(count, dtype=np.int64)
    ends = np.flatnonzero(words >> 31 & 1)  # the burst's last bit is set
    words, distance = words[ends], distance[ends]
    lowest = words & -words
    length = 32 - np.log2(lowest).astype(np.int64)
    final = size - 1 - distance // 8  # index in data of the byte with the last bit
    error = words << 8 - distance % 8  # over the five bytes that end there, little-endian
    delta = np.zeros(len(words), np.int64)
    inside = final >= 0
    assert segment.payload_at is not None
    for step in range(_WINDOW):
        index = final - (_WINDOW - 1) + step
        change = error >> 8 * step & 255
        inside &= (change == 0) | ((index >= start - first) & (index < stop - first))
        old = data[np.clip(index, 0, size - 1)].astype(np.int64)
        place = segment.payload_at + index + first - segment.start - segment.where.tcp  # in the TCP segment
        delta += ((old ^ change) - old) * np.where(place % 2 == 0, 256, 1)
    total = fold(summed(segment.packet, segment.where))
    fits = np.flatnonzero(inside & ((total + delta) % _ONES == 0))
    if not len(fits):
        return None
    shortest = int(length[fits].min())
    best = fits[length[fits] == shortest]
    chance = count * 2.0 ** (shortest - 1) / 2.0**32 / _ONES
    if chance > DOUBTFUL or len(best) > 1:
        return None
    return _told(suspect, first, int(final[best[0]]), int(error[best[0]]), shortest, len(fits), chance)


def _told(
    suspect: Suspect, first: int, final: int, error: int, length: int, candidates: int, chance: float
) -> Diagnosis:
    flips = []
    zeros = True
    for step in range(_WINDOW):
        at = final - (_WINDOW - 1) + step
        change = error >> 8 * step & 255
        if not change:
            continue
        was = suspect.unit[first + at]
        zeros &= was == 0
        flips += [Flip(at, bit, was, was ^ change) for bit in range(8) if change >> bit & 1]
    note = (
        f"A burst of {length} bits: of all that fit the checksum, {candidates} make the TCP sum right as well"
        f"{', and this is the shortest' if candidates > 1 else ''}"
    )
    return Diagnosis(ZEROED if zeros and length > 8 else BURST, tuple(flips), True, 1, note, chance)
