"""The record tables as other query engines declare them, with the meaning of each column.

Parquet names each column, and engines find them by name: a table may lack some. Times are stored as UTC, in
microseconds; the types of both engines have no zone, so what they show is UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from dissectors import records
from dissectors.records import Column


class QueryEngine(NamedTuple):
    """How an engine declares a table over Parquet files."""

    types: Mapping[pa.DataType, str]
    quote: str  # around the name of a column
    apostrophe: str  # within a text
    statement: str  # of schema, table, columns and location


_TEXT, _TIME, _TEXTS = pa.string(), pa.timestamp("us", "UTC"), pa.list_(pa.string())
TRINO = QueryEngine(
    {
        _TEXT: "varchar", _TIME: "timestamp(6)", _TEXTS: "array(varchar)", pa.int32(): "integer", pa.int64(): "bigint",
        pa.bool_(): "boolean", pa.binary(): "varbinary", pa.date32(): "date",
    },
    '"',
    "''",
    "CREATE TABLE {schema}.{table} (\n{columns}\n)\n"
    "WITH (format = 'PARQUET', external_location = '{location}/{table}/');",
)  # fmt: skip
HIVE = QueryEngine(
    {
        _TEXT: "string", _TIME: "timestamp", _TEXTS: "array<string>", pa.int32(): "int", pa.int64(): "bigint",
        pa.bool_(): "boolean", pa.binary(): "binary", pa.date32(): "date",
    },
    "`",
    "\\'",
    "CREATE EXTERNAL TABLE {schema}.{table} (\n{columns}\n)\nSTORED AS PARQUET LOCATION '{location}/{table}/';",
)  # fmt: skip
"""Hive's language, which Athena speaks."""
_DATE = Column("date", pa.date32(), "the day of the row's time in UTC; null of rows without one")
_COMMENT = 255  # characters of a comment that Glue, Athena's catalog, takes


def columns(table: str) -> list[Column]:
    """The columns of a record table in OUT/records, without those of `--full` and `--payloads`."""
    return [*records.columns(table), _DATE]


def comment(column: Column) -> str:
    """What a catalog says of a column: its meaning and its unit, in so many characters as all take."""
    text = f"{column.doc} ({column.unit})" if column.unit else column.doc
    return text if len(text) <= _COMMENT else f"{text[: _COMMENT - 1]}…"


def create(engine: QueryEngine, table: str, schema: str, location: str) -> str:
    """The statement that declares a record table. location: URL of OUT/records."""
    lines = []
    for column in columns(table):
        text = comment(column).replace("'", engine.apostrophe)
        lines.append(f"  {engine.quote}{column.name}{engine.quote} {engine.types[column.type]} COMMENT '{text}'")
    return engine.statement.format(schema=schema, table=table, columns=",\n".join(lines), location=location)
