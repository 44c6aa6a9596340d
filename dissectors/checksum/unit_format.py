"""What forensics knows of one format of checksummed unit: a protocol supplies a subclass for each of its formats.

A method may meet broken bytes: ValueError, IndexError and struct.error mean that they lead nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.rows.sink import Suspect

LIMIT = 4 << 20  # bytes that a unit may become when it is decompressed to be judged
RECORDS = 2000  # of one unit that are judged
LATEST_MS = 7_258_118_400_000  # the year 2200: no timestamp is later

FieldTable = tuple[tuple[int, str], ...]
"""(offset of a field, its name), ascending."""


class FieldSpan(NamedTuple):
    """A stretch of a unit and its name."""

    start: int
    end: int
    name: str


class Identity(NamedTuple):
    """Where a message's id and its payload with user headers lie in the unit."""

    id: bytes
    at: int
    start: int
    end: int


class UnitFormat:
    """A format of which nothing is known but its checksum."""

    def fields(self, suspect: Suspect, unit: bytes) -> Iterator[FieldSpan]:
        """The named stretches of a unit; `unit` may be the corrected bytes."""
        return iter(())

    def data_start(self, suspect: Suspect) -> int:
        """Where in the covered bytes the message data begin: headers before it are full of zeros."""
        return 0

    def is_valid(self, suspect: Suspect, covered: bytes) -> bool | None:
        """Whether covered bytes can be what they claim to be: lengths add up, counts agree, what is compressed
        decompresses. None where it cannot be judged. The rules are few: what any client wrote must pass.
        """
        return None

    def compressed(self, suspect: Suspect, unit: bytes) -> tuple[str, int]:
        """The codec, and where in the unit its data begin; ("none", size of the unit) where there is none."""
        return "none", len(unit)

    def identity(self, suspect: Suspect) -> Identity | None:
        """The id of the message that a suspect is, by which it is known again; None where it has no such id."""
        return None


def spans(table: FieldTable, start: int, end: int) -> Iterator[FieldSpan]:
    """The fields of a header at `start`, as far as they lie before `end`; the last goes on to the end."""
    stops = [offset for offset, _ in table[1:]]
    for (offset, label), stop in zip(table, [*stops, end - start], strict=True):
        if start + offset < end:
            yield FieldSpan(start + offset, min(end, start + stop), label)
