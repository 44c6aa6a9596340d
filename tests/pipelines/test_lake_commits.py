"""A lake shows one commit or the next to whoever reads it, however the run that commits ends."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dissectors.errors import InputError
from dissectors.options import Options
from dissectors.records import schema
from pipelines.answers.records import query, read_analysis
from pipelines.report.records import opened
from pipelines.storage import filesystem, lake_files
from pipelines.storage.lake_files import Commit, Manifest
from pipelines.storage.record_files import RecordWriter, Written, write_empty
from pipelines.storage.stages import Rows, Site, Stage
from pipelines.storage.stored_records import StoredRecords

TABLE = "exchanges"
OPTIONS = Options(tables=(TABLE, "errors"))
DAY_US = 86_400_000_000
Numbers = list[int]  # of rows, in order: each stands in `request_packet` of one


# --- a lake without captures -----------------------------------------------------------------------------------------


def batch(numbers: Numbers) -> pa.RecordBatch:
    """A row a number, on two days, each at a site of its own."""
    given = {
        "request_packet": numbers,
        "site": ["2024" if n % 2 else "01" for n in numbers],
        "time": [n % 2 * DAY_US for n in numbers],
    }
    columns = [pa.array(given.get(f.name, [None] * len(numbers)), f.type) for f in schema(TABLE)]
    return pa.RecordBatch.from_arrays(columns, schema=schema(TABLE))


def staged(lake: str, staging: str, numbers: Numbers, name: str) -> list[Written]:
    writer = RecordWriter(filesystem.join(lake, staging, "records"), name)
    writer.write(TABLE, batch(numbers))  # a file for each day
    return writer.close()


def update(lake: str, stay: range, tail: range) -> Commit:
    """Bring a lake up to date as an update does: some rows stay for good, the tail replaces the last one.

    stay: numbers of all rows that are to stay; those before are there already.
    """
    with lake_files.locked(lake):
        before = lake_files.last(lake)
        lake_files.clean(lake, before)
        after = before.manifest if before else Manifest("test", 1)
        stage = after.sites.setdefault("site", Site([], [Stage()])).stages[0]
        there = sum(file.rows for file in stage.rows.records)
        with lake_files.staging(lake) as staging:
            name = staging.removeprefix(".staging-")
            stage.rows.records += staged(lake, staging, list(stay)[there:], f"part-{name}")
            after.sites["site"].tails = {0: Rows(staged(lake, staging, list(tail), f"tail-{name}"))}
            stage.states = {0: f"{name}.pickle"}
            filesystem.write(filesystem.join(lake, staging, "state", f"{name}.pickle"), name.encode())
            after.empty = after.empty or write_empty(filesystem.join(lake, staging, "records"), OPTIONS, {TABLE})
            return lake_files.commit(lake, staging, before, after)


def first(lake: str) -> Commit:
    return update(lake, range(7), range(7, 12))


def second(lake: str) -> Commit:
    """Rows of the first tail stay now, and the tail is another one."""
    return update(lake, range(10), range(10, 15))


OLD, NEW = list(range(12)), list(range(15))


# --- who reads it ----------------------------------------------------------------------------------------------------


def by_answers(lake: Path) -> Numbers:
    tables = read_analysis(str(lake), [TABLE, "errors"])
    assert query(tables, "select count(*) as n from errors") == [{"n": 0}]
    return [row["n"] for row in query(tables, f"select request_packet as n from {TABLE} order by 1")]


def by_the_page(lake: Path) -> Numbers:
    with opened(str(lake / "records")) as records:
        assert records is not None
        return [row["n"] for row in records.rows("select request_packet as n from all_exchanges order by 1")]


def by_the_manifest(lake: Path) -> Numbers:
    """The rows that DuckDB reads from the files that the manifest lists."""
    stored = StoredRecords.of(str(lake / "records"))
    files = stored.sources(TABLE, stored.files[TABLE])
    return sorted(duckdb.read_parquet(files).to_arrow_table().column("request_packet").to_pylist())


def by_duckdb(lake: Path) -> Numbers:
    files = f"read_parquet('{lake}/records/{TABLE}/**/*.parquet', hive_partitioning=true, union_by_name=true)"
    with duckdb.connect() as database:
        return [n for (n,) in database.sql(f"select request_packet from {files} order by 1").fetchall()]


def by_polars(lake: Path) -> Numbers:
    return sorted(pl.read_parquet(lake / "records" / TABLE)["request_packet"].to_list())


def by_pandas(lake: Path) -> Numbers:
    return sorted(pd.read_parquet(lake / "records" / TABLE)["request_packet"].tolist())


def by_pyarrow(lake: Path) -> Numbers:
    found = ds.dataset(lake / "records" / TABLE)
    if not found.files:  # listed while the link was replaced: a table without columns
        raise FileNotFoundError("no files")
    return sorted(found.to_table().column("request_packet").to_pylist())


OURS = [by_answers, by_the_page, by_the_manifest]
FOLDER_READERS = [by_duckdb, by_polars, by_pandas, by_pyarrow]
READERS: list[Callable[[Path], Numbers]] = [*OURS, *FOLDER_READERS]


class Witnesses:
    """All readers, where a lake holds other rows or files than at the last look; else one of them, in turn."""

    def __init__(self) -> None:
        self._known: tuple[Numbers, int] | None = None
        self._turn = 0

    def see(self, lake: Path, *, every: bool = False) -> list[Numbers]:
        """The rows that the manifest lists, and those that readers see. every: ask all readers."""
        holds = by_the_manifest(lake), len(list(lake.glob("records/*/*")))
        self._turn += 1
        some = READERS if every or holds != self._known else [READERS[self._turn % len(READERS)]]
        self._known = holds
        return [holds[0], *(reader(lake) for reader in some)]


# --- runs that are killed --------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process does not exist any more."""


