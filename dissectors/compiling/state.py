"""The state of objects as plain values, which compiled and uncompiled code read alike: one way for all classes.

    @final
    @carried
    @compiled
    class Window:
        buf: bytes
        pos: cython.Py_ssize_t = 0
        _numbers: Derived[Numbers]  # follows from the others

        def restored(self) -> None:
            self._numbers = memoryview(self.buf)

A pickle of such an object holds the values of the attributes that its class and the bases of that annotate, in their
order, behind a digest of their names and types. Where that is another one, the attributes of another release, the state
is refused. What is annotated as Derived is left out; `restored` sets it, once the others are there.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeVar

from dissectors.compiling import record
from dissectors.compiling.marks import compiled

T = TypeVar("T")
Derived = Annotated[T, "follows from other attributes"]
"""An attribute that is not carried."""

_annotations: dict[type, str] = {}  # of compiled classes: "name: type" a line, as their sources have them
_layouts: dict[type, StateLayout] = {}  # of classes whose objects were carried


class StateError(ValueError):
    """State was written by a release whose objects have other attributes. The text says of which class."""


class StateLayout(NamedTuple):
    """What is carried of the objects of a class."""

    version: str  # a digest of names and types
    names: tuple[str, ...]
    types: tuple[str, ...]
    restored: Callable[[Any], None] | None


def carried(kind: type[T], annotations: str | None = None) -> type[T]:
    """Mark a class whose objects are pickled by their attributes.

    annotations: its own, "name: type" a line, where it is compiled: the class has none then.
    """
    if annotations is not None:
        _annotations[kind] = annotations
    copyreg.pickle(kind, state_of)
    return kind


def state_layout(kind: type) -> StateLayout:
    """What is carried of the objects of a class that is marked."""
    found = _layouts.get(kind)
    if found is None:
        types: dict[str, str] = {}
        for base in reversed(kind.__mro__):
            told = _annotations.get(base)
            types |= getattr(base, "__annotations__", {}) if told is None else _by_name(told)
        kept = {name: text for name, text in types.items() if not text.startswith(("ClassVar", "Derived"))}
        version = record.digest(", ".join(f"{name}: {text}" for name, text in kept.items()).encode())[:8]
        found = _layouts[kind] = StateLayout(version, (*kept,), (*kept.values(),), getattr(kind, "restored", None))
    return found


def _by_name(annotations: str) -> dict[str, str]:
    """Name -> type, of "name: type" a line."""
    return dict(line.split(": ", 1) for line in annotations.splitlines())


@compiled
def state_of(thing: Any) -> tuple[Any, ...]:
    """How an object is pickled: made without values, so that they may refer to it, which it gets then."""
    kind = type(thing)
    version, names, *_ = state_layout(kind)
    state = (version, *[getattr(thing, name) for name in names])
    return copyreg.__newobj__, (kind,), state, None, None, restore  # type: ignore[attr-defined]


@compiled
def restore(thing: Any, state: tuple[Any, ...]) -> None:
    """Give an object the values that another one had."""
    kind = type(thing)
    version, names, _, restored = state_layout(kind)
    if version != state[0]:
        raise StateError(f"the state of a {kind.__name__} is of another release: it has other attributes")
    for i, name in enumerate(names, 1):
        setattr(thing, name, state[i])
    if restored is not None:
        restored(thing)
