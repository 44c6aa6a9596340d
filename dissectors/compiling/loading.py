"""Compiled modules or their sources: decided once, when `dissectors` is imported, for all modules together.

Compiled modules lie in folders of their own. Where they run, each package of this one that has some looks there first,
by one line of its `__init__`, which stands before its modules are imported:

    prefer_compiled(__path__)

Whether compiled modules are of the sources that lie here is not asked: the build knows (`make compile`), and the tests
refuse to run where they are not.
"""

from __future__ import annotations

import os
from collections.abc import MutableSequence
from importlib import import_module
from typing import NamedTuple

from dissectors.compiling import record

VARIABLE = "BROKERSCOPE_UNCOMPILED"
PACKAGE = __file__.rsplit(os.sep, 2)[0]


class State(NamedTuple):
    """Which code runs, and why."""

    reason: str  # why the sources run; "" where the compiled modules do

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled modules run."""
        return not self.reason

    def __str__(self) -> str:
        return f"not compiled: {self.reason}" if self.reason else "compiled"


def is_forced() -> bool:
    """Whether the user wants the sources to run."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


def state_of(package: str) -> State:
    """Which code of the package in a folder is to run."""
    if is_forced():
        return State(f"{VARIABLE} is set")
    found = record.read(package)
    return State("it was not compiled" if found is None else found.reason)


def decide(path: MutableSequence[str]) -> State:
    """Which code of this package runs. path: `__path__` of `dissectors.compiling`, where this is tried first."""
    state = state_of(PACKAGE)
    if state.is_compiled:
        path.insert(0, _compiled_folder(path[0]))
        try:
            import_module(f"dissectors.{record.SHARED.replace('/', '.')}")  # what all compiled modules need
        except ImportError:
            del path[0]
            return State("the compiled modules are of another platform")
    return state


def _compiled_folder(folder: str) -> str:
    """Where what is compiled of a folder's modules lies."""
    return f"{PACKAGE}/{record.FOLDER}{folder.removeprefix(PACKAGE)}"


def prefer_compiled(path: MutableSequence[str]) -> None:
    """Let a package's modules be looked for among the compiled ones first, where these run. path: its `__path__`."""
    from dissectors.compiling import STATE

    if STATE.is_compiled:
        path.insert(0, _compiled_folder(path[0]))
