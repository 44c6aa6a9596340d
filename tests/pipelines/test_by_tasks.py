"""Tables and the page that tasks make are those that one process makes."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow.parquet as pq
import pytest

from pipelines import report
from pipelines.executors.local import LocalExecutor
from pipelines.report import by_tasks
from pipelines.storage import filesystem
from pipelines.storage.stored_records import StoredRecords
from pipelines.tables.compute import OF_JUDGEMENT, compute
from pipelines.tables.on_duckdb import LocalEngine, engine_over
from pipelines.tables.registry import TABLES
from pipelines.tables.table import Table


class Several(LocalExecutor):
    """Runs tasks here, as if there were several cores."""

    def __init__(self) -> None:
        super().__init__(1)
        self.cores = 4
        self.tasks: dict[str, int] = {}

    def map(self, task: Callable[[Any], Any], items: Sequence[Any], described_as: str, size: int = 0) -> list[Any]:
        self.tasks[described_as] = len(items)
        return super().map(task, items, described_as, size)


@pytest.fixture(params=["path", "memory"])
def store(request: pytest.FixtureRequest, analysed: Any, tmp_path: Path) -> Iterator[str]:
    """An OUT, here and behind a URL."""
    out = analysed.out
    if request.param == "path":
        yield str(out)
        return
    filesystem.upload(out, "memory://tasks/out", [path for path in out.rglob("*") if path.is_file()])
    yield "memory://tasks/out"
    fsspec.filesystem("memory").store.clear()


def table(path: Path) -> list[str]:
    return sorted(map(repr, pq.read_table(path).to_pylist()))


def test_tables_and_page_are_those_of_one_process(store: str, analysed: Any, tmp_path: Path) -> None:
    about = json.loads((analysed.out / "analysis.json").read_text())
    cases = [json.loads(line) for line in (analysed.out / "forensics.jsonl").read_text().splitlines()]
    executor = Several()
    stored = StoredRecords.of(f"{store}/records")
    made = by_tasks.write_tables(executor, stored, store, tmp_path / "tables", about["by"], cases=cases)
    assert made is not None
    assert made.bucket_us == about["bucket_us"]
    assert [[*sites] for sites in made.shared] == [seen["sites"] for seen in about["shared"]]
    for name in TABLES:
        assert table(tmp_path / "tables" / f"{name}.parquet") == table(analysed.out / "tables" / f"{name}.parquet")
        first_rows = f"tables/{name}.csv"
        assert (tmp_path / first_rows).read_bytes() == (analysed.out / first_rows).read_bytes()
    assert executor.tasks == {"choosing the width of time buckets": 1, f"computing {len(TABLES)} tables": 5}
    away = filesystem.local_path(store) is None
    page = by_tasks.page(executor, analysed.out, store, stored if away else None)
    assert page == (analysed.out / report.PAGE).read_bytes()
    assert [name for name in filesystem.find(store) if name.startswith(".brokerscope-")] == []


def test_first_rows_of_tables_that_lie_here_are_written_by_tasks(store: str, analysed: Any, tmp_path: Path) -> None:
    names = ("latency", "verdicts")
    for name in names:
        shutil.copy(analysed.out / f"tables/{name}.parquet", tmp_path)
    by_tasks.write_csv(Several(), tmp_path, store, names)
    for name in names:
        assert (tmp_path / f"{name}.csv").read_bytes() == (analysed.out / f"tables/{name}.csv").read_bytes()


def without_room_for(names: set[str]) -> Callable[..., None]:
    """A LocalEngine.write in which some tables do not fit in memory."""
    write = LocalEngine.write

    def written(engine: LocalEngine, query: str, table: Table, path: Path) -> None:
        if table.name in names:
            raise duckdb.OutOfMemoryException("no room")
        write(engine, query, table, path)

    return written


def test_tables_that_do_not_fit_in_the_memory_of_a_task_are_left_out(
    analysed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, wanted = StoredRecords.of(str(analysed.out / "records")), ("clients", "errors", "changes", "latency")
    monkeypatch.setattr(LocalEngine, "write", without_room_for({"clients", "errors"}))
    made = by_tasks.write_tables(Several(), stored, str(tmp_path), tmp_path / "tables", only=wanted)
    assert made is not None
    assert made.left_out == ("clients", "errors")
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == {"changes", "latency"}
    with engine_over(stored, by_tasks.MEMORY) as engine, pytest.raises(duckdb.OutOfMemoryException):
        compute(engine, tmp_path / "here", only=("clients",))


def test_tables_of_what_is_wrong_are_made_alone(analysed: Any, tmp_path: Path) -> None:
    stored, executor = StoredRecords.of(str(analysed.out / "records")), Several()
    assert by_tasks.write_tables(executor, stored, str(tmp_path), tmp_path / "tables", only=OF_JUDGEMENT) is not None
    assert executor.tasks["computing 3 tables"] == 1
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == set(OF_JUDGEMENT)
    for name in OF_JUDGEMENT:
        assert table(tmp_path / "tables" / f"{name}.parquet") == table(analysed.out / "tables" / f"{name}.parquet")


def test_workers_without_duckdb_leave_it_to_the_driver(
    analysed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_tasks, "find_spec", lambda name: None)
    stored = StoredRecords.of(str(analysed.out / "records"))
    assert by_tasks.write_tables(Several(), stored, str(tmp_path), tmp_path / "tables") is None
    assert not (tmp_path / "tables").exists()
