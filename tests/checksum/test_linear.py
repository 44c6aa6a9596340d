"""The algebra against the checksums themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.checksum import CRC32, CRC32C, compute
from dissectors.checksum.linear import PERIOD, BitTable, crc_of

KINDS = st.sampled_from([CRC32, CRC32C])


def flipped(data: bytes, distance: int) -> bytes:
    """`data` with the bit flipped that is `distance` bits before its last."""
    number = len(data) - 1 - distance // 8
    return data[:number] + bytes([data[number] ^ 1 << (7 - distance % 8)]) + data[number + 1 :]


@given(KINDS, st.binary(min_size=1, max_size=40), st.data())
def test_a_bit_contributes_what_flipping_it_changes(kind: str, data: bytes, draw: st.DataObject) -> None:
    distance = draw.draw(st.integers(0, 8 * len(data) - 1))
    changed = compute(kind, data) ^ compute(kind, flipped(data, distance))
    assert int(crc_of(kind).bits(8 * len(data))[distance]) == changed


@given(KINDS, st.integers(0, 2**32 - 1), st.integers(0, 2**40))
def test_going_back_undoes_going_forward(kind: str, value: int, bits: int) -> None:
    crc = crc_of(kind)
    assert crc.advance_one(crc.advance_one(value, bits), -bits) == value


@given(KINDS, st.lists(st.integers(0, 2**32 - 1), max_size=20), st.data())
def test_each_value_goes_its_own_way(kind: str, values: list[int], draw: st.DataObject) -> None:
    bits = draw.draw(st.lists(st.integers(0, 5000), min_size=len(values), max_size=len(values)))
    crc = crc_of(kind)
    for sign in (1, -1):
        got = crc.advance_each(np.array(values, np.uint32), sign * np.array(bits, np.int64))
        assert got.tolist() == [crc.advance_one(v, sign * b) for v, b in zip(values, bits)]


@pytest.mark.parametrize("kind", [CRC32, CRC32C])
def test_the_period_is_what_uniqueness_rests_on(kind: str) -> None:
    crc = crc_of(kind)
    period = PERIOD if kind == CRC32C else 2**32 - 1
    assert crc.advance_one(crc.polynomial, period) == crc.polynomial
    factors = {CRC32: (3, 5, 17, 257, 65537), CRC32C: ()}[kind]  # of 2^32 - 1; 2^31 - 1 is prime
    assert all(crc.advance_one(crc.polynomial, period // factor) != crc.polynomial for factor in factors)


@given(KINDS, st.integers(1, 2**30), st.data())
def test_the_distance_of_a_bit_is_found_however_far(kind: str, limit: int, draw: st.DataObject) -> None:
    distance = draw.draw(st.integers(0, limit - 1))
    crc = crc_of(kind)
    syndrome = crc.advance_one(crc.polynomial, distance)
    assert crc.distances(np.array([syndrome], np.uint32), min(limit, distance + 9999)) == [(0, distance)]
    assert crc.distances(np.array([syndrome], np.uint32), distance) == [] if distance else True


@given(KINDS, st.binary(min_size=1, max_size=50), st.data())
def test_placed_bytes_contribute_what_changing_them_changes(kind: str, data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data) - 1))
    change = draw.draw(st.binary(min_size=1, max_size=len(data) - start))
    other = bytearray(data)
    for at, byte in enumerate(change):
        other[start + at] ^= byte
    bit_table = BitTable(crc_of(kind), len(data))
    total = int(np.bitwise_xor.reduce(bit_table.place(np.frombuffer(change, np.uint8), start)))
    assert total == compute(kind, data) ^ compute(kind, bytes(other))


@given(KINDS, st.binary(min_size=4, max_size=30), st.integers(1, 2**32 - 1), st.data())
def test_every_place_has_one_word_that_explains_a_syndrome(
    kind: str, data: bytes, syndrome: int, draw: st.DataObject
) -> None:
    size = len(data)
    end = draw.draw(st.integers(4, size))
    word = int(crc_of(kind).words(syndrome, size, 8)[size - end])
    other = bytearray(data)
    for at, byte in enumerate(word.to_bytes(4, "little")):
        other[end - 4 + at] ^= byte
    assert compute(kind, data) ^ compute(kind, bytes(other)) == syndrome
