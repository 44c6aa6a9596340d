"""Checksums inside compressed data, against what the compressors write."""

import gzip
import struct
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.codec_sums import MOST, counting, sums
from dissectors.wire.codecs import CodecError, decompress

LIMIT = 1 << 20
TEXT = b"The quick brown fox jumps over the lazy dog; " * 40


def lz4_frame(data: bytes, **options: object) -> bytes:
    return lz4.frame.compress(data, content_checksum=True, block_checksum=True, **options)


def zstd_frame(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def xerial(data: bytes) -> bytes:
    """Two chunks; what they hold does not matter here."""
    chunks = (data[:50], data[50:200])
    head = b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1)
    return head + b"".join(struct.pack(">I", len(chunk)) + chunk for chunk in chunks)


MAKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "lz4": lz4_frame,
    "zstd": zstd_frame,
    "snappy": xerial,
}
NAMES = {
    "gzip": ["gzip crc32", "gzip size"],
    "lz4": ["lz4 header", "lz4 block", "lz4 content"],
    "zstd": ["zstd content"],
    "snappy": ["xerial chunks"],
}


@pytest.mark.parametrize("codec", MAKERS)
def test_what_a_compressor_writes_holds(codec: str) -> None:
    found = sums(codec, MAKERS[codec](TEXT), LIMIT)
    assert [one.name for one in found] == NAMES[codec]
    assert {one.verdict for one in found} == {"ok"}


@pytest.mark.parametrize(
    ("codec", "back", "name"),
    [("gzip", 8, "gzip crc32"), ("gzip", 1, "gzip size"), ("lz4", 4, "lz4 content"), ("zstd", 1, "zstd content")],
)
def test_a_stored_checksum_that_broke_is_bad_and_the_others_hold(codec: str, back: int, name: str) -> None:
    data = bytearray(MAKERS[codec](TEXT))
    data[-back] ^= 1
    for one in sums(codec, bytes(data), LIMIT):
        assert one.verdict == ("bad" if one.name == name else "ok")


def test_dependent_blocks_of_lz4_are_read_together() -> None:
    data = bytes(i * i % 251 for i in range(200_000)) * 2
    frame = lz4_frame(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=True)
    found = sums("lz4", frame, LIMIT)
    assert found[-1] == ("lz4 content", xxhash.xxh32_intdigest(data), xxhash.xxh32_intdigest(data), "ok")


def test_content_that_does_not_decompress_cannot_be_compared() -> None:
    data = bytearray(gzip.compress(TEXT))
    data[10] = 0xFF  # no block type of deflate
    assert {one.verdict for one in sums("gzip", bytes(data), LIMIT)} == {"unverifiable"}


def test_content_above_the_limit_is_not_looked_at() -> None:
    assert {one.verdict for one in sums("gzip", gzip.compress(bytes(LIMIT + 1)), LIMIT)} == {"unverifiable"}


@pytest.mark.parametrize("wrong", [False, True])
def test_chunks_of_snappys_framing_format_carry_checksums(wrong: bool) -> None:
    data = bytearray(cramjam.snappy.compress(TEXT))
    if wrong:
        data[14] ^= 1  # behind the stream's mark and the chunk's head: the chunk's checksum
    assert [(one.name, one.verdict) for one in sums("snappy", bytes(data), LIMIT)] == [
        ("snappy chunk", "bad" if wrong else "ok")
    ]


@given(st.sampled_from(sorted(MAKERS)), st.data())
def test_any_bytes_are_survived(codec: str, draw: st.DataObject) -> None:
    whole = MAKERS[codec](TEXT)
    cut = draw.draw(st.integers(0, len(whole)))
    at = draw.draw(st.integers(0, len(whole) - 1))
    mangled = whole[:at] + draw.draw(st.binary(max_size=6)) + whole[at:cut]
    assert len(sums(codec, mangled, LIMIT)) <= MOST


def test_what_is_decompressed_is_counted_while_somebody_counts() -> None:
    broken = bytearray(gzip.compress(TEXT))
    broken[-8] ^= 1
    decompress("gzip", gzip.compress(TEXT), limit=LIMIT)
    with counting() as counts:
        decompress("gzip", gzip.compress(TEXT), limit=LIMIT)
        decompress("zstd", zstandard.compress(TEXT), limit=LIMIT)
        with pytest.raises(CodecError):
            decompress("gzip", bytes(broken), limit=LIMIT)
    assert counts == {
        ("gzip crc32", "ok"): 1,
        ("gzip size", "ok"): 2,
        ("gzip crc32", "bad"): 1,
        ("zstd content", "absent"): 1,
    }
