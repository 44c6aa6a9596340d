"""Two checksums see more than one: bursts that the CRC leaves open, narrowed by the TCP sum.

Where the packet's TCP checksum is wrong, it was right before the bytes broke. So of all bursts of up to 32 bits that
the CRC allows (about one for every second bit position) only those count with which the TCP sum is right too: one in
65,535 of the wrong ones. The likeliest of these is the answer if chance would hardly have given one as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dissectors.arrow import Ints
from dissectors.checksum.bursts import LISTED, WINDOW, Bursts, bursts
from dissectors.checksum.diagnosis import SINGLE_BIT, STORED, Diagnosis
from dissectors.checksum.linear import POLYNOMIALS
from dissectors.checksum.locate import DOUBTFUL, Judge, Validity, as_burst
from dissectors.checksum.patterns import DamagePattern
from dissectors.forensics.packet_checksums import WRONG, fold, summed
from dissectors.forensics.packets import Segment
from dissectors.rows.sink import Suspect

_ONES = 65_535  # the ones' complement sum is arithmetic modulo this


def narrow(diagnosis: Diagnosis, suspect: Suspect, segments: Sequence[Segment], is_valid: Validity | None) -> Diagnosis:
    """A better diagnosis than one that is open or that the TCP sums contradict, if one of these packets gives one."""
    wrong = [s for s in segments if s.sums.tcp == WRONG and s.payload_at is not None]
    apart = len(suspect.covered) != 1 or suspect.kind not in POLYNOMIALS or suspect.stored >> 32
    if not wrong or apart or diagnosis.pattern in (SINGLE_BIT, STORED):
        return diagnosis
    first, last = suspect.covered[0]
    case = DamagePattern(suspect.kind, suspect.unit[first:last], suspect.stored, suspect.computed)
    found = bursts(case)
    judge = Judge(case.data, is_valid)
    for segment in wrong:
        fitting = judge.best(found.take(_fitting(found, case, segment, first)), case.data)
        if not len(fitting.score):
            continue
        chance = fitting.chance(case.bits) / _ONES
        count = len(fitting.score)
        narrowed = replace(as_burst(case, fitting), chance=chance, candidates=1)
        narrowed = replace(narrowed, note=f"{narrowed.note}; {count} of them make the TCP sum right as well")
        if chance <= DOUBTFUL:
            return narrowed
        if not diagnosis.verified:
            diagnosis = replace(diagnosis, alternatives=fitting.alternatives(case.data, range(min(LISTED, count))))
    return diagnosis


def _fitting(found: Bursts, case: DamagePattern, segment: Segment, first: int) -> Ints:
    """The bursts that lie in this packet's bytes and make its TCP sum right; `first`: index of the data in the unit."""
    assert segment.payload_at is not None
    size = len(case.data)
    start, stop = segment.start - first, segment.end - first
    inside = np.ones(len(found.first), bool)
    delta = np.zeros(len(found.first), np.int64)
    for step in range(WINDOW):
        index = found.first + step
        change = found.error >> 8 * step & 255
        inside &= (change == 0) | ((index >= start) & (index < stop))
        old = case.array[np.clip(index, 0, size - 1)].astype(np.int64)
        at = segment.payload_at + index - start - segment.where.tcp  # in the TCP segment
        delta += ((old ^ change) - old) * np.where(at % 2 == 0, 256, 1)
    total = fold(summed(segment.packet, segment.where))
    chosen: Ints = np.flatnonzero(inside & ((total + delta) % _ONES == 0))
    return chosen
