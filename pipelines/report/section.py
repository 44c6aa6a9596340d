"""What a section of the page is, and what it builds its content from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipelines.report.elements import Html, join, sign, tag
from pipelines.report.load import ROWS, Analysis, Row
from pipelines.report.payload import CARRIED, Payload
from pipelines.report.requests import Requests
from pipelines.storage.layout import TABLE_FOLDER
from pipelines.tables.registry import BY, TABLES
from pipelines.tables.table import TableColumn

# columns of the tables whose cells stand out unless they are zero
_MARKS = {
    "errors": "warn",
    "unanswered": "warn",
    "refused": "warn",
    "removed": "warn",
    "bad": "bad",
    "unverifiable": "warn",
    "gaps": "warn",
    "loss_rate": "warn",
    "error_findings": "bad",
    "warning_findings": "warn",
}


@dataclass
class Builder:
    """The analysis that the page is about, and the data that its script gets."""

    analysis: Analysis
    payload: Payload

    def rows(self, sql: str) -> list[Row]:
        """Rows of a question to the records; none where there are no records."""
        return [] if self.analysis.records is None else self.analysis.records.rows(sql)

    @cached_property
    def requests(self) -> Requests | None:
        """The requests and batches that the page carries; None where there are no records."""
        records = self.analysis.records
        return None if records is None else Requests(records, self.analysis.verdicts, self.payload.limit)

    @property
    def count(self) -> int:
        """How many requests there are, as the tables say, or the records where they do not."""
        of_tables = sum(self.analysis.sum("activity", column) for column in ("count", "unanswered"))
        return of_tables or (self.requests.asked if self.requests else 0)

    def keep(self, name: str, sql: str) -> None:
        """Answer a question to the records once, as a table that others may ask."""
        if self.analysis.records is not None:
            self.analysis.records.keep(name, sql)

    def tables(self, sql: str) -> list[Row]:
        """Rows of a question to all rows of OUT/tables."""
        return self.analysis.ask(sql)

    def table(
        self, name: str, columns: Sequence[TableColumn], rows: Sequence[Row], *, total: int | None = None, **more: Any
    ) -> Html | None:
        """A table that the page sorts, filters and selects from; nothing without rows."""
        if not rows:
            return None
        self.payload.table(name, columns, rows, total=total, marks=_MARKS, **more)
        return tag("div", class_="view", data_view="table", data_name=name)

    def aggregate(
        self,
        name: str,
        rows: Sequence[Row] | None = None,
        *,
        under: str = "",
        headline: Sequence[str] = (),
        added: Sequence[TableColumn] = (),
        **more: Any,
    ) -> Html | None:
        """One of OUT/tables, with the columns that people read first and the keys of `--by`.

        rows: some of its rows, instead of all of them; under: the name by which the script finds it; added: columns
        that the rows have and the table has not.
        """
        given, total = self.analysis.first(name, CARRIED)
        if rows is not None:
            loaded, whole = self.analysis.first(name, ROWS)
            given, total = list(rows), len(rows) + whole - len(loaded)
        known = {c.name: c for c in (*TABLES[name].columns, *added)}
        there = set(given[0]) if given else set()
        columns = [known[c] for c in headline or TABLES[name].headline if c in there]
        columns[2:2] = [BY[c] for c in (given[0] if given else ()) if c in BY and c not in known]
        return self.table(under or name, columns, given, total=total, more=f"{TABLE_FOLDER}/{name}.parquet", **more)

    def view(self, name: str, **options: str) -> Html:
        """A place that the page's script fills from the facts."""
        return tag("div", class_="view", data_view=name, **{f"data_{key}": value for key, value in options.items()})

    def packet(self, file: str | None, packet: int | None) -> Html:
        """A packet's place, with the commands that show it."""
        return tag("span", data_view="packet", data_at=json.dumps(self.payload.packet(file, packet)))


Build = Callable[[Builder], Iterable[Any]]
"""Makes the content of a section."""


@dataclass(frozen=True)
class Section:
    """One section. `build` gives its content; nothing means that the section folds."""

    name: str
    title: str
    lead: str
    build: Build

    def html(self, builder: Builder) -> Html | None:
        """The section; None where it has no content."""
        content = join(self.build(builder))
        return framed(self, content) if content else None


FOLD = "M2 4l4 4 4-4"


def framed(section: Section, content: Html, *beside: Html | None) -> Html:
    """A section with a heading that folds it. beside: what stands next to the heading."""
    fold = tag("button", sign(FOLD, 11), section.title, type="button", aria_expanded="true")
    lead = tag("p", section.lead) if section.lead else None
    head = tag("div", tag("h2", fold), lead, *beside, class_="top")
    return tag("section", head, tag("div", content, class_="body"), id=section.name)


def heading(text: str, content: Any) -> Any:
    """Content under a small heading; nothing without content."""
    return join([tag("h3", text), content]) if content else None


def columns_of(table: str, names: Iterable[str]) -> list[TableColumn]:
    """Documented columns of an aggregate table."""
    known = {c.name: c for c in TABLES[table].columns}
    return [known[name] for name in names if name in known]
