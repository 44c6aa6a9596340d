"""Ends what a lake keeps of before some time: rows, states from which decoding could go on, names that were replaced.

A row is of before that time if its time is; of a connection, the time at which it ended counts. The manifest says the
time, so that updates leave out what late captures would bring of before it, and do not read captures again that ended
before it. The last state of each capture point stays: what goes on there goes on as it would have.
"""

from __future__ import annotations

import secrets as random
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dissectors.options import Options
from pipelines.jobs import names
from pipelines.jobs.decode import write_problems
from pipelines.lake.change import changing
from pipelines.storage import filesystem, lake_files
from pipelines.storage.chosen_rows import CONNECTIONS, ChosenRows, time_column
from pipelines.storage.lake_files import Manifest, Staged
from pipelines.storage.layout import RECORD_FOLDER
from pipelines.storage.record_files import UNDATED, Written, date_of, write_empty_like
from pipelines.storage.stages import OpenFile

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Expired(NamedTuple):
    """What was taken away."""

    rows: int
    files: int  # of records
    states: int


class Since:
    """A rule for `ChosenRows`: rows stay that are of a time (ns) or later."""

    def __init__(self, since: int) -> None:
        self._since = _EPOCH + timedelta(microseconds=since // 1000)

    def of_file(self, file: Written) -> bool | None:
        """By the day in the name of a file. Connections may end on any later day."""
        day = date_of(file.path)
        if day in ("", UNDATED):
            return None
        begin = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
        if begin >= self._since:
            return True
        return None if file.table == CONNECTIONS or begin + timedelta(days=1) > self._since else False

    def columns(self, table: str) -> Sequence[str]:
        """The time of a row, and of a connection its end."""
        return ("end_time", "start_time") if table == CONNECTIONS else (time_column(table),)

    def mask(self, table: str, rows: pa.Table) -> pa.ChunkedArray:
        """Whether each row stays; null of rows without a time."""
        time = pc.coalesce(*(rows.column(name) for name in self.columns(table)))
        return pc.greater_equal(time, pa.scalar(self._since, time.type))


def expire(lake: str, since: int, *, dry_run: bool = False) -> Expired:
    """Take away what a lake holds of before a time, ns since the epoch. Errors are those of `changing`.

    dry_run: say what would be taken away, and leave it. A time before that of an earlier call takes nothing away.
    """
    with changing(lake) as change:
        after = change.after
        before = [*after.records()]
        after.since = max(since, after.since or since)
        rows, files, states = sum(file.rows for file in before), len(before), _states(after)
        drop_rows(after, change.files, of_all=True)
        for site in after.sites.values():
            site.forget(after.since)
        after.names = _current(after.names, change.files, after.since)
        if all(map(after.has_expired, after.gone)):
            after.notices = []
        tables = tuple({file.table for file in before})
        folder = filesystem.join(change.files.staging, RECORD_FOLDER)
        after.notes = write_problems(folder, after.problems(), Options(tables=tables))
        _fill_up(after, before, change.files)
        left = [*after.records()]
        made = Expired(rows - sum(file.rows for file in left), files - len(left), states - _states(after))
        if not dry_run:
            after.edition = lake_files.new_edition()
            change.commit()
    return made


def drop_rows(after: Manifest, files: Staged, *, of_all: bool = False) -> None:
    """Leave out rows from before the time up to which a lake has expired.

    of_all: look for them in the files of the last commit too; else only in new ones.
    """
    if after.since is None:
        return
    rule = Since(after.since)
    records = ChosenRows(rule, files.record)
    waiting = ChosenRows(rule, lambda file: files.waiting(file.path))
    connections = [file for file in after.records() if file.table == CONNECTIONS]

    def is_concerned(file: Written) -> bool:
        return of_all or files.is_new(file)

    def chosen(some: Sequence[Written]) -> list[Written]:
        new = [file for file in some if is_concerned(file)]
        old = [file for file in some if not is_concerned(file)]
        return old + records.of(new, filesystem.join(files.staging, RECORD_FOLDER), connections) if new else old

    def still_open(one: OpenFile) -> Iterable[OpenFile]:
        if not any(map(is_concerned, one.records)):
            return [one]
        left = chosen(one.records)
        if left == one.records:
            return [one]
        rows = sum(file.rows for file in one.records)
        made = waiting.of([Written(one.table, one.path, rows)], filesystem.join(files.staging, "open"), connections)
        return [OpenFile(file.table, file.path, left if n == 0 else []) for n, file in enumerate(made)]

    after.kept = chosen(after.kept)
    for rows in after.rows():
        rows.records = chosen(rows.records)
        rows.open = [left for one in rows.open for left in still_open(one)]


def _states(after: Manifest) -> int:
    return sum(len(stage.states) for site in after.sites.values() for stage in site.stages)


def _current(paths: Sequence[str], files: Staged, since: int) -> list[str]:
    """The files of names, written again where there are names that were replaced before a time, ns."""
    known = names.load(map(files.names, paths))
    left = known.since(since)
    if sum(1 for _ in left) == sum(1 for _ in known):
        return list(paths)
    name = f"names-{random.token_hex(8)}.parquet"
    names.save(left, filesystem.join(files.staging, names.FOLDER, name))
    return [name]


def _fill_up(after: Manifest, before: Iterable[Written], files: Staged) -> None:
    """Write a file without rows for each table that has no file any more."""
    there = {file.table for file in after.records()}
    root = filesystem.join(files.staging, RECORD_FOLDER)
    lost = {file.table: file for file in before if file.table not in there}
    after.empty += [write_empty_like(root, table, files.record(file)) for table, file in lost.items()]
