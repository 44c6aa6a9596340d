"""OUT/records, for the questions that the aggregate tables do not answer.

Whatever the folder holds, memory stays within MEMORY: DuckDB spills to a temporary folder, and every question that the
report asks has a limit on its rows. What several capture points saw counts once, as in the tables. Records of older
versions lack columns: these are null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissectors.errors import InputError
from dissectors.records import schema
from pipelines.sql.database import fetched, sentence
from pipelines.sql.selection import Selection
from pipelines.storage import scratch
from pipelines.storage.record_files import UNDATED, date_of
from pipelines.storage.stored_records import RecordsAt, StoredRecords
from pipelines.tables.compute import OF_JUDGEMENT, Computed, bound, compute, relations
from pipelines.tables.on_duckdb import LocalEngine, files, fitted
from pipelines.tables.points import POINTS
from pipelines.tables.registry import TABLES
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts.verdict import Judged

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = "512MB"
KEPT = 200_000
"""Rows of a table that are kept in the database, as dozens of questions read them; larger files are read each time."""


class Records:
    """The records of an analysis, queried in SQL."""

    def __init__(self, engine: LocalEngine, cut: str = "") -> None:
        """cut: what was asked for, as `Selection.cut` says it, where the engine has only its rows."""
        self.engine = engine
        self._cut = cut
        self._kept: set[str] = set()

    def keep(self, name: str, sql: str) -> None:
        """The rows of a query as a table, made once."""
        if name not in self._kept:
            self.run(f"create temp table {name} as {sql}")
            self._kept.add(name)

    def give(self, name: str, rows: pa.Table) -> None:
        """Name a table of few rows, in place of one that had the name."""
        self.engine.duckdb.register(name, rows)

    def run(self, sql: str) -> None:
        """Run a statement that gives no rows."""
        self.engine.duckdb.execute(sql)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, as dictionaries. Times must be numbers: `epoch_us(time)`."""
        return fetched(self.engine.duckdb, sql)

    def tuples(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query, as tuples. Times must be numbers: `epoch_us(time)`."""
        return list(self.engine.duckdb.execute(sql).fetchall())

    def arrow(self, sql: str) -> pa.Table:
        """The rows of a query as columns."""
        return self.engine.fetch(sql)

    def compute(
        self,
        folder: Path,
        cases: Sequence[dict[str, Any]],
        by: Sequence[str] = (),
        bucket_us: int | None = None,
        only: Collection[str] = TABLES,
    ) -> Computed:
        """Write the aggregate tables of these records, or only some. cases: what forensics said of bad checksums."""
        judgement = None if set(OF_JUDGEMENT).isdisjoint(only) else self.judged()
        return compute(self.engine, folder, by, bucket_us, only, cases=cases, judgement=judgement)

    def judged(self) -> Judged:
        """What is wrong, the worst first, and what became of the work: the tables `verdicts` and `impacts`."""
        from pipelines.tables.verdicts.engine import judged

        return judged(self.engine.duckdb, cut=self._cut)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a query, some at a time."""
        yield from self.engine.stream(sql)

    def one(self, sql: str) -> dict[str, Any]:
        """The single row of a query."""
        return self.rows(sql)[0]


def last_time_us(folder: str) -> int | None:
    """When the last request in a folder of records was sent, µs since the epoch; None where there is none.

    Only the last day's records are read. Raises InputError where they cannot be.
    """
    stored = StoredRecords.of(folder)
    dated: dict[str, list[str]] = {}
    for file in stored.files.get("exchanges", ()):
        date = date_of(file)
        dated.setdefault("" if date == UNDATED else date, []).append(file)
    if not dated:
        return None
    with _engine(stored.folder) as engine:
        last = files(*stored.sources("exchanges", dated[max(dated)]))
        (row,) = engine.fetch(f"select epoch_us(max(time)) as us from {last}").to_pylist()
    return row["us"]  # type: ignore[no-any-return]


@contextmanager
def opened(where: RecordsAt, selection: Selection | None = None, memory: str = MEMORY) -> Iterator[Records | None]:
    """The records in a folder, a path or a URL, or some of them; None where there are none.

    memory: as LocalEngine takes it. Raises InputError where they cannot be read.
    """
    stored = StoredRecords.of(where) if isinstance(where, str) else where
    if "exchanges" not in stored.files:
        yield None
        return
    with _engine(stored.folder, memory) as engine:
        chosen = selection or Selection()
        known = {}
        for name in RECORDS:
            every = stored.files.get(name, ())
            some = chosen.files(name, every)
            known[name] = _relation(engine, stored.sources(name, None if len(some) == len(every) else some), name)
        engine.relations = {f"all_{name}": rows for name, rows in chosen.relations(known).items()}
        _name(engine)
        yield Records(engine, chosen.cut)


@contextmanager
def _engine(folder: str, memory: str = MEMORY) -> Iterator[LocalEngine]:
    """Reads the records in a folder. What the database says against it is an InputError."""
    import duckdb

    with scratch.folder() as room, LocalEngine(folder, {}, room, memory=memory) as engine:
        try:
            yield engine
        except duckdb.Error as error:
            raise InputError(f"{folder}: cannot be read: {sentence(error)}") from None


def _name(engine: LocalEngine) -> None:
    """Give each record table its name; where capture points share connections, it holds once what several saw.

    What every point saw of exchanges is `all_exchanges`, and so on.
    """
    known, shared = relations(engine)
    for name in RECORDS:
        every = f"all_{name}"
        (size,) = engine.fetch(bound(engine.dialect, f"select count(*) as rows from {every}", known)).to_pylist()
        kind = "temp table" if shared or size["rows"] <= KEPT else "view"
        engine.duckdb.execute(f"create {kind} {name} as {bound(engine.dialect, f'select * from {name}', known)}")
        engine.duckdb.execute(f"create temp view {every} as select * from {known[every] if shared else name}")
    engine.has_named({POINTS: known[POINTS]}, shared)


def _relation(engine: LocalEngine, filled: Sequence[str], name: str) -> str:
    """All rows of a table with all columns of today; those that the files lack are null."""
    source = files(*filled) if filled else "(select 1 where false)"
    return f"({fitted(engine.duckdb, source, schema(name))})"
