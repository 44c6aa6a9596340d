"""<name>.csv beside the Parquet of a table: its first rows, for people and spreadsheets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipelines.formats.csv import CsvWriter
from pipelines.tables.on_duckdb import WrittenTables

ROWS = 100_000  # of each table; Parquet holds all
_AT_ONCE = 4_096  # become texts


def write_csv(tables_in: str | Path, names: Iterable[str], folder: Path) -> None:
    """Write the first ROWS of some tables, in their order, to FOLDER/<name>.csv. tables_in: a folder, or its URL."""
    with WrittenTables(tables_in) as tables:
        for name in names:
            rows = tables.first(name, ROWS).rows
            with (folder / f"{name}.csv").open("wb") as stream:
                writer = CsvWriter(rows.schema, stream)
                for batch in rows.to_batches(max_chunksize=_AT_ONCE):
                    writer.write(batch)
                writer.close()
