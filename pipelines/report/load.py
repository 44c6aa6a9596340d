"""What `analyze` left behind, read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dissectors.errors import InputError
from dissectors.redaction import public_path
from pipelines import scratch, storage
from pipelines.database import sentence
from pipelines.report.facts import Facts, facts
from pipelines.report.records import FOLDER, Records, opened
from pipelines.report.selection import Selection
from pipelines.tables import TABLES
from pipelines.tables.integrity import CASE_KEYS
from pipelines.tables.on_duckdb import WrittenTables

Row = dict[str, Any]
RECORD_FOLDER, TABLE_FOLDER = FOLDER, "tables"
ABOUT = "analysis.json"
CASES_FILE = "forensics.jsonl"  # one object a bad checksum, as `brokerscope forensics --format json` writes them
_ROWS = 10_000  # rows of a table that are loaded: the first ones in its order; what is said of all asks `written`


@dataclass
class Analysis:
    """The tables, as rows, the records, and what is known about the run."""

    tables: dict[str, list[Row]]
    about: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # rows of each table, also those not loaded
    sums: dict[tuple[str, str], int] = field(default_factory=dict)  # (table, column) -> sum over all rows
    cases: list[Row] = field(default_factory=list)  # what forensics found out about bad checksums
    records: Records | None = None
    written: WrittenTables | None = None

    def sum(self, table: str, column: str) -> int:
        """Sum of an integer column over all rows of a table."""
        return self.sums.get((table, column), 0)

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables.get(table, [])

    @cached_property
    def facts(self) -> Facts:
        """Counts by whom they concern; none where there are no records."""
        width = self.about.get("bucket_us")
        return Facts() if self.records is None else facts(self.records, width if isinstance(width, int) else 1_000_000)


@contextmanager
def loaded(out: str | Path, selection: Selection | None = None, records_at: str | None = None) -> Iterator[Analysis]:
    """OUT, a path or a URL, with its records open; or a part of them, with tables of their own.

    records_at: path or URL of the records, OUT/records by default. Raises InputError where there is nothing to read.
    """
    out = str(out)
    about, cases = _described(out)
    at = records_at or storage.join(out, RECORD_FOLDER)
    with opened(at, selection) as records, scratch.folder() as room:
        tables = storage.join(out, TABLE_FOLDER)
        if selection:
            if records is None:
                raise InputError(f"{public_path(out)}: no records here to select from")
            bad = {_key(row) for row in records.rows(_BAD)}
            cases = [case for case in cases if _key(case) in bad]
            tables = str(room / TABLE_FOLDER)
            computed = records.compute(Path(tables), cases)
            about |= {"selection": str(selection), "bucket_us": computed.bucket_us, "by": []}
        with WrittenTables(tables) as written:
            analysis = _tables(out, written)
            analysis.about, analysis.cases, analysis.records = about, cases, records
            yield analysis


_BAD = f"select {', '.join(CASE_KEYS)} from batches where verdict = 'bad'"


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[key] for key in CASE_KEYS)


def _described(out: str) -> tuple[dict[str, Any], list[Row]]:
    """What is known about the run, and what forensics found out."""
    try:
        about = json.loads(storage.read(storage.join(out, ABOUT)) or "{}")
        return about, [json.loads(line) for line in (storage.read(storage.join(out, CASES_FILE)) or b"").splitlines()]
    except ValueError as error:
        raise InputError(f"{public_path(out)}: cannot be read: {error}") from None


def _tables(out: str, written: WrittenTables) -> Analysis:
    import duckdb

    analysis = Analysis({}, written=written)
    try:
        for name in written.names():
            first = written.first(name, _ROWS)
            analysis.tables[name], analysis.rows[name] = _whole(name, first.rows.to_pylist()), first.total
            analysis.sums.update({(name, column): total for column, total in written.sums(name).items()})
    except (OSError, ValueError, duckdb.Error) as error:
        raise InputError(f"{public_path(out)}: cannot be read: {sentence(error)}") from None
    if not analysis.tables:
        name = public_path(out)
        raise InputError(f"{name}: no tables here; `brokerscope analyze CAPTURE… -o {name}` makes them")
    return analysis


def _whole(name: str, rows: list[Row]) -> list[Row]:
    """Rows with all columns of today: those that an older version did not write are null."""
    known = [column.name for column in TABLES[name].columns] if name in TABLES else []
    lacking = dict.fromkeys(column for column in known if rows and column not in rows[0])
    return [{**row, **lacking} for row in rows] if lacking else rows
