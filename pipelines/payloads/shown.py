"""Fields that are shown, and fields that are not: by path, `customer.email`; items of a list have the list's path."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

HIDDEN = "redacted"


class ShownFields(NamedTuple):
    """Which fields of decoded keys and values are shown. Of these, those of `only` where there are any."""

    redact: tuple[tuple[str, ...], ...] = ()
    only: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, redact: str | None, only: str | None) -> ShownFields:
        """By comma-separated paths."""
        return cls(*(tuple(tuple(path.split(".")) for path in _split(text)) for text in (redact, only)))

    def __bool__(self) -> bool:
        """Whether anything is hidden: then bytes as they are cannot be shown either."""
        return bool(self.redact or self.only)

    def of_value(self, value: Any) -> Any:
        """The value, hidden fields as HIDDEN, those that `only` does not name left out."""
        return _hidden(_chosen(value, self.only) if self.only else value, self.redact)


def as_json(value: Any) -> str:
    """A value as text, without spaces. Halves of characters, which JSON may hold and UTF-8 may not, as escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()


def _split(text: str | None) -> Sequence[str]:
    return [path.strip() for path in (text or "").split(",") if path.strip()]


def _hidden(value: Any, paths: Sequence[tuple[str, ...]]) -> Any:
    if not paths:
        return value
    if isinstance(value, list):
        return [_hidden(each, paths) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: HIDDEN if (name,) in paths else _hidden(each, _within(name, paths)) for name, each in value.items()}


def _chosen(value: Any, paths: Sequence[tuple[str, ...]]) -> Any:
    if isinstance(value, list):
        return [_chosen(each, paths) for each in value]
    if not isinstance(value, dict):
        return HIDDEN
    return {
        name: each if (name,) in paths else _chosen(each, inner)
        for name, each in value.items()
        if (inner := _within(name, paths)) or (name,) in paths
    }


def _within(name: str, paths: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The paths that lead into a field, from there on."""
    return [path[1:] for path in paths if path[0] == name and path[1:]]
