"""Errors that have a shape: bytes swapped, moved, cut off, overwritten, translated.

PROVABLE patterns are searched through the linearity of the CRC, every place at once: what a change contributes at each
place is computed as one array and compared with the syndrome. RECOGNISABLE ones lost information, so no correction can
be checked; they are known by their looks, and reported as not verified.

All limits count bytes, not seconds: data beyond SHAPED_BYTES are not searched for shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

import numpy as np

from dissectors.arrow import Octets
from dissectors.checksum.diagnosis import CRLF, REPEATED, SHIFTED, SWAPPED, TRUNCATED, UTF8, ZEROED, Diagnosis, Flip
from dissectors.checksum.linear import ONES, BitTable, Crc, Words, crc_of
from dissectors.checksum.plausible import Model
from dissectors.checksum.verify import CRC32C, compute

SHAPED_BYTES = 1 << 18  # 8 arrays of 4 bytes a byte of data
SWAP_WORK = 1 << 21  # pairs of places compared, for units that lie apart
SWAP_UNITS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
REVERSED_UNITS = (4, 8)  # 2 is a swap
SHIFTS = (1, 2)  # bytes inserted or lost; more leave too many unknown bits
BLOCKS = (32, 64, 128, 256, 512, 1024, 1448, 1460, 2048, 4096, 8192, 16384, 32768, 65536)
JUDGED = 16  # changed bytes up to which a correction is judged by its looks
REPEAT_WORK = 1 << 23  # bytes compared to find a repeated block of any size
VARIED = 12  # different bytes in a block, above which a repetition is no chance
MOST_ZEROS = 0.9  # of the data in one run: where there are more, they are rather the data themselves
RUN = 4  # zeros in a row that are worth telling
SHOWN = 64  # bytes listed one by one at most


class DamagePattern:
    """A wrong checksum: what was captured, and what follows from it."""

    def __init__(self, kind: str, data: bytes, stored: int, computed: int, body: int = 0) -> None:
        self.kind = kind
        self.data = data
        self.stored = stored
        self.computed = computed
        self.body = body
        self.syndrome = stored ^ computed
        self.bits = 8 * len(data)
        self.odds = 31 if kind == CRC32C else 32
        """Even numbers of flipped bits share only 2^odds syndromes."""

    @cached_property
    def crc(self) -> Crc:
        return crc_of(self.kind)

    @cached_property
    def array(self) -> Octets:
        return np.frombuffer(self.data, np.uint8)

    @cached_property
    def bit_table(self) -> BitTable:
        return BitTable(self.crc, len(self.data))

    @cached_property
    def placed(self) -> Words:
        """What each byte contributes."""
        return self.bit_table.place(self.array, 0)

    @cached_property
    def model(self) -> Model:
        return Model(self.array)

    @property
    def dense(self) -> bool:
        """Whether the data are short enough to be searched for shapes."""
        return 1 < len(self.data) <= SHAPED_BYTES

    def flips(self, distances: Sequence[int]) -> tuple[Flip, ...]:
        """The bits at these distances from the end, in order of offset."""
        places = sorted((len(self.data) - 1 - d // 8, 7 - d % 8) for d in distances)
        change: dict[int, int] = {}
        for at, bit in places:
            change[at] = change.get(at, 0) ^ 1 << bit
        return tuple(Flip(at, bit, self.data[at], self.data[at] ^ change[at]) for at, bit in places)

    def bytes_changed(self, at: int, should_be: bytes) -> tuple[Flip, ...]:
        """The bytes at `at` that differ from what they should be."""
        was = self.data[at : at + len(should_be)]
        differing = [Flip(at + i, None, x, y) for i, (x, y) in enumerate(zip(was, should_be, strict=True)) if x != y]
        return tuple(differing[:SHOWN])

    def with_bytes(self, at: int, should_be: bytes) -> bytes:
        """The data with these bytes at `at`."""
        return self.data[:at] + should_be + self.data[at + len(should_be) :]

    def gain(self, flips: Sequence[Flip]) -> float:
        """How much likelier these few corrections make the data, in bits; 0 for many, where the table is no measure."""
        changes = {flip.at: flip.was ^ flip.should_be for flip in flips if flip.should_be is not None}
        return self.model.gain(changes) if len(changes) <= JUDGED else 0.0


def _suffixes(values: Words) -> Words:
    """XOR of values[i:] for every i, and 0 after the last."""
    out = np.zeros(len(values) + 1, np.uint32)
    out[:-1] = np.bitwise_xor.accumulate(values[::-1])[::-1]
    return out


def _prefixes(values: Words) -> Words:
    """XOR of values[:i] for every i, 0 first."""
    out = np.zeros(len(values) + 1, np.uint32)
    out[1:] = np.bitwise_xor.accumulate(values)
    return out


# --- provable --------------------------------------------------------------------------------------------------------


def swapped(case: DamagePattern) -> Iterator[Diagnosis]:
    """Two neighbouring units of 1 to 1024 bytes in each other's place."""
    size = len(case.data)
    if case.dense:
        yield from _swapped(case, [(unit, unit) for unit in SWAP_UNITS if 2 * unit <= size])


