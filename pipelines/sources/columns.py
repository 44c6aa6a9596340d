"""The columns of the tables that the data source `brokerscope` has, with what each means."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from dissectors import records
from dissectors.errors import UsageError
from dissectors.wording import did_you_mean
from pipelines.tables.compute import bound, relations
from pipelines.tables.on_duckdb import LocalEngine
from pipelines.tables.registry import BY, TABLES, Ask

PREFIX = "t_"  # of aggregate tables, as in `brokerscope sql`: `errors` and `findings` are record tables, too


def refuse_others(source: str, wanted: StructType, known: StructType) -> None:
    """Raise UsageError where a schema has a column that a source has not, or has with another type."""
    ours = {field.name: field.dataType for field in known}
    for field in wanted:
        if ours.get(field.name) != field.dataType:
            there = ours[field.name].simpleString() if field.name in ours else "no such column"
            raise UsageError(f"column {field.name} {field.dataType.simpleString()}: {source} has {there}")


def chosen(columns: StructType, names: Sequence[str]) -> StructType:
    """Some of the columns, in the order in which they are named; all where none is.

    Raises UsageError where there is no such column.
    """
    known = {field.name: field for field in columns}
    for name in names:
        if name not in known:
            raise UsageError(f"columns: no such column: {name}; {did_you_mean(name, known)}")
    return StructType([known[name] for name in dict.fromkeys(names)]) if names else columns


def names_of_tables() -> list[str]:
    """What the option `table` may say: `latency` and `t_latency` mean the same."""
    return [*records.TABLES, *(name if name not in records.TABLES else PREFIX + name for name in TABLES)]


def aggregate(table: str) -> str | None:
    """The aggregate table that is meant; None where it is a record table.

    Raises UsageError where there is no such table.
    """
    if table in records.TABLES:
        return None
    name = table.removeprefix(PREFIX)
    if name not in TABLES:
        raise UsageError(f"table: no such table: {table}; {did_you_mean(table, names_of_tables())}")
    return name


def columns(table: str, by: Sequence[str] = (), *, full: bool = False, payloads: bool = False) -> StructType:
    """The columns of a table, each with the metadata `comment`. by: keys of the latency table.

    Raises UsageError where there is no such table or key.
    """
    name = aggregate(table)
    if name is not None:
        schema = _aggregate(name, tuple(by))
        docs = {column.name: column.doc for column in (*BY.values(), *TABLES[name].columns)}
    else:
        schema = records.schema(table, full=full, payloads=payloads)
        docs = {column.name: column.doc for column in records.columns(table, full=full, payloads=payloads)}
    return StructType([
        StructField(field.name, field.dataType, True, {"comment": docs[field.name]})
        for field in from_arrow_schema(schema)
    ])  # fmt: skip


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark wants batches of a schema to have."""
    return to_arrow_schema(schema, timezone="UTC")


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema, of a batch that has them."""
    return batch.select(schema.names).cast(schema)


@cache
def _aggregate(name: str, by: tuple[str, ...]) -> pa.Schema:
    """The Arrow schema of an aggregate table, as its query makes it of records without rows."""
    if unknown := [key for key in by if key not in BY]:
        raise UsageError(f"by: {unknown[0]!r} is none of {', '.join(BY)}")
    with LocalEngine(".", {}, Path(tempfile.gettempdir())) as engine:
        for table in records.DEFAULT_TABLES:
            engine.add(f"all_{table}", records.schema(table).empty_table())
        known, _ = relations(engine, ask=Ask(by))
        query = bound(engine.dialect, TABLES[name].query(engine.dialect, Ask(by)), known)
        return engine.fetch(f"select * from ({query}) limit 0").schema
