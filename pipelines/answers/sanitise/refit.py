"""Compressed bytes of a given length, of data that may be filled with more or less noise.

Filler compresses to nearly nothing, noise not at all: so much of the filler is made noise that the compressed bytes are
nearly as many as those that they stand for. Where they are fewer, the beginning of the data is stored as it is:

    zlib       a stored block
    zstd       a raw block
    lz4        an uncompressed block of the frame
    lz4-block  literals, of the first sequence
    snappy     literals
    gzip       nothing need be stored: a comment in its head may be of any length
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import partial

from dissectors.wire.codecs import CodecError, decompress, without_listeners

Make = Callable[[int], bytes]
"""so many bytes of noise -> the data"""

Pack = Callable[[bytes, bytes], bytes]
"""(what is stored, what follows it and is compressed) -> the compressed bytes"""

_NEAR = 24  # amounts of noise, and of stored bytes, that are tried around the best one
_LEVELS = (6, 9, 1)


def refitted(codec: str, make: Make, most: int, size: int) -> bytes | None:
    """`size` bytes that a codec decompresses to data of `make`, with at most `most` bytes of noise; None where none are
    found.
    """
    for pack in _PACKERS.get(codec, ()):
        if len(pack(b"", make(0))) > size:
            continue
        best = bisect_left(range(most), size, key=lambda noise: len(pack(b"", make(noise))))
        for noise in _near(best, most):
            data = make(noise)
            made = _padded(pack(b"", data), size) if codec == "gzip" else _stored(pack, data, size)
            if len(made) == size and _unpacks(codec, made, data):
                return made
    return None


def _stored(pack: Pack, data: bytes, size: int) -> bytes:
    """The data as `size` bytes, by what is stored of it, or as another number of bytes where that cannot be."""

    def packed(stored: int) -> bytes:
        return pack(data[:stored], data[stored:])

    least = packed(0)
    if len(least) >= size:
        return least
    best = bisect_left(range(len(data)), size, key=lambda stored: len(packed(stored)))
    return next((made for made in map(packed, _near(best, len(data))) if len(made) == size), least)


def _near(best: int, most: int) -> list[int]:
    """Numbers up to `most` around the best one, the nearest first."""
    return sorted(range(max(0, best - _NEAR), min(most, best + _NEAR) + 1), key=lambda number: abs(number - best))


def _unpacks(codec: str, made: bytes, data: bytes) -> bool:
    """Whether compressed bytes are those of some data."""
    try:
        with without_listeners():
            return decompress(codec, made, limit=len(data), size=len(data)) == data
    except CodecError:
        return False


def _padded(made: bytes, size: int) -> bytes:
    """A gzip member of so many bytes, where it has fewer."""
    short = size - len(made)
    return made if short <= 0 else made[:3] + b"\x10" + made[4:10] + b"x" * (short - 1) + b"\0" + made[10:]


def _gzip(level: int, stored: bytes, data: bytes) -> bytes:
    return zlib.compress(data, level, wbits=31)


def _zlib(level: int, stored: bytes, data: bytes) -> bytes:
    out = zlib.compress(b"", level)[:2]
    for part in _parts(stored, 0xFFFF):
        out += struct.pack("<BHH", 0, len(part), len(part) ^ 0xFFFF) + part
    return out + zlib.compress(data, level, wbits=-15) + zlib.adler32(stored + data).to_bytes(4, "big")


def _zstd(level: int, stored: bytes, data: bytes) -> bytes:
    import zstandard

    work = zstandard.ZstdCompressor(level=level, write_checksum=False)
    if not stored:
        return work.compress(data)
    stream = work.compressobj()  # whose head is a magic of 4 bytes, a descriptor and the size of its window
    out = stream.compress(data) + stream.flush()
    return (
        out[:6] + b"".join((len(part) << 3).to_bytes(3, "little") + part for part in _parts(stored, 1 << 17)) + out[6:]
    )


def _snappy(stored: bytes, data: bytes) -> bytes:
    """Raw snappy: the size as a varint, then elements. A literal is a tag, a length of up to 2 bytes, and bytes."""
    import cramjam

    elements, size, out = bytes(cramjam.snappy.compress_raw(data)), len(stored) + len(data), b""
    while size > 127:
        out, size = out + bytes([size & 127 | 128]), size >> 7
    out += bytes([size])
    for part in _parts(stored, 1 << 16):
        length = len(part) - 1
        more = 0 if length < 60 else 1 if length < 256 else 2
        out += bytes([(59 + more if more else length) << 2]) + length.to_bytes(2, "little")[:more] + part
    return out + elements[next(at for at, byte in enumerate(elements) if byte < 128) + 1 :]


def _xerial(stored: bytes, data: bytes) -> bytes:
    """Snappy as Java clients frame it: a magic, two versions, then blocks behind their sizes; here one."""
    block = _snappy(stored, data)
    return b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + len(block).to_bytes(4, "big") + block


def _lz4_frame(level: int, stored: bytes, data: bytes) -> bytes:
    """A header of 7 bytes, blocks behind their sizes, and a 0. The highest bit of a size says: this block is stored."""
    import lz4.frame

    out: bytes = lz4.frame.compress(data, compression_level=level, store_size=False)
    return (
        out[:7] + b"".join(struct.pack("<I", len(part) | 1 << 31) + part for part in _parts(stored, 1 << 16)) + out[7:]
    )


def _lz4_block(stored: bytes, data: bytes) -> bytes:
    """A block begins with a token (length of literals << 4 | that of a match), of which 15 goes on in further bytes,
    and literals: what is stored becomes such.
    """
    import lz4.block

    out: bytes = lz4.block.compress(data, store_size=False)
    size, at = out[0] >> 4, 1
    if size == 15:
        at = next(at for at in range(1, len(out)) if out[at] < 255) + 1
        size += 255 * (at - 2) + out[at - 1]
    size += len(stored)
    more = b"" if size < 15 else b"\xff" * ((size - 15) // 255) + bytes([(size - 15) % 255])
    return bytes([min(size, 15) << 4 | out[0] & 15]) + more + stored + out[at:]


def _parts(stored: bytes, most: int) -> list[bytes]:
    return [stored[at : at + most] for at in range(0, len(stored), most)]


_PACKERS: Mapping[str, tuple[Pack, ...]] = {
    "gzip": tuple(partial(_gzip, level) for level in _LEVELS),
    "zlib": tuple(partial(_zlib, level) for level in _LEVELS),
    "zstd": tuple(partial(_zstd, level) for level in (3, 12, 1, 19)),
    "snappy": (_snappy, _xerial),
    "lz4": tuple(partial(_lz4_frame, level) for level in (0, 9)),
    "lz4-block": (_lz4_block,),
}
