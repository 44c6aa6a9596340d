"""How much likelier a correction makes the data, judged by the data themselves.

Message data repeat themselves: after a quote comes a letter, after three zeros a fourth. A table of which byte follows
which, counted in the data, gives each byte a probability; broken bytes are improbable, and the right ones are not. The
gain of a correction is log2 of the ratio, over all pairs of neighbours that it changes.

A pair as captured is judged without its own count (else broken bytes would vouch for themselves), and half of every
probability is uniform. No byte counts for less than a random one, so a wrong correction of random bits gains 20 bits
with a chance of about 2^-20, as it must be: the gain is on the scale of `Diagnosis.chance`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints, Octets

Floats = npt.NDArray[np.float32]

_SMOOTH = 2.0  # pairs that each byte is taken to have been seen with before any was counted
_UNIFORM = 0.5  # share of the uniform distribution
_LEAST = -8.0  # bits: nothing captured is taken for less likely than a random byte


class Model:
    """The probabilities of one piece of data."""

    def __init__(self, data: Octets) -> None:
        self.data = data.astype(np.int64)
        before = np.concatenate((np.zeros(1, np.int64), self.data[:-1]))
        pairs = before << 8 | self.data
        self._pairs = np.bincount(pairs, minlength=65_536).astype(np.float32)
        self._first = np.bincount(before, minlength=256).astype(np.float32)
        self._alone = np.bincount(self.data, minlength=256).astype(np.float32)
        self._table = self._bits(np.arange(65_536), 0.0)
        self._own = np.maximum(self._bits(pairs, 1.0), np.float32(_LEAST))

    def _bits(self, pairs: Ints, without: float) -> Floats:
        """log2 of the probability of each second byte, given the first; `without` this many of their own counts."""
        size = len(self.data) - without
        alone = (self._alone[pairs & 255] - without + 0.5) / (size + 128)
        seen = self._pairs[pairs] - without + _SMOOTH * alone
        share = seen / (self._first[pairs >> 8] - without + _SMOOTH)
        bits: Floats = np.log2((1 - _UNIFORM) * share + _UNIFORM / 256).astype(np.float32)
        return bits

    def gains(self, first: Ints, error: Ints, width: int = 5) -> Floats:
        """The gain, in bits, of each XOR of up to `width` bytes (little-endian in `error`) from index `first` on."""
        size = len(self.data)
        out = np.zeros(len(first), np.float32)
        last = np.zeros(len(first), np.int64)
        for step in range(width + 1):
            index = first + step
            change = error >> 8 * step & 255 if step < width else np.zeros(len(first), np.int64)
            at = np.flatnonzero(((change | last) != 0) & (index >= 0) & (index < size))
            here = index[at]
            before = np.where(here > 0, self.data[here - 1] ^ last[at], 0)
            out[at] += self._table[before << 8 | self.data[here] ^ change[at]] - self._own[here]
            last = change
        return out

    def gain(self, changes: dict[int, int]) -> float:
        """The gain of XORing single bytes: index -> change."""
        total = 0.0
        for index in sorted({i for at in changes for i in (at, at + 1) if i < len(self.data)}):
            before = int(self.data[index - 1]) ^ changes.get(index - 1, 0) if index else 0
            now = int(self.data[index]) ^ changes.get(index, 0)
            total += float(self._table[before << 8 | now] - self._own[index])
        return total
