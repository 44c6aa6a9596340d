"""What an aggregate table is: a name, documented columns, and one SQL query that two engines run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from dissectors.records import DEFAULT_TABLES
from pipelines.sql.words import CLIENT, SERVER
from pipelines.tables.dialect import Dialect
from pipelines.tables.percentiles import QUANTILE_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


LATER = ("positions", "stalls", "events")
"""Record tables that older versions did not write."""

RECORDS = (*DEFAULT_TABLES, *LATER)
"""The record tables that aggregate tables and verdicts are made of."""

_WORD = re.compile(r"[a-z_][a-z0-9_]*")


class TableColumn(NamedTuple):
    """One column: what it means and how people read it.

    unit: "ns", "bytes", "bytes/s", "1/s", "share" (0 to 1), "ratio", "count", "time", "code" (a number that is a name),
    "list" or "" for text.
    """

    name: str
    doc: str
    unit: str = ""


class Ask(NamedTuple):
    """What the user asked of the tables."""

    by: tuple[str, ...] = ()
    bucket_us: int = 1_000_000


Records = Mapping[str, "DataFrame"]
"""Record tables on Spark, by name."""


class Table(NamedTuple):
    """An aggregate table.

    Its query reads the record tables by their names, and so each exchange, batch, error, finding and connection once,
    even where several capture points saw it; `all_exchanges` and the like are what every point saw (see points.py).
    """

    name: str
    doc: str
    columns: tuple[TableColumn, ...]
    query: Callable[[Dialect, Ask], str]
    """SELECT statement without an order."""
    headline: tuple[str, ...]
    """The columns that a person reads first: printed, and shown on the page."""
    order: tuple[str, ...]
    """The order of rows when they are read: columns, `column desc` for the largest first. Nulls come last."""
    extra: Callable[[Ask], tuple[TableColumn, ...]] = lambda ask: ()
    """Columns that come with the question: the keys of `--by`."""

    @property
    def known(self) -> str:
        """The name by which queries of other tables read its rows, if it is one of `registry.READ_BY_OTHERS`."""
        return f"known_{self.name}"

    @property
    def ordering(self) -> str:
        """`order` as SQL."""
        return ", ".join(f"{term} nulls last" for term in self.order)

    def ordered_by(self, columns: Collection[str]) -> str:
        """`order` as SQL, by those of its columns that are there."""
        known = {column.name for column in self.columns}
        terms = [term for term in self.order if not known & set(_WORD.findall(term)) - set(columns)]
        return ", ".join(f"{term} nulls last" for term in terms)

    @property
    def rank(self) -> str:
        """The column whose largest values come first; "" where rows are in another order."""
        return next((term.removesuffix(" desc") for term in self.order if term.endswith(" desc")), "")


def rows_of(relation: str) -> Callable[[Dialect, Ask], str]:
    """The query of a table whose rows are made beside and given as a relation."""
    return lambda d, ask: f"select * from {relation}"


_TYPES = {"": pa.string(), "list": pa.list_(pa.string()), "time": pa.timestamp("us", "UTC")}


def schema_of(table: Table, **others: pa.DataType) -> pa.Schema:
    """The Arrow schema of a table's rows, by the units of its columns; others: types that these do not tell."""
    return pa.schema([(c.name, others.get(c.name, _TYPES.get(c.unit, pa.int64()))) for c in table.columns])


CONNECTION = ("site", "connection", "incarnation")
"""What tells connections apart."""

# --- what --by may name ----------------------------------------------------------------------------------------------

BY = {
    "version": TableColumn("version", "version of the api", "code"),
    "client": TableColumn("client", "client address and the name it gives itself"),
    "server": TableColumn("server", "server address and port"),
    "topic": TableColumn("topic", "an exchange that names several topics counts in the row of each"),
    "site": TableColumn("site", "capture point"),
    "dialect": TableColumn("dialect", "wire dialect"),
    "bucket": TableColumn("bucket", "start of the time bucket", "time"),
}


def by_columns(ask: Ask) -> tuple[TableColumn, ...]:
    """The columns that `--by` adds."""
    return tuple(BY[name] for name in ask.by)


def derived(d: Dialect, ask: Ask) -> str:
    """The columns that `--by` names and exchanges lack, for a SELECT list."""
    known = {"client": CLIENT, "server": SERVER, "topic": d.each("topics"), "bucket": bucket(d, "time", ask.bucket_us)}
    return "".join(f", {known[name]} as {name}" for name in ask.by if name in known)


# --- expressions that several tables use -----------------------------------------------------------------------------


def bucket(d: Dialect, time: str, width_us: int) -> str:
    """Start of the bucket that a time falls into, counted from the epoch."""
    micros = d.micros(time)
    return d.timestamp(f"{micros} - {micros} % {width_us}")


def quantiles(name: str) -> str:
    """The columns that `Dialect.percentiles` makes of a value, for a SELECT list."""
    return ", ".join(f"{name}_{quantile}_ns" for quantile in QUANTILE_NAMES)


def quantile_columns(prefix: str, what: str) -> tuple[TableColumn, ...]:
    """Their documentation."""
    texts = ("median", "90 % are at most this", "99 % are at most this", "99.9 % are at most this")
    return tuple(
        TableColumn(f"{prefix}{name}_ns", f"{what}: {text}", "ns")
        for name, text in zip(QUANTILE_NAMES, texts, strict=True)
    )


def earliest(d: Dialect, value: str) -> str:
    """A value of the first row of a group, in order of time."""
    time, file, packet = f"coalesce({d.micros('time')}, 0)", "coalesce(file, '')", "coalesce(packet, 0)"
    return d.first(value, time, file, packet, f"coalesce(cast({value} as string), '')")


def equal(columns: Iterable[str], one: str, other: str) -> str:
    """Whether rows of two relations agree in columns that are never null."""
    return " and ".join(f"{one}.{column} = {other}.{column}" for column in columns)


def alike(columns: Iterable[str], one: str, other: str) -> str:
    """Whether rows of two relations agree in columns, null with null."""
    return " and ".join(f"{one}.{column} is not distinct from {other}.{column}" for column in columns)


def count_if(condition: str) -> str:
    """Rows of a group for which a condition holds."""
    return f"count(*) filter (where {condition})"
