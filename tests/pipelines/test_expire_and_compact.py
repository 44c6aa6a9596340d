"""What is old goes from a store on request, and small files become larger ones; a reader sees before or after."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dissectors
from dissectors.errors import UsageError
from dissectors.options import Options
from dissectors.rows.late_names import Name, Names
from pipelines.executors.executor import Executor
from pipelines.jobs import names
from pipelines.lake import update as updating
from pipelines.lake.compact import compact
from pipelines.lake.expire import expire
from pipelines.lake.update import planned, update_records
from pipelines.storage import filesystem, lake_files
from pipelines.storage.lake_files import Manifest
from tests.commands import attempt, run
from tests.pipelines.cutting import read, shifted, write
from tests.pipelines.stored import last_commit
from tests.pipelines.stored import read as stored_rows
from tests.pipelines.test_lake_commits import (
    DAY_US,
    DEATH,
    OLD,
    READERS,
    TABLE,
    Killed,
    Witnesses,
    by_duckdb,
    by_polars,
    first,
    remote,
    update,
)

DAY_NS = DAY_US * 1000
MIB = 1 << 20
OF_DAY_TWO = [
    n for n in OLD if n % 2
]  # rows of the lake without captures: even numbers on the first day, odd ones after


def manifest(lake: str | Path) -> Manifest:
    return last_commit(lake).manifest


def record_files(lake: str | Path) -> int:
    return len([*manifest(lake).records()])


# --- a lake without captures -----------------------------------------------------------------------------------------


def test_rows_of_before_the_time_go(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first(str(lake))
    made = expire(str(lake), DAY_NS)
    assert made.rows == len(OLD) - len(OF_DAY_TWO)
    assert [reader(lake) for reader in READERS] == [OF_DAY_TWO] * len(READERS)
    assert expire(str(lake), DAY_NS // 2).rows == 0, "an earlier time takes nothing away"
    assert manifest(lake).since == DAY_NS


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first(str(lake))
    columns = stored_rows(lake / "records" / TABLE).schema
    expire(str(lake), 5 * DAY_NS)
    left = stored_rows(lake / "records" / TABLE)
    assert (left.num_rows, left.schema) == (0, columns)


def test_many_small_files_become_one_of_the_size_asked_for(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for n in range(1, 6):
        update(str(lake), range(10 * n), range(10 * n, 10 * n + 2))
    before, edition = by_duckdb(lake), lake_files.fingerprint(str(lake))
    made = compact(str(lake), 64 * MIB, dry_run=True)
    assert record_files(lake) == made.before == 2 * 5 + 2 + 1
    assert compact(str(lake), 64 * MIB) == made
    assert record_files(lake) == made.after == 2 + 2 + 1, "two days of what stays, two of the tail, an empty table"
    assert [reader(lake) for reader in READERS] == [before] * len(READERS)
    assert lake_files.fingerprint(str(lake)) == edition, "tables and page are still those of the records"
    assert compact(str(lake), 64 * MIB).after == made.after


def test_files_do_not_grow_beyond_the_size_asked_for(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for n in range(1, 9):
        update(str(lake), range(10 * n), range(10 * n, 10 * n))
    size = max(path.stat().st_size for path in (lake / "records" / TABLE).iterdir())
    compact(str(lake), 3 * size)
    assert all(path.stat().st_size <= 3 * size for path in (lake / "records" / TABLE).iterdir())
    assert record_files(lake) == 2 * 3 + 1, "eight files a day, by three"
    assert by_duckdb(lake) == list(range(80))


CHANGES: dict[str, Callable[[str], Any]] = {
    "expire": lambda lake: expire(lake, DAY_NS),
    "compact": lambda lake: compact(lake, 64 * MIB),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_killed_after_any_step_leaves_the_old_files_or_the_new_ones(tmp_path: Path, change: str) -> None:
    after = OF_DAY_TWO if change == "expire" else OLD
    seen = []
    witnesses = Witnesses()
    before = tmp_path / "before"
    update(str(before), range(4), range(4, 6))
    first(str(before))
    for steps in range(1_000):
        lake = shutil.copytree(before, tmp_path / f"{steps}", symlinks=True)
        alive = True
        with DEATH.after(steps, lake):
            try:
                CHANGES[change](str(lake))
            except Killed:
                alive = False
        found = witnesses.see(lake, every=alive)
        assert found in ([OLD] * len(found), [after] * len(found)), f"after step {steps}"
        seen.append((found[0], record_files(lake)))
        CHANGES[change](str(lake))
        assert by_polars(lake) == after, f"the run after step {steps} goes on"
        if alive:
            break
    assert alive
    assert len(set(map(repr, seen))) == 2
    assert seen[0] == (OLD, record_files(before))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_on_an_object_store_is_one_write_of_the_manifest(change: str) -> None:
    lake = f"memory://lake-{change}"
    update(lake, range(4), range(4, 6))
    first(lake)
    before = {file.path for file in manifest(lake).records()}
    CHANGES[change](lake)
    assert remote(lake) == (OF_DAY_TWO if change == "expire" else OLD)
    assert before <= set(filesystem.find(f"{lake}/records")), "files of the commit before stay until the next run"
    CHANGES[change](lake)
    assert {file.path for file in manifest(lake).records()} == set(filesystem.find(f"{lake}/records"))


@pytest.mark.parametrize("command", [["expire", "--before", "2026-01-31"], ["compact"]])
def test_a_lake_that_another_run_changes_is_refused(tmp_path: Path, command: list[str]) -> None:
    lake = tmp_path / "lake"
    first(str(lake))
    with lake_files.locked(str(lake)):
        (line,) = run(*command, lake, code=4).splitlines()
    assert "another run" in line
    assert by_duckdb(lake) == OLD


@pytest.mark.parametrize("command", [["expire", "--before", "2026-01-31"], ["compact"]])
def test_what_is_no_lake_is_refused_and_stays(tmp_path: Path, command: list[str]) -> None:
    assert run(*command, tmp_path / "none", code=2).count("\n") == 1
    assert not (tmp_path / "none").exists()
    with pytest.raises(UsageError, match="is no store"):
        compact(str(tmp_path), MIB)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "command",
    [["expire", "--before", "yesterday"], ["expire", "--before", "9999999999999d"], ["compact", "--file-size", "1kB"]],
)
def test_an_option_that_means_nothing_is_wrong_usage(tmp_path: Path, command: list[str]) -> None:
    lake = tmp_path / "lake"
    first(str(lake))
    run(*command, lake, code=2)
    assert by_duckdb(lake) == OLD


def test_the_commands_say_in_one_line_what_they_did(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    update(str(lake), range(4), range(4, 6))
    first(str(lake))

    def said(*command: str) -> str:
        done = attempt(*command, lake)
        assert done.exit_code == 0, done.output
        return done.output

    assert said("compact", "--dry-run") == "would make 5 files of records of 7\n"
    assert said("compact") == "made 5 files of records of 7\n"
    assert said("compact") == "nothing to do: 5 files of records\n"
    line = "before 1970-01-02T00:00:00Z: 6 rows, 2 files of records, 0 states\n"
    assert said("expire", "--dry-run", "--before", "1970-01-02") == f"would expire {line}"
    assert by_duckdb(lake) == OLD
    assert said("expire", "--before", "1970-01-02T01:00+01:00") == f"expired {line}"
    assert by_duckdb(lake) == OF_DAY_TWO
    age = datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=1)
    assert "0 rows" in said("expire", "--before", f"{age.days}d")


# --- a lake of captures ----------------------------------------------------------------------------------------------


class Days:
    """Captures of some days, each with the packets of one sample, and a lake of them."""

    def __init__(self, folder: Path, samples: list[str]) -> None:
        self.day, self.lake, self.aside = folder / "day", folder / "lake", folder / "aside"
        self.day.mkdir()
        self.aside.mkdir()
        head, packets = read(Path(next(path for path in samples if path.endswith("kafka-transactions.pcap"))))
        half = len(packets) // 2
        for n in range(3):
            moved = shifted(head, packets, n * DAY_NS)
            write(self.aside / f"{n}-0.pcap", head, moved[:half])
            write(self.aside / f"{n}-1.pcap", head, moved[half:])
        self.begin = min(row["start_time"] for row in self.expected()["connections"])

    def arrive(self, *days: int) -> None:
        for day in days:
            for path in self.aside.glob(f"{day}-*"):
                (self.day / path.name).write_bytes(path.read_bytes())

    def files(self) -> list[str]:
        return sorted(map(str, self.day.iterdir()))

    def update(self, executor: Executor) -> None:
        update_records(executor, self.files(), str(self.lake), Options())

    def time(self, days: float) -> int:
        """The time, in ns since the epoch, that lies a number of days after the first packet."""
        return round((self.begin + timedelta(days=days)).timestamp()) * 10**9

    def expected(self, since: int | None = None) -> dict[str, list[dict[str, Any]]]:
        """The rows of one run over all captures that are there, from a time on."""
        files = self.files() or sorted(map(str, self.aside.iterdir()))
        return {name: from_then_on(name, table.to_pylist(), since) for name, table in dissectors.dissect(files).items()}

    def same(self, since: int | None = None) -> None:
        for name, rows in self.expected(since).items():
            found = stored_rows(self.lake / "records" / name).to_pylist()
            assert sorted(map(repr, found)) == sorted(map(repr, rows)), name


def from_then_on(table: str, rows: list[dict[str, Any]], since: int | None) -> list[dict[str, Any]]:
    time = "end_time" if table == "connections" else "time"
    return [row for row in rows if since is None or row[time].timestamp() * 1e9 >= since]


@pytest.fixture
def days(samples: list[str], tmp_path: Path) -> Days:
    return Days(tmp_path, samples)


def test_a_store_goes_on_behind_the_time_up_to_which_it_expired(executor: Executor, days: Days) -> None:
    for n in range(2):
        days.arrive(n)
        days.update(executor)
    since = days.time(0.5)
    assert expire(str(days.lake), since).rows
    days.same(since)
    with planned(days.files(), str(days.lake), Options()) as wanted:
        assert not wanted.has_news, "captures from before are not read again"
    days.arrive(2)
    days.update(executor)
    days.same(since)
    later = days.time(1.0) + 10**9  # within the second day's traffic
    expire(str(days.lake), later)
    days.same(later)


def test_a_late_capture_brings_no_rows_of_what_has_expired(executor: Executor, days: Days) -> None:
    days.arrive(1)
    days.update(executor)
    since = days.time(0.5)
    expire(str(days.lake), since)
    days.arrive(0, 2)
    days.update(executor)
    days.same(since)


def test_another_release_does_not_read_captures_again_that_have_expired(
    executor: Executor, days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    days.arrive(0, 1)
    days.update(executor)
    since = days.time(0.5)
    expire(str(days.lake), since)
    monkeypatch.setattr(updating, "code_version", lambda package: f"another {package}")
    with planned(days.files(), str(days.lake), Options()) as wanted:
        read_again = {Path(file.path).name for files in wanted.inputs.values() for file in files}
    assert read_again == {"1-0.pcap", "1-1.pcap"}
    days.update(executor)
    assert manifest(days.lake).problems() == []
    for path in days.day.glob("0-*"):
        path.unlink()
    days.same(since)


MINUTE = 60 * 10**9  # ns; of reports of one minute the first of each name counts


def test_names_that_were_replaced_before_the_time_go_and_those_in_force_stay(tmp_path: Path) -> None:
    reported = [
        Name("a", 1 * MINUTE, "old"),
        Name("a", 5 * MINUTE, "new"),
        Name("b", 2 * MINUTE, "only"),
        Name("a", 90 * MINUTE, "newest"),
    ]
    left = Names(reported).since(10 * MINUTE)
    assert sorted(left) == [
        Name("a", 5 * MINUTE, "new"),
        Name("a", 90 * MINUTE, "newest"),
        Name("b", 2 * MINUTE, "only"),
    ]
    assert [
        Names(reported).since(5 * MINUTE).get("a", 5 * MINUTE),
        Names(reported).since(4 * MINUTE).get("a", 4 * MINUTE),
    ] == ["new", "old"]
    lake = tmp_path / "lake"
    first(str(lake))
    last = last_commit(lake)
    path = Path(last.home, ".lake", "names", "names.parquet")
    names.save(Names([Name("a", 1 * MINUTE, "old"), Name("a", 5 * MINUTE, "new")]), str(path))
    last.manifest.names = ["names.parquet"]
    lake_files._write(last.home, last.manifest)
    expire(str(lake), 10 * MINUTE)
    last = last_commit(lake)
    (name,) = last.manifest.names
    assert [*names.load([str(Path(last.home, ".lake", "names", name))])] == [Name("a", 5 * MINUTE, "new")]


def test_a_store_of_captures_holds_the_same_rows_in_fewer_files_and_goes_on(
    executor: Executor, days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "MERGED", 1_000)
    for n in range(2):
        days.arrive(n)
        for path in days.files():
            update_records(executor, [path], str(days.lake), Options())
    before = record_files(days.lake)
    made = compact(str(days.lake), 64 * MIB)
    assert made.after == record_files(days.lake) <= before
    days.same()
    days.arrive(2)
    days.update(executor)
    days.same()
    assert sum(pq.read_metadata(path).num_rows for path in (days.lake / "records").rglob("*.parquet"))
