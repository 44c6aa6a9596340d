"""The checksums of the three protocols, by name."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

CRC32, CRC32C, XXH3, NONE = "crc32", "crc32c", "xxh3-64", "none"
_DIGITS = {CRC32: 8, CRC32C: 8, XXH3: 16}


@cache
def function(kind: str) -> Callable[[bytes | memoryview], int]:
    """What computes checksums of a kind; its library is loaded when the first one is met."""
    if kind == CRC32C:
        return _crc32c()
    if kind == XXH3:
        from xxhash import xxh3_64_intdigest

        return xxh3_64_intdigest
    return {CRC32: zlib.crc32}[kind]


def _crc32c() -> Callable[[bytes | memoryview], int]:
    """Of the library only its extension module: the package reads the metadata of installed ones, which takes as long
    as a small capture.
    """
    package = find_spec("crc32c")
    folders = None if package is None else package.submodule_search_locations
    extension = PathFinder.find_spec("crc32c._crc32c", folders)
    if extension is None or extension.loader is None:
        return cast(Callable[[bytes | memoryview], int], import_module("crc32c").crc32c)
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    return cast(Callable[[bytes | memoryview], int], module.crc32c)


def compute(kind: str, data: bytes | memoryview) -> int:
    """The checksum of `data`, unsigned."""
    return function(kind)(data)


def shown(kind: str, value: int) -> str:
    """As records show it: `0x` and as many hexadecimal digits as the checksum has."""
    return f"0x{value:0{_DIGITS[kind]}x}"
