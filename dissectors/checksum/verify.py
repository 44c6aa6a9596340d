"""The checksums of the three protocols, by name."""

from __future__ import annotations

import zlib
from functools import cache

from dissectors.wire.crc32c_library import Checksum, crc32c

CRC32, CRC32C, XXH3, NONE = "crc32", "crc32c", "xxh3-64", "none"
_DIGITS = {CRC32: 8, CRC32C: 8, XXH3: 16}


@cache
def function(kind: str) -> Checksum:
    """The function that computes checksums of a kind; its library is loaded when the first one is met."""
    if kind == CRC32C:
        return crc32c()
    if kind == XXH3:
        from xxhash import xxh3_64_intdigest

        return xxh3_64_intdigest
    return {CRC32: zlib.crc32}[kind]


def compute(kind: str, data: bytes | memoryview) -> int:
    """The checksum of `data`, unsigned."""
    return function(kind)(data)


def shown(kind: str, value: int) -> str:
    """A checksum as text, as records have it: `0x` and all its hexadecimal digits."""
    return f"0x{value:0{_DIGITS[kind]}x}"
