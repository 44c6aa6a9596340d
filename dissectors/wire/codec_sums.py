"""Checksums that compressed data carry themselves: whether they hold.

    gzip    crc32 and size of the content, at the end of each member (RFC 1952)
    lz4     header: second byte of an XXH32; blocks and content: XXH32, where the frame's flags say so
    zstd    content: the low half of an XXH64, where the frame's flags say so (RFC 8878)
    snappy  of its framing format: a masked CRC32C of each chunk's content; of xerial's: none, but chunks must add up

What does not decompress has no content to compare: such a checksum is `unverifiable`. Only the first MOST are listed.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from dissectors.wire.codecs import CodecError, decompress, listeners
from dissectors.wire.codecs.zstd import extent
from dissectors.wire.crc32c_library import crc32c

OK, BAD, UNVERIFIABLE, ABSENT = "ok", "bad", "unverifiable", "absent"
MOST = 16  # checksums of one batch
_XERIAL = b"\x82SNAPPY\x00"
_FRAMED = b"\xff\x06\x00\x00sNaPpY"
_LZ4_MAGIC, _ZSTD_MAGIC = 0x184D2204, 0xFD2FB528
_LZ4_BLOCKS = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_LZ4_REACH = 1 << 16  # bytes before it that a block may refer to


class Sum(NamedTuple):
    """One checksum."""

    name: str  # gzip crc32, gzip size, lz4 header, lz4 block, lz4 content, zstd content, snappy chunk, xerial chunks
    stored: int | None
    computed: int | None  # None where it cannot be computed
    verdict: str


def sums(codec: str, data: bytes | memoryview, limit: int) -> list[Sum]:
    """The checksums in `data`, in their order. limit: ceiling of what is decompressed."""
    reader = _READERS.get(codec)
    found: list[Sum] = []
    if reader is None:
        return found
    try:
        for one in reader(bytes(data), limit):
            found.append(one)
            if len(found) >= MOST:
                break
    except (IndexError, struct.error, ValueError):
        pass  # it ends before the next one
    return found


def carried(codec: str, data: bytes | memoryview) -> dict[str, bool]:
    """Which checksums the first frame of such data carries (True) or could (False); its head is looked at only."""
    if codec == "gzip":
        return {"gzip crc32": True, "gzip size": True}
    if codec == "lz4" and len(data) > 4:
        return {"lz4 header": True, "lz4 block": bool(data[4] & 16), "lz4 content": bool(data[4] & 4)}
    if codec == "zstd" and len(data) > 4:
        return {"zstd content": bool(data[4] & 4)}
    if codec == "snappy":
        return {"snappy chunk": bytes(data[: len(_FRAMED)]) == _FRAMED}
    return {}


@contextmanager
def counting() -> Iterator[Counter[tuple[str, str]]]:
    """While this lasts, everything decompressed is counted: (checksum, verdict) -> how often."""
    counter: Counter[tuple[str, str]] = Counter()

    def count(codec: str, data: bytes | memoryview, limit: int, whole: bool) -> None:
        if whole:  # all that it carries are right
            verdicts = [(name, OK if there else ABSENT) for name, there in carried(codec, data).items()]
        else:
            verdicts = [(one.name, one.verdict) for one in sums(codec, data, limit)]
        counter.update(verdicts)

    listeners.append(count)
    try:
        yield counter
    finally:
        listeners.remove(count)


def _compared(name: str, stored: int, computed: int | None) -> Sum:
    return Sum(name, stored, computed, UNVERIFIABLE if computed is None else OK if stored == computed else BAD)


def _gzip(data: bytes, limit: int) -> Iterator[Sum]:
    while data[:2] == b"\x1f\x8b":
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        content: bytes | None = None
        with contextlib.suppress(zlib.error):
            content = stream.decompress(data[_gzip_header(data) :], limit + 1)
        whole = content is not None and stream.eof and len(content) <= limit
        rest = stream.unused_data if whole else data[-8:]
        crc, size = struct.unpack_from("<II", rest)
        yield _compared("gzip crc32", crc, zlib.crc32(content) if whole and content is not None else None)
        yield _compared("gzip size", size, len(content) & 0xFFFFFFFF if whole and content is not None else None)
        if not whole:
            return
        data = rest[8:]


def _gzip_header(data: bytes) -> int:
    """Where the compressed data begin."""
    flags, at = data[3], 10
    if flags & 4:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for bit in (8, 16):  # name, comment
        if flags & bit:
            at = data.index(0, at) + 1
    return at + (2 if flags & 2 else 0)


def _lz4(data: bytes, limit: int) -> Iterator[Sum]:
    import lz4.block
    import xxhash

    at = 0
    while int.from_bytes(data[at : at + 4], "little") == _LZ4_MAGIC:
        flags, sizes = data[at + 4], data[at + 5]
        end = at + 6 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
        right = [xxhash.xxh32_intdigest(data[start:end]) >> 8 & 0xFF for start in (at + 4, at)]  # at: Kafka's format 0
        yield _compared("lz4 header", data[end], right[1] if data[end] == right[1] else right[0])
        at = end + 1
        largest = _LZ4_BLOCKS.get(sizes >> 4 & 7, 1 << 16)
        whole, size, tail = xxhash.xxh32(), 0, b""  # of the content: its sum, its size, and what a block may refer to
        there = True
        while (word := struct.unpack_from("<I", data, at)[0]) != 0:
            block = data[at + 4 : at + 4 + (word & 0x7FFFFFFF)]
            at += 4 + len(block)
            if flags & 16:
                yield _compared("lz4 block", struct.unpack_from("<I", data, at)[0], xxhash.xxh32_intdigest(block))
                at += 4
            if not there:
                continue
            plain: bytes | None = block
            if not word >> 31:
                try:
                    plain = lz4.block.decompress(block, uncompressed_size=largest, dict=b"" if flags & 32 else tail)
                except lz4.block.LZ4BlockError:
                    plain = None
            there = plain is not None and size + len(plain) <= limit
            if plain is not None and there:
                whole.update(plain)
                size += len(plain)
                tail = (tail + plain)[-_LZ4_REACH:]
        at += 4
        if flags & 4:
            computed = whole.intdigest() if there else None
            yield _compared("lz4 content", struct.unpack_from("<I", data, at)[0], computed)
            at += 4


def _zstd(data: bytes, limit: int) -> Iterator[Sum]:
    import xxhash

    view, at = memoryview(data), 0
    while int.from_bytes(view[at : at + 4], "little") == _ZSTD_MAGIC:
        try:
            end = extent(view, at)[0]
        except CodecError:
            return
        if data[at + 4] & 4:  # the library would check it; so the frame is read as if it had none
            plain = data[at : at + 4] + bytes([data[at + 4] & ~4]) + data[at + 5 : end - 4]
            computed: int | None = None
            with contextlib.suppress(CodecError):
                computed = xxhash.xxh64_intdigest(decompress("zstd", plain, limit=limit)) & 0xFFFFFFFF
            yield _compared("zstd content", struct.unpack_from("<I", data, end - 4)[0], computed)
        at = end


def _snappy(data: bytes, limit: int) -> Iterator[Sum]:
    if data[: len(_FRAMED)] == _FRAMED:
        yield from _snappy_framed(data, limit)
    if data[:8] != _XERIAL:
        return
    at = 16
    while at < len(data):
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    yield Sum("xerial chunks", None, None, OK if at == len(data) else BAD)


def _snappy_framed(data: bytes, limit: int) -> Iterator[Sum]:
    """Chunks: type, 3 bytes length, content; of types 0 (compressed) and 1 a masked CRC32C stands in front."""
    at = 0
    while at + 8 <= len(data):
        kind, size = data[at], int.from_bytes(data[at + 1 : at + 4], "little")
        chunk, at = data[at + 4 : at + 4 + size], at + 4 + size
        if kind > 1:
            continue
        computed: int | None = None
        with contextlib.suppress(CodecError):
            content = chunk[4:] if kind else decompress("snappy", chunk[4:], limit=limit)
            crc = crc32c()(content)
            computed = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        yield _compared("snappy chunk", int.from_bytes(chunk[:4], "little"), computed)


_READERS: dict[str, Callable[[bytes, int], Iterator[Sum]]] = {
    "gzip": _gzip,
    "lz4": _lz4,
    "zstd": _zstd,
    "snappy": _snappy,
}
