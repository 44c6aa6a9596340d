"""A decoded body as indented lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.formats.plain import clean, cut, wrapped

_STEP = 2
_LEAST = 16  # cells that a value keeps, however deep it lies


def outline(value: Any, room: int, indent: int = 0) -> Iterator[str]:
    """Lines of at most `room` cells: `name: value`, lists as `- …`, nothing of what is empty."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _entry(f"{name}:", item, room, indent)
    elif isinstance(value, list):
        for item in value:
            yield from _entry("-", item, room, indent)
    else:
        yield from _entry("", value, room, indent)


def _entry(lead: str, value: Any, room: int, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, (Mapping, list)) and value:
        if isinstance(value, list) and not any(isinstance(item, (Mapping, list)) for item in value):
            value = ", ".join(_scalar(item) for item in value)
        elif lead == "-":
            lines = list(outline(value, room, indent + _STEP))
            yield f"{pad}- {lines[0].lstrip()}"
            yield from lines[1:]
            return
        else:
            yield f"{pad}{clean(lead)}"
            yield from outline(value, room, indent + _STEP)
            return
    lead = clean(lead)
    text = f"{lead} {value if isinstance(value, str) else _scalar(value)}".strip()
    for line in wrapped(cut(clean(text)), max(_LEAST, room - indent - _STEP)):
        yield pad + line
        pad = " " * (indent + _STEP)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (Mapping, list)):
        return "none"
    return "none" if value is None else str(value)
