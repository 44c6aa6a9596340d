"""Where did the bytes break? From a wrong checksum to the likeliest error that explains it.

Explanations are tried in the order in which errors happen: one bit, the stored checksum, two bits, a short burst,
swapped or shifted bytes, another length, another text encoding; at last what cannot be proven but can be seen, such as
a run of zeros. A 32-bit syndrome is matched by one wrong hypothesis in 2^32, so an explanation's `chance`, all
hypotheses of its kind that were tried times 2^-32, decides: below CERTAIN it is the answer; else the one with the least
chance is, if below SURE; else what can be seen; else again the least chance, if below DOUBTFUL, as one of several
candidates; else nothing is claimed, but the likeliest bursts are listed.

Two things beside the checksum separate explanations. Corrections that make the data likelier (plausible.py) are met
by chance so much the less. And where the caller can say whether data are valid (lengths add up, what is compressed
decompresses), corrections that leave them invalid are out, and those that mend them gain MENDED bits.

What can be found, for n covered bytes (N = 8 n bits):

    one bit                  exactly, anywhere (n < 256 MiB); N / 4096 operations
    stored checksum          exactly
    two bits                 all pairs to 16 KiB; to 1 MiB pairs up to 2^27 / N bits apart
    one bit and one stored   anywhere
    burst of b <= 32 bits    N operations; the answer where N 2^(b-1) / 2^32 is small, or the data decide
    patterns of bytes        up to 256 KiB, see patterns.py
    XXH3, any other hash     not linear: every single-bit neighbour, then every one-byte neighbour, then swaps of
                             neighbouring units, within TRIES and TRIED_BYTES: to 64 KiB for single bits
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from dissectors.checksum import patterns
from dissectors.checksum.bursts import LISTED, Bursts, bursts
from dissectors.checksum.diagnosis import (
    BURST,
    DOUBLE_BIT,
    SINGLE_BIT,
    STORED,
    SWAPPED,
    UNKNOWN,
    ZEROED,
    Diagnosis,
    Flip,
)
from dissectors.checksum.linear import PERIOD, POLYNOMIALS
from dissectors.checksum.patterns import DamagePattern
from dissectors.checksum.verify import compute

CERTAIN = 1e-9  # matches by chance below which nothing else is tried
SURE = 0.002  # below which the likeliest of all that fit stands
DOUBTFUL = 0.05  # and above which it is none; between the two it is one of several
MENDED = 8.0  # bits, at most: how seldom a wrong correction makes invalid data valid
CHECKED = 512  # corrections of one kind whose validity is looked at, the best
CHECKED_BYTES = 32 << 20  # and bytes looked at for it
ALL_PAIRS = 1 << 17  # bits: every pair is compared up to here
PAIR_WORK = 1 << 27  # comparisons spent on pairs in longer data
PAIRS_JUDGED = 64  # of those that fit, how many are weighed against each other
PAIR_BITS = 1 << 23  # bits: longer data are not searched for pairs
TRIES = 1 << 19  # hashes computed for a checksum that is not linear
TRIED_BYTES = 32 << 30  # and bytes hashed for it
UNITS = (1, 2, 4, 8)  # bytes: neighbours of this size are swapped for it

Hash = Callable[[bytes | memoryview], int]
Validity = Callable[[bytes], bool]


def locate(
    kind: str,
    data: bytes | memoryview,
    stored: int,
    computed: int | None = None,
    *,
    hash: Hash | None = None,
    body: int = 0,
    is_valid: Validity | None = None,
    tries: int = TRIES,
) -> Diagnosis:
    """The likeliest explanation for `stored` not being the checksum of `data`.

    `hash` replaces the checksum of that kind where data is not hashed as it stands (it is given the bytes, as `data`).
    `body` is where the bytes begin in which a run of zeros is suspicious: headers are full of them. `is_valid` says
    whether data may be what they claim to be.
    """
    data = bytes(data)
    function: Hash = hash or (lambda data: compute(kind, data))
    if computed is None:
        computed = function(data)
    if stored == computed:
        return Diagnosis(UNKNOWN, note="The checksum is right")
    width = 32 if kind in POLYNOMIALS and not stored >> 32 else 64  # a CRC32 may be kept in eight bytes
    if hash is None and width == 32 and len(data) * 8 < PERIOD:
        return _linear(DamagePattern(kind, data, stored, computed, body), Judge(data, is_valid))
    return _neighbours(data, stored, computed, function, width, tries, body)


class Judge:
    """Asks whether data are valid, within a budget."""

    def __init__(self, data: bytes, is_valid: Validity | None) -> None:
        self._is_valid = is_valid
        self._left = CHECKED_BYTES
        self.received = is_valid is None or is_valid(data)

    def bits(self, data: bytes | None) -> float:
        """What is to be added to the score of a correction: MENDED, 0, or minus infinity where it cannot be."""
        if self._is_valid is None or data is None or self._left < len(data):
            return 0.0
        self._left -= len(data)
        if not self._is_valid(data):
            return -math.inf
        return 0.0 if self.received else MENDED

    def weigh(self, case: DamagePattern, found: Diagnosis) -> Diagnosis | None:
        """The diagnosis with what validity says of its chance; None where it cannot be."""
        if found.pattern in (SINGLE_BIT, STORED):
            return found
        bits = self.bits(found.right or _applied(case.data, found.flips))
        return replace(found, chance=found.chance * 2.0**-bits) if math.isfinite(bits) else None

    def best(self, found: Bursts, data: bytes) -> Bursts:
        """The bursts that leave the data valid, in their new order; those that were not looked at come last."""
        if self._is_valid is None or not len(found.score):
            return found
        count = min(len(found.score), CHECKED, max(1, self._left // max(1, len(data))))
        extra = np.array([self.bits(found.corrected(data, row)) for row in range(count)])
        passed = np.count_nonzero(np.isfinite(extra))
        if not self.received and passed:  # nearly all that were looked at are wrong: they show how seldom it is
            extra = np.minimum(extra, math.log2(count / passed))
        if self.received:  # what was not looked at may be as valid as what was
            extra = np.concatenate((extra, np.zeros(len(found.score) - count)))
        kept = np.flatnonzero(np.isfinite(extra))
        chosen = found.take(kept)._replace(score=found.score[kept] + extra[kept])
        return chosen.take(np.argsort(-chosen.score, kind="stable"))


def _linear(case: DamagePattern, judge: Judge) -> Diagnosis:
    fitting: list[Diagnosis] = []
    fits: Bursts | None = None
    for explain in (_stored, _single, _double, None, *patterns.PROVABLE):
        if explain is None:
            fits = judge.best(bursts(case), case.data)
            found = [as_burst(case, fits)] if len(fits.score) else []
        else:
            found = [weighed for one in explain(case) if (weighed := judge.weigh(case, one))]
        fitting += found
        answer = next((one for one in found if one.chance <= CERTAIN or explain is _single), None)
        if answer:
            return answer
    likely = min(fitting, key=lambda found: found.chance, default=None)
    if likely and likely.chance <= SURE:
        return likely
    for recognise in patterns.RECOGNISABLE:
        for seen in recognise(case):
            return seen
    if likely and likely.chance <= DOUBTFUL:
        others = fits.alternatives(case.data, range(min(LISTED, len(fits.score)))) if fits else ()
        return replace(likely, candidates=max(2, likely.candidates), alternatives=others)
    return _candidates(case, fits, fitting)


def _applied(data: bytes, flips: Sequence[Flip]) -> bytes | None:
    """The data with corrections, where all are known."""
    out = bytearray(data)
    for flip in flips:
        if flip.should_be is None:
            return None
        if not flip.stored:
            out[flip.at] = flip.should_be
    return bytes(out)


# --- one bit, two bits, bursts ---------------------------------------------------------------------------------------


def _single(case: DamagePattern) -> Iterator[Diagnosis]:
    for _, distance in case.crc.distances(np.array([case.syndrome], np.uint32), case.bits):
        flips = case.flips([distance])
        place = f"byte {flips[0].at} of those that the checksum covers, bit {flips[0].bit}"
        note = f"One bit flipped: {place}; no other single bit fits"
        yield Diagnosis(SINGLE_BIT, flips, True, 1, note, case.bits / 2.0**32)


def _stored(case: DamagePattern) -> Iterator[Diagnosis]:
    found = stored_checksum(case.stored, case.computed, 32)
    if found:
        yield found


def stored_checksum(stored: int, computed: int, width: int) -> Diagnosis | None:
    """Whether the checksum, not the data, is broken."""
    size = width // 8
    was, right = stored.to_bytes(size, "big"), computed.to_bytes(size, "big")
    syndrome = stored ^ computed
    known = {
        0: "it is zero, as if never computed",
        (1 << width) - 1: "all its bits are set, as if never computed",
        computed ^ ((1 << width) - 1): "it is the complement of the right one",
        int.from_bytes(right, "little"): "its bytes are in the wrong order",
    }
    if syndrome.bit_count() == 1:
        note = "One bit of the stored checksum flipped; the data are intact"
    elif stored in known:
        note = f"The stored checksum is wrong: {known[stored]}"
    elif _changed(was, right) == 1:
        note = "One byte of the stored checksum is wrong; the data are intact"
        return Diagnosis(STORED, stored_flips(was, right), True, 1, note, size * 255 / 2.0**width)
    else:
        return None
    return Diagnosis(STORED, stored_flips(was, right), True, 1, note, (width + len(known)) / 2.0**width)


def _changed(a: bytes, b: bytes) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


def stored_flips(was: bytes, right: bytes) -> tuple[Flip, ...]:
    """The bits in which a stored checksum, as shown, differs from the right one."""
    return tuple(
        Flip(at, bit, x, y, True)
        for at, (x, y) in enumerate(zip(was, right, strict=True))
        for bit in range(8)
        if (x ^ y) >> bit & 1
    )


def _double(case: DamagePattern) -> Iterator[Diagnosis]:
    """Two bits of the data, the closest pair first; then one of the data and one of the stored checksum."""
    pairs = _pairs(case)
    if pairs:
        gains = [case.model.gain(_changes(case.flips(pair))) if case.dense else 0.0 for pair in pairs[:PAIRS_JUDGED]]
        chances = [case.bits * abs(a - b) * 2.0**-gain for (a, b), gain in zip(pairs, gains)]
        best = min(range(len(chances)), key=chances.__getitem__)
        apart, near = abs(pairs[best][0] - pairs[best][1]), sum(c <= 2 * chances[best] for c in chances)
        note = f"Two bits flipped, {apart} bits apart; {len(pairs)} pairs fit in all"
        yield Diagnosis(DOUBLE_BIT, case.flips(pairs[best]), True, near, note, chances[best] / 2.0**case.odds)
    syndromes = np.array([case.syndrome ^ 1 << bit for bit in range(32)], np.uint32)
    mixed = case.crc.distances(syndromes, case.bits)
    if mixed:
        bit, distance = mixed[0]
        was, right = case.stored.to_bytes(4, "big"), (case.stored ^ 1 << bit).to_bytes(4, "big")
        flips = case.flips([distance]) + stored_flips(was, right)
        note = "One bit of the data and one of the stored checksum flipped"
        yield Diagnosis(DOUBLE_BIT, flips, True, len(mixed), note, 32 * case.bits / 2.0**case.odds)


def _changes(flips: Sequence[Flip]) -> dict[int, int]:
    """Index -> XOR, for Model.gain."""
    return {flip.at: flip.was ^ flip.should_be for flip in flips if flip.should_be is not None}


def _pairs(case: DamagePattern) -> list[tuple[int, int]]:
    """Distances of the pairs of bits that explain the syndrome."""
    syndrome = np.uint32(case.syndrome)
    if case.odds == 31 and case.syndrome.bit_count() & 1:
        return []  # x + 1 divides CRC-32C's polynomial: an odd syndrome is an odd number of bits
    if case.bits > PAIR_BITS:
        return []
    bits = case.crc.bits(case.bits)
    if case.bits > ALL_PAIRS:
        pairs: list[tuple[int, int]] = []
        for apart in range(1, PAIR_WORK // case.bits + 1):
            hits = np.nonzero((bits[apart:] ^ bits[:-apart]) == syndrome)[0]
            pairs += [(at + apart, at) for at in hits.tolist()]
        return pairs
    order = np.argsort(bits)
    ascending = bits[order]
    wanted = bits ^ syndrome
    at = np.minimum(np.searchsorted(ascending, wanted), len(bits) - 1)
    hits = np.nonzero(ascending[at] == wanted)[0]
    return [(first, second) for first, second in zip(hits.tolist(), order[at[hits]].tolist()) if first > second]


def as_burst(case: DamagePattern, fits: Bursts) -> Diagnosis:
    """The likeliest burst."""
    length = int(fits.length[0])
    near = int(np.count_nonzero(fits.score >= fits.score[0] - 1))
    note = f"A burst of {length} bits: of {fits.places} places at which one of up to 32 bits fits, the likeliest"
    flips = fits.flips(case.data, 0)
    zeros = length > 8 and not any(flip.was for flip in flips)
    if zeros:
        changed = len({flip.at for flip in flips})
        note = f"{changed} bytes at {flips[0].at} are zero; the checksum and the bytes around give what they were"
    return Diagnosis(ZEROED if zeros else BURST, flips, True, near, note, fits.chance(case.bits))


def _candidates(case: DamagePattern, fits: Bursts | None, fitting: Sequence[Diagnosis]) -> Diagnosis:
    """No answer; what fits, for people to choose from."""
    if fits is None or not len(fits.score):
        return Diagnosis(UNKNOWN, candidates=len(fitting), note="No single explanation fits the checksum")
    note = f"No explanation is better than chance; a burst of up to 32 bits fits at {fits.places} places"
    others = fits.alternatives(case.data, range(min(LISTED, len(fits.score))))
    return Diagnosis(UNKNOWN, candidates=fits.places, note=note, alternatives=others)


# --- checksums that are not linear -----------------------------------------------------------------------------------


def _neighbours(data: bytes, stored: int, computed: int, hash: Hash, width: int, tries: int, body: int) -> Diagnosis:
    """Try every neighbour of the data: one bit, then one byte, then a swap; within the budget, in order of offset."""
    found = stored_checksum(stored, computed, width)
    if found:
        return found
    budget = min(tries, TRIED_BYTES // max(1, len(data)))
    work = bytearray(data)
    view = memoryview(work)  # hashed where it stands: copies would cost as much as the hash
    tried = 0
    for changes in ([1 << bit for bit in range(8)], [x for x in range(1, 256) if x.bit_count() > 1]):
        for at in range(len(work)):
            was = work[at]
            if tried + len(changes) > budget:
                break
            for change in changes:
                work[at] = was ^ change
                if hash(view) == stored:
                    pattern = {1: SINGLE_BIT, 2: DOUBLE_BIT}.get(change.bit_count(), BURST)
                    flips = tuple(Flip(at, bit, was, was ^ change) for bit in range(8) if change >> bit & 1)
                    note = f"{len(flips)} flipped in byte {at}, found by trying {tried + 1} neighbours"
                    return Diagnosis(pattern, flips, True, 1, note, tried / 2.0**width)
                tried += 1
            work[at] = was
    for unit in UNITS:
        for at in range(max(0, min(len(data) - 2 * unit + 1, budget - tried))):
            right = data[at + unit : at + 2 * unit] + data[at : at + unit]
            tried += 1
            if hash(data[:at] + right + data[at + 2 * unit :]) == stored:
                flips = DamagePattern("", data, stored, computed).bytes_changed(at, right)
                note = f"Units of {unit} at {at} and {at + unit} are in each other's place"
                return Diagnosis(SWAPPED, flips, True, 1, note, tried / 2.0**width)
    for rewritten, pattern, note in patterns.rewritings(data):
        if hash(rewritten) == stored:
            return Diagnosis(pattern, (), True, 1, note)
    for recognise in patterns.RECOGNISABLE:
        for seen in recognise(DamagePattern("", data, stored, computed, body)):
            return seen
    whole = "every single bit" if tried >= 8 * len(data) else "the first bits"
    return Diagnosis(UNKNOWN, note=f"This checksum is not linear: {tried} neighbours tried ({whole}), none fits")
