"""What `analyze` left behind, read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dissectors.errors import InputError
from dissectors.redaction import public_path
from pipelines.report.records import Records, opened
from pipelines.sql.database import sentence
from pipelines.sql.selection import Selection
from pipelines.storage import filesystem, scratch
from pipelines.storage.layout import ABOUT, CASES_FILE, RECORD_FOLDER, TABLE_FOLDER
from pipelines.storage.stored_records import RecordsAt
from pipelines.tables.integrity import CASE_KEYS
from pipelines.tables.on_duckdb import WrittenTables
from pipelines.tables.registry import TABLES
from pipelines.tables.verdicts import VERDICTS

Row = dict[str, Any]
Read = TypeVar("Read")
ROWS = 10_000  # rows of a table that are loaded at most


class Loaded(NamedTuple):
    """Rows of a table, and how many it has."""

    rows: list[Row]
    total: int


class Comparison(NamedTuple):
    """What changed from an earlier OUT."""

    name: str  # of that OUT
    apis: list[Row]  # what changed most first
    new: dict[str, list[str]]  # kind of name -> names that only this OUT has
    gone: dict[str, list[str]]  # and only the earlier
    parts: list[Row]  # topics, servers and clients that changed where others did not


class PageFrame(NamedTuple):
    """A request or an answer, with the bytes of the packet in which it begins."""

    side: str
    packet: int
    text: str  # what it decodes to, in lines
    data: bytes  # the first bytes of the packet's payload
    note: str  # what is not shown of them


class Frames(NamedTuple):
    """Bytes of requests that verdicts name."""

    of: dict[tuple[str, int], list[PageFrame]]
    """File, as records name it, and packet of a request -> it and its answer."""
    named: int  # requests that verdicts name


@dataclass
class Analysis:
    """The tables, the records, and what is known about the run. Nothing is read before somebody asks for it."""

    out: str
    written: WrittenTables
    records: Records | None = None
    about: dict[str, Any] = field(default_factory=dict)
    cases: list[Row] = field(default_factory=list)  # what forensics found out about bad checksums
    against: Comparison | None = None  # with an earlier OUT
    frames: Frames | None = None  # bytes of requests, where they were asked for
    _parts: dict[tuple[str, int], Loaded] = field(default_factory=dict)
    _sums: dict[str, dict[str, int]] = field(default_factory=dict)

    def __getitem__(self, table: str) -> list[Row]:
        """Rows of a table: the first ROWS in its order. What is said of all rows asks `ask` and `sum`."""
        return self.first(table, ROWS).rows

    def first(self, table: str, limit: int) -> Loaded:
        """The first rows of a table in its order; none where it was not written."""
        if table not in self.written.names():
            return Loaded([], 0)
        if (table, limit) not in self._parts:
            found = self._readable(lambda: self.written.first(table, limit))
            self._parts[table, limit] = Loaded(_whole(table, found.rows.to_pylist()), found.total)
        return self._parts[table, limit]

    @cached_property
    def verdicts(self) -> list[Row]:
        """What is wrong, the worst first; made now where OUT is of a version that made no such table."""
        if VERDICTS.name in self.written.names():
            return self[VERDICTS.name]
        return [] if self.records is None else self.records.judged().verdicts.to_pylist()

    def sum(self, table: str, column: str) -> int:
        """Sum of an integer column over all rows of a table."""
        if table not in self._sums:
            there = table in self.written.names()
            self._sums[table] = self._readable(lambda: self.written.sums(table)) if there else {}
        return self._sums[table].get(column, 0)

    def ask(self, sql: str) -> list[Row]:
        """The rows of a question to all rows of the tables."""
        return self._readable(lambda: self.written.rows(sql))

    @property
    def bucket_us(self) -> int:
        """Width of the tables' time buckets."""
        width = self.about.get("bucket_us")
        return width if isinstance(width, int) and width > 0 else 1_000_000

    def _readable(self, read: Callable[[], Read]) -> Read:
        import duckdb

        try:
            return read()
        except (OSError, ValueError, duckdb.Error) as error:
            raise InputError(f"{public_path(self.out)}: cannot be read: {sentence(error)}") from None


@contextmanager
def loaded(
    out: str | Path,
    selection: Selection | None = None,
    given: Records | RecordsAt | None = None,
    *,
    anew: bool = False,
) -> Iterator[Analysis]:
    """OUT, a path or a URL, with its records open; or a part of them, with tables of their own.

    given: the records, open, or where they lie: OUT/records by default. anew: OUT's own tables are not of these
    records, so others are computed. Raises InputError where there is nothing to read.
    """
    out = str(out)
    about, cases = _described(out)
    at = given or filesystem.join(out, RECORD_FOLDER)
    with nullcontext(at) if isinstance(at, Records) else opened(at, selection) as records, scratch.folder() as room:
        tables = filesystem.join(out, TABLE_FOLDER)
        if selection or anew:
            if records is None:
                raise InputError(f"{public_path(out)}: no records here to select from")
            bad = {_key(row) for row in records.rows(_BAD)}
            cases = [case for case in cases if _key(case) in bad]
            tables = str(room / TABLE_FOLDER)
            computed = records.compute(Path(tables), cases)
            about |= {"bucket_us": computed.bucket_us, "by": []}
            about |= {"selection": str(selection)} if selection else {}
        with WrittenTables(tables) as written:
            if not written.names():
                name = public_path(out)
                raise InputError(f"{name}: no tables here; `brokerscope analyze CAPTURE… -o {name}` makes them")
            yield Analysis(out, written, records, about, cases)


_BAD = f"select {', '.join(CASE_KEYS)} from batches where verdict = 'bad'"


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(key) for key in CASE_KEYS)


def _described(out: str) -> tuple[dict[str, Any], list[Row]]:
    """What is known about the run, and what forensics found out."""
    try:
        about = dict(json.loads(filesystem.read(filesystem.join(out, ABOUT)) or "{}"))
        cases = (filesystem.read(filesystem.join(out, CASES_FILE)) or b"").splitlines()
        return about, [dict(json.loads(line)) for line in cases]
    except (ValueError, TypeError) as error:  # no JSON, or no objects
        raise InputError(f"{public_path(out)}: cannot be read: {error}") from None


def _whole(name: str, rows: list[Row]) -> list[Row]:
    """Rows with all columns of today: those that an older version did not write are null."""
    known = [column.name for column in TABLES[name].columns] if name in TABLES else []
    lacking = dict.fromkeys(column for column in known if rows and column not in rows[0])
    return [{**row, **lacking} for row in rows] if lacking else rows
