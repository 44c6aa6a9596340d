"""Record files have a size that readers like, however many tasks wrote them, and hold the same rows."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from dissectors.limits import MIB
from dissectors.options import Options
from pipelines.executors.local import LocalExecutor
from pipelines.jobs import joining, plan
from pipelines.jobs.decode import merge_files
from pipelines.jobs.joining import RECORD_BYTES, shared_out
from pipelines.jobs.listings import Amount, Listing
from pipelines.jobs.records import DecodedRecords, decode_to_records
from pipelines.storage.record_files import TableFile, Written


class Small(LocalExecutor):
    """Shares small captures out to many tasks."""

    def __init__(self, parts: int) -> None:
        super().__init__(1)
        self.parts = parts
        self.split_bytes = 20_000


def decoded(samples: list[str], out: Path, parts: int) -> DecodedRecords:
    return decode_to_records(Small(parts), samples, str(out), Options())


def rows(out: Path) -> dict[str, list[str]]:
    folders = sorted((out / "records").iterdir())
    return {f.name: sorted(map(repr, ds.dataset(f).to_table().to_pylist())) for f in folders}


def test_there_is_one_file_for_each_table_capture_point_and_day(
    samples: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = decoded(samples, tmp_path / "one", 1)
    monkeypatch.setattr(plan, "HELD_BYTES", 0)
    many = decoded(samples, tmp_path / "many", 60)
    assert rows(tmp_path / "many") == rows(tmp_path / "one")
    assert len(many.written) == len(one.written)
    assert sum(file.rows for file in many.written) == sum(file.rows for file in one.written)
    there = sorted(
        path.relative_to(tmp_path / "many/records").as_posix() for path in (tmp_path / "many").rglob("*.parquet")
    )
    assert there == sorted(file.path for file in many.written)


def test_files_that_are_large_enough_are_not_written_again(
    samples: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: set[str] = set()

    def joins(root: str, files: Sequence[TableFile], name: str) -> list[Written]:
        joined.update(file.table for file in files)
        return merge_files(root, files, name)

    monkeypatch.setattr(plan, "HELD_BYTES", 0)
    monkeypatch.setattr(joining, "RECORD_BYTES", 1)
    monkeypatch.setattr(joining, "merge_files", joins)
    made = decoded(samples, tmp_path / "out", 5)
    assert "connections" not in joined  # no row of these waits for a name: each task wrote one file
    assert sum(file.table == "connections" for file in made.written) > 1
    monkeypatch.undo()
    decoded(samples, tmp_path / "one", 1)
    assert rows(tmp_path / "out") == rows(tmp_path / "one")


def listing(number: int, **tables: tuple[int, int]) -> Listing:
    return Listing(f"{number}", {table: Amount(*amount) for table, amount in tables.items()})


def test_a_task_joins_as_many_lists_as_make_files_of_a_size() -> None:
    lists = [listing(n, exchanges=(4, 8 * MIB), errors=(4, 1_000)) for n in range(20_000)]
    work = shared_out(lists)
    exchanges = [group for some in work for group in some if group.table == "exchanges"]
    assert {len(group.lists) for group in exchanges} == {4 * RECORD_BYTES // (8 * MIB), 20_000 % 64}
    assert [name for group in sorted(exchanges, key=lambda g: int(g.lists[0])) for name in group.lists] == [
        f"{n}" for n in range(20_000)
    ]
    (errors,) = (group for some in work for group in some if group.table == "errors")
    assert len(errors.lists) == 20_000
    assert shared_out([]) == []
