"""Memory is touched within its bounds only, and CRC32C is that of the library."""

import crc32c as library
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.memory import crc32c


@given(st.binary(max_size=300), st.data())
def test_crc32c_is_that_of_the_library(raw: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, len(raw)))
    assert crc32c(raw, start, end) == library.crc32c(raw[start:end])


@pytest.mark.parametrize("size", [6143, 6144, 6145, 20_000, 100_003])
def test_long_runs_are_summed_as_short_ones_are(size: int) -> None:
    raw = bytes(i * i % 251 for i in range(size + 3))
    assert crc32c(raw, 3, size + 3) == library.crc32c(raw[3:])


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (0, 11), (5, 4), (11, 11), (0, -1)])
def test_bytes_beyond_the_buffer_are_refused(start: int, end: int) -> None:
    with pytest.raises(IndexError):
        crc32c(bytes(10), start, end)
