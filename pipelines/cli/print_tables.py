"""Aggregate tables on a terminal or in a pipe: the columns that people read first, the rows that matter most."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pipelines.cli.printing import PrintedField, show_rows
from pipelines.formats import cells, units
from pipelines.tables.on_duckdb import First
from pipelines.tables.registry import BY, PRINTED, TABLES, Ask, Table

KEYS = 3  # leading columns of a table that are shown at any width
BELOW = frozenset({"message"})


def show(tables: Mapping[str, First]) -> None:
    """Print the first rows of the tables; those without rows share a line."""
    for name in PRINTED:
        made, total = tables[name]
        if total:
            more = f", the first {made.num_rows}" if total > made.num_rows else ""
            print(f"{name}: {units.counted(total, 'row')}{more}")
            show_rows(made.to_pylist(), fields(TABLES[name], made))
            print()
    empty = [name for name in PRINTED if not tables[name][1]]
    if empty:
        print(f"nothing in {', '.join(empty)}")


def fields(table: Table, made: pa.Table) -> list[PrintedField]:
    """What is printed of a table: its headline, with the keys that `--by` added."""
    known = {column.name: column for column in (*table.columns, *BY.values())}
    names = list(table.headline)
    names[2:2] = [column.name for column in table.extra(Ask(tuple(n for n in BY if n in made.column_names)))]
    return [_field(name, at, table.rank, known[name].unit) for at, name in enumerate(names)]


def _field(name: str, at: int, rank: str, unit: str) -> PrintedField:
    if name == "file":
        return PrintedField(name, "file", once=True)
    key = at < KEYS or name in (rank, "packet")
    return PrintedField(
        name,
        unit,
        need=0 if key else at + (100 if unit == "list" else 0),
        once=unit not in cells.NUMBERS and name not in BELOW,
        toned=name == "severity",
        below=name in BELOW,
    )
