"""Words of sentences: numbers of things, lists of them, and the name that was meant by one that there is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: spelled alike, or one that has it as a part; None where none is near.

    Upper and lower case do not matter.
    """
    from difflib import get_close_matches  # costs what a command that meets no unknown name should not pay

    names = {one.lower(): one for one in known}
    wanted = name.lower()
    near = get_close_matches(wanted, names, 1, 0.6) or [one for one in names if wanted and wanted in one][:1]
    return names[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What is said behind `no column 'apii'`: `did you mean api?`, or which names there are."""
    names = list(known)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"there are {', '.join(names)}"
