"""Codecs give back what went in, say so when bytes are missing or wrong, and never make more than they may."""

import contextlib
import gzip
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import lz4.block
import lz4.frame
import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.codecs import CodecError, TooLargeError, decompress
from dissectors.wire.codecs.sizes import decompressed_size

LIMIT = 1 << 20
XERIAL = b"\x82SNAPPY\x00" + b"\0\0\0\1" * 2


def xerial(data: bytes, block: int = 32 * 1024) -> bytes:
    out = [XERIAL]
    for at in range(0, len(data), block):
        part = bytes(cramjam.snappy.compress_raw(data[at : at + block]))
        out += [len(part).to_bytes(4, "big"), part]
    return b"".join(out)


def framed(data: bytes) -> bytes:
    """Snappy's own framing format; the library writes no header where there is no data."""
    return bytes(cramjam.snappy.compress(data)) or b"\xff\x06\x00\x00sNaPpY"


def kafka_magic_0(data: bytes) -> bytes:
    """An LZ4 frame whose header checksum takes in the magic, as old Kafka clients wrote it."""
    frame = bytearray(lz4.frame.compress(data, store_size=False))
    frame[6] = xxhash.xxh32_intdigest(bytes(frame[:6])) >> 8 & 0xFF
    return bytes(frame)


def zlib_flushed(data: bytes) -> bytes:
    """A stream that was flushed and never ended, as Pulsar's Java clients write it."""
    stream = zlib.compressobj()
    return stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)


