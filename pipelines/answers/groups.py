"""Consumer groups, what happened to them, how far they are behind: tables `groups`, `group_events` and `lag`."""

from __future__ import annotations

from pipelines.answers.aggregates import made
from pipelines.answers.records import Relations, Row, query
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import LAG
from pipelines.tables.table import RECORDS, Ask

TABLES = RECORDS


def groups(tables: Relations) -> tuple[list[Row], list[Row]]:
    """The groups, and what happened to them in order of time: rows of `groups` and `group_events`."""
    found = made(tables, ("t_groups", "t_group_events"))
    return found["t_groups"].to_pylist(), found["t_group_events"].to_pylist()


def lag(tables: Relations) -> list[Row]:
    """Where each group stood last in each partition, and how late it ever was: rows of the table `lag`.

    `longest_ns` and `most_messages` are the largest of `lag_ns` and `messages` along time.
    """
    place = 'protocol, "group", topic, partition'
    rows: list[Row] = query(
        tables,
        f"""
        SELECT * EXCLUDE (nth) FROM (
            SELECT *, max(lag_ns) OVER place AS longest_ns, max(messages) OVER place AS most_messages,
                row_number() OVER (PARTITION BY {place} ORDER BY bucket DESC) AS nth
            FROM ({LAG.query(DuckDB(), Ask())}) WINDOW place AS (PARTITION BY {place})
        ) WHERE nth = 1 ORDER BY protocol, "group", topic, partition NULLS LAST""",
    )
    return rows
