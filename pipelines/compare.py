"""Whether two analyses say the same: `python -m pipelines.compare OUT OTHER`."""

from __future__ import annotations

import sys
from pathlib import Path

from pipelines.storage.layout import TABLE_FOLDER
from pipelines.tables.on_duckdb import WrittenTables
from pipelines.tables.registry import TABLES

ROWS = 1_000_000  # of each table that are compared


def differences(one: Path, other: Path) -> tuple[int, list[str]]:
    """Rows compared, and the tables that differ in columns or rows."""
    rows, different = 0, []
    with WrittenTables(one / TABLE_FOLDER) as left, WrittenTables(other / TABLE_FOLDER) as right:
        for name in TABLES:
            a, b = left.first(name, ROWS), right.first(name, ROWS)
            rows += a.total
            if a.total != b.total or not a.rows.equals(b.rows):
                different.append(name)
    return rows, different


def main(one: str, other: str) -> None:
    """Say what differs; exit code 1 if anything does."""
    rows, different = differences(Path(one), Path(other))
    if different:
        sys.exit(f"{one} and {other} differ in {', '.join(different)}")
    print(f"{one} and {other}: the same {rows} rows in {len(TABLES)} tables")


if __name__ == "__main__":
    main(*sys.argv[1:])
