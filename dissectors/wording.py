"""Numbers of things, and lists of them, in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def plural(number: int, noun: str) -> str:
    """`byte` of one, `bytes` and `batches` of any other number."""
    return noun if number == 1 else f"{noun}{'es' if noun.endswith('ch') else 's'}"


def counted(number: int, noun: str) -> str:
    """`1 byte`, `12 bytes`, `3 batches`."""
    return f"{number} {plural(number, noun)}"


def were(number: int, noun: str) -> str:
    """`1 byte was`, `12 bytes were`."""
    return f"{counted(number, noun)} {'was' if number == 1 else 'were'}"


def first_of(names: Sequence[str], most: int) -> str:
    """`a, b, c and 17 more`: so many names at most, and how many others there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
