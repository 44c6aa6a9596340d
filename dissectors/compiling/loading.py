"""Compiled modules or their sources: decided once, when `dissectors` is imported, for all modules together.

Compiled modules run only if they are of the sources that lie beside them. Otherwise a finder in front of Python's own
loads the sources, so that a compiled module that is out of date is never used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import NamedTuple

from dissectors.compiling import record

VARIABLE = "BROKERSCOPE_UNCOMPILED"
PACKAGE = __file__.rsplit(os.sep, 2)[0]
_STALE = "the compiled modules are older than their sources"


class State(NamedTuple):
    """Which code runs, and why."""

    reason: str  # why the sources run; "" where the compiled modules do

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled modules run."""
        return not self.reason

    def __str__(self) -> str:
        return f"not compiled: {self.reason}" if self.reason else "compiled"


class SourceFinder:
    """Finds the source of a module of this package, also where a compiled one lies beside it."""

    def __init__(self) -> None:
        self._folders: dict[str, FileFinder] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's source; None for modules of others, which Python's own finders look for."""
        if path is None or not name.startswith("dissectors."):
            return None
        for folder in path:
            if folder not in self._folders:
                self._folders[folder] = FileFinder(folder, (SourceFileLoader, [".py"]))
            if found := self._folders[folder].find_spec(name):
                return found
        return None


def is_forced() -> bool:
    """Whether the user wants the sources to run."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


def state_of(package: str) -> State:
    """Which code of the package in a folder is to run."""
    if is_forced():
        return State(f"{VARIABLE} is set")
    found = record.read(package)
    if found is None:
        return State("it was not compiled")
    if found.reason:
        return State(found.reason)
    return State("" if record.is_fresh(package, found) else _STALE)


def prepare() -> State:
    """Let compiled modules run, or their sources; on stderr, say so where the former are out of date."""
    state = state_of(PACKAGE)
    if state.is_compiled and not _can_be_loaded():
        state = State("the compiled modules are of another platform")
    if not state.is_compiled:
        _run_sources()
    if state.reason == _STALE:
        print(f"brokerscope: {_STALE}, which run instead, slowly; to compile: make compile", file=sys.stderr)
    return state


def _can_be_loaded() -> bool:
    """Whether compiled modules are of this platform: the one that all others need says it for all."""
    try:
        import_module(f"dissectors.{record.SHARED.replace('/', '.')}")
    except ImportError:
        return False
    return True


def _run_sources() -> None:
    """Find sources first. They import `cython`, which needs to say only that they are not compiled."""
    sys.meta_path.insert(0, SourceFinder())
    if "cython" not in sys.modules and PathFinder.find_spec("cython") is None:
        stand_in = ModuleType("cython", "Stands for Cython where it is not installed.")
        stand_in.compiled = False  # type: ignore[attr-defined]
        sys.modules["cython"] = stand_in
