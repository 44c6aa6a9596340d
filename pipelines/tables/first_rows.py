"""FOLDER/<name>.csv: the first rows of the tables in a folder, for people and spreadsheets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipelines.formats.csv import CsvWriter
from pipelines.tables.on_duckdb import WrittenTables

ROWS = 100_000  # of each table; Parquet holds all
_AT_ONCE = 4_096  # become texts


def write_csv(folder: Path, names: Iterable[str]) -> None:
    """Write the first ROWS of some tables, in their order, beside the Parquet of each."""
    with WrittenTables(folder) as tables:
        for name in names:
            rows = tables.first(name, ROWS).rows
            with (folder / f"{name}.csv").open("wb") as stream:
                writer = CsvWriter(rows.schema, stream)
                for batch in rows.to_batches(max_chunksize=_AT_ONCE):
                    writer.write(batch)
                writer.close()
