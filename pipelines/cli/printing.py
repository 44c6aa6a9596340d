"""Answers on stdout: rows as a grid or as JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.formats import cells
from pipelines.formats.columns import json_value
from pipelines.formats.grid import Grid, GridColumn, terminal_width, wants_colour
from pipelines.formats.hosts import HOST_NAMES, beside, with_names
from pipelines.formats.plain import clean, wrapped

Row = Mapping[str, Any]


class PrintedField(NamedTuple):
    """One column of an answer: the key of its values, their unit (as in pipelines.formats.cells), how it is shown."""

    name: str
    unit: str = ""
    head: str | None = None
    need: int = 0
    once: bool = False
    toned: bool = False
    below: bool = False


WHEN = (PrintedField("time", "date", head="", once=True), PrintedField("time", "clock"))
"""The date, stated once where all rows share it, and the time of day."""
PLACE = (PrintedField("file", "file", once=True), PrintedField("packet", "code"))
"""The file, stated once where there is one, and the packet's number in it."""


def show_rows(rows: Sequence[Row], fields: Sequence[PrintedField]) -> None:
    """Print rows as wide as the terminal."""
    grid = Grid([_column(field) for field in fields], colour=wants_colour(sys.stdout))
    for line in grid.lines([[with_names(cells.show(row.get(f.name), f.unit)) for f in fields] for row in rows]):
        print(line)


def show_json(rows: Iterable[Row]) -> None:
    """Print an object a line."""
    for row in rows:
        value = json_value(row)
        if names := beside(value):
            value[HOST_NAMES] = names
        print(json.dumps(value))


def show_text(text: str, indent: int = 0, lead: str = "") -> None:
    """Print a paragraph; lines after the first are indented as `lead` is wide."""
    room = terminal_width() - indent - len(lead)
    for line in wrapped(clean(with_names(text)), room):
        print(f"{' ' * indent}{lead}{line}")
        lead = " " * len(lead)


def show_cut(shown: int, total: int, noun: str) -> None:
    """Say that there are more rows than were shown. noun: what they are, in the plural."""
    if total > shown:
        show_text(f"{shown} of {total:,} {noun}: --head shows more")


def show_line(text: str) -> None:
    """Print a line that people copy, so it is not wrapped."""
    print(clean(text))


def _column(field: PrintedField) -> GridColumn:
    right = field.unit in cells.NUMBERS
    head = cells.head(field.name) if field.head is None else field.head
    return GridColumn(
        head,
        field.need,
        right=right,
        once=field.once,
        elastic=not right,
        toned=field.toned,
        below=field.below,
        lenient=field.unit in ("date", "file"),
    )
