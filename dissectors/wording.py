"""Numbers of things in the text of findings."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """`byte` of one, `bytes` and `batches` of any other number."""
    return noun if number == 1 else f"{noun}{'es' if noun.endswith('ch') else 's'}"


def counted(number: int, noun: str) -> str:
    """`1 byte`, `12 bytes`, `3 batches`."""
    return f"{number} {plural(number, noun)}"


def were(number: int, noun: str) -> str:
    """`1 byte was`, `12 bytes were`."""
    return f"{counted(number, noun)} {'was' if number == 1 else 'were'}"
