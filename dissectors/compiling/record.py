"""The record of a build: which sources the compiled modules were made of, or why there are none.

    compiled by Cython 3.3.1 and cc          or: not compiled: no C compiler was found when it was installed
    DIGEST wire/memory.pxd
    DIGEST wire/memory.py

It lies beside the modules in this folder. Paths are relative to the package; a digest is BLAKE2b, 16 bytes.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import NamedTuple

NAME = "compiling/built.txt"
SUFFIX = ".abi3.so"
SHARED = "compiling/shared"  # the module with what all compiled modules share
_NOT_COMPILED = "not compiled: "


class BuildRecord(NamedTuple):
    """What a build says of itself."""

    compiler: str  # "Cython 3.3.1 and cc"; "" where nothing was compiled
    reason: str  # why nothing was compiled; "" where it was
    digests: dict[str, str]  # source -> digest

    def modules(self) -> list[str]:
        """The compiled modules, as paths without suffix."""
        return [path.removesuffix(".py") for path in self.digests if path.endswith(".py")]


def digest(path: str) -> str:
    """The digest of a file; "" where it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (pathlib takes longer to load than all this)
            return blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return ""


def read(package: str) -> BuildRecord | None:
    """The record of the package in a folder; None where there is none that can be read."""
    try:
        with open(f"{package}/{NAME}") as file:  # noqa: PTH123
            head, *lines = file.read().splitlines()
        digests = {path: found for found, path in (line.split(" ", 1) for line in lines)}
    except (OSError, ValueError):
        return None
    if head.startswith(_NOT_COMPILED):
        return BuildRecord("", head.removeprefix(_NOT_COMPILED), {})
    return BuildRecord(head.removeprefix("compiled by "), "", digests)


def text(record: BuildRecord) -> str:
    """A record as its file has it."""
    head = f"{_NOT_COMPILED}{record.reason}" if record.reason else f"compiled by {record.compiler}"
    return "\n".join([head, *(f"{found} {path}" for path, found in record.digests.items()), ""])


def is_fresh(package: str, record: BuildRecord) -> bool:
    """Whether every compiled module is there and every source is what it was when they were compiled."""
    built = [f"{package}/{module}{SUFFIX}" for module in (*record.modules(), SHARED)]
    unchanged = all(digest(f"{package}/{path}") == found for path, found in record.digests.items())
    return unchanged and all(map(os.path.exists, built))
