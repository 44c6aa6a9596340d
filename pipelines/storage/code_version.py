"""Which code this is. What one made, another may not go on with: its state are objects of that code."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SOURCES = (".py", ".pxd")


def product_version() -> str:
    """Of this package; "" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("brokerscope")
    except PackageNotFoundError:
        return ""


@cache
def code_version(package: str) -> str:
    """The version, and a digest of the sources of one of its packages: between releases it alone changes.

    Whether they are compiled makes no difference: state that one writes the other reads.
    """
    from importlib.resources import files

    digest = hashlib.sha256()
    for name, module in _modules(files(package), ""):
        source = module.read_bytes()
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return f"{product_version()} {digest.hexdigest()[:16]}"


def _modules(folder: Traversable, within: str) -> Iterator[tuple[str, Traversable]]:
    """(path, source) of all modules below a folder, and of their declarations for the compiler, in order."""
    for entry in sorted(folder.iterdir(), key=attrgetter("name")):
        path = f"{within}/{entry.name}"
        if entry.is_dir():
            yield from _modules(entry, path)
        elif entry.name.endswith(SOURCES):
            yield path, entry


@cache
def code_state(package: str) -> str:
    """What changes on this machine where the sources of one of its packages do: their names, sizes and times of change.

    For what stays on this machine: reading all sources takes longer than decoding a small capture.
    """
    digest = hashlib.sha256()
    for path, state in sorted(_states(os.path.dirname(import_module(package).__file__ or ""))):  # noqa: PTH120
        digest.update(f"{path} {state}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def _states(folder: str) -> Iterator[tuple[str, str]]:
    """(path, size and time of change) of all sources below a folder."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _states(entry.path)
        elif entry.name.endswith(SOURCES):
            found = entry.stat()
            yield entry.path, f"{found.st_size} {found.st_mtime_ns}"
