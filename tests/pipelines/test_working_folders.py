"""What a live run writes stays, however long it takes; what a killed one left goes, also where there are no locks."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from pipelines.storage import filesystem, working_folders
from pipelines.storage.stored_records import StoredRecords
from pipelines.storage.working_folders import keep_only, live_runs, run_of, working_folder
from tests.commands import attempt

OUT = "memory://store/out"


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]


def say_alive(folder: str, ago: float) -> None:
    filesystem.write(f"{folder}/lease", str(time.time() - ago).encode())


@pytest.mark.parametrize("root", [OUT, "path"])
def test_a_folder_stays_as_long_as_its_run_says_that_it_is_alive(root: str, tmp_path: Path) -> None:
    root = str(tmp_path) if root == "path" else root
    days_ago = f"{int(time.time()) - 300_000:x}"
    alive, killed, older = (f"{root}/.brokerscope-{days_ago}-{n:016x}" for n in range(3))
    for folder in (alive, killed, older):
        filesystem.write(f"{folder}/cut/packets", b"packets")
    say_alive(alive, 10)
    say_alive(killed, working_folders.STALE_S + 1)  # and the older one is of a release that said nothing
    with working_folder(root) as mine:
        assert {filesystem.join(root, name) for name in filesystem.folders(root, ".brokerscope-")} == {alive, mine}
        assert live_runs(root) == {run_of(alive), run_of(mine)}
    assert filesystem.folders(root, ".brokerscope-") == [run_of(alive).join([".brokerscope-", ""])]


def test_a_run_renews_its_lease_as_long_as_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed, write = threading.Event(), filesystem.write

    def noted(place: str, data: bytes) -> None:
        write(place, data)
        renewed.set()

    monkeypatch.setattr(working_folders, "RENEWED_S", 0.01)
    with working_folder(OUT) as mine:
        say_alive(mine, 10_000)
        monkeypatch.setattr(filesystem, "write", noted)
        assert renewed.wait(30)
        assert working_folders.is_leased(mine)


def test_files_of_another_live_run_are_not_removed() -> None:
    other = f"{OUT}/.brokerscope-{int(time.time()):x}-00000000000000aa"
    say_alive(other, 0)
    names = {f"exchanges/2026-01-01~a~{run}-1.parquet" for run in ("mine", run_of(other), "killed")}
    for name in names:
        filesystem.write(f"{OUT}/records/{name}", b"rows")
    keep_only(OUT, "records", {"exchanges/2026-01-01~a~mine-1.parquet"}, "mine")
    assert {name for name in names if "killed" not in name} == set(filesystem.find(f"{OUT}/records"))
    keep_only(OUT, "records", None, "mine")
    assert filesystem.find(f"{OUT}/records") == [f"exchanges/2026-01-01~a~{run_of(other)}-1.parquet"]


def analyzed(*captures: str) -> int:
    return attempt("analyze", *captures, "-o", OUT, "--engine", "local", "--quiet").exit_code


def test_records_are_written_where_they_stay_and_named_by_the_run(samples: list[str]) -> None:
    moved: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filesystem, "move", lambda *given: moved.append(given))
        assert analyzed(*samples) == 0
    assert moved == []
    listed = json.loads(filesystem.read(f"{OUT}/analysis.json") or b"")["records"]
    files = {file for some in listed.values() for file in some}
    assert files == set(filesystem.find(f"{OUT}/records"))
    filesystem.write(f"{OUT}/records/exchanges/of-a-killed-run.parquet", b"")
    assert {file for some in StoredRecords.of(f"{OUT}/records").files.values() for file in some} == files
    assert analyzed(samples[0]) == 0
    again = set(filesystem.find(f"{OUT}/records"))
    assert again
    assert again.isdisjoint(files)
    assert filesystem.folders(OUT, ".brokerscope-") == []


def test_a_run_that_fails_leaves_what_stood_there(samples: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert analyzed(*samples) == 0
    before = {name: filesystem.read(f"{OUT}/{name}") for name in filesystem.find(OUT)}

    def fails(*given: object, **more: object) -> None:
        raise filesystem.StorageError("the disk is full")

    monkeypatch.setattr("pipelines.report.write", fails)
    assert analyzed(samples[0]) != 0
    assert {name: filesystem.read(f"{OUT}/{name}") for name in filesystem.find(OUT)} == before


@pytest.mark.parametrize("text", ["[1]", "{", '{"records": 7}', '{"records": {"exchanges": 7}}'])
def test_a_damaged_list_of_records_is_an_error_in_a_line(text: str) -> None:
    filesystem.write(f"{OUT}/analysis.json", text.encode())
    done = attempt("report", OUT)
    assert done.exit_code == 3
    assert done.stderr.count("\n") == 1
