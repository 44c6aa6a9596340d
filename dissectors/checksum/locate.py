"""Where did the bytes break? From a wrong checksum to the likeliest error that explains it.

Explanations are tried in the order in which errors happen: one bit, the stored checksum, two bits, a short burst,
swapped or shifted bytes, another length, another text encoding; at last what cannot be proven but can be seen, such as
a run of zeros. A 32-bit syndrome is matched by one wrong hypothesis in 2^32, so an explanation's `chance`, all
hypotheses of its kind that were tried times 2^-32, decides: below CERTAIN it is the answer; else the one with the least
chance is, if below SURE; else what can be seen; else again the least chance, if below DOUBTFUL. What fits beyond that
is told in the note, never as the answer.

What can be found, for n covered bytes (N = 8 n bits):

    one bit                  exactly, anywhere (n < 256 MiB); N / 4096 operations
    stored checksum          exactly
    two bits                 all pairs to 16 KiB; to 1 MiB pairs up to 2^27 / N bits apart
    one bit and one stored   anywhere
    burst of b <= 32 bits    N operations; told as the answer where N 2^(b-1) / 2^32 is small
    patterns of bytes        up to 256 KiB, see patterns.py
    XXH3, any other hash     not linear: every single-bit neighbour, then every one-byte neighbour, then swaps of
                             neighbouring units, within TRIES and TRIED_BYTES: to 22 KiB for single bits
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dissectors.checksum import patterns
from dissectors.checksum.diagnosis import (
    BURST,
    DOUBLE_BIT,
    SINGLE_BIT,
    STORED,
    SWAPPED,
    UNKNOWN,
    Diagnosis,
    Flip,
)
from dissectors.checksum.linear import ONES, PERIOD, POLYNOMIALS
from dissectors.checksum.patterns import Case
from dissectors.checksum.verify import compute

CERTAIN = 1e-9  # matches by chance below which nothing else is tried
SURE = 0.004  # below which the likeliest of all that fit stands
DOUBTFUL = 0.05  # and above which it is none
ALL_PAIRS = 1 << 17  # bits: every pair is compared up to here
PAIR_WORK = 1 << 27  # comparisons spent on pairs in longer data
PAIR_BITS = 1 << 23  # bits: longer data are not searched for pairs
BURST_BLOCK = 1 << 20  # places looked at in one operation
TRIES = 1 << 19  # hashes computed for a checksum that is not linear
TRIED_BYTES = 4 << 30  # and bytes hashed for it
UNITS = (1, 2, 4, 8)  # bytes: neighbours of this size are swapped for it

Hash = Callable[[bytes], int]


def locate(
    kind: str,
    data: bytes | memoryview,
    stored: int,
    computed: int | None = None,
    *,
    hash: Hash | None = None,
    body: int = 0,
    tries: int = TRIES,
) -> Diagnosis:
    """The likeliest explanation for `stored` not being the checksum of `data`.

    `hash` replaces the checksum of that kind where data is not hashed as it stands (it is given the bytes, as `data`).
    `body` is where the bytes begin in which a run of zeros is suspicious: headers are full of them.
    """
    data = bytes(data)
    function: Hash = hash or (lambda data: compute(kind, data))
    if computed is None:
        computed = function(data)
    if stored == computed:
        return Diagnosis(UNKNOWN, note="The checksum is right")
    width = 32 if kind in POLYNOMIALS and not stored >> 32 else 64  # a CRC32 may be kept in eight bytes
    if hash is None and width == 32 and len(data) * 8 < PERIOD:
        return _linear(Case(kind, data, stored, computed, body))
    return _neighbours(data, stored, computed, function, width, tries, body)


def _linear(case: Case) -> Diagnosis:
    fitting: list[Diagnosis] = []
    for explain in (_stored, _single, _double, _burst, *patterns.PROVABLE):
        for found in explain(case):
            if found.chance <= CERTAIN or explain is _single:
                return found
            fitting.append(found)
    likely = min(fitting, key=lambda found: found.chance, default=None)
    if likely and likely.chance <= SURE:
        return likely
    for recognise in patterns.RECOGNISABLE:
        for found in recognise(case):
            return found
    if likely and likely.chance <= DOUBTFUL:
        return likely
    return Diagnosis(UNKNOWN, candidates=len(fitting), note=_doubts(fitting))


def _doubts(doubtful: list[Diagnosis]) -> str:
    if not doubtful:
        return "No single explanation fits the checksum"
    fits = "; ".join(f"{d.pattern} at {d.candidates} places" for d in doubtful)
    return f"Nothing fits that chance would not fit as well ({fits})"


# --- one bit, two bits, bursts ---------------------------------------------------------------------------------------


def _single(case: Case) -> Iterator[Diagnosis]:
    for _, distance in case.crc.distances(np.array([case.syndrome], np.uint32), case.bits):
        flips = case.flips([distance])
        note = f"One bit flipped: byte {flips[0].at}, bit {flips[0].bit}; no other single bit fits"
        yield Diagnosis(SINGLE_BIT, flips, True, 1, note, case.bits / 2.0**32)


def _stored(case: Case) -> Iterator[Diagnosis]:
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
        return Diagnosis(STORED, _stored_flips(was, right), True, 1, note, size * 255 / 2.0**width)
    else:
        return None
    return Diagnosis(STORED, _stored_flips(was, right), True, 1, note, (width + len(known)) / 2.0**width)


def _changed(a: bytes, b: bytes) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


def _stored_flips(was: bytes, right: bytes) -> tuple[Flip, ...]:
    return tuple(
        Flip(at, bit, x, y, True)
        for at, (x, y) in enumerate(zip(was, right, strict=True))
        for bit in range(8)
        if (x ^ y) >> bit & 1
    )


def _double(case: Case) -> Iterator[Diagnosis]:
    """Two bits of the data, the closest pair first; then one of the data and one of the stored checksum."""
    pairs = _pairs(case)
    if pairs:
        distance = min(abs(a - b) for a, b in pairs)
        closest = [pair for pair in pairs if abs(pair[0] - pair[1]) == distance]
        flips = case.flips(closest[0])
        chance = case.bits * distance / 2.0**case.odds
        note = f"Two bits flipped, {distance} bits apart; {len(pairs)} pairs fit in all"
        yield Diagnosis(DOUBLE_BIT, flips, True, len(closest), note, chance)
    syndromes = np.array([case.syndrome ^ 1 << bit for bit in range(32)], np.uint32)
    mixed = case.crc.distances(syndromes, case.bits)
    if mixed:
        bit, distance = mixed[0]
        was, right = case.stored.to_bytes(4, "big"), (case.stored ^ 1 << bit).to_bytes(4, "big")
        flips = case.flips([distance]) + _stored_flips(was, right)
        note = "One bit of the data and one of the stored checksum flipped"
        yield Diagnosis(DOUBLE_BIT, flips, True, len(mixed), note, 32 * case.bits / 2.0**case.odds)


def _pairs(case: Case) -> list[tuple[int, int]]:
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


def _burst(case: Case) -> Iterator[Diagnosis]:
    """The shortest burst: every place has exactly one 32-bit pattern that fits, and few of these are short."""
    best, fitting, places, word = 0, 0, [0], 0
    for start in range(0, case.bits, BURST_BLOCK):
        count = min(BURST_BLOCK, case.bits - start)
        words = case.crc.words(case.crc.advance_one(case.syndrome, -start), count)
        lowest = np.where(words >> 31 == 1, words & (~words + np.uint32(1)), 0)  # the burst ends here, begins there
        for distance in range(max(start, case.bits - 31), start + count):
            if int(words[distance - start]) << (case.bits - distance) & ONES:  # it would begin before the data
                lowest[distance - start] = 0
        fitting += int(np.count_nonzero(lowest))
        if int(lowest.max()) > best:
            best = int(lowest.max())
            places = (np.nonzero(lowest == best)[0] + start).tolist()
            word = int(words[places[0] - start])
    if not best:
        return
    length = 33 - best.bit_length()
    distances = [places[0] + 31 - bit for bit in range(32) if word >> bit & 1]
    note = f"A burst of {length} bits; a burst of up to 32 bits would fit at {fitting} places, this is the shortest"
    chance = case.bits * 2.0 ** (length - 1) / 2.0**32
    yield Diagnosis(BURST, case.flips(distances), True, len(places), note, chance)


# --- checksums that are not linear -----------------------------------------------------------------------------------


def _neighbours(data: bytes, stored: int, computed: int, hash: Hash, width: int, tries: int, body: int) -> Diagnosis:
    """Try every neighbour of the data: one bit, then one byte, then a swap; within the budget, in order of offset."""
    found = stored_checksum(stored, computed, width)
    if found:
        return found
    budget = min(tries, TRIED_BYTES // max(1, len(data)))
    work = bytearray(data)
    tried = 0
    for changes in ([1 << bit for bit in range(8)], [x for x in range(1, 256) if x.bit_count() > 1]):
        for at in range(len(work)):
            was = work[at]
            if tried + len(changes) > budget:
                break
            for change in changes:
                work[at] = was ^ change
                if hash(bytes(work)) == stored:
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
                flips = Case("", data, stored, computed).bytes_changed(at, right)
                note = f"Units of {unit} at {at} and {at + unit} are in each other's place"
                return Diagnosis(SWAPPED, flips, True, 1, note, tried / 2.0**width)
    for rewritten, pattern, note in patterns.rewritings(data):
        if hash(rewritten) == stored:
            return Diagnosis(pattern, (), True, 1, note)
    for recognise in patterns.RECOGNISABLE:
        for seen in recognise(Case("", data, stored, computed, body)):
            return seen
    whole = "every single bit" if tried >= 8 * len(data) else "the first bits"
    return Diagnosis(UNKNOWN, note=f"This checksum is not linear: {tried} neighbours tried ({whole}), none fits")


__all__ = ["DOUBTFUL", "ONES", "Diagnosis", "Flip", "locate", "stored_checksum"]
