"""A part of what captures or OUT hold: of some time, of some clients, servers, topics, APIs or groups.

Requests, batches, errors and findings belong to the time in which they happened; a connection belongs to every time in
which it was open. A protocol, a server or a capture point selects rows of every table. A topic, client, API or group
selects the requests, batches, errors and messages that name it, the connections of these, and the findings and stalls
of these connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dissectors import records
from pipelines.sql.conditions import condition, open_during

if TYPE_CHECKING:
    import pyarrow as pa

_CONNECTION = ("site", "connection", "incarnation")
_NAMING = ("exchanges", "batches", "errors")  # tables whose rows name topics, clients, APIs and groups
_FOLLOWING = ("connections", "findings", "stalls")  # tables whose rows belong to the connections of these
_NEEDED = {"topic": ("topics", "topic"), "client": ("client_id",), "api": ("api",), "group": ("group",)}
_WORDS = {"site": "at", "api": "API"}  # for an option that is said otherwise than it is called
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Selection:
    """What is asked for, as given on the command line; None for all. Raises InvalidFilterError for what is invalid."""

    since: str | None = None
    until: str | None = None
    site: str | None = None
    topic: str | None = None
    protocol: str | None = None
    client: str | None = None
    server: str | None = None
    api: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        for table in (*_NAMING, *_FOLLOWING):
            self.condition(table)

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def __str__(self) -> str:
        return ", ".join(f"{_WORDS.get(name, name)} {value}" for name, value in vars(self).items() if value is not None)

    @property
    def looked_at(self) -> str:
        """What a sentence that finds nothing is about."""
        return "what was asked for" if self else "these captures"

    @property
    def cut(self) -> str:
        """What was asked for, in words, where rows that are left out may belong to the work that others are part of.

        Empty where nothing is left out, or other protocols only, which have no work in common.
        """
        return str(self) if replace(self, protocol=None) else ""

    @property
    def names(self) -> dict[str, str]:
        """The options that only some tables' rows name, with what was asked for."""
        return {name: value for name in _NEEDED if (value := getattr(self, name)) is not None}

    def tables(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """The record tables that must be read where some are wanted: those that tell which rows a name selects, too."""
        if any(table in _FOLLOWING for table in wanted) and self.names:
            return tuple(dict.fromkeys([*wanted, *_NAMING]))
        if any(self._follows_exchanges(table) for table in wanted):
            return tuple(dict.fromkeys([*wanted, "exchanges"]))
        return tuple(wanted)

    def _follows_exchanges(self, table: str) -> bool:
        """Whether rows of a table belong to the selection where their exchange does: they do not say the name."""
        return table not in _FOLLOWING and any(not _says(table, name) for name in self.names)

    def relations(self, known: dict[str, str]) -> dict[str, str]:
        """Relations, by the names of record tables, with only the rows that are selected."""
        out = {name: f"(select * from {rows} where {self.condition(name) or 'true'})" for name, rows in known.items()}
        for name in out:
            if self._follows_exchanges(name) and "exchanges" in out:
                same = "n.site = r.site and n.exchange_id = r.exchange_id"
                out[name] = (
                    f"(select * from {out[name]} r where exists (select 1 from {out['exchanges']} n where {same}))"
                )
        if self.names:
            columns = ", ".join(_CONNECTION)
            naming = " union all ".join(f"select {columns} from {out[name]}" for name in _NAMING if name in out)
            for name in _FOLLOWING:
                if name in out and naming:
                    same = " and ".join(f"r.{column} = n.{column}" for column in _CONNECTION)
                    out[name] = f"(select * from {out[name]} r where exists (select 1 from ({naming}) n where {same}))"
        return out

    def of(self, batches: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Of record batches and the names of their tables, the rows that a row alone tells to be selected.

        Which connections and findings a topic, client, API or group selects, `relations` tells.
        """
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
        from pipelines.storage.record_files import UNDATED, date_of  # loads what a selection of captures does not need

        # a time with an offset may be a day off in UTC: such rows are told by their times alone
        if any(time and re.search(r"[+-]\d{2}:?\d{2}$", time[10:]) for time in (self.since, self.until)):
            return files
        first = self.since[:10] if self.since and _DAY.match(self.since) and table != "connections" else ""
        last = self.until[:10] if self.until and _DAY.match(self.until) else UNDATED
        return [file for file in files if (date := date_of(file)) in ("", UNDATED) or first <= date <= last]

    def condition(self, table: str) -> str | None:
        """SQL that the selected rows of a record table meet, None for all rows."""
        asked = {name: value for name, value in vars(self).items() if name not in _NEEDED or _says(table, name)}
        open_then = None
        if table == "connections":
            open_then = open_during(asked.pop("since"), asked.pop("until"))
        return " and ".join(filter(None, (condition(table, **asked), open_then))) or None


def _says(table: str, name: str) -> bool:
    """Whether the rows of a record table themselves say what an option asks for."""
    if table in _FOLLOWING:
        return False
    return any(column.name in _NEEDED[name] for column in records.columns(table))
