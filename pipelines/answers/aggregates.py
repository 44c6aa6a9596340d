"""Aggregate tables of record tables that are at hand: queries call them t_latency, t_health and so on."""

from __future__ import annotations

import re
from collections.abc import Collection

import pyarrow as pa

from pipelines.answers.records import SPILLING, Relations, Tables, counted_once, database_of, empty, readable
from pipelines.storage import scratch
from pipelines.tables.integrity import CORRUPT
from pipelines.tables.registry import TABLES
from pipelines.tables.table import RECORDS, Ask, Table
from pipelines.tables.transactions import TRANSACTIONS
from pipelines.tables.verdicts import IMPACTS, VERDICTS

PREFIX = "t_"
COLUMNS = {
    f"{PREFIX}{name}": [column.name for column in table.columns]
    for name, table in TABLES.items()
    if name != CORRUPT.name  # forensics reads captures again for it: `analyze` makes it
}
"""The tables that can be made -> their columns."""


def named(query: str) -> list[str]:
    """The aggregate tables that a query names, with their prefix."""
    return [name for name in COLUMNS if re.search(rf"\b{name}\b", query, re.IGNORECASE)]


def made(tables: Relations, names: Collection[str], cut: str = "") -> Tables:
    """Aggregate tables by their names with prefix. tables: RECORDS, as capture points saw them.

    cut: what was asked for, as `Selection.cut` says it, where the tables have only its rows.
    Raises InputError where a table cannot be read.
    """
    from pipelines.tables.compute import bound, choose_bucket, relations
    from pipelines.tables.on_duckdb import LocalEngine
    from pipelines.tables.verdicts.engine import judged

    wanted = [name.removeprefix(PREFIX) for name in names]
    if not wanted:
        return {}
    judgement = None
    if not {VERDICTS.name, IMPACTS.name, TRANSACTIONS.name}.isdisjoint(wanted):
        with counted_once(tables) as (once, _), database_of(once) as connection:
            judgement = judged(connection, empty(once), cut)
    with scratch.folder() as room, LocalEngine(str(room), {}, room, SPILLING) as engine, readable():
        for name in RECORDS:
            engine.add(f"all_{name}", tables[name])
        ask = Ask(bucket_us=choose_bucket(engine))
        known, _ = relations(engine, judgement=judgement, ask=ask)

        def rows(table: Table) -> pa.Table:
            made = bound(engine.dialect, table.query(engine.dialect, ask), known)
            return engine.fetch(f"{made} order by {table.ordering}")

        return {f"{PREFIX}{name}": rows(TABLES[name]) for name in wanted}


def aggregate(tables: Relations, name: str) -> pa.Table:
    """One aggregate table, by its name. Arguments and errors as of `made`."""
    return made(tables, (PREFIX + name,))[PREFIX + name]
