"""Numbers of things in the text of findings."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 byte`, `12 bytes`, `3 batches`."""
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{plural}"


def were(number: int, noun: str) -> str:
    """`1 byte was`, `12 bytes were`."""
    return f"{counted(number, noun)} {'was' if number == 1 else 'were'}"
