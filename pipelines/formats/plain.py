"""Text that is safe to print, and how much room it takes."""

from __future__ import annotations

import re
import unicodedata

_LEAD = re.compile(r"\s*\S+\s{2,}|! |findings ")
_BEFORE_UNIT = re.compile(r"\d (?:[nµm]?s|min|h|%|[KMGT]?i?B)(?!\w)")
LONGEST = 2000  # characters of one value that are printed: names may have 64 KiB


def clean(text: str) -> str:
    """Text that does nothing to a terminal: control and direction characters are shown as escapes."""
    if text.isprintable():
        return text
    escapes = {ord(c): c.encode("unicode_escape").decode() for c in set(text) if not c.isprintable()}
    return text.translate(escapes)


def cut(text: str, longest: int = LONGEST) -> str:
    """A text of bounded length, which says how long it is where it does not end."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def width(text: str) -> int:
    """Cells that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: str, room: int) -> list[str]:
    """A text in lines of at most `room` cells, broken between words where there are any; a unit follows its number."""
    lines: list[str] = []
    while (at := _fitting(text, room)) < len(text):
        space = text.rfind(" ", 0, at + 1)
        if space > 0 and _BEFORE_UNIT.match(text, space - 1):
            space = text.rfind(" ", 0, space)
        at = space if space > at // 2 else at
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*lines, text]


def _fitting(text: str, room: int) -> int:
    """How many characters fit; at least one."""
    if text.isascii():
        return max(1, room)
    taken = 0
    for at, character in enumerate(text):
        taken += _cells(character)
        if taken > room:
            return max(1, at)
    return len(text)


def hanging(text: str, room: int) -> list[str]:
    """A line `name   value` in lines of at most `room` cells, those after the first under the value."""
    lead = _LEAD.match(text)
    pad = " " * (len(lead[0]) if lead else 0)
    first, *rest = wrapped(text[len(pad) :], max(1, room - len(pad)))
    return [(lead[0] if lead else "") + first, *(pad + line for line in rest)]
