"""One row of `events` of Kafka, before it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Body = Mapping[str, Any]
"""A request or an answer, as `full.full` decodes it."""


class Happened(NamedTuple):
    """One event, as `Report.event` takes it. topic: a name, or 16 bytes of an id."""

    kind: str
    topic: str | bytes | None = None
    partition: int | None = None
    group: str | None = None
    subject: str | None = None
    number: int | None = None
    text: str | None = None
    thing: str | None = None


def settings(pairs: Iterable[tuple[str | None, Any]]) -> str | None:
    """`key=value, key=value`; None without any. The values of secrets are cut already (secrets.SETTINGS)."""
    return ", ".join(setting(name, value) for name, value in pairs) or None


def setting(name: str | None, value: Any, sign: str = "=") -> str:
    """`key=value`; a value that is null is a default, or no value."""
    return f"{name}{sign}{'' if value is None else value}"
