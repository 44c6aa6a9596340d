"""Tables and the page, made by tasks of an executor: the process that runs a job waits, and is no longer than they are.

    records ─ judge ─► verdicts, impacts, transactions ─► tables, some a task ─► page, one task
            └ measure ─► width of time buckets ─────────┘

Each task reads the records that it needs by DuckDB, in MEMORY, and writes beside.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

from pipelines.executors.executor import Executor
from pipelines.formats import units
from pipelines.report import PageOptions, made
from pipelines.report.records import judged_records
from pipelines.storage import filesystem, scratch
from pipelines.storage.layout import TABLE_FOLDER
from pipelines.storage.stored_records import RecordsAt, StoredRecords
from pipelines.storage.working_folders import working_folder
from pipelines.tables.compute import Computed, choose_bucket, compute
from pipelines.tables.on_duckdb import engine_over
from pipelines.tables.registry import TABLES
from pipelines.tables.verdicts.verdict import Judged

MEMORY = "600MB"  # of a task, for its queries; what does not fit goes to its disk
_TASKS = 8  # at most: each finds out anew which capture points saw the same
_JUDGED = "judged"
_JUDGING = "looking for what is wrong"
JUDGE, MEASURE = "judge", "measure"

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
    *,
    cases: Sequence[Row] = (),
) -> Computed | None:
    """Compute the tables of records by tasks, to FOLDER/<name>.parquet; None where these have no DuckDB.

    store: a folder or URL where tasks may write for a while. Arguments are those of `compute`.
    """
    with working_folder(store) as staging:
        wanted = TablesToMake(stored, tuple(by), bucket_us, list(cases), staging)
        is_judged, width = executor.map(partial(_prepare, wanted), (JUDGE, MEASURE), _JUDGING)
        if not is_judged:
            return None
        wanted = wanted._replace(bucket_us=width)
        tasks = min(_TASKS, executor.cores, len(TABLES))
        groups = [tuple(TABLES)[n::tasks] for n in range(tasks)]
        computed = executor.map(partial(_tables, wanted), groups, f"computing {units.counted(len(TABLES), 'table')}")
        folder.mkdir(parents=True, exist_ok=True)
        for name in TABLES:
            place = filesystem.join(staging, TABLE_FOLDER, f"{name}.parquet")
            filesystem.download(place, folder / f"{name}.parquet")
        return computed[0]


def judged(executor: Executor, stored: StoredRecords, store: str) -> Judged | None:
    """What is wrong in records, by a task; None where that has no DuckDB. store: as of `write_tables`."""
    with working_folder(store) as staging:
        (is_judged,) = executor.map(partial(_prepare, TablesToMake(stored, (), None, [], staging)), [JUDGE], _JUDGING)
        return _read_judged(staging) if is_judged else None


def page(executor: Executor, out: Path, store: str, records: RecordsAt | None) -> bytes:
    """The page of an analysis, by a task. Arguments are those of `report.write`; store as of `write_tables`."""
    described_as = "making the page"
    if filesystem.local_path(store) is not None:
        return executor.map(partial(_page, records), [str(out.absolute())], described_as)[0]
    with working_folder(store) as staging:
        files = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".csv"]
        filesystem.upload(out, staging, files)
        return executor.map(partial(_page, records), [staging], described_as)[0]


def _page(records: RecordsAt | None, out: str) -> bytes:
    return made(out, PageOptions(records=records))


def _prepare(wanted: TablesToMake, what: str) -> int | bool:
    """Write what is wrong in the records, or find the width of time buckets; 0 where there is no DuckDB."""
    if find_spec("duckdb") is None:
        return 0
    if what == JUDGE:
        filesystem.write(filesystem.join(wanted.staging, _JUDGED), pickle.dumps(judged_records(wanted.stored)))
        return True
    if wanted.bucket_us is not None:
        return wanted.bucket_us
    with engine_over(wanted.stored, MEMORY) as engine:
        return choose_bucket(engine)


def _tables(wanted: TablesToMake, names: Sequence[str]) -> Computed:
    """Write some tables below staging."""
    with scratch.folder() as room, engine_over(wanted.stored, MEMORY) as engine:
        given: Mapping[str, Any] = {"cases": wanted.cases, "judgement": _read_judged(wanted.staging)}
        computed = compute(engine, room / TABLE_FOLDER, wanted.by, wanted.bucket_us, names, **given)
        filesystem.upload(room, wanted.staging, [room / TABLE_FOLDER / f"{name}.parquet" for name in names])
    return computed


def _read_judged(staging: str) -> Judged:
    data = filesystem.read(filesystem.join(staging, _JUDGED))
    assert data is not None
    return cast(Judged, pickle.loads(data))
