"""Errors put into bytes, and found again from the checksum alone."""

import itertools
import random
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dissectors.checksum import CRC32, CRC32C, XXH3, compute
from dissectors.checksum import bursts as bursts_module
from dissectors.checksum import locate as locating
from dissectors.checksum.diagnosis import Diagnosis, Flip
from dissectors.checksum.linear import Crc
from dissectors.checksum.locate import locate
from dissectors.checksum.patterns import DamagePattern

KINDS = st.sampled_from([CRC32, CRC32C])
WORDS = ("willow", "kelp", "nettle", "ember", "jasper", "grove", "delta", "yarrow", "tulip", "raven", "maple", "zinnia")


def text(size: int, seed: int = 1) -> bytes:
    """Bytes as applications send them."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(size // 4)).encode()[:size]


def corrected(data: bytes, found: Diagnosis) -> bytes:
    """The data after the correction."""
    out = bytearray(data)
    for flip in found.flips:
        if not flip.stored:
            assert out[flip.at] in (flip.was, flip.should_be)
            assert flip.should_be is not None
            out[flip.at] = flip.should_be
    return bytes(out)


def flip_bits(data: bytes, bits: list[int]) -> bytes:
    out = bytearray(data)
    for bit in bits:
        out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def brute(kind: str, data: bytes, stored: int, count: int) -> list[tuple[int, ...]]:
    """Every choice of `count` bits whose flip gives the checksum, by trying them all."""
    choices = itertools.combinations(range(8 * len(data)), count)
    return [bits for bits in choices if compute(kind, flip_bits(data, list(bits))) == stored]


@given(KINDS, st.binary(min_size=1, max_size=3000), st.data())
def test_a_single_bit_is_located_exactly(kind: str, data: bytes, draw: st.DataObject) -> None:
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    broken = flip_bits(data, [bit])
    found = locate(kind, broken, compute(kind, data))
    at = bit // 8
    assert (found.pattern, found.verified, found.candidates) == ("single_bit", True, 1)
    assert found.flips == (Flip(at, bit % 8, broken[at], data[at]),)


@given(KINDS, st.binary(min_size=1, max_size=12), st.binary(min_size=4, max_size=4))
def test_a_bit_is_accused_exactly_where_trying_every_bit_accuses_it(kind: str, data: bytes, stored: bytes) -> None:
    wanted = int.from_bytes(stored, "big")
    found = locate(kind, data, wanted)
    singles = brute(kind, data, wanted, 1)
    assert [(8 * f.at + (f.bit or 0),) for f in found.flips if found.pattern == "single_bit"] == singles


@pytest.mark.parametrize("kind", [CRC32, CRC32C])
@pytest.mark.parametrize("size", [1 << 20, 20_000_000])
def test_a_single_bit_in_megabytes_costs_thousands_of_operations_not_millions(
    kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = []
    orbit = Crc.orbit

    def counted(self: Crc, value: int, count: int, step: int = 1) -> object:
        work.append(count)
        return orbit(self, value, count, step)

    monkeypatch.setattr(Crc, "orbit", counted)
    data = random.Random(size).randbytes(size)
    bit = 8 * (size // 3) + 5
    found = locate(kind, flip_bits(data, [bit]), compute(kind, data))
    assert (found.flips[0].at, found.flips[0].bit) == (bit // 8, 5)
    assert sum(work) <= 8 * size / 4096 + 4096 + 1


@given(KINDS, st.binary(min_size=1, max_size=300), st.integers(0, 31))
def test_a_flip_in_the_stored_checksum_is_recognised(kind: str, data: bytes, bit: int) -> None:
    found = locate(kind, data, compute(kind, data) ^ 1 << bit)
    assert found.pattern == "stored_checksum"
    assert found.verified
    (flip,) = found.flips
    assert flip.stored
    assert (flip.at, flip.bit) == (3 - bit // 8, bit % 8)


@pytest.mark.parametrize("kind", [CRC32, CRC32C])
def test_checksums_that_were_never_right_are_named(kind: str) -> None:
    data = text(200)
    right = compute(kind, data)
    for stored, words in [
        (0, "zero"),
        (0xFFFFFFFF, "all its bits"),
        (right ^ 0xFFFFFFFF, "complement"),
        (int.from_bytes(right.to_bytes(4, "big"), "little"), "wrong order"),
    ]:
        found = locate(kind, data, stored)
        assert found.pattern == "stored_checksum"
        assert words in found.note


@given(KINDS, st.binary(min_size=1, max_size=200), st.data())
def test_two_bits_are_located(kind: str, data: bytes, draw: st.DataObject) -> None:
    bits = draw.draw(st.sets(st.integers(0, 8 * len(data) - 1), min_size=2, max_size=2))
    broken = flip_bits(data, sorted(bits))
    found = locate(kind, broken, compute(kind, data))
    if found.pattern == "double_bit" and found.candidates == 1:
        assert {8 * f.at + (f.bit or 0) for f in found.flips} == bits or len(data) > 60
    else:
        assert found.pattern in ("stored_checksum", "burst", "double_bit", "swapped")
    assert compute(kind, corrected(broken, found)) == compute(kind, data)


@given(KINDS, st.binary(min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_pairs_are_all_found(kind: str, data: bytes, stored: int) -> None:
    assume(stored != compute(kind, data))
    case = DamagePattern(kind, data, stored, compute(kind, data))
    got = {tuple(sorted(8 * f.at + (f.bit or 0) for f in case.flips(pair))) for pair in locating._pairs(case)}
    assert got == set(brute(kind, data, stored, 2))


@pytest.mark.parametrize("kind", [CRC32, CRC32C])
def test_neighbouring_pairs_are_found_in_long_data(kind: str) -> None:
    data = random.Random(5).randbytes(300_000)
    for bits in ([2_000_000, 2_000_003], [7, 8], [2_399_990, 2_399_999]):
        found = locate(kind, flip_bits(data, bits), compute(kind, data))
        assert found.pattern == "double_bit"
        assert sorted(8 * f.at + (f.bit or 0) for f in found.flips) == bits


@given(KINDS, st.binary(min_size=20, max_size=400), st.data())
def test_a_flip_in_data_and_one_in_the_checksum_are_found_together(kind: str, data: bytes, draw: st.DataObject) -> None:
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    stored = compute(kind, data) ^ 1 << draw.draw(st.integers(0, 31))
    broken = flip_bits(data, [bit])
    found = locate(kind, broken, stored)
    assert found.pattern in ("double_bit", "stored_checksum", "burst")
    assert found.verified
    if found.pattern == "double_bit" and any(f.stored for f in found.flips):
        assert [8 * f.at + (f.bit or 0) for f in found.flips if not f.stored] == [bit]


@given(KINDS, st.integers(40, 400), st.integers(3, 11), st.data())
def test_short_bursts_are_located(kind: str, size: int, length: int, draw: st.DataObject) -> None:
    data = text(size)
    start = draw.draw(st.integers(0, 8 * size - length))
    inside = draw.draw(st.integers(0, (1 << length - 2) - 1)) << 1
    change = inside | 1 | 1 << length - 1
    assume(change.bit_count() > 2)
    bits = [start + i for i in range(length) if change >> i & 1]
    broken = flip_bits(data, bits)
    found = locate(kind, broken, compute(kind, data))
    if found.pattern == "unknown":  # seldom, and only where the burst made letters of the text of letters
        assert set(broken) <= set(data)
        made = [corrected(broken, replace(found, flips=other.flips)) for other in found.alternatives]
        assert data in made
        return
    assert compute(kind, corrected(broken, found)) == compute(kind, data)
    if found.pattern == "burst" and found.candidates == 1:
        span = [8 * f.at + (f.bit or 0) for f in found.flips]
        assert max(span) - min(span) < length


def test_of_a_burst_that_chance_alone_might_give_nothing_is_claimed_but_it_is_listed_first() -> None:
    right = b"nettle raven kelp jasper kelp yarrow yar"
    broken = right.replace(b"jasper", b"jasppp")
    found = locate(CRC32, broken, compute(CRC32, right))
    assert (found.pattern, found.verified, found.flips) == ("unknown", False, ())
    assert corrected(broken, replace(found, flips=found.alternatives[0].flips)) == right


@given(KINDS, st.binary(min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_all_bursts_are_found(kind: str, data: bytes, stored: int) -> None:
    assume(stored != compute(kind, data))
    case = DamagePattern(kind, data, stored, compute(kind, data))
    found = bursts_module.bursts(case)
    size = 8 * len(data)
    short = {
        flip_bits(data, [start + i for i in range(length) if change >> i & 1])
        for length in range(1, min(13, size + 1))
        for start in range(size - length + 1)
        for inside in range(1 << max(0, length - 2))
        for change in [1 | inside << 1 | 1 << length - 1]
    }
    wanted = {made for made in short if compute(kind, made) == stored}
    rows = range(len(found.score))
    assert {found.corrected(data, row) for row in rows if found.length[row] <= 12} == wanted
    assert all(compute(kind, found.corrected(data, row)) == stored for row in rows)


class Damage(NamedTuple):
    """What became of data, and what is said of it: where it begins, and whether the checksum proves it."""

    data: bytes
    broken: bytes
    pattern: str
    verified: bool
    at: int | None = None


def replaced(data: bytes, at: int, size: int, by: bytes) -> bytes:
    """Data of which `size` bytes are others, and as many as may be."""
    return data[:at] + by + data[at + size :]


def swapped(size: int, at: int, unit: int) -> Damage:
    data = random.Random(unit).randbytes(size)
    both = data[at + unit : at + 2 * unit] + data[at : at + unit]
    return Damage(data, replaced(data, at, 2 * unit, both), "swapped", True, at)


def reversed_word(unit: int) -> Damage:
    data = random.Random(unit).randbytes(3000)
    return Damage(data, replaced(data, 77, unit, data[77 : 77 + unit][::-1]), "swapped", True)


def zeroed(data: bytes, at: int, size: int, pattern: str = "zeroed_run", *, verified: bool = False) -> Damage:
    return Damage(data, replaced(data, at, size, bytes(size)), pattern, verified, at)


PLAIN, HIGH, BLOCKS = text(400), bytes(range(128, 250)) + text(100), random.Random(3).randbytes(6000)
LINES = b"one\ntwo\nthree caf\xe9 lines\n" * 5
WINDOWS = LINES.replace(b"\n", b"\r\n")
OF_A_CRC = {
    **{f"swapped units of {unit}": swapped(3000, 1111, unit) for unit in (1, 2, 4, 8, 64, 512)},
    **{f"a reversed word of {unit}": reversed_word(unit) for unit in (4, 8)},
    **{f"a run of {size} zeros": zeroed(PLAIN, 200, size, verified=True) for size in (2, 3)},
    "a tail of zeros": zeroed(text(500), 400, 100, "truncated"),
    "bytes behind the end": Damage(text(500)[:433], text(500), "truncated", True, 433),
    "a lost byte": Damage(text(300), replaced(text(300), 100, 1, b"") + b"?", "shifted", True),
    "two lost bytes": Damage(text(300), replaced(text(300), 100, 2, b"") + b"??", "shifted", True),
    "an inserted byte": Damage(text(300), replaced(text(300), 100, 0, b"#")[:300], "shifted", True),
    "two inserted bytes": Damage(text(300), replaced(text(300), 100, 0, b"#@")[:300], "shifted", True),
}
OF_ANY_SUM = {
    **{f"a run of {size} zeros": zeroed(PLAIN, 200, size) for size in (4, 6, 20, 100, 190)},
    "zeros over more than half": zeroed(PLAIN, 40, 300),
    "line ends of Windows": Damage(LINES, WINDOWS, "crlf", True),
    "line ends of Unix": Damage(WINDOWS, LINES, "crlf", True),
    "Latin-1 as UTF-8": Damage(LINES, LINES.decode("latin-1").encode(), "utf8_mangled", True),
    "replacement characters": Damage(HIGH, HIGH.decode(errors="replace").encode(), "utf8_mangled", False),
    "a repeated block": Damage(BLOCKS, replaced(BLOCKS, 2000, 512, BLOCKS[1488:2000]), "repeated", False, 2000),
}
OF_XXH3 = {f"swapped units of {unit}": swapped(300, 90, unit) for unit in (1, 2, 4, 8)}
DAMAGES = [
    pytest.param(kind, damage, id=f"{name}, {kind}")
    for kind, of_it in ((CRC32, OF_A_CRC), (CRC32C, OF_A_CRC), (XXH3, OF_XXH3))
    for name, damage in (of_it | OF_ANY_SUM).items()
]


@pytest.mark.parametrize(("kind", "damage"), DAMAGES)
def test_damage_is_recognised(kind: str, damage: Damage) -> None:
    found = locate(kind, damage.broken, compute(kind, damage.data))
    assert (found.pattern, found.verified) == (damage.pattern, damage.verified)
    if damage.at is not None:
        assert min(flip.at for flip in found.flips) == damage.at
    if damage.pattern == "zeroed_run" and not damage.verified:  # what the zeros were is not claimed
        assert found.flips[0] == Flip(damage.at or 0, None, 0, None)
    if damage.pattern == "shifted":
        assert found.flips[0].at <= 102
    others = sum(was != is_ for was, is_ in zip(damage.data, damage.broken, strict=False))
    if damage.verified and damage.pattern in ("swapped", "zeroed_run") and others <= 16:  # then each byte is named
        assert corrected(damage.broken, found) == damage.data


def test_a_header_full_of_zeros_is_not_suspicious() -> None:
    data = bytes(30) + text(400)
    broken = data[:200] + bytes(6) + data[206:]
    assert locate(CRC32C, broken, compute(CRC32C, data), body=30).flips[0].at == 200


@pytest.mark.parametrize("size", [100, 4000])
def test_xxh3_falls_back_to_trying_neighbours(size: int) -> None:
    data = text(size)
    for bit in (0, 8 * size // 2 + 3, 8 * len(data) - 1):
        found = locate(XXH3, flip_bits(data, [bit]), compute(XXH3, data))
        assert (found.pattern, found.flips[0].at, found.flips[0].bit) == ("single_bit", bit // 8, bit % 8)
    stored = locate(XXH3, data, compute(XXH3, data) ^ 1 << 40)
    assert stored.pattern == "stored_checksum"
    assert stored.flips[0].at == 2


def test_xxh3_stops_at_its_budget_and_says_so() -> None:
    data = text(1000)
    calls = []

    def hashed(data: bytes | memoryview) -> int:
        calls.append(1)
        return compute(XXH3, data)

    found = locate(XXH3, flip_bits(data, [7000, 10]), compute(XXH3, data), hash=hashed, tries=500)
    assert found.pattern == "unknown"
    assert "tried" in found.note
    assert len(calls) <= 500 + 10


def test_a_hash_of_parts_is_searched_as_it_is_computed() -> None:
    frames = text(900)

    def of_frames(data: bytes | memoryview) -> int:
        return compute(
            XXH3, b"".join(compute(XXH3, data[at : at + 100]).to_bytes(8, "little") for at in range(0, 900, 100))
        )

    found = locate(XXH3, flip_bits(frames, [4321]), of_frames(frames), hash=of_frames)
    assert (found.pattern, found.flips[0].at, found.flips[0].bit) == ("single_bit", 540, 1)


@given(st.sampled_from([CRC32, CRC32C, XXH3]), st.binary(max_size=60), st.integers(0, 2**32 - 1))
def test_what_is_called_verified_really_fits(kind: str, data: bytes, stored: int) -> None:
    assume(stored != compute(kind, data))
    found = locate(kind, data, stored, tries=2000)
    if found.verified and found.pattern not in ("truncated", "shifted", "crlf", "utf8_mangled"):
        right = stored
        for flip in found.flips:
            if flip.stored and flip.bit is not None:
                right ^= 1 << 8 * ({XXH3: 7}.get(kind, 3) - flip.at) + flip.bit
        assert compute(kind, corrected(data, found)) == right


@pytest.mark.parametrize("kind", [CRC32, CRC32C])
def test_random_bytes_are_rarely_explained(kind: str) -> None:
    """The discipline: a checksum that has nothing to do with the data must not find its single bit or its pair."""
    rng = random.Random(7)
    found = [locate(kind, rng.randbytes(400), rng.getrandbits(32)) for _ in range(100)]
    located = [one for one in found if one.pattern != "unknown"]
    assert sum(one.candidates == 1 for one in located) <= 10  # 100 times DOUBTFUL is 5
    assert len(located) <= 30  # and as one of several, 100 times LIKELY is 20


def test_a_crc_kept_in_eight_bytes_may_break_in_those_that_are_zero() -> None:
    data = text(100)
    found = locate(CRC32, data, compute(CRC32, data) | 1 << 37)
    assert found.pattern == "stored_checksum"
    assert (found.flips[0].at, found.flips[0].bit) == (3, 5)
