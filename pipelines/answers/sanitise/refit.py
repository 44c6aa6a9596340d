"""Compressed bytes of a given length, of data that may be filled with more or less noise.

Filler compresses to nearly nothing, noise not at all: so much of the filler is made noise that the compressed bytes are
as many as those that they stand for. A few bytes that are missing are put where the format has room that says nothing:
a comment in gzip, empty blocks in zstd, literals of snappy that are cut in two.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

Make = Callable[[int], bytes]
"""so many bytes of noise -> the data"""

_NEAR = 48  # amounts of noise that are tried around the best one
_LEVELS = (6, 9, 1)


def refitted(codec: str, make: Make, most: int, size: int) -> bytes | None:
    """`size` bytes that a codec decompresses to data of `make`, with at most `most` bytes of noise; None where none is
    found.
    """
    for compress in _compressors(codec):
        low, high = 0, most
        while low < high:
            middle = (low + high) // 2
            if len(compress(make(middle))) < size:
                low = middle + 1
            else:
                high = middle
        for noise in sorted(range(max(0, low - _NEAR), min(most, low + _NEAR) + 1), key=lambda n: abs(n - low)):
            made = compress(make(noise))
            made = made if len(made) == size else _filled(codec, made, size - len(made))
            if len(made) == size:
                return made
    return None


def _compressors(codec: str) -> list[Callable[[bytes], bytes]]:
    if codec in ("gzip", "zlib"):
        return [partial(_deflated, level, 31 if codec == "gzip" else 15) for level in _LEVELS]
    if codec == "zstd":
        return [partial(_zstd, level) for level in (3, 12, 1)]
    if codec == "snappy":
        return [_snappy]
    if codec == "lz4":
        return [partial(_lz4_frame, level) for level in (0, 9)]
    return [_lz4_block] if codec == "lz4-block" else []


def _filled(codec: str, made: bytes, short: int) -> bytes:
    """Compressed bytes that say nothing more, and are longer, where the format can; else as they are."""
    if short <= 0:
        return made
    if codec == "gzip":
        return made[:3] + bytes([made[3] | 16]) + made[4:10] + b"x" * (short - 1) + b"\0" + made[10:]
    if codec == "zstd" and short % 3 == 0:
        descriptor = made[4]
        single = descriptor >> 5 & 1
        head = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
        return made[:head] + bytes(short) + made[head:]
    return _cut_literals(made, short) if codec == "snappy" else made


def _cut_literals(made: bytes, short: int) -> bytes:
    """Snappy's raw format with more literals: each cut of one costs a byte.

    A literal of up to 60 bytes is a tag, (length - 1) << 2, and the bytes; copies take 2, 3 or 5 bytes by their tag.
    """
    at = 0
    while made[at] > 127:
        at += 1
    out = bytearray(made[: at + 1])
    at += 1
    while at < len(made):
        kind, upper = made[at] & 3, made[at] >> 2
        if kind:
            after = at + (0, 2, 3, 5)[kind]
            out += made[at:after]
        else:
            extra = max(0, upper - 59)
            size = (int.from_bytes(made[at + 1 : at + 1 + extra], "little") if extra else upper) + 1
            start, after = at + 1 + extra, at + 1 + extra + size
            cuts = min(short, size - 1) if not extra else 0
            short -= cuts
            for index in range(start, start + cuts):
                out += bytes([0, made[index]])
            rest = size - cuts
            out += (made[at:start] if extra else bytes([(rest - 1) << 2])) + made[start + cuts : after]
        at = after
    return bytes(out)


def _deflated(level: int, wbits: int, data: bytes) -> bytes:
    work = zlib.compressobj(level, zlib.DEFLATED, wbits)
    return work.compress(data) + work.flush()


def _zstd(level: int, data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level, write_checksum=False).compress(data)


def _snappy(data: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.snappy.compress_raw(data))


def _lz4_frame(level: int, data: bytes) -> bytes:
    import lz4.frame

    made: Any = lz4.frame.compress(data, compression_level=level, store_size=False)
    return bytes(made)


def _lz4_block(data: bytes) -> bytes:
    import lz4.block

    made: Any = lz4.block.compress(data, store_size=False)
    return bytes(made)
