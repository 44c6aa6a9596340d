"""The protocols that are known. A fourth is a folder and a line here."""

from __future__ import annotations

from importlib import import_module

from dissectors.conversation import Protocol

FOLDERS = ("dissectors.kafka", "dissectors.pulsar", "dissectors.iggy")


def protocols() -> tuple[Protocol, ...]:
    """All protocols, in the order in which recognition asks them."""
    found = []
    for folder in FOLDERS:
        protocol = getattr(import_module(folder), "PROTOCOL", None)
        if protocol is not None:
            found.append(protocol)
    return tuple(found)
