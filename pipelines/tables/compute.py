"""The tables of one run, by whichever engine holds its records."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from dissectors import records
from pipelines.tables.dialect import Dialect
from pipelines.tables.integrity import CASES, case_table
from pipelines.tables.points import NO_POINTS, POINTS, SAME, counted, points, several, sharing
from pipelines.tables.registry import READ_BY_OTHERS, TABLES
from pipelines.tables.table import LATER, Ask, Table
from pipelines.tables.transactions import MADE, TRANSACTIONS
from pipelines.tables.verdicts import HARMED, IMPACTS, JUDGED, VERDICTS
from pipelines.tables.verdicts.verdict import Judged

WIDTHS_US = tuple(int(s * 1_000_000) for s in (0.1, 1, 10, 60, 300, 900, 3600, 6 * 3600, 86400))
_MINUTE = 3  # its place among them
_FILES = ("read_parquet(", "all_")  # how a relation begins that is files, or another name of them
OF_JUDGEMENT = (VERDICTS.name, IMPACTS.name, TRANSACTIONS.name)
"""The tables of what `engine.judged` gives."""
BUCKETS = 120  # time buckets with anything in them that a table should have, at most, if nobody says otherwise


class TableEngine(Protocol):
    """Runs SQL over the records of a run."""

    dialect: Dialect
    at_once: int
    """Queries worth running side by side."""
    plans_dearly: bool
    """Whether to compute a query anew wherever it is named costs more than to keep its rows, however many."""
    too_little_memory: tuple[type[Exception], ...]
    """What `keep` and `write` raise where a query does not fit in the engine's memory."""
    relations: Mapping[str, str]
    """What the names that queries read stand for: `all_exchanges`, `all_batches`, … and `cases`."""
    shared: dict[tuple[str, ...], int] | None
    """Sets of capture points -> connections that all of them saw, as `Computed.shared` has it.

    Known where record tables have their names in the engine and hold once what several points saw; None before that.
    """

    def add(self, name: str, rows: pa.Table) -> None:
        """Give a table of few rows a name that queries may read."""

    def columns(self, relation: str) -> Sequence[str]:
        """The columns of a relation."""

    def fetch(self, query: str) -> pa.Table:
        """The rows of a query that gives few."""

    def keep(self, name: str, query: str) -> str:
        """Compute a query once; returns the relation that holds its rows."""

    def write(self, query: str, table: Table, path: Path) -> None:
        """The rows of a query as Parquet: a file or a folder of files."""


class Computed(NamedTuple):
    """What is known of the tables that were written."""

    bucket_us: int
    shared: dict[tuple[str, ...], int]
    """Sets of capture points, the one nearest to the server first -> connections that all of them saw."""
    left_out: tuple[str, ...] = ()
    """Tables that did not fit in the engine's memory."""


def compute(
    engine: TableEngine,
    folder: Path,
    by: Sequence[str] = (),
    bucket_us: int | None = None,
    only: Collection[str] = TABLES,
    *,
    cases: Sequence[dict[str, Any]] = (),
    judgement: Judged | None = None,
    leave_out: bool = False,
) -> Computed:
    """Write every table, or only some, to FOLDER/<name>.parquet. cases, judgement: as `relations` takes them.

    leave_out: whether tables that do not fit in the engine's memory are left out; else they are an error.
    """
    passed_over = engine.too_little_memory if leave_out else ()
    ask = Ask(tuple(by), bucket_us or choose_bucket(engine))
    known, shared = relations(engine, cases, judgement, ask)
    queries = {name: table.query(engine.dialect, ask) for name, table in TABLES.items() if name in only}
    queries |= {table.name: f"select * from {table.known}" for table in READ_BY_OTHERS if table.name in queries}
    left_out: set[str] = set()
    for name in (table.known for table in READ_BY_OTHERS):
        readers = {reader for reader, query in queries.items() if name in bound(engine.dialect, query, known)}
        if len(readers - left_out) > 1:
            try:
                known[name] = engine.keep(name, bound(engine.dialect, f"select * from {name}", known))
            except passed_over:
                left_out |= readers

    def write(name: str) -> None:
        path = folder / f"{name}.parquet"
        try:
            engine.write(bound(engine.dialect, queries[name], known), TABLES[name], path)
        except passed_over:
            path.unlink(missing_ok=True)
            left_out.add(name)

    with ThreadPoolExecutor(engine.at_once) as pool:
        for done in [pool.submit(write, name) for name in queries if name not in left_out]:
            done.result()
    return Computed(ask.bucket_us, shared, tuple(sorted(left_out)))


