"""The state of compiled classes as plain values, which compiled and uncompiled code read alike."""

from __future__ import annotations

from typing import Any


def state_of(thing: Any) -> dict[str, Any]:
    """The attributes that the class of a thing names in `__slots__`: for `__getstate__`."""
    return {name: getattr(thing, name) for name in type(thing).__slots__}


def set_state(thing: Any, state: dict[str, Any]) -> None:
    """Set these attributes: for `__setstate__`."""
    for name, value in state.items():
        setattr(thing, name, value)
