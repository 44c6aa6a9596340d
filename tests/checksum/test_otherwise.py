"""A checksum that was made by another polynomial or over other bytes is known by its 32 bits."""

import random
import zlib

import pytest

from dissectors.checksum.diagnosis import STORED
from dissectors.checksum.otherwise import otherwise
from dissectors.checksum.verify import CRC32, CRC32C, XXH3, compute

UNIT = random.Random(47).randbytes(300)
COVERED, PLACE = [(21, 300)], (17, 21)


def told(stored: int, kind: str = CRC32C) -> str | None:
    found = otherwise(kind, UNIT, COVERED, PLACE, stored, 0 if kind == XXH3 else compute(kind, UNIT[21:]))
    if found is None:
        return None
    assert (found.pattern, found.verified, found.candidates) == (STORED, True, 1)
    assert found.chance < 1e-6
    return found.note


def test_the_other_polynomial_is_named() -> None:
    assert "is the CRC-32 of the bytes, not their CRC-32C" in str(told(zlib.crc32(UNIT[21:])))
    assert "is the CRC-32C of the bytes, not their CRC-32:" in str(told(compute(CRC32C, UNIT[21:]), CRC32))


@pytest.mark.parametrize(("start", "end"), [(0, 300), (16, 300), (17, 300), (23, 300), (61, 300), (21, 299), (21, 296)])
@pytest.mark.parametrize("kind", [CRC32, CRC32C])
def test_another_range_is_named(start: int, end: int, kind: str) -> None:
    note = str(told(compute(kind, UNIT[start:end]), kind))
    assert f"of bytes {start} to {end} of the batch, not of bytes 21 to 300: it was made over another range" in note


def test_a_range_with_zeros_in_the_place_of_the_checksum_is_named() -> None:
    zeroed = UNIT[:17] + bytes(4) + UNIT[21:]
    assert "bytes 0 to 300 of the batch, with zeros in its own place" in str(told(compute(CRC32C, zeroed)))


def test_no_other_checksum_is_explained_so() -> None:
    for stored in random.Random(8).sample(range(1 << 32), 200):
        assert told(stored) is None
    assert told(zlib.crc32(UNIT[21:]), XXH3) is None
