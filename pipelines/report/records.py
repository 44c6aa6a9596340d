"""OUT/records, for the questions that the aggregate tables do not answer.

Whatever the folder holds, memory stays within MEMORY: DuckDB spills to a temporary folder, and every question that the
report asks has a limit on its rows. What several capture points saw counts once, as in the tables. Records of older
versions lack columns: these are null.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissectors.errors import InputError
from dissectors.records import schema
from pipelines import scratch, storage
from pipelines.database import sentence
from pipelines.report.selection import Selection, day_of
from pipelines.tables.compute import Computed, bound, compute, relations
from pipelines.tables.integrity import CASES, case_table
from pipelines.tables.on_duckdb import LocalEngine, files
from pipelines.tables.verdicts import JUDGED

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "records"
MEMORY = "512MB"
READ = ("exchanges", "batches", "errors", "connections", "findings")


class Records:
    """The records of an analysis, queried in SQL."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._kept: set[str] = set()

    def keep(self, name: str, sql: str) -> None:
        """The rows of a query as a table, made once."""
        if name not in self._kept:
            self.run(f"create temp table {name} as {sql}")
            self._kept.add(name)

    def run(self, sql: str) -> None:
        """Run a statement that gives no rows."""
        self._engine.duckdb.execute(sql)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, as dictionaries. Times must be numbers: `epoch_us(time)`."""
        answer = self._engine.duckdb.execute(sql)
        names = [column[0] for column in answer.description or ()]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def columns(self, sql: str) -> dict[str, list[Any]]:
        """The rows of a query, column by column; nothing where there are none. Times must be numbers."""
        answer = self._engine.duckdb.execute(sql)
        names = [column[0] for column in answer.description or ()]
        rows = answer.fetchall()
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}

    def compute(self, folder: Path, cases: Sequence[dict[str, Any]]) -> Computed:
        """Write the aggregate tables of these records. cases: what forensics said of bad checksums."""
        self._engine.add(CASES, case_table(cases))
        self._engine.add(JUDGED, self.verdicts())
        return compute(self._engine, folder)

    def verdicts(self) -> pa.Table:
        """What is wrong, the worst first: the columns of the table `verdicts`."""
        from pipelines.tables.verdicts.engine import judged

        return judged(self._engine.duckdb)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a query, some at a time."""
        yield from self._engine.stream(sql)

    def one(self, sql: str) -> dict[str, Any]:
        """The single row of a query."""
        return self.rows(sql)[0]


def verdicts(folder: str) -> pa.Table:
    """What is wrong in a folder of records, a path or a URL. Raises InputError where they cannot be read."""
    from pipelines.tables.verdicts.verdict import SCHEMA

    with opened(folder) as records:
        return SCHEMA.empty_table() if records is None else records.verdicts()


def last_time_us(folder: str) -> int | None:
    """When the last request in a folder of records was sent, µs since the epoch; None where there is none.

    Only the last day's records are read. Raises InputError where they cannot be.
    """
    dated: dict[str, list[str]] = {}
    for place in _folders(folder).get("exchanges", ()):
        dated.setdefault(day_of(place) or "", []).append(storage.join(folder, "exchanges", place))
    if not dated:
        return None
    with _engine(folder) as engine:
        (row,) = engine.fetch(f"select epoch_us(max(time)) as us from {files(*dated[max(dated)])}").to_pylist()
    return row["us"]  # type: ignore[no-any-return]


@contextmanager
def opened(folder: str, selection: Selection | None = None) -> Iterator[Records | None]:
    """The records in a folder, a path or a URL, or some of them; None where there are none.

    Raises InputError where they cannot be read.
    """
    there = _folders(folder)
    if "exchanges" not in there:
        yield None
        return
    with _engine(folder) as engine:
        chosen = selection or Selection()
        days = {name: chosen.days(name, there.get(name, ())) for name in READ}
        sources = {name: [storage.join(folder, name, day) for day in days[name]] for name in READ}
        known = {name: _relation(engine, sources[name], name) for name in READ}
        engine.relations = {f"all_{name}": rows for name, rows in chosen.relations(known).items()}
        _name(engine)
        yield Records(engine)


@contextmanager
def _engine(folder: str) -> Iterator[LocalEngine]:
    """Reads the records in a folder. What the database says against it is an InputError."""
    import duckdb

    with scratch.folder() as room, LocalEngine(folder, (), room, memory=MEMORY) as engine:
        try:
            yield engine
        except duckdb.Error as error:
            raise InputError(f"{folder}: cannot be read: {sentence(error)}") from None


def _name(engine: LocalEngine) -> None:
    """Give each record table its name: a view, or, where capture points share connections, what they saw once.

    What every point saw of exchanges is `all_exchanges`.
    """
    engine.duckdb.execute(f"create view all_exchanges as select * from {engine.relations['all_exchanges']}")
    known, shared = relations(engine)
    for name in READ:
        kind = "temp table" if shared else "view"
        engine.duckdb.execute(f"create {kind} {name} as {bound(engine.dialect, f'select * from {name}', known)}")


def _folders(folder: str) -> dict[str, list[str]]:
    """Tables -> the folders below theirs that hold records, in which these lie by capture point and day."""
    found: dict[str, set[str]] = {}
    for path in storage.find(folder):
        table, _, place = path.partition("/")
        if place.endswith(".parquet"):
            found.setdefault(table, set()).add(posixpath.dirname(place))
    return {table: sorted(places) for table, places in found.items()}


def _relation(engine: LocalEngine, filled: Sequence[str], name: str) -> str:
    """All rows of a table with all columns of today; those that the files lack are null."""
    source, found = "(select 1 where false)", set[str]()
    if filled:
        source = files(*filled)
        found = set(engine.columns(source))
    columns = []
    for field in schema(name):
        value = f'"{field.name}"' if field.name in found else "null"
        columns.append(f'{value}::{_SQL_TYPES.get(str(field.type), "varchar")} as "{field.name}"')
    return f"(select {', '.join(columns)} from {source})"


_SQL_TYPES = {
    "int32": "integer",
    "int64": "bigint",
    "bool": "boolean",
    "timestamp[us, tz=UTC]": "timestamptz",
    "list<item: string>": "varchar[]",
}
