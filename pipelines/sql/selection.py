"""A part of what OUT holds: of some time, of some capture points, of some topics.

Requests, batches, errors and findings belong to the time in which they happened; a connection belongs to every time in
which it was open. A topic selects the requests, batches and errors that name it, the connections of these, and the
findings about these connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.sql.conditions import condition, open_during
from pipelines.storage.record_files import UNDATED, date_of

if TYPE_CHECKING:
    import pyarrow as pa

_CONNECTION = ("site", "connection", "incarnation")
_NAMING = ("exchanges", "batches", "errors")  # tables that name topics
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Selection:
    """What is asked for, as given on the command line; None for all. Raises MeaninglessError for what means nothing."""

    since: str | None = None
    until: str | None = None
    site: str | None = None
    topic: str | None = None

    def __post_init__(self) -> None:
        for table in (*_NAMING, "connections", "findings"):
            self.condition(table)

    def __bool__(self) -> bool:
        return any((self.since, self.until, self.site, self.topic))

    def __str__(self) -> str:
        parts = (("since", self.since), ("until", self.until), ("at", self.site), ("topic", self.topic))
        return ", ".join(f"{word} {value}" for word, value in parts if value is not None)

    def relations(self, known: dict[str, str]) -> dict[str, str]:
        """Relations, by the names of record tables, with only the rows that are selected."""
        out = {name: f"(select * from {rows} where {self.condition(name) or 'true'})" for name, rows in known.items()}
        if self.topic is not None:
            columns = ", ".join(_CONNECTION)
            naming = " union all ".join(f"select {columns} from {out[name]}" for name in _NAMING)
            for name in ("connections", "findings"):
                same = " and ".join(f"r.{column} = n.{column}" for column in _CONNECTION)
                out[name] = f"(select * from {out[name]} r where exists (select 1 from ({naming}) n where {same}))"
        return out

    def of(self, batches: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Of record batches and the names of their tables, the selected rows. A topic selects no connections here."""
        from pipelines.sql.where import Filter

        filters: dict[str, Filter | None] = {}
        for table, batch in batches:
            if table not in filters:
                condition = self.condition(table)
                filters[table] = Filter(condition, batch.schema) if condition else None
            keep = filters[table]
            yield table, batch if keep is None else keep(batch)

    def files(self, table: str, files: Sequence[str]) -> Sequence[str]:
        """Of the files of a record table, those that may hold selected rows, as far as their names tell."""
        # a time with an offset may be a day off in UTC: such rows are told by their times alone
        if any(time and re.search(r"[+-]\d{2}:?\d{2}$", time[10:]) for time in (self.since, self.until)):
            return files
        first = self.since[:10] if self.since and _DAY.match(self.since) and table != "connections" else ""
        last = self.until[:10] if self.until and _DAY.match(self.until) else UNDATED
        return [file for file in files if (date := date_of(file)) in ("", UNDATED) or first <= date <= last]

    def condition(self, table: str) -> str | None:
        """SQL that the selected rows of a record table meet, None for all rows."""
        if table == "connections":
            parts = [condition(table, site=self.site), open_during(self.since, self.until)]
            return " and ".join(filter(None, parts)) or None
        topic = self.topic if table in _NAMING else None
        return condition(table, since=self.since, until=self.until, site=self.site, topic=topic)
