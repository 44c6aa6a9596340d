"""Consumer groups, what happened to them, how far they are behind: tables `groups`, `group_events` and `lag`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pipelines.answers.aggregates import made
from pipelines.answers.records import Relations, Row, query
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import with_longest
from pipelines.tables.table import Ask


def groups(tables: Relations) -> tuple[list[Row], list[Row]]:
    """The groups, and what happened to them in order of time: rows of `groups` and `group_events`."""
    found = made(tables, ("t_groups", "t_group_events"))
    return found["t_groups"].to_pylist(), found["t_group_events"].to_pylist()


def with_events(groups: Sequence[Row], events: Iterable[Row]) -> list[Row]:
    """The groups, each with what happened to it as `events`, in the order given."""
    of: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for event in events:
        of[_which(event)].append(event)
    return [{**group, "events": of[_which(group)]} for group in groups]


def _which(row: Row) -> tuple[Any, ...]:
    """The group that a row is of."""
    return row["protocol"], row["group"], row["topic"]


def lag(tables: Relations) -> list[Row]:
    """Where each group stood last in each partition, and how late it ever was: rows of the table `lag`.

    `longest_ns` and `most_messages` are the largest of `lag_ns` and `messages` along time.
    """
    place = 'protocol, "group", topic, partition'
    rows: list[Row] = query(
        tables,
        f"""
        SELECT * EXCLUDE (nth) FROM (
            SELECT * EXCLUDE (longest_ns, most_messages), max(longest_ns) OVER place AS longest_ns,
                max(most_messages) OVER place AS most_messages,
                row_number() OVER (PARTITION BY {place} ORDER BY bucket DESC) AS nth
            FROM ({with_longest(DuckDB(), Ask())}) WINDOW place AS (PARTITION BY {place})
        ) WHERE nth = 1 ORDER BY protocol, "group", topic, partition NULLS LAST""",
    )
    return rows
