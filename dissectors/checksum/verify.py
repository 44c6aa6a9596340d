"""The checksums of the three protocols, by name."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import crc32c as _crc32c
import xxhash

CRC32, CRC32C, XXH3, NONE = "crc32", "crc32c", "xxh3-64", "none"

_COMPUTE: dict[str, Callable[[bytes | memoryview], int]] = {
    CRC32: zlib.crc32,
    CRC32C: _crc32c.crc32c,
    XXH3: xxhash.xxh3_64_intdigest,
}
_DIGITS = {CRC32: 8, CRC32C: 8, XXH3: 16}


def compute(kind: str, data: bytes | memoryview) -> int:
    """The checksum of `data`, unsigned."""
    return _COMPUTE[kind](data)


def shown(kind: str, value: int) -> str:
    """As records show it: `0x` and as many hexadecimal digits as the checksum has."""
    return f"0x{value:0{_DIGITS[kind]}x}"
