"""`--where`: rows of a batch for which an SQL condition holds, by DuckDB.

Comparisons may be written as people say them:

    time > '01:11:18'       the time of day
    total_ns > '5ms'        a duration in ns, µs, ms, s, m or h
    request_bytes > '1MiB'  a size
    topics = 'orders'       one of a list
    request.acks = -1       a field of a decoded body, where rows have such
"""

from __future__ import annotations

import re

import pyarrow as pa

from pipelines.formats import units
from pipelines.sql import bodies, database

_LITERAL = r"'(?:[^']|'')*'"
_COMPARED = re.compile(rf"\b(?P<column>\w+)\s*(?P<sign><=|>=|<>|!=|<|>|=)\s*(?P<value>{_LITERAL})|{_LITERAL}")
_EQUALITY = ("=", "<>", "!=")  # the signs that mean something of a list
_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")


class Filter:
    """Keeps the rows for which a condition holds. Raises ValueError for a condition that means nothing."""

    def __init__(self, condition: str, schema: pa.Schema) -> None:
        import duckdb

        self._error = duckdb.Error
        self._with_bodies = bodies.has_bodies(schema)
        if self._with_bodies:
            condition = bodies.spelled(condition)
        self._condition = spelled_out(condition, schema)
        self._duckdb = database.connect()
        self(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbered = pa.Table.from_batches([batch]).append_column("_row", pa.array(range(batch.num_rows), pa.int64()))
        try:
            every = self._duckdb.from_arrow(numbered)
            if self._with_bodies:
                every = every.project(bodies.AS_JSON)
            rows = every.filter(self._condition).project("_row").fetchnumpy()["_row"]
        except self._error as error:
            raise ValueError(database.sentence(error)) from None
        rows.sort()
        return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))


def spelled_out(condition: str, schema: pa.Schema) -> str:
    """A condition as SQL wants it."""
    types = {field.name: field.type for field in schema}

    def spelled(match: re.Match[str]) -> str:
        column, kind = match["column"], types.get(match["column"] or "")
        if kind is None:
            return match[0]
        value = match["value"][1:-1]
        if pa.types.is_timestamp(kind) and _OF_DAY.fullmatch(value):
            return f"CAST(CAST({column} AS TIMESTAMP) AS TIME) {match['sign']} TIME '{value}'"
        if pa.types.is_list(kind):
            negated = "" if match["sign"] == "=" else "NOT "
            return f"{negated}list_contains({column}, {match['value']})" if match["sign"] in _EQUALITY else match[0]
        number = units.parsed(value) if pa.types.is_integer(kind) else None
        return match[0] if number is None else f"{column} {match['sign']} {number}"

    return _COMPARED.sub(spelled, condition)
