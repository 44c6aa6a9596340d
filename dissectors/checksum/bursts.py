"""Every error of up to 32 bits in a row that explains a wrong CRC, ranked.

There is exactly one 32-bit pattern for each place at which it may end, so some N / 2 bursts fit N bits of data. What
separates the right one is on one scale, in bits: one that is b bits short of 32 is met by chance in one of 2^b
places; one that makes the data likelier by a factor of 2^g (plausible.py) is met in one of 2^g. So of N places, chance
fills N * 2^-(score) with a burst that scores as well: far below one, it is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints
from dissectors.checksum.diagnosis import Alternative, Flip
from dissectors.checksum.patterns import SHAPED_BYTES, DamagePattern

WINDOW = 5  # bytes that 32 bits may touch
LISTED = 8  # alternatives that are listed
BLOCK = 1 << 18  # places looked at in one operation
KEPT = 1 << 14  # of a block: the best

Scores = npt.NDArray[np.float64]


class Bursts(NamedTuple):
    """Columns, the best first."""

    first: Ints  # index of the window's first byte; below 0 where only its later bytes lie in the data
    error: Ints  # XOR over the window, little-endian
    length: Ints  # bits from the first wrong one to the last
    score: Scores
    places: int  # at which a burst fits, also those that are not listed

    def take(self, chosen: Ints) -> Bursts:
        return Bursts(self.first[chosen], self.error[chosen], self.length[chosen], self.score[chosen], self.places)

    def chance(self, bits: int) -> float:
        """How many bursts as good as the best one chance alone gives in data of so many bits."""
        return float(bits * 2.0 ** -min(200.0, float(self.score[0])))

    def shares(self) -> Scores:
        """How likely each is, if one of them it was."""
        weight = np.exp2(self.score - self.score[0])
        share: Scores = weight / weight.sum()
        return share

    def corrected(self, data: bytes, row: int) -> bytes:
        out = bytearray(data)
        for at, change in self.changes(row).items():
            out[at] ^= change
        return bytes(out)

    def changes(self, row: int) -> dict[int, int]:
        """Index -> XOR of the bytes that one burst changes."""
        error, first = int(self.error[row]), int(self.first[row])
        return {first + i: error >> 8 * i & 255 for i in range(WINDOW) if error >> 8 * i & 255}

    def flips(self, data: bytes, row: int) -> tuple[Flip, ...]:
        return tuple(
            Flip(at, bit, data[at], data[at] ^ change)
            for at, change in self.changes(row).items()
            for bit in range(8)
            if change >> bit & 1
        )

    def alternatives(self, data: bytes, rows: Sequence[int]) -> tuple[Alternative, ...]:
        shares = self.shares()
        return tuple(Alternative(self.flips(data, row), round(float(shares[row]), 4)) for row in rows)


def bursts(case: DamagePattern) -> Bursts:
    """All that fit; in data above SHAPED_BYTES ranked by their length only."""
    nothing = np.zeros(0, np.int64)
    blocks = [Bursts(nothing, nothing, nothing, np.zeros(0), 0)]
    model = case.model if len(case.data) <= SHAPED_BYTES else None
    for start in range(0, case.bits, BLOCK):
        count = min(BLOCK, case.bits - start)
        words = case.crc.words(case.crc.advance_one(case.syndrome, -start), count).astype(np.int64)
        distance = start + np.arange(count, dtype=np.int64)
        ends = np.flatnonzero(words >> 31 & 1)  # the last bit is wrong, so each burst is met once
        words, distance = words[ends], distance[ends]
        length = 32 - _lowest(words)
        inside = np.flatnonzero(distance + length <= case.bits)
        words, distance, length = words[inside], distance[inside], length[inside]
        first = len(case.data) - distance // 8 - WINDOW
        error = words << 8 - distance % 8
        score: Scores = 33.0 - length.astype(np.float64)
        if model is not None:
            score += model.gains(first, error)
        best = np.argsort(-score, kind="stable")[:KEPT]
        blocks.append(Bursts(first, error, length, score, len(words)).take(best))
    first, error, length, score = (np.concatenate([block[column] for block in blocks]) for column in range(4))
    joined = Bursts(first, error, length, score, sum(block.places for block in blocks))
    return joined.take(np.argsort(-joined.score, kind="stable"))


def _lowest(words: Ints) -> Ints:
    """Index of the lowest bit that is set."""
    out: Ints = np.log2((words & -words).astype(np.float64)).astype(np.int64)
    return out
