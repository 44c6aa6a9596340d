"""The record tables that answers are computed from: decoded from captures, or read back from what `analyze` wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dissectors import records
from dissectors.errors import InputError
from pipelines import database
from pipelines.report.load import ABOUT, RECORD_FOLDER, TABLE_FOLDER

Row = dict[str, Any]
Tables = dict[str, pa.Table]


def is_analysis(path: str) -> bool:
    """Whether a path is a folder that `analyze` wrote."""
    folder = Path(path)
    return (folder / ABOUT).is_file() and (folder / RECORD_FOLDER).is_dir()


def gathered(batches: Iterable[tuple[str, pa.RecordBatch]], tables: Sequence[str], *, full: bool = False) -> Tables:
    """Record batches as whole tables."""
    kept: dict[str, list[pa.RecordBatch]] = {table: [] for table in tables}
    for table, batch in batches:
        if table in kept:
            kept[table].append(batch)
    return {
        table: pa.Table.from_batches(made, records.schema(table, full=full and table == "exchanges"))
        for table, made in kept.items()
    }


def read_analysis(out: str, tables: Sequence[str]) -> Tables:
    """Record tables from OUT. Raises InputError where one cannot be read; a table that is not there is empty."""
    import pyarrow.dataset as ds

    made = {}
    for table in tables:
        schema = records.schema(table)
        folder = Path(out, RECORD_FOLDER, table)
        if not folder.is_dir():
            made[table] = schema.empty_table()
            continue
        try:
            found = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
        except (OSError, ValueError) as error:
            raise InputError(f"{folder}: cannot be read: {error}") from None
        made[table] = _conformed(found, schema)
    return made


def read_aggregates(out: str) -> Tables:
    """The aggregate tables in OUT."""
    import pyarrow.parquet as pq

    found = sorted(Path(out, TABLE_FOLDER).glob("*.parquet"))
    try:
        return {path.stem: pq.read_table(path) for path in found}
    except (OSError, ValueError) as error:
        raise InputError(f"{out}: cannot be read: {error}") from None


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with the columns of a schema; what an earlier release did not write is null."""
    columns = [
        table.column(field.name).cast(field.type) if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]  # fmt: skip
    return pa.table(columns, schema=schema)


def query(tables: Mapping[str, pa.Table], sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """The rows of a query over these tables. Raises duckdb.Error."""
    connection = database.connect()
    for name, table in tables.items():
        connection.register(name, table)
    made = connection.sql(sql, params=list(parameters))
    rows: list[Row] = made.to_arrow_table().to_pylist()
    return rows
