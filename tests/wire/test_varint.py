"""Integers of variable length are read back, and end somewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.varint import VarintError, unsigned, zigzag
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
