"""Tables and the page, made by tasks of an executor: the process that runs a job waits, and is no longer than they are.

    records ─► width of time buckets ─► tables, some a task; what is wrong, one task ─► page, one task

Each task reads the records that it needs by DuckDB, in MEMORY, and writes beside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.executors.executor import Executor
from pipelines.formats import units
from pipelines.report import PageOptions, made
from pipelines.report.records import opened
from pipelines.storage import filesystem, scratch
from pipelines.storage.layout import TABLE_FOLDER
from pipelines.storage.stored_records import RecordsAt, StoredRecords
from pipelines.storage.working_folders import working_folder
from pipelines.tables import first_rows
from pipelines.tables.compute import OF_JUDGEMENT, Computed, choose_bucket, compute
from pipelines.tables.on_duckdb import engine_over
from pipelines.tables.registry import TABLES

MEMORY = "600MB"  # of a task, for its queries; what does not fit goes to its disk
_SUFFIXES = (".parquet", ".csv")  # of what a table is written to
_TASKS = 8  # at most: each finds out anew which capture points saw the same

Row = dict[str, Any]


class TablesToMake(NamedTuple):
    """What tables are made of, and how."""

    stored: StoredRecords
    by: tuple[str, ...]
    bucket_us: int | None
    cases: list[Row]  # what forensics said of bad checksums
    staging: str


def write_tables(
    executor: Executor,
    stored: StoredRecords,
    store: str,
    folder: Path,
    by: Sequence[str] = (),
    bucket_us: int | None = None,
    only: Collection[str] = TABLES,
    *,
    cases: Sequence[Row] = (),
) -> Computed | None:
    """Compute the tables of records by tasks, to FOLDER/<name>.parquet and .csv; None where these have no DuckDB.

    Tables that do not fit in MEMORY are left out. store: a folder or URL where tasks may write for a while. Other
    arguments are those of `compute`.
    """
    with working_folder(store) as staging:
        wanted = TablesToMake(stored, tuple(by), bucket_us, list(cases), staging)
        (width,) = executor.map(_width, [wanted], "choosing the width of time buckets")
        if width is None:
            return None
        judged = [name for name in OF_JUDGEMENT if name in only]
        others = [name for name in TABLES if name in only and name not in judged]
        tasks = min(_TASKS, executor.cores)
        groups = [judged, *(others[n::tasks] for n in range(tasks))]
        described_as = f"computing {units.counted(len(only), 'table')}"
        computed = executor.map(
            partial(_tables, wanted._replace(bucket_us=width)), [names for names in groups if names], described_as
        )
        left_out = {name for one in computed for name in one.left_out}
        folder.mkdir(parents=True, exist_ok=True)
        for name, suffix in product(set(only) - left_out, _SUFFIXES):
            filesystem.download(filesystem.join(staging, TABLE_FOLDER, name + suffix), folder / (name + suffix))
        return computed[0]._replace(left_out=tuple(sorted(left_out)))


def write_csv(executor: Executor, folder: Path, store: str, names: Sequence[str]) -> None:
    """Write the first rows of some tables in a local folder beside them. store: as of `write_tables`."""
    with _shown(folder, store) as place:
        executor.map(partial(_csv, place), names, f"writing the first rows of {units.counted(len(names), 'table')}")
        for name in names if filesystem.local_path(place) is None else ():
            filesystem.download(filesystem.join(place, f"{name}.csv"), folder / f"{name}.csv")


def page(executor: Executor, out: Path, store: str, records: RecordsAt | None) -> bytes:
    """The page of an analysis, by a task. Arguments are those of `report.write`; store as of `write_tables`."""
    with _shown(out, store) as place:
        return executor.map(partial(_page, records), [place], "making the page")[0]


@contextmanager
def _shown(folder: Path, store: str) -> Iterator[str]:
    """Where tasks see a local folder: where it is, or, without its CSV, a copy in a store behind a URL."""
    if filesystem.local_path(store) is not None:
        yield str(folder.absolute())
        return
    with working_folder(store) as staging:
        files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".csv"]
        filesystem.upload(folder, staging, files)
        yield staging


def _csv(place: str, name: str) -> None:
    with scratch.folder() as room:
        first_rows.write_csv(place, [name], room)
        filesystem.upload(room, place, [room / f"{name}.csv"])


def _page(records: RecordsAt | None, out: str) -> bytes:
    return made(out, PageOptions(records=records))


def _width(wanted: TablesToMake) -> int | None:
    """The width of time buckets, in µs; None where there is no DuckDB."""
    if find_spec("duckdb") is None:
        return None
    if wanted.bucket_us is not None:
        return wanted.bucket_us
    with engine_over(wanted.stored, MEMORY) as engine:
        return choose_bucket(engine)


def _tables(wanted: TablesToMake, names: Sequence[str]) -> Computed:
    """Write some tables below staging: those of what is wrong, or others."""
    with scratch.folder() as room:
        folder = room / TABLE_FOLDER
        if set(OF_JUDGEMENT).isdisjoint(names):
            with engine_over(wanted.stored, MEMORY) as engine:
                computed = compute(
                    engine, folder, wanted.by, wanted.bucket_us, names, cases=wanted.cases, leave_out=True
                )
        else:
            with opened(wanted.stored, memory=MEMORY) as records:
                assert records is not None  # who decodes writes files of all tables
                computed = records.compute(folder, wanted.cases, wanted.by, wanted.bucket_us, names)
        made = [name for name in names if name not in computed.left_out]
        first_rows.write_csv(folder, made, folder)
        filesystem.upload(room, wanted.staging, [folder / (name + suffix) for name in made for suffix in _SUFFIXES])
    return computed
