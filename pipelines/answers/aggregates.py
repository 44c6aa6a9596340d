"""Aggregate tables of record tables that are at hand: queries call them t_latency, t_health and so on."""

from __future__ import annotations

import re
from collections.abc import Collection

from pipelines.answers.records import SPILLING, Relations, Tables, counted_once, database_of
from pipelines.sql.database import sentence
from pipelines.storage import scratch
from pipelines.tables import TABLES
from pipelines.tables.integrity import CASES, CORRUPT, case_table
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts import JUDGED, VERDICTS
from pipelines.tables.verdicts.verdict import SCHEMA

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


def made(tables: Relations, names: Collection[str]) -> Tables:
    """Aggregate tables by their names with prefix. tables: RECORDS, as capture points saw them.

    Raises InputError where a table cannot be read.
    """
    import duckdb
    import pyarrow.parquet as pq

    from dissectors.errors import InputError
    from pipelines.tables.compute import compute
    from pipelines.tables.on_duckdb import LocalEngine
    from pipelines.tables.verdicts.engine import judged

    wanted = [name.removeprefix(PREFIX) for name in names]
    if not wanted:
        return {}
    verdicts = SCHEMA.empty_table()
    if VERDICTS.name in wanted:
        with counted_once(tables) as (once, _), database_of(once) as connection:
            verdicts = judged(connection)
    with scratch.folder() as room, LocalEngine(str(room), {}, room, SPILLING) as engine:
        for name in RECORDS:
            engine.add(f"all_{name}", tables[name])
        engine.add(CASES, case_table(()))
        engine.add(JUDGED, verdicts)
        try:
            compute(engine, room / "tables", only=wanted)
        except duckdb.Error as error:
            raise InputError(f"records that cannot be read: {sentence(error)}") from None
        return {f"{PREFIX}{name}": pq.read_table(room / "tables" / f"{name}.parquet") for name in wanted}
