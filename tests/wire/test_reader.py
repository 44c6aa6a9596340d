"""The checked reader: every value is read back, and nothing beyond the end is."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.reader import EndsEarlyError, ReadError, VarintError, WireReader
from tests.kafka.encoder import uvarint

PLAIN, WIDE, COMPACT = range(3)
BIG = {"u8": ">B", "i8": ">b", "u16": ">H", "i16": ">h", "u32": ">I", "i32": ">i", "i64": ">q"}
NUMBERS = BIG | {"u16le": "<H", "u32le": "<I", "i64le": "<q"}


def reader(data: bytes, start: int = 0, end: int | None = None) -> WireReader:
    found = WireReader()
    found.open(data, start, len(data) if end is None else end)
    return found


@pytest.mark.parametrize("method", NUMBERS)
@given(st.binary(min_size=8, max_size=8))
def test_a_number_is_the_one_that_struct_reads(method: str, raw: bytes) -> None:
    size = struct.calcsize(NUMBERS[method])
    r = reader(b"x" + raw, 1)
    assert getattr(r, method)() == struct.unpack_from(NUMBERS[method], raw)[0]
    assert r.pos == 1 + size
    if method in ("i8", "i16", "i32", "i64"):
        assert reader(raw).integer(size) == struct.unpack_from(NUMBERS[method], raw)[0]


@pytest.mark.parametrize("method", NUMBERS)
def test_a_number_that_ends_beyond_the_end_is_refused_though_the_buffer_goes_on(method: str) -> None:
    size = struct.calcsize(NUMBERS[method])
    r = reader(bytes(20), 3, 3 + size - 1)
    with pytest.raises(EndsEarlyError):
        getattr(r, method)()
    assert r.pos == 3 + size


@given(st.integers(0, (1 << 35) - 1))
def test_a_varint_is_read_back(value: int) -> None:
    raw = uvarint(value)
    r = reader(raw + b"\xff")
    assert r.uvarint() == value
    assert r.pos == len(raw)
    for end in range(len(raw)):
        with pytest.raises(EndsEarlyError):
            reader(raw, 0, end).uvarint()


def test_a_varint_of_more_than_five_bytes_is_refused() -> None:
    with pytest.raises(VarintError, match="a varint of more than 5 bytes"):
        reader(b"\x80" * 5 + b"\0").uvarint()


@pytest.mark.parametrize(
    ("kind", "raw", "size"),
    [
        (PLAIN, b"\0\3", 3), (PLAIN, b"\xff\xff", -1), (WIDE, b"\0\0\0\3", 3), (WIDE, b"\xff\xff\xff\xff", -1),
        (COMPACT, b"\4", 3), (COMPACT, b"\0", -1), (COMPACT, b"\1", 0),
    ],
)  # fmt: skip
def test_a_length_is_that_of_its_kind(kind: int, raw: bytes, size: int) -> None:
    assert reader(raw + b"abc").length(kind) == reader(raw + b"abc").announced(kind) == size


@pytest.mark.parametrize(
    ("kind", "raw"), [(PLAIN, b"\x7f\xff"), (WIDE, b"\x7f\xff\xff\xff"), (COMPACT, b"\xff\xff\xff\xff\x7f")]
)
def test_a_length_of_more_than_is_left_is_refused_but_can_be_looked_at(kind: int, raw: bytes) -> None:
    with pytest.raises(EndsEarlyError):
        reader(raw + b"abc").length(kind)
    assert reader(raw + b"abc").announced(kind) > 3


def test_to_skip_beyond_the_end_ends_the_next_read() -> None:
    r = reader(b"abc")
    r.skip(-1)
    assert r.u8() == ord("a")
    r.skip(1 << 34)
    assert r.left() < 0
    with pytest.raises(EndsEarlyError):
        r.u8()
    with pytest.raises(EndsEarlyError):
        r.take(0)


def test_a_piece_ends_where_its_data_do_and_begins_within_them() -> None:
    assert reader(b"abc", 1, 99).left() == 2
    assert reader(b"abc", 7, 99).left() < 0
    with pytest.raises(IndexError):
        reader(b"abc", -1)


def test_tagged_fields_are_stepped_over() -> None:
    r = reader(b"\2\1\3abc\x80\1\0z")
    r.skip_tags()
    assert r.u8() == ord("z")
    with pytest.raises(ReadError):
        reader(b"\xff\xff\xff\xff\x0f\1\0").skip_tags()
