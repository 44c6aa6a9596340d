"""Queries over the records that have a name, each run, or made a view, when another query first names it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.sql.database import Row, fetched

_NAME = re.compile(r"\bv_[a-z_]+\b")


class SomeRows(NamedTuple):
    """A minimum number of rows that fulfil a condition."""

    view: str  # a record table, or a view
    where: str  # a condition on its rows
    least: int = 1
    one: str = "true"  # a condition that one of these rows at least fulfils, too


class Parts(NamedTuple):
    """A table that has rows of several queries, each of which has none without some others."""

    columns: Mapping[str, str]  # its columns, and of which type they are
    of: Mapping[str, SomeRows]  # a SELECT that has them -> the rows without which it gives none


class Views:
    """Answers queries over record tables, and over views whose names begin with `v_`."""

    def __init__(
        self,
        duckdb: Any,
        tables: Mapping[str, str | Parts],
        views: Mapping[str, str] | None = None,
        empty: Collection[str] = (),
    ) -> None:
        """duckdb: a connection in which the record tables have their names.

        tables: queries that are run once, by the names of their rows; views: others, which are planned anew wherever
        they are named. Either may name others. empty: record tables, and views of them, that are known to have no rows.
        """
        self.duckdb = duckdb
        self._queries: dict[str, str | Parts] = {**tables, **(views or {})}
        self._tables = tables.keys()
        self._has: dict[SomeRows, bool] = {}  # what was counted
        self._empty = frozenset(empty)
        self._made: set[str] = set()

    def rows(self, query: str) -> list[Row]:
        """The rows of a query that gives few."""
        self.make(query)
        return fetched(self.duckdb, query)

    def keep(self, name: str, query: str) -> int:
        """Make the rows of a query a table, which later queries may name; returns how many they are."""
        self.make(query)
        self._made.add(name)
        ((count,),) = self.duckdb.execute(f"create or replace temp table {name} as {query}").fetchall()
        return int(count)

    def has(self, name: str) -> bool:
        """Whether a table was kept, or a view made."""
        return name in self._made

    def may_have(self, view: str) -> bool:
        """Whether a record table, or a view, may have rows."""
        return view not in self._empty

    def make(self, query: str) -> None:
        """Make the views that a query names, and those that they name, where no query did before."""
        for name in _NAME.findall(query):
            if name in self._queries and name not in self._made:
                self._made.add(name)
                made = self._queries[name]
                if isinstance(made, Parts):
                    self._put_together(name, made)
                    continue
                self.make(made)
                kind = "table" if name in self._tables else "view"
                self.duckdb.execute(f"create or replace temp {kind} {name} as {made}")

    def _put_together(self, name: str, parts: Parts) -> None:
        self.duckdb.execute(f"create or replace temp table {name} ({', '.join(map(' '.join, parts.columns.items()))})")
        met = self.met(list(parts.of.values()))
        for query in (query for query, rows in parts.of.items() if rows in met):
            self.make(query)
            self.duckdb.execute(f"insert into {name} select {', '.join(parts.columns)} from ({query})")

    def met(self, needs: Sequence[SomeRows]) -> set[SomeRows]:
        """Those of which there are rows enough. One query counts all that was not counted before."""
        self._has |= dict.fromkeys((rows for rows in needs if not self.may_have(rows.view)), False)
        new = {rows: f"has_{n}" for n, rows in enumerate(dict.fromkeys(needs)) if rows not in self._has}
        counts: dict[str, list[str]] = {}
        for rows, name in new.items():
            counts.setdefault(rows.view, []).append(f"{_enough(rows)} as {name}")
        if counts:
            # of one row each, joined so that no order of joins is planned
            views = [f"(select {', '.join(counted)} from {view})" for view, counted in counts.items()]
            (has,) = self.rows(f"select * from {' positional join '.join(views)}")
            self._has |= {rows: has[name] for rows, name in new.items()}
        return {rows for rows in needs if self._has[rows]}


def _enough(rows: SomeRows) -> str:
    enough = f"count(*) filter ({rows.where}) >= {rows.least}"
    return enough if rows.one == "true" else f"{enough} and count(*) filter ({rows.where} and {rows.one}) > 0"
