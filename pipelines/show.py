"""Aggregate tables on a terminal or in a pipe: the columns that people read first, the rows that matter most."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pipelines.formats import cells
from pipelines.formats.text import clean
from pipelines.tables import BY, PRINTED, TABLES, Ask, Table

ROWS = 12  # of each table
_PIPE_WIDTH = 180  # where there is no terminal to ask
_CELL = 46  # longer text is cut


def show(tables: Mapping[str, pa.Table]) -> None:
    """Print the tables; those without rows take one line."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(width=width, highlight=False)
    for name in PRINTED:
        made = tables[name]
        told = TABLES[name]
        more = f", the first {ROWS}" if made.num_rows > ROWS else ""
        rows = f"{made.num_rows} row{'s' if made.num_rows != 1 else ''}{more}" if made.num_rows else "nothing"
        console.print(Text.assemble((name, "bold"), (f"  {rows}", "dim")))
        if made.num_rows:
            console.print(_grid(told, made))


def _grid(told: Table, made: pa.Table) -> Grid:
    known = {column.name: column for column in (*told.columns, *BY.values())}
    names = list(told.headline)
    names[2:2] = [column.name for column in told.extra(Ask(tuple(n for n in BY if n in made.column_names)))]
    if told.rank and told.rank in made.column_names:
        made = made.sort_by([(told.rank, "descending")])
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
    if {"file", "packet"} <= set(names):
        places = zip(made.column("file").to_pylist(), made.column("packet").to_pylist(), strict=True)
        made = made.append_column("where", pa.array([cells.where(*place) for place in places], pa.string()))
        names = [n for n in names if n not in ("file", "packet")] + ["where"]
    columns = []
    for name in names:
        column = cells.WHERE if name == "where" else known[name]
        right = column.unit in cells.NUMBERS
        grid.add_column(cells.head(name), justify="right" if right else "left", no_wrap=right)
        columns.append((column.unit, made.column(name).slice(0, ROWS).to_pylist()))
    for at in range(min(ROWS, made.num_rows)):
        grid.add_row(*(_cell(values[at], unit) for unit, values in columns))
    return grid


def _cell(value: Any, unit: str) -> Text:
    text = clean(cells.show(value, unit))
    return Text(text if len(text) <= _CELL else text[: _CELL - 1] + "…")
