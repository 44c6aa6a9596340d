"""CRC32C for Python code: the library's function. Compiled code has `dissectors.wire.memory`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

Checksum = Callable[[bytes | memoryview], int]


@cache
def crc32c() -> Checksum:
    """The function of the library's extension module.

    Its package is not imported: that reads the metadata of installed packages, which takes as long as a small capture.
    """
    package = find_spec("crc32c")
    folders = None if package is None else package.submodule_search_locations
    extension = PathFinder.find_spec("crc32c._crc32c", folders)
    if extension is None or extension.loader is None:
        return cast(Checksum, import_module("crc32c").crc32c)
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    return cast(Checksum, module.crc32c)