def swapped_apart(case: DamagePattern) -> Iterator[Diagnosis]:
    """Two units in each other's place that are no neighbours, in short data."""
    size = len(case.data)
    if case.dense:
        lags = range(2, min(size, SWAP_WORK // size))
        yield from _swapped(case, [(lag, unit) for lag in lags for unit in SWAP_UNITS if unit < lag <= size - unit])


def _swapped(case: DamagePattern, pairs: Sequence[tuple[int, int]]) -> Iterator[Diagnosis]:
    """pairs: (bytes from the one unit to the other, bytes of a unit), ascending."""
    data, tried = case.array, 0
    for lag, group in groupby(pairs, key=lambda pair: pair[0]):
        differ = data[:-lag] ^ data[lag:]
        sums = _prefixes(case.bit_table.place(differ, 0) ^ case.bit_table.place(differ, lag))
        for _, unit in group:
            effect = sums[unit:] ^ sums[:-unit]  # of swapping the units at i and i + lag
            tried += len(effect)
            hits = np.nonzero(effect == np.uint32(case.syndrome))[0].tolist()
            if hits:
                at = hits[0]
                one, other = case.data[at : at + unit], case.data[at + lag : at + lag + unit]
                right = other + case.data[at + unit : at + lag] + one
                note = f"{_units(unit)} at {at} and {at + lag} are in each other's place"
                flips = case.bytes_changed(at, right)
                chance = tried / 2.0**case.odds * 2.0 ** -case.gain(flips)
                yield Diagnosis(SWAPPED, flips, True, len(hits), note, chance, right=case.with_bytes(at, right))


def reversed_words(case: DamagePattern) -> Iterator[Diagnosis]:
    """The bytes of a word of 4 or 8 in reverse."""
    if not case.dense:
        return
    data, size, tried = case.array, len(case.data), 0
    for unit in REVERSED_UNITS:
        if unit > size:
            break
        count = size - unit + 1
        turned = np.zeros(count, np.uint32)
        for step in range(unit):
            differ = data[step : step + count] ^ data[unit - 1 - step : unit - 1 - step + count]
            turned ^= case.bit_table.place(differ, step)
        tried += count
        hits = np.nonzero(turned == np.uint32(case.syndrome))[0].tolist()
        if hits:
            at = hits[0]
            flips = case.bytes_changed(at, case.data[at : at + unit][::-1])
            note = f"The {unit} bytes at {at} are in reverse order"
            chance = tried / 2.0**case.odds * 2.0 ** -case.gain(flips)
            yield Diagnosis(SWAPPED, flips, True, len(hits), note, chance)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _units(unit: int) -> str:
    return "The bytes" if unit == 1 else f"The blocks of {unit} bytes"


def zeroed_short(case: DamagePattern) -> Iterator[Diagnosis]:
    """A run of 2 or 3 bytes that are zero, where the checksum gives what they were.

    Every 4-byte window has one pattern that fits; a pattern confined to a run of zeros is rare.
    """
    if not case.dense:
        return
    data, size = case.array, len(case.data)
    words = case.crc.words(case.syndrome, size, 8)[::-1]  # by the offset of the window's last byte
    for length in (2, 3):
        if size < length:
            return
        zero = np.ones(size - length + 1, bool)
        for step in range(length):
            zero &= data[step : step + len(zero)] == 0
        ends = np.nonzero(zero)[0] + length - 1
        hits = ends[words[ends] << np.uint32(8 * length) == 0] if len(ends) else ends
        if len(hits):
            end = int(hits[0])
            at = end - length + 1
            right = int(words[end]).to_bytes(4, "little")[4 - length :]
            note = f"{length} bytes at {at} are zero; the checksum gives what they were"
            flips = case.bytes_changed(at, right)
            chance = len(ends) * 2.0 ** (8 * length) / 2.0**32 * 2.0 ** -case.gain(flips)
            yield Diagnosis(ZEROED, flips, True, len(hits), note, chance)


def truncated(case: DamagePattern) -> Iterator[Diagnosis]:
    """The checksum covers only the first bytes: what follows was not there when it was computed."""
    if not case.dense:
        return
    size = len(case.data)
    start = np.uint32(case.crc.advance_one(ONES, 8 * size))
    padded = _prefixes(case.placed)[:-1] ^ start  # register after data[:k] and zeros up to the end
    wanted = case.crc.orbit(case.stored ^ ONES, size + 1, 8)[1:][::-1]
    hits = np.nonzero(padded == wanted)[0]
    hits = hits[hits > 0].tolist()
    if hits:
        at = hits[-1]
        rest = "zeros" if not any(case.data[at:]) else "other bytes"
        note = f"The checksum is right for the first {at} bytes; {size - at} {rest} follow"
        flip = Flip(at, None, case.data[at], None)
        yield Diagnosis(TRUNCATED, (flip,), True, len(hits), note, size / 2.0**32)


def shifted(case: DamagePattern) -> Iterator[Diagnosis]:
    """One or two bytes lost, or put in: all that follows has moved."""
    if not case.dense:
        return
    data, size = case.array, len(case.data)
    here = _suffixes(case.placed)
    for count in SHIFTS:
        if size <= count:
            return
        chance = 2 * size * 2.0 ** (8 * count) / 2.0**32
        bound = 1 << 8 * count
        # lost: data[:i] + lost + data[i : -count]
        moved = _suffixes(case.bit_table.place(data[:-count], count))
        rest = here[: size - count + 1] ^ moved ^ np.uint32(case.syndrome)
        ends = -8 * (size - np.arange(size - count + 1, dtype=np.int64))
        words = case.crc.advance_each(rest, ends)
        hits = np.nonzero(words < bound)[0].tolist()
        if hits:
            at = hits[0]
            lost = int(words[at]).to_bytes(count, "little")
            note = f"{_bytes(count)} missing at {at}: all that follows came too early"
            moved_back = (lost + case.data[at:])[: size - at]
            flips = case.bytes_changed(at, moved_back)
            yield Diagnosis(SHIFTED, flips, True, len(hits), note, chance, right=case.with_bytes(at, moved_back))
        # put in: data[:i] + data[i + count:] + what was pushed out
        moved = _suffixes(case.bit_table.place(data[count:], 0))
        rest = here[: size - count + 1] ^ moved ^ np.uint32(case.syndrome)
        words = case.crc.advance(rest, -8 * count)
        hits = np.nonzero(words < bound)[0].tolist()
        if hits:
            at = hits[0]
            out = int(words[at]).to_bytes(count, "little")
            note = f"{_bytes(count)} too many at {at}: all that follows came too late"
            moved_on = case.data[at + count :] + out
            flips = case.bytes_changed(at, moved_on)
            yield Diagnosis(SHIFTED, flips, True, len(hits), note, chance, right=case.with_bytes(at, moved_on))


def rewritten(case: DamagePattern) -> Iterator[Diagnosis]:
    """The bytes went through a text conversion."""
    for data, pattern, note in rewritings(case.data):
        if compute(case.kind, data) == case.stored:
            yield Diagnosis(pattern, (), True, 1, note, 4 / 2.0**32)


def rewritings(data: bytes) -> Iterator[tuple[bytes, str, str]]:
    """(bytes before the conversion, pattern, note) for every conversion that these bytes may have gone through."""
    if b"\r\n" in data:
        yield data.replace(b"\r\n", b"\n"), CRLF, "Line ends were translated from LF to CRLF"
    if b"\n" in data:
        plain = data.replace(b"\r\n", b"\n")
        yield plain.replace(b"\n", b"\r\n"), CRLF, "Line ends were translated from CRLF to LF"
    try:
        yield data.decode().encode("latin-1"), UTF8, "Bytes were taken for Latin-1 and encoded as UTF-8"
    except UnicodeError:
        return


# --- recognisable ----------------------------------------------------------------------------------------------------


def zeroed_run(case: DamagePattern) -> Iterator[Diagnosis]:
    """A run of zeros that stands out: at least RUN long, and twice as long as any other in the body."""
    runs = sorted(_zero_runs(case), key=lambda run: run[0] - run[1])
    if not runs:
        return
    start, end = runs[0]
    longest, second = end - start, runs[1][1] - runs[1][0] if len(runs) > 1 else 0
    if longest < RUN or longest < 2 * second or longest > MOST_ZEROS * len(case.data):
        return
    what, pattern = f"{longest} bytes at {start} are zero", ZEROED
    if end == len(case.data) and longest >= 2 * RUN:
        what, pattern = f"The last {longest} bytes are zero", TRUNCATED
    note = f"{what}, a run that stands out; what they were is not known"
    flips = tuple(Flip(at, None, 0, None) for at in range(start, min(end, start + SHOWN)))
    yield Diagnosis(pattern, flips, False, sum(e - s == longest for s, e in runs), note)


def _zero_runs(case: DamagePattern) -> list[tuple[int, int]]:
    """[start, end) of the runs of two and more zeros in the body."""
    edges = np.diff(np.concatenate(([0], (case.array[case.body :] == 0).astype(np.int8), [0])))
    starts, ends = np.nonzero(edges == 1)[0] + case.body, np.nonzero(edges == -1)[0] + case.body
    return [(s, e) for s, e in zip(starts.tolist(), ends.tolist(), strict=True) if e - s >= 2]


def repeated(case: DamagePattern) -> Iterator[Diagnosis]:
    """A block equals the block before it, and is too varied for that to be chance; the largest such block."""
    data, size = case.array, len(case.data)
    if not case.dense:
        return
    short = range(min(size // 2, REPEAT_WORK // size), BLOCKS[0] // 2, -1)
    for block in sorted({*short, *(block for block in BLOCKS if 2 * block <= size)}, reverse=True):
        same = np.flatnonzero(data[block:] != data[:-block])
        edges = np.concatenate(([-1], same, [size - block]))
        lengths = np.diff(edges) - 1  # of the runs in which each byte equals the one a block before
        run = int(np.argmax(lengths))
        at = int(edges[run]) + 1
        if lengths[run] >= block and len(np.unique(data[at : at + block])) > VARIED:
            note = f"The {block} bytes at {at + block} repeat the {block} before them"
            flips = tuple(Flip(at + block + i, None, int(data[at + block + i]), None) for i in range(min(block, SHOWN)))
            yield Diagnosis(REPEATED, flips, False, 1, note)


def mangled(case: DamagePattern) -> Iterator[Diagnosis]:
    """U+FFFD: bytes that were no UTF-8 went through a text decoder."""
    count = case.data.count(b"\xef\xbf\xbd")
    if count > 100 * len(case.data) / 2**24:  # more than chance would put into random bytes
        at = case.data.index(b"\xef\xbf\xbd")
        note = f"{count} replacement characters (EF BF BD): binary data went through a text decoder"
        flips = tuple(Flip(at + i, None, byte, None) for i, byte in enumerate(b"\xef\xbf\xbd"))
        yield Diagnosis(UTF8, flips, False, count, note)


Search = Callable[[DamagePattern], Iterator[Diagnosis]]
PROVABLE: tuple[Search, ...] = (
    zeroed_short, swapped, reversed_words, truncated, shifted, rewritten, swapped_apart,
)  # fmt: skip
RECOGNISABLE: tuple[Search, ...] = (mangled, zeroed_run, repeated)
