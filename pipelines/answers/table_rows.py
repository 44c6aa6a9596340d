"""The rows of an aggregate table that a person asks for, of records that are at hand.

A row of such a table may follow from records that do not say its topic, group or client, or from earlier ones: a login,
what a setting was before. So options that name these, and times, choose among the table's rows, not among records.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from pipelines.answers.aggregates import aggregate
from pipelines.answers.records import Relations, database_of
from pipelines.sql.conditions import condition
from pipelines.sql.selection import Selection
from pipelines.tables.registry import TABLES

_OF_ROWS = ("since", "until", "topic", "client", "api", "group")


def of_records(asked: Selection) -> Selection:
    """The part of a selection that chooses among records."""
    return replace(asked, **dict.fromkeys(_OF_ROWS))


def table_rows(tables: Relations, name: str, asked: Selection) -> pa.Table:
    """The rows of an aggregate table that are asked for, in its order. tables: the records that `of_records` chooses.

    Raises InvalidFilterError for an option of which the table says nothing.
    """
    columns = [column.name for column in TABLES[name].columns]
    wanted = condition(name, **{option: getattr(asked, option) for option in _OF_ROWS}, columns=columns)
    rows = aggregate(tables, name)
    if wanted is None:
        return rows
    with database_of({name: rows}) as duckdb:
        found = duckdb.sql(f"select * from {name} where {wanted} order by {TABLES[name].ordering}")
        return found.to_arrow_table().cast(rows.schema)