def relations(
    engine: TableEngine, cases: Sequence[dict[str, Any]] = (), judgement: Judged | None = None, ask: Ask | None = None
) -> tuple[dict[str, str], dict[tuple[str, ...], int]]:
    """What all names in queries stand for, and what Computed.shared holds.

    cases: what forensics said of bad checksums, as JSON objects; judgement: what `engine.judged` gave. Without them,
    the tables made of them have no rows; nor has a record table that an older version did not write. ask: of tables
    that are READ_BY_OTHERS.
    """
    engine.add(CASES, case_table(cases))
    engine.add(JUDGED, (judgement or Judged.empty()).verdicts)
    engine.add(MADE, (judgement or Judged.empty()).transactions)
    engine.add(HARMED, (judgement or Judged.empty()).impacts)
    read_by_others = {table.known: f"({table.query(engine.dialect, ask or Ask())})" for table in READ_BY_OTHERS}
    if engine.shared is not None:
        return {**engine.relations, **read_by_others}, engine.shared
    for name in LATER:
        if f"all_{name}" not in engine.relations:
            engine.add(f"all_{name}", records.schema(name).empty_table())
    known = dict(engine.relations)
    (seen,) = engine.fetch(bound(engine.dialect, several("all_connections"), known)).to_pylist()
    known, shared = counted_once(engine) if seen["several"] else (known, {})
    if not shared:
        known[POINTS] = NO_POINTS
        known.update({table: f"all_{table}" for table in SAME})
    return known | read_by_others, shared


def counted_once(engine: TableEngine) -> tuple[dict[str, str], dict[tuple[str, ...], int]]:
    """What names stand for where capture points share connections: the record tables hold what they saw once.

    With it, what Computed.shared holds; where that is empty, no record table has a name.
    """
    known = dict(engine.relations)
    known[POINTS] = engine.keep(POINTS, bound(engine.dialect, points(engine.dialect), known))
    rows = engine.fetch(bound(engine.dialect, sharing(engine.dialect), known)).to_pylist()
    shared = {tuple(row["sites"]): row["connections"] for row in rows}
    for table in SAME if shared else ():
        if f"all_{table}" in engine.relations:
            once = counted(engine.dialect, table, engine.columns(known[f"all_{table}"]))
            known[table] = (
                engine.keep(table, bound(engine.dialect, once, known)) if engine.plans_dearly else f"({once})"
            )
    return known, shared


def bound(d: Dialect, query: str, known: Mapping[str, str]) -> str:
    """A query with the names that it reads bound to what they stand for. A relation may read those before it.

    Files are read again wherever they are named: that costs less than to keep their rows.
    """
    needed: list[str] = []
    text = query
    for name, relation in reversed(list(known.items())):
        if re.search(rf"\b{name}\b", text):
            head = d.anew(name) if relation.startswith(_FILES) else f"{name} as"
            needed.insert(0, f"{head} (select * from {relation})")
            text += f" {relation}"
    return f"with {', '.join(needed)} select * from ({query})" if needed else query


def choose_bucket(engine: TableEngine) -> int:
    """Width in µs of time buckets, so that those with anything in them are at most BUCKETS.

    Fine ones are counted only where minutes are few: a long time has as many of them as it has rows.
    """
    coarse, fine = WIDTHS_US[_MINUTE:], WIDTHS_US[:_MINUTE]
    minutes = _filled(engine, coarse)
    filled = _filled(engine, fine) | minutes if minutes[coarse[0]] <= BUCKETS else minutes
    return next((width for width, count in filled.items() if count <= BUCKETS), WIDTHS_US[-1])


def _filled(engine: TableEngine, widths: Sequence[int]) -> dict[int, int]:
    """How many time buckets of each width hold an exchange. widths: multiples of the first."""
    first = widths[0]
    counts = ", ".join(
        f"count(distinct cast(floor(tick / {width // first}) as bigint)) as w{width}" for width in widths
    )
    ticks = f"select distinct cast(floor({engine.dialect.micros('time')} / {first}) as bigint) as tick"
    query = f"select {counts} from ({ticks} from all_exchanges where time is not null)"
    (row,) = engine.fetch(bound(engine.dialect, query, engine.relations)).to_pylist()
    return {width: row[f"w{width}"] for width in widths}
