"""The protocols that are known. A fourth is a folder and a line in FOLDERS, or a call of `register`."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from dissectors.session.conversation import Protocol

FOLDERS = ("dissectors.kafka", "dissectors.pulsar", "dissectors.iggy")

_registered: dict[str, Protocol] = {}


def protocols() -> tuple[Protocol, ...]:
    """All protocols, in the order in which recognition asks them."""
    return (*_built_in(), *_registered.values())


def named(name: str | None) -> Protocol | None:
    """The protocol of this name."""
    return next((protocol for protocol in protocols() if protocol.name == name), None)


def error_meaning(protocol: str | None, code: int | None, name: str | None) -> str | None:
    """What an error of a protocol says, in one line; None where that is not known."""
    known = named(protocol)
    return None if known is None else known.error_meaning(code, name)


def register(protocol: Protocol) -> None:
    """Make a protocol known to this process, after those that are built in."""
    if any(protocol.name == known.name for known in _built_in()):
        raise ValueError(f"there is a protocol {protocol.name} already")
    _registered[protocol.name] = protocol


def unregister(name: str) -> None:
    """Forget a protocol that was registered."""
    _registered.pop(name, None)


@cache
def _built_in() -> tuple[Protocol, ...]:
    found: list[Protocol] = []
    for folder in FOLDERS:
        protocol: Protocol = import_module(folder).PROTOCOL
        found.append(protocol)
    return tuple(found)