def zstd_unsized(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return stream.compress(data) + stream.flush()


FORMS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "zlib": ("zlib", zlib.compress),
    "zlib without an end": ("zlib", zlib_flushed),
    "raw snappy": ("snappy", lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "xerial snappy": ("snappy", xerial),
    "framed snappy": ("snappy", framed),
    "lz4": ("lz4", lambda data: lz4.frame.compress(data, store_size=False)),
    "lz4 with a content size": ("lz4", lambda data: lz4.frame.compress(data, store_size=True)),
    "lz4 with checksums": ("lz4", lambda data: lz4.frame.compress(data, content_checksum=True, block_checksum=True)),
    "lz4 of Kafka's format 0": ("lz4", kafka_magic_0),
    "lz4-block": ("lz4-block", lambda data: lz4.block.compress(data, store_size=False)),
    "zstd": ("zstd", zstandard.ZstdCompressor().compress),
    "zstd with a checksum": ("zstd", zstandard.ZstdCompressor(write_checksum=True).compress),
    "zstd without a size": ("zstd", zstd_unsized),
}
SEVERAL = [form for form in FORMS if FORMS[form][0] != "zlib" and form not in ("raw snappy", "lz4-block")]
payloads = st.one_of(
    st.binary(max_size=3000), st.builds(lambda unit, n: unit * n, st.binary(max_size=20), st.integers(0, 9000))
)
forms = st.sampled_from(sorted(FORMS))


@given(forms, payloads)
def test_what_went_in_comes_out(form: str, data: bytes) -> None:
    codec, compress = FORMS[form]
    packed = compress(data)
    assert decompress(codec, packed, limit=LIMIT, size=len(data)) == data
    assert decompress(codec, memoryview(packed), limit=len(data), size=len(data)) == data
    if codec != "lz4-block":
        assert decompress(codec, packed, limit=LIMIT) == data


@given(st.sampled_from([form for form in FORMS if form != "lz4-block"]), payloads)
def test_the_size_is_that_of_the_output_again_and_again_and_never_over_the_ceiling(form: str, data: bytes) -> None:
    codec, compress = FORMS[form]
    packed = compress(data)
    for again in (packed, packed, memoryview(b"before" + packed)[6:]):
        assert decompressed_size(codec, again, LIMIT, None) == len(data)
    with pytest.raises(CodecError):  # not so many come out
        decompressed_size(codec, packed, LIMIT, len(data) + 1)
    if data:
        with pytest.raises(TooLargeError):
            decompressed_size(codec, packed, len(data) - 1, None)


def test_bytes_that_do_not_decompress_do_not_the_next_time_either() -> None:
    for _ in range(2):
        with pytest.raises(CodecError):
            decompressed_size("zstd", b"this is no frame", LIMIT, None)


@given(forms, payloads, st.data())
def test_input_that_ends_early_is_an_error_not_a_shorter_output(form: str, data: bytes, draw: st.DataObject) -> None:
    codec, compress = FORMS[form]
    packed = compress(data)
    cut = draw.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(CodecError):
        decompress(codec, packed[:cut], limit=LIMIT, size=len(data))


@given(st.sampled_from(SEVERAL), st.lists(payloads, min_size=2, max_size=4))
def test_frames_that_follow_each_other_are_one_output(form: str, parts: list[bytes]) -> None:
    codec, compress = FORMS[form]
    packed = b"".join(compress(part) for part in parts)
    assert decompress(codec, packed, limit=LIMIT) == b"".join(parts)


@given(forms, payloads.filter(bool), st.data())
def test_one_byte_over_the_ceiling_is_too_much(form: str, data: bytes, draw: st.DataObject) -> None:
    codec, compress = FORMS[form]
    limit = draw.draw(st.integers(0, len(data) - 1))
    with pytest.raises(CodecError):
        decompress(codec, compress(data), limit=limit, size=len(data) if codec == "lz4-block" else None)


@given(forms, payloads, st.integers(0, 5000))
def test_a_size_that_is_not_true_is_an_error(form: str, data: bytes, size: int) -> None:
    codec, compress = FORMS[form]
    if size != len(data):
        with pytest.raises(CodecError):
            decompress(codec, compress(data), limit=LIMIT, size=size)


@given(st.sampled_from(sorted({codec for codec, _ in FORMS.values()})), st.binary(max_size=200), st.integers(0, 5000))
def test_any_bytes_give_an_output_or_a_codec_error(codec: str, data: bytes, size: int) -> None:
    with contextlib.suppress(CodecError):
        assert len(decompress(codec, data, limit=LIMIT, size=size)) == size


@given(forms, payloads.filter(bool), st.data())
def test_a_changed_byte_gives_an_output_or_a_codec_error(form: str, data: bytes, draw: st.DataObject) -> None:
    codec, compress = FORMS[form]
    packed = bytearray(compress(data))
    packed[draw.draw(st.integers(0, len(packed) - 1))] ^= draw.draw(st.integers(1, 255))
    with contextlib.suppress(CodecError):
        decompress(codec, bytes(packed), limit=LIMIT, size=len(data))


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_bomb_is_refused_before_it_unfolds(form: str) -> None:
    codec, compress = FORMS[form]
    bomb = compress(bytes(64 << 20))
    if codec != "lz4-block":
        decompress(codec, compress(b"x"), limit=LIMIT)  # whatever the library allocates once
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="ceiling"):
            decompress(codec, bomb, limit=LIMIT, size=64 << 20 if codec == "lz4-block" else None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * LIMIT + 2 * len(bomb)


LIES = {
    "raw snappy": ("snappy", b"\xff\xff\xff\x7f" + b"\x00a", None),
    "lz4 content size": ("lz4", None, None),
    "lz4-block": ("lz4-block", b"\x10a", 200 << 20),
    "zstd content size": ("zstd", bytes.fromhex("28b52ffd a0 0000000c 010000"), None),
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_an_announced_size_that_the_input_cannot_hold_allocates_nothing(lie: str) -> None:
    codec, data, size = LIES[lie]
    if data is None:
        header = bytes([0x68, 0x40]) + (200 << 20).to_bytes(8, "little")
        data = b"\x04\x22\x4d\x18" + header + bytes([xxhash.xxh32_intdigest(header) >> 8 & 0xFF]) + bytes(4)
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            decompress(codec, data, limit=256 << 20, size=size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20


def test_old_kafkas_lz4_header_is_read_and_other_wrong_checksums_are_not() -> None:
    frame = bytearray(kafka_magic_0(b"hello"))
    assert bytes(frame[:7]).hex() == "04224d18" + "6040" + "1a"
    assert decompress("lz4", bytes(frame), limit=LIMIT) == b"hello"
    frame[6] ^= 1
    with pytest.raises(CodecError):
        decompress("lz4", bytes(frame), limit=LIMIT)


def test_a_chunk_of_framed_snappy_is_compared_with_its_checksum() -> None:
    chunks = bytearray(framed(b"hello hello hello hello"))
    chunks[15] ^= 1  # behind the stream's name (10 bytes) and the chunk's head (4)
    with pytest.raises(CodecError, match="checksum of a chunk"):
        decompress("snappy", bytes(chunks), limit=LIMIT)


def test_a_chunk_of_framed_snappy_that_must_not_be_skipped_is_an_error() -> None:
    reserved, padding = b"\x02\x01\0\0x", b"\xfe\x01\0\0x"
    assert decompress("snappy", framed(b"a") + padding, limit=LIMIT) == b"a"
    with pytest.raises(CodecError, match="type 2"):
        decompress("snappy", framed(b"a") + reserved, limit=LIMIT)


def test_frames_to_skip_are_skipped() -> None:
    skip = bytes.fromhex("502a4d18 03000000 616263")
    assert decompress("zstd", skip + zstd_unsized(b"a") + skip, limit=LIMIT) == b"a"
    assert decompress("lz4", skip + lz4.frame.compress(b"a") + skip, limit=LIMIT) == b"a"


@pytest.mark.parametrize("form", SEVERAL)
def test_tiny_pieces_without_end_are_refused(form: str) -> None:
    codec, compress = FORMS[form]
    with pytest.raises(CodecError, match="more pieces"):
        decompress(codec, compress(b"a") * 5000, limit=LIMIT)


@pytest.mark.parametrize("form", SEVERAL)
def test_time_grows_with_the_pieces_and_not_with_their_square(form: str) -> None:
    codec, compress = FORMS[form]
    piece = compress(random.Random(7).randbytes(1000))

    def seconds(pieces: int) -> float:
        """Of CPU, at best."""
        data = piece * pieces
        times = []
        for _ in range(3):
            before = time.process_time()
            assert len(decompress(codec, data, limit=64 * LIMIT)) == 1000 * pieces
            times.append(time.process_time() - before)
        return min(times)

    assert seconds(8_000) < 10 * seconds(2_000) + 0.1  # the square would be 16 times


def test_members_of_a_gzip_file_may_be_padded() -> None:
    data = (gzip.compress(b"a" * 9000) + bytes(3)) * 3 + gzip.compress(bytes(20_000)) + bytes(5)
    assert decompress("gzip", data, limit=LIMIT) == b"a" * 27_000 + bytes(20_000)


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(CodecError, match="brotli"):
        decompress("brotli", b"x", limit=1)
