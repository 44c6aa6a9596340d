"""The record of a build: which sources the compiled modules were made of, or why there are none. And where they lie.

    compiled by Cython 3.3.1 and cc          or: not compiled: no C compiler was found when it was installed
    DIGEST wire/arrays.py
    DIGEST wire/memory.py
    DIGEST wire/memory.abi3.so

It lies beside the compiled modules, in a folder of their own. Paths are relative to the package; a digest is BLAKE2b,
16 bytes: of a source, and of all that a compiled module was compiled from.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "compiled"  # of the package: the compiled modules, in folders as the sources lie in
NAME = f"{FOLDER}/built.txt"
SUFFIX = ".abi3.so"
SHARED = "compiling/shared"  # the module with what all compiled modules share
_NOT_COMPILED = "not compiled: "


class BuildRecord(NamedTuple):
    """What a build says of itself."""

    compiler: str  # "Cython 3.3.1 and cc"; "" where nothing was compiled
    reason: str  # why nothing was compiled; "" where it was
    sources: dict[str, str]  # path -> digest
    modules: dict[str, str]  # compiled module, as a path without suffix -> digest of what it was compiled from


def digest(data: bytes) -> str:
    """The digest of bytes."""
    return blake2b(data, digest_size=16).hexdigest()


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


def write(package: Path, record: BuildRecord) -> None:
    """Write the record of the package in a folder."""
    (package / FOLDER).mkdir(exist_ok=True)
    (package / NAME).write_text(text(record))


def is_fresh(package: Path) -> bool:
    """Whether the compiled modules are there and every source is what it was when they were compiled."""
    record = read(str(package))
    return (
        record is not None
        and all((package / path).exists() for path in record.sources)
        and all(digest((package / path).read_bytes()) == found for path, found in record.sources.items())
        and all((package / FOLDER / f"{module}{SUFFIX}").exists() for module in record.modules)
    )