class _Death:
    """Every step that a process takes on the file system below a folder, and the one that it does not live to take."""

    CHANGES = {
        "os.link", "os.symlink", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "open",
        "shutil.rmtree", "shutil.copyfile",
    }  # fmt: skip

    def __init__(self) -> None:
        self.below: str | None = None
        self.left = 0
        self.steps = 0
        sys.addaudithook(self._seen)  # for good: nothing happens while `below` is None

    def _seen(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.below is None or event not in self.CHANGES:
            return
        if not any(isinstance(path, str | os.PathLike) and self.below in os.fspath(path) for path in arguments[:2]):
            return
        self.steps += 1
        if self.steps > self.left:
            raise Killed

    @contextmanager
    def after(self, steps: int, below: Path) -> Iterator[None]:
        """What the block does to the folder ends after so many steps; nothing that would tidy up is done either."""
        self.below, self.left, self.steps = str(below), steps, 0
        try:
            yield
        finally:
            self.below = None


DEATH = _Death()


def killed_after(steps: int, lake: Path) -> bool:
    """Whether the second update did not come to its end."""
    with DEATH.after(steps, lake):
        try:
            second(str(lake))
        except Killed:
            return True
    return False


def test_a_run_killed_after_any_step_leaves_the_old_rows_or_the_new_ones(tmp_path: Path) -> None:
    seen: list[Numbers] = []
    witnesses = Witnesses()
    before = tmp_path / "before"
    update(str(before), range(2), range(2, 4))  # what this leaves behind, the killed run begins to remove
    first(str(before))
    for steps in range(1_000):
        lake = shutil.copytree(before, tmp_path / f"{steps}", symlinks=True)
        alive = not killed_after(steps, lake)
        found = witnesses.see(lake, every=alive)
        assert found in ([OLD] * len(found), [NEW] * len(found)), f"after step {steps}"
        second(str(lake))
        assert [by_the_manifest(lake), by_polars(lake)] == [NEW, NEW], f"the run after step {steps} goes on"
        assert len(list((lake / ".lake" / "commits").glob("*[!k]"))) == 2, "the last commit, and that of its readers"
        assert not list(lake.glob(".staging-*"))
        seen.append(found[0])
        if alive:
            break
    turn = seen.index(NEW)
    assert alive
    assert seen == [OLD] * turn + [NEW] * (len(seen) - turn)
    assert turn > 15


def test_a_first_run_that_is_killed_leaves_nothing_or_all(tmp_path: Path) -> None:
    for steps in (*range(0, 40, 5), 1_000):
        lake = tmp_path / f"{steps}"
        lake.mkdir()
        with DEATH.after(steps, lake):
            try:
                second(str(lake))
            except Killed:
                assert not (lake / "records").exists()
        second(str(lake))
        assert by_answers(lake) == by_duckdb(lake) == NEW


def test_who_resolves_the_link_keeps_one_commit_while_the_next_is_made(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first(str(lake))
    held = Path(os.path.realpath(lake / "records"))
    second(str(lake))
    assert by_duckdb(held.parent) == OLD
    assert by_duckdb(lake) == NEW
    update(str(lake), range(10), range(10, 15))
    assert not held.exists(), "the run after that removes it"


def test_files_that_stay_keep_their_names_and_take_no_room(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first(str(lake))
    before = {path.name: path.stat().st_ino for path in (lake / "records" / TABLE).iterdir() if "part" in path.name}
    second(str(lake))
    after = {path.name: path.stat().st_ino for path in (lake / "records" / TABLE).iterdir()}
    assert before
    assert before.items() <= after.items()


def test_a_file_system_without_hard_links_has_lakes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def has_none(self: Path, target: Path) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", has_none)
    lake = tmp_path / "lake"
    first(str(lake))
    second(str(lake))
    assert by_duckdb(lake) == NEW


def test_a_record_file_that_is_gone_is_named_and_not_passed_over(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first(str(lake))
    gone = next((lake / "records" / TABLE).iterdir())
    gone.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        by_answers(lake)


def test_spark_sees_one_commit_on_either_side_of_a_kill(spark: Any, tmp_path: Path) -> None:
    steps, found = 10, []
    for lake in (tmp_path / "killed", tmp_path / "whole"):
        first(str(lake))
        killed_after(steps, lake)
        rows = spark.read.parquet(str(lake / "records" / TABLE)).select("request_packet").collect()
        found.append(sorted(n for (n,) in rows))
        steps = 1_000
    assert found == [OLD, NEW]


# --- object stores ---------------------------------------------------------------------------------------------------


def remote(lake: str) -> Numbers:
    """The rows of the files that the manifest lists: what a reader of an object store goes by."""
    manifest = json.loads(filesystem.read(f"{lake}/.lake/manifest.json") or b"{}")
    found: Numbers = []
    for file in manifest["files"][TABLE]:
        with filesystem.open_file(f"{lake}/{file}") as stream:
            found += pq.ParquetFile(stream).read().column("request_packet").to_pylist()
    return sorted(found)


def test_on_a_store_the_write_of_the_manifest_is_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    left, steps = 0, 0

    def mortal(name: str) -> None:
        real = getattr(MemoryFileSystem, name)

        def step(self: Any, path: str, *args: Any, **options: Any) -> Any:
            nonlocal steps
            if "lake" in path and (name != "_open" or "w" in (*args, *options.values(), "")[0]):
                steps += 1
                if steps > left:
                    raise Killed
            return real(self, path, *args, **options)

        monkeypatch.setattr(MemoryFileSystem, name, step)

    for name in ("_open", "cp_file", "rm_file", "rm"):
        mortal(name)
    seen = []
    for number in range(1_000):
        lake = f"memory://lake-{number}"
        left, steps = 1_000, 0
        update(lake, range(2), range(2, 4))
        first(lake)
        left, steps = number, 0
        alive = True
        try:
            second(lake)
        except Killed:
            alive = False
        left, steps = 1_000, 0
        found = remote(lake)
        assert found in (OLD, NEW), f"after step {number}"
        seen.append(found)
        second(lake)
        assert remote(lake) == NEW, f"the run after step {number} goes on"
        assert not filesystem.folders(lake, ".staging-")
        if alive:
            break
    turn = seen.index(NEW)
    assert seen == [OLD] * turn + [NEW] * (len(seen) - turn)
    assert turn > 10


def test_on_a_store_old_files_stay_one_run_longer() -> None:
    lake = "memory://lake-old"

    def there() -> set[str]:
        return set(filesystem.find(f"{lake}/records"))

    def listed() -> set[str]:
        return {file for some in StoredRecords.of(f"{lake}/records").files.values() for file in some}

    first(lake)
    old = listed()
    second(lake)
    assert there() == old | listed() != listed()
    update(lake, range(10), range(10, 15))
    assert not old - listed() & there()


# --- beside readers --------------------------------------------------------------------------------------------------

STEP, TAIL = 3, 5


def is_of_one_commit(numbers: Numbers) -> bool:
    return numbers == list(range(len(numbers))) and len(numbers) % STEP == TAIL % STEP


def grow(lake: str, run: int) -> None:
    """A commit of which each row of the last tail is in another file than before."""
    update(lake, range(STEP * run), range(STEP * run, STEP * run + TAIL))


GROW = """
import sys
from tests.pipelines.test_lake_commits import STEP, TAIL, by_answers, grow
from pathlib import Path
lake = Path(sys.argv[1])
run = (len(by_answers(lake)) - TAIL) // STEP
print("ready", flush=True)
for n in range(run + 1, run + 1000):
    grow(str(lake), n)
"""


def test_processes_that_are_killed_at_any_moment_leave_one_commit(tmp_path: Path) -> None:
    lake, seed = tmp_path / "lake", random.randrange(1 << 30)
    chance = random.Random(seed)
    grow(str(lake), 0)
    before = 0
    for _ in range(4):
        command = [sys.executable, "-c", GROW, str(lake)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0.05, 0.6))
            process.send_signal(signal.SIGKILL)
        (found,) = {tuple(reader(lake)) for reader in READERS}
        assert is_of_one_commit(list(found)), f"seed {seed}"
        assert len(found) >= before
        before = len(found)
    grow(str(lake), 1_000)
    assert by_duckdb(lake) == list(range(STEP * 1_000 + TAIL))


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_beside_runs_that_commit_sees_one_commit_or_misses_a_file(
    tmp_path: Path, reader: Callable[[Path], Numbers]
) -> None:
    lake = tmp_path / "lake"
    grow(str(lake), 0)
    runs, stop, pause = [0], threading.Event(), [0.1]

    def commits() -> None:
        while not stop.wait(pause[0]):
            runs.append(runs[-1] + 1)
            grow(str(lake), runs[-1])

    writer = threading.Thread(target=commits)
    writer.start()
    read = 0
    try:
        end = time.monotonic() + 30
        while (read < 5 or len(runs) < 8) and time.monotonic() < end:
            begun, link = len(runs), (lake / "records").readlink()
            try:
                found = reader(lake)
            except (OSError, duckdb.IOException, InputError, pa.ArrowInvalid, pl.exceptions.ComputeError) as error:
                reason = str(error)
                pause[0] *= 1.1  # on a busy machine no read would end before two commits have passed
            else:
                # who lists a folder through the link while that is replaced, or its commit removed, may miss files
                is_past = (lake / "records").readlink() != link
                assert is_of_one_commit(found) or (is_past and reader not in OURS), found
                read += 1
                continue
            assert re.search("(?i)no such file|not found|does not exist|cannot (open|be read)|no files", reason)
            if reader in OURS:
                assert len(runs) > begun, f"only a run that has begun since may remove what is read: {reason}"
    finally:
        stop.set()
        writer.join()
    assert read
