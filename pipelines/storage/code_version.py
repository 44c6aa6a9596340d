"""Which code this is. What one made, another may not go on with: its state are objects of that code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import attrgetter


def product_version() -> str:
    """Of this package; "" where it is not installed."""
    try:
        return version("brokerscope")
    except PackageNotFoundError:
        return ""


@cache
def code_version(package: str) -> str:
    """The version, and a digest of the sources of one of its packages: between releases it alone changes.

    Whether they are compiled makes no difference: state that one writes the other reads.
    """
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
        elif entry.name.endswith((".py", ".pxd")):
            yield path, entry
