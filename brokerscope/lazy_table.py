"""A record table that is read when it is asked for, as the library has it that the user works with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerscope.drawing import draw, library
from brokerscope.rows import AnswerRow, AnswerRows, first_rows, rows_of
from dissectors.errors import UsageError
from dissectors.session.protocols import protocols
from dissectors.wording import did_you_mean
from pipelines.sql import database
from pipelines.sql.conditions import InvalidFilterError, condition
from pipelines.sql.occurring import NamesSeen
from pipelines.sql.selection import Selection
from pipelines.sql.where import Filter

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

OPTIONS = tuple(name for name in inspect.signature(condition).parameters if name not in ("table", "where", "clock"))
"""Filters that mean what the command line's options of this name mean; any other keyword is a column."""


ASKED_NAMES = ("api", "topic", "group", "client", "server", "protocol")
"""Filters that name what occurs in captures."""


class LazyTable:
    """Rows of one record table. Nothing is read before rows are asked for; then they are kept for the next question."""

    def __init__(
        self,
        name: str,
        load: Callable[[], pa.Table],
        schema: pa.Schema,
        conditions: tuple[str, ...] = (),
        asked: tuple[Selection, ...] = (),
        named: Callable[[], pa.Table] | None = None,
    ) -> None:
        """load: gives the whole table; conditions: SQL that its rows have to meet; asked: names that must occur in it,
        or in the table that `named` gives.
        """
        self.name = name
        self.schema = schema
        self._load = load
        self._conditions = conditions
        self._asked = asked
        self._named = named or load
        self._rows: pa.Table | None = None

    def where(self, sql: str | None = None, **filters: Any) -> LazyTable:
        """The rows that meet all conditions.

        sql: a condition over the columns, as `dissect --where` takes it. Filters by the names of options (since, until,
        site, protocol, topic, client, server, api, group, errors, slower_than) mean what these mean on the command
        line: names in any case, `*` and `?` for any text, several apart by commas or in a list. Any other filter is a
        column that equals a value, or one of a list; None for no value.

            cap.exchanges.where(api="Produce", topic="orders-*", slower_than="50ms")
            cap.exchanges.where("wait_ns > '5ms'", status="error")

        Raises UsageError for what means nothing. A name that does not occur in the captures, and that no API has, is an
        error with the nearest one as soon as rows are asked for.
        """
        options = {
            name: filters.pop(name)
            for name in OPTIONS
            if name in filters and not (filters[name] is None and name in self.schema.names)
        }
        made = [*self._conditions, *(self._of_column(name, value) for name, value in filters.items())]
        named: dict[str, Any] = {name: _joined(value) for name, value in options.items() if value is not None}
        if "errors" in options:
            named["errors"] = bool(options["errors"])
        try:
            of_options = condition(self.name, where=sql, **named)
            if of_options is not None:
                made.append(of_options)
            for each in made:
                Filter(each, self.schema)
        except InvalidFilterError as error:
            raise UsageError(f"{error.option.lstrip('-').replace('-', '_')}: {error}") from None
        except ValueError as error:
            raise UsageError(str(error)) from None
        names = {name: value for name, value in named.items() if name in ASKED_NAMES}
        asked = (*self._asked, Selection(**names)) if names else self._asked
        return LazyTable(self.name, self._load, self.schema, tuple(made), asked, self._named)

    @property
    def columns(self) -> list[str]:
        """Names of the columns; docs/records.md says what they mean."""
        return list(self.schema.names)

    def head(self, count: int = 5) -> AnswerRows:
        """The first rows in time order, at most so many."""
        return AnswerRows(rows_of(self.arrow().slice(0, max(count, 0)).to_pylist()))

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table, in time order."""
        if self._rows is None:
            rows = self._load()
            self._refuse_unknown(rows)
            if self._conditions:
                keep = Filter(" AND ".join(f"({each})" for each in self._conditions), self.schema)
                rows = pa.Table.from_batches([keep(batch) for batch in rows.to_batches()], rows.schema)
            self._rows = rows
        return self._rows

    def pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame of pandas."""
        library("pandas", ".pandas()")
        return self.arrow().to_pandas()

    def polars(self) -> polars.DataFrame:
        """The rows as a DataFrame of polars."""
        made: polars.DataFrame = library("polars", ".polars()").from_arrow(self.arrow())
        return made

    def duckdb(self) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, in a database of their own, where they are the table of their name."""
        connection = database.connect()
        connection.register(self.name, self.arrow())
        return connection.table(self.name)

    def plot(self, y: str = "total_ns", by: str = "api") -> Any:
        """A column over time, a colour for each value of another: Axes of matplotlib, or a Chart of altair.

        y: a column of numbers; of durations, milliseconds are drawn. Raises MissingLibraryError without both.
        """
        for column in (y, by, "time"):
            if column not in self.schema.names:
                raise UsageError(self._no_column(column))
        series: dict[str, list[tuple[Any, float]]] = {}
        scale = 1e6 if y.endswith("_ns") else 1
        for row in self.arrow().select(list(dict.fromkeys(("time", y, by)))).to_pylist():
            if row[y] is not None and row["time"] is not None:
                series.setdefault(str(row[by]), []).append((row["time"], row[y] / scale))
        return draw(series, y=f"{y.removesuffix('_ns')} (ms)" if scale > 1 else y, by=by, lines=False)

    def __iter__(self) -> Iterator[AnswerRow]:
        for batch in self.arrow().to_batches(max_chunksize=1024):
            yield from rows_of(batch.to_pylist())

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __repr__(self) -> str:
        rows = f"{self._rows.num_rows:,} rows" if self._rows is not None else "not read yet"
        where = f" where {' and '.join(self._conditions)}" if self._conditions else ""
        return f"<{self.name}{where}: {rows}>"

    def _repr_html_(self) -> str:
        rows = self.arrow()
        return first_rows(rows.slice(0, 20).to_pylist(), rows.num_rows)

    def _refuse_unknown(self, rows: pa.Table) -> None:
        """Raise UsageError where a name that was asked for does not occur in the rows, and is no API's either."""
        for selection in self._asked:
            seen = NamesSeen(selection)
            for batch in (*rows.to_batches(), *self._named().to_batches()):
                seen.add(batch)
            apis = {name.lower() for protocol in protocols() for name in protocol.api_names()}
            for option, name, sentence in seen.unknown():
                if not (option == "api" and name.lower() in apis):
                    raise UsageError(sentence)

    def _of_column(self, name: str, value: Any) -> str:
        """SQL that a column equals a value, or one of several. Raises UsageError where there is no such column."""
        if name not in self.schema.names:
            raise UsageError(self._no_column(name))
        is_list = pa.types.is_list(self.schema.field(name).type)
        several = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
        tests = [f'"{name}" IS NULL' if one is None else _equals(name, one, is_list) for one in several]
        return f"({' OR '.join(tests) or 'false'})"

    def _no_column(self, name: str) -> str:
        return f"{self.name} has no column {name!r}; {did_you_mean(name, [*self.schema.names, *OPTIONS])}"


def _joined(value: Any) -> str | None:
    """What the command line would have for a filter: names in a list are apart by commas."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(map(str, value))
    return str(value)


def _equals(name: str, value: Any, is_list: bool) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, (int, float)) else None
    spelled = database.literal(str(value)) if text is None else text
    return f'list_contains("{name}", {spelled})' if is_list else f'"{name}" = {spelled}'
