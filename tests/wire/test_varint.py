"""Integers of variable length are read back, and end somewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.reader import VarintError
from dissectors.wire.varint import many, unsigned, zigzag
from tests.kafka.encoder import uvarint


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3))
def test_an_unsigned_integer_is_read_back(value: int, behind: bytes) -> None:
    raw = uvarint(value)
    assert unsigned(b"x" + raw + behind, 1) == (value, 1 + len(raw))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_signed_integer_is_read_back(value: int) -> None:
    assert zigzag(uvarint(value << 1 if value >= 0 else ~value << 1 | 1), 0)[0] == value


def test_an_integer_that_goes_on_for_too_long_is_an_error() -> None:
    assert unsigned(b"\x80" * 4 + b"\1", 0, 5) == (1 << 28, 5)
    with pytest.raises(VarintError, match="more than 5 bytes"):
        unsigned(b"\x80" * 5 + b"\1", 0, 5)


def test_an_integer_that_is_cut_is_no_integer() -> None:
    with pytest.raises(IndexError):
        unsigned(b"\x80\x80", 0)


INTEGERS = st.one_of(
    st.integers(0, 300), st.integers(0, (1 << 64) - 1), st.sampled_from([(1 << n) - 1 for n in range(65)])
)


@given(st.lists(INTEGERS, min_size=1))
def test_integers_are_read_by_column_as_one_by_one(values: list[int]) -> None:
    each = [uvarint(value) for value in values]
    ends = np.cumsum([len(raw) for raw in each])
    octets = np.frombuffer(b"".join(each) + bytes(20), np.uint8)
    found, after, malformed = many(octets, ends - [len(raw) for raw in each])
    assert found.view(np.uint64).tolist() == values
    assert after.tolist() == ends.tolist()
    assert not len(malformed)


def test_of_many_integers_those_of_more_than_64_bits_are_malformed() -> None:
    each = [b"\xff" * 9 + b"\1", b"\xff" * 10 + b"\1", b"\xff" * 9 + b"\2", b"\x80" * 9 + b"\0"]
    starts = np.cumsum([0, *(len(raw) for raw in each)])[:-1]
    found, after, malformed = many(np.frombuffer(b"".join(each) + bytes(20), np.uint8), starts)
    assert malformed.tolist() == [1, 2]
    assert (found[0], after[0]) == (-1, 10)
    assert (found[3], after[3] - starts[3]) == (0, 10)
