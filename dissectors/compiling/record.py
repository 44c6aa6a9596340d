"""The record of a build: which sources the compiled modules were made of, or why there are none.

    compiled by Cython 3.3.1 and cc          or: not compiled: no C compiler was found when it was installed
    DIGEST wire/arrays.py
    DIGEST wire/memory.py
    DIGEST wire/memory.abi3.so

It lies beside the modules in this folder. Paths are relative to the package; a digest is BLAKE2b, 16 bytes: of a
source, and of all that a compiled module was compiled from.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

NAME = "compiling/built.txt"
SUFFIX = ".abi3.so"
SHARED = "compiling/shared"  # the module with what all compiled modules share
_NOT_COMPILED = "not compiled: "
CLOCK_NS = 1_000_000_000  # by which the times of files may be behind the clock


class BuildRecord(NamedTuple):
    """What a build says of itself."""

    compiler: str  # "Cython 3.3.1 and cc"; "" where nothing was compiled
    reason: str  # why nothing was compiled; "" where it was
    sources: dict[str, str]  # path -> digest
    modules: dict[str, str]  # compiled module, as a path without suffix -> digest of what it was compiled from


def digest(data: bytes) -> str:
    """The digest of bytes."""
    return blake2b(data, digest_size=16).hexdigest()


def _digest_of_file(path: str) -> str:
    """The digest of a file; "" where it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (pathlib takes longer to load than all this)
            return digest(file.read())
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
        return BuildRecord("", head.removeprefix(_NOT_COMPILED), {}, {})
    modules = {path.removesuffix(SUFFIX): found for path, found in digests.items() if path.endswith(SUFFIX)}
    sources = {path: found for path, found in digests.items() if not path.endswith(SUFFIX)}
    return BuildRecord(head.removeprefix("compiled by "), "", sources, modules)


def text(record: BuildRecord) -> str:
    """A record as its file has it."""
    head = f"{_NOT_COMPILED}{record.reason}" if record.reason else f"compiled by {record.compiler}"
    digests = {**record.sources, **{f"{module}{SUFFIX}": found for module, found in record.modules.items()}}
    return "\n".join([head, *(f"{found} {path}" for path, found in digests.items()), ""])


def write(package: Path, record: BuildRecord, begun_ns: int) -> None:
    """Write the record of the package in a folder. begun_ns: when its sources were read; that is the file's time."""
    (package / NAME).write_text(text(record))
    os.utime(package / NAME, ns=(begun_ns, begun_ns))


def is_fresh(package: str, record: BuildRecord) -> bool:
    """Whether every compiled module is there and every source is what it was when they were compiled.

    Only sources that came to their place since then are read: reading all takes a twentieth of a start.
    """
    begun_ns = os.stat(f"{package}/{NAME}").st_mtime_ns  # noqa: PTH116
    for path, found in record.sources.items():
        source = f"{package}/{path}"
        if not 0 < _written_ns(source) < begun_ns - CLOCK_NS and _digest_of_file(source) != found:
            return False
    return all(os.path.exists(f"{package}/{module}{SUFFIX}") for module in record.modules)  # noqa: PTH110


def _written_ns(path: str) -> int:
    """When a file came to its place as it is, also where a copy kept an older time; 0 where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0
    return max(status.st_mtime_ns, status.st_ctime_ns)
