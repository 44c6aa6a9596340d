"""Names of the fields that a body of Pulsar may have, as `--full` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from dissectors.pulsar import api

_ADDED = ("metadata", "broker_entry_metadata")
"""What comes with a command of messages, which is no field of it."""


@cache
def body_names() -> frozenset[str]:
    """Every field of every message of the protocol."""
    return frozenset((*(name for message in api.messages() for name in _names(message)), *_ADDED))


def _names(message: Any) -> Iterator[str]:
    for field in message.fields:
        yield field.name
    for nested in message.nested_types:
        yield from _names(nested)
