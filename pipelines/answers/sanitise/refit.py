"""Compressed bytes of a given length, of data that may be filled with more or less noise.

Filler compresses to nearly nothing, noise not at all: so much of the filler is made noise that the compressed bytes are
as many as those that they stand for. A few bytes that are missing are put where the format has room that says nothing:
a comment in gzip, empty blocks in zlib and zstd; literals of snappy are cut in two, matches of lz4 are cut shorter.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from dissectors.wire.codecs import CodecError, decompress, without_listeners

Make = Callable[[int], bytes]
"""so many bytes of noise -> the data"""

_NEAR = 48  # amounts of noise that are tried around the best one
_LEVELS = (6, 9, 1)
_EMPTY_BLOCKS = (5, 6, 7)  # bytes of an empty stored block of zlib, behind none, one or two empty ones of 10 bits
_EMPTY_FIXED = 2  # such a block: not the last one, fixed codes, end of block
_LAST_MATCH = 12
_LEAST_MATCH, _LZ4_MORE = 4, 15  # of an LZ4 block: the shortest match; a length that goes on


def refitted(codec: str, make: Make, most: int, size: int) -> bytes | None:
    """`size` bytes that a codec decompresses to data of `make`, with at most `most` bytes of noise; None where none is
    found.
    """
    for compress in _compressors(codec):
        if len(compress(make(0))) > size:
            continue
        low, high = 0, most
        while low < high:
            middle = (low + high) // 2
            if len(compress(make(middle))) < size:
                low = middle + 1
            else:
                high = middle
        for noise in sorted(range(max(0, low - _NEAR), min(most, low + _NEAR) + 1), key=lambda n: abs(n - low)):
            data = make(noise)
            made = compress(data)
            made = made if len(made) == size else _filled(codec, data, made, size - len(made))
            if len(made) == size and _unpacks(codec, made, data):
                return made
    return None


def _unpacks(codec: str, made: bytes, data: bytes) -> bool:
    """Whether compressed bytes are those of some data."""
    try:
        with without_listeners():
            return decompress(codec, made, limit=len(data), size=len(data)) == data
    except CodecError:
        return False


def _compressors(codec: str) -> list[Callable[[bytes], bytes]]:
    if codec in ("gzip", "zlib"):
        return [partial(_deflated, level, 31 if codec == "gzip" else 15) for level in _LEVELS]
    if codec == "zstd":
        return [partial(_zstd, level) for level in (3, 12, 1, 19)]
    if codec == "snappy":
        return [_snappy]
    if codec == "lz4":
        return [partial(_lz4_frame, level) for level in (0, 9)]
    return [_lz4_block] if codec == "lz4-block" else []


def _filled(codec: str, data: bytes, made: bytes, short: int) -> bytes:
    """Compressed bytes of the same data, longer by what they are short of, where the format can; else as they are."""
    if short <= 0:
        return made
    if codec == "lz4-block":
        return _shorter_matches(data, made, short)
    if codec == "lz4":
        return _longer_frame(data, made, short)
    if codec == "gzip":
        return made[:3] + bytes([made[3] | 16]) + made[4:10] + b"x" * (short - 1) + b"\0" + made[10:]
    if codec == "zlib" and short in _EMPTY_BLOCKS:
        bits = sum(_EMPTY_FIXED << 10 * n for n in range(short - 5))
        size = (10 * (short - 5) + 3 + 7) // 8
        return made[:2] + bits.to_bytes(size, "little") + b"\0\0\xff\xff" + made[2:]
    if codec == "zstd" and short % 3 == 0:
        descriptor = made[4]
        single = descriptor >> 5 & 1
        head = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
        return made[:head] + bytes(short) + made[head:]
    return _cut_literals(made, short) if codec == "snappy" else made


def _longer_frame(data: bytes, made: bytes, short: int) -> bytes:
    """An LZ4 frame of one block with shorter matches. It is a header of 7 bytes, size and bytes of a block, and a 0."""
    size = int.from_bytes(made[7:11], "little")
    if size + 15 != len(made):
        return made  # several blocks, or one that is not compressed
    block = _shorter_matches(data, made[11:-4], short)
    return made[:7] + len(block).to_bytes(4, "little") + block + made[-4:]


def _shorter_matches(data: bytes, made: bytes, short: int) -> bytes:
    """An LZ4 block in which matches begin later, and so many bytes more are literals.

    A block is sequences: a token (length of literals << 4 | length of the match - 4, each up to 15, more in further
    bytes), the literals, the offset of the match in 2 bytes; the last one has no match. No match begins within the last
    12 bytes of the data.
    """
    out, at, place = bytearray(), 0, 0  # place: in the data
    while at < len(made):
        token = made[at]
        literals, at = _lz4_length(made, at + 1, token >> 4)
        at += literals
        if at >= len(made):
            out += _lz4_sequence(data[place : place + literals], b"", 0)
            break
        offset, at = made[at : at + 2], at + 2
        match, at = _lz4_length(made, at, token & 15)
        match += _LEAST_MATCH
        most = min(match - _LEAST_MATCH, len(data) - _LAST_MATCH - place - literals)
        best, kept = 0, _lz4_sequence(data[place : place + literals], offset, match)
        for moved in range(1, most + 1 if short else 1):
            tried = _lz4_sequence(data[place : place + literals + moved], offset, match - moved)
            if len(tried) - len(kept) > short:
                break
            best = moved
        chosen = _lz4_sequence(data[place : place + literals + best], offset, match - best)
        short -= len(chosen) - len(kept)
        out += chosen
        place += literals + match
    return bytes(out)


def _lz4_length(made: bytes, at: int, nibble: int) -> tuple[int, int]:
    """(a length, index after it): 15 goes on in further bytes, the last of which is below 255."""
    if nibble < _LZ4_MORE:
        return nibble, at
    while made[at] == 255:
        nibble += 255
        at += 1
    return nibble + made[at], at + 1


def _lz4_sequence(literals: bytes, offset: bytes, match: int) -> bytes:
    lengths = (len(literals), match - _LEAST_MATCH if offset else 0)
    token = min(lengths[0], _LZ4_MORE) << 4 | min(lengths[1], _LZ4_MORE)
    more = [
        b"" if length < _LZ4_MORE else b"\xff" * ((length - _LZ4_MORE) // 255) + bytes([(length - _LZ4_MORE) % 255])
        for length in lengths
    ]
    return bytes([token]) + more[0] + literals + offset + (more[1] if offset else b"")


def _cut_literals(made: bytes, short: int) -> bytes:
    """Snappy's raw format with more literals: each cut of one costs a byte.

    A literal of up to 60 bytes is a tag, (length - 1) << 2, and the bytes; a longer one has its length less 1 behind
    the tag, in up to 4 bytes. Copies take 2, 3 or 5 bytes by their tag.
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
            least = (1, 61, 257)[min(extra, 2)]  # a shorter one has a shorter tag
            cuts = max(0, min(short, size - least))
            short -= cuts
            for index in range(start, start + cuts):
                out += bytes([0, made[index]])
            rest = size - cuts - 1
            tag = made[at : at + 1] + rest.to_bytes(extra, "little") if extra else bytes([rest << 2])
            out += tag + made[start + cuts : after]
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
