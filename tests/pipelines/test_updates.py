"""A lake that is updated hour by hour holds what one run over everything gives, however the hours come."""

import errno
import fcntl
import os
import pickle
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dissectors
from dissectors.compiling.state import state_layout
from dissectors.errors import BrokerscopeError
from dissectors.kafka.request_sizes import RequestSizes
from dissectors.options import Options
from pipelines import analyze as analysis
from pipelines.executors.executor import Executor
from pipelines.jobs.records import DecodedRecords
from pipelines.lake import arrivals, freshness, update
from pipelines.lake.update import update_records
from pipelines.storage import lake_files, outputs
from pipelines.tables.compute import compute
from tests.commands import attempt, run
from tests.pipelines.cutting import cut
from tests.pipelines.stored import last_commit, read
from tests.pipelines.test_tables import computed, local_engine, same, written

OPTIONS = Options()
HOURS = 3
UPDATE = ("--update", "--engine", "local")


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def lake_rows(lake: Path) -> dict[str, list[str]]:
    return {name: rows(read(lake / "records" / name)) for name in OPTIONS.tables}


class Store:
    """Two captures that run side by side, in hours that may be put into a folder one by one."""

    def __init__(self, folder: Path, samples: list[str]) -> None:
        self.hours = folder / "hours"
        self.hours.mkdir(parents=True)
        self.day = folder / "store" / "day"
        self.day.mkdir(parents=True)
        self.lake = folder / "lake"
        for path in samples:
            cut(Path(path), self.hours, HOURS)
        self.names = sorted(path.name for path in self.hours.iterdir())

    def arrive(self, names: list[str]) -> None:
        for name in names:
            shutil.copy(self.hours / name, self.day)

    def files(self) -> list[str]:
        return sorted(map(str, self.day.iterdir()))

    def update(self, executor: Executor) -> DecodedRecords:
        return update_records(executor, self.files(), str(self.lake), OPTIONS)

    def expected(self) -> dict[str, list[str]]:
        return {name: rows(table) for name, table in dissectors.dissect(self.files()).items()}

    def hour(self, n: int) -> list[str]:
        return [name for name in self.names if name.endswith(f"-{n:03}.pcap")]


def of_lake(made: DecodedRecords, folder: Path) -> dict[str, pa.Table]:
    """The tables of a lake."""
    with made.engine() as engine:
        return computed(engine, folder)


def of_one_run(store: Store, folder: Path) -> dict[str, pa.Table]:
    """The tables of one run over everything."""
    with local_engine(written(dissectors.dissect(store.files()), folder / "records")) as engine:
        return computed(engine, folder / "tables")


@pytest.fixture(scope="module")
def chosen(samples: list[str]) -> list[str]:
    """The three samples with the most packets that can be cut."""
    return sorted((p for p in samples if p.endswith(".pcap")), key=lambda p: -os.path.getsize(p))[:3]  # noqa: PTH202


@pytest.fixture
def store(tmp_path: Path, chosen: list[str]) -> Store:
    """One capture."""
    return Store(tmp_path, chosen[:1])


def test_small_files_become_one_and_hold_the_same_rows(
    executor: Executor, chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files(store: Store) -> list[Path]:
        return list((store.lake / "records").rglob("*.parquet"))

    apart, merged = Store(tmp_path / "apart", chosen), Store(tmp_path / "merged", chosen)
    for store, least in ((apart, 1_000), (merged, 2)):
        monkeypatch.setattr(update, "MERGED", least)
        for n in range(HOURS):
            store.arrive(store.hour(n))
            store.update(executor)
        inside = last_commit(store.lake).manifest.inside()
        assert {store.lake / name for name in inside if name.startswith("records")} == set(files(store))
        assert lake_rows(store.lake) == store.expected()
    assert len(files(merged)) < len(files(apart))


def test_any_order_of_arrival_gives_the_same(executor: Executor, chosen: list[str], tmp_path: Path) -> None:
    store = Store(tmp_path, chosen)
    store.arrive(store.names)
    tables = of_one_run(store, tmp_path)
    by_hour = [name for n in range(HOURS) for name in store.hour(n)]

    @settings(max_examples=3)
    @given(order=st.permutations(store.names), stops=st.sets(st.integers(1, len(store.names) - 1), max_size=2))
    @example(order=by_hour, stops={len(store.hour(0)), len(store.hour(0)) + len(store.hour(1))})
    def in_any_order(order: list[str], stops: set[int]) -> None:
        for folder in (store.day, store.lake):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        ends = [*sorted(stops), len(order)]
        for start, end in zip([0, *ends], ends, strict=False):
            store.arrive(order[start:end])
            made = store.update(executor)
            assert lake_rows(store.lake) == store.expected(), order[:end]
        shutil.rmtree(tmp_path / "updated", ignore_errors=True)
        same(of_lake(made, tmp_path / "updated"), tables)

    in_any_order()


def test_an_update_without_news_changes_no_file(executor: Executor, store: Store) -> None:
    store.arrive(store.names)
    store.update(executor)
    before = {path: path.stat().st_mtime_ns for path in (store.lake / "records").rglob("*.parquet")}
    store.update(executor)
    assert {path: path.stat().st_mtime_ns for path in (store.lake / "records").rglob("*.parquet")} == before


def test_a_file_that_was_read_may_go(executor: Executor, store: Store) -> None:
    store.arrive(store.names)
    expected = store.expected()
    for path in store.day.iterdir():
        path.unlink()
    for n in range(HOURS):
        store.arrive(store.hour(n))
        store.update(executor)
        for path in store.day.iterdir():
            path.unlink()
    assert lake_rows(store.lake) == expected


DAMAGED = {
    "of no text": b"\xff",
    "empty": b"",
    "no object": b"[]",
    "cut off": b'{"format": 4, ',
    "lacks all": b'{"format": 4}',
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_lake_that_is_damaged_is_named_in_one_line_and_stays(
    chosen: list[str], tmp_path: Path, damage: bytes
) -> None:
    lake = tmp_path / "lake"
    damaged, staged = lake / ".lake" / "manifest.json", lake / ".staging-0" / "records" / "rows.parquet"
    for path, data in ((damaged, damage), (staged, b"rows")):
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    (line,) = run("analyze", chosen[0], "-o", lake, "--update", "--quiet", code=4).splitlines()
    assert f"{damaged}: is damaged" in line
    assert (damaged.read_bytes(), staged.read_bytes()) == (damage, b"rows")


def _of_another_release() -> bytes:
    """A state in which an object has other attributes."""
    version = state_layout(RequestSizes).version.encode()
    return pickle.dumps((RequestSizes(), {})).replace(version, b"0" * len(version))


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"nothing of the sort", "is damaged"), (_of_another_release(), "was written by another release")],
    ids=["damaged", "another release"],
)
def test_a_state_that_cannot_be_read_is_named(store: Store, data: bytes, why: str) -> None:
    wanted = [
        "analyze",
        str(store.day),
        "-o",
        str(store.lake),
        "--quiet",
        "--update",
        "--engine",
        "local",
        "--records-only",
    ]
    store.arrive(store.hour(0))
    run(*wanted)
    before = lake_rows(store.lake)
    for state in Path(last_commit(store.lake).home, ".lake", "state").iterdir():
        state.write_bytes(data)
    store.arrive(store.hour(1))
    assert re.search(rf"/\.lake/state/\w+\.pickle: {why}", run(*wanted, code=4))
    assert lake_rows(store.lake) == before


@pytest.mark.parametrize("blocked", ["lake", "lake/.lake", "lake/.lake/lock/x"])
def test_a_lake_that_cannot_be_written_is_one_line(chosen: list[str], tmp_path: Path, blocked: str) -> None:
    path = tmp_path / blocked
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    (line,) = run("analyze", chosen[0], "-o", tmp_path / "lake", "--update", "--quiet", code=3).splitlines()
    assert line.startswith(f"brokerscope: cannot write {tmp_path / 'lake'}: ")


def test_a_file_system_without_locks_has_lakes_too(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_none(*args: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", has_none)
    with lake_files.locked(str(tmp_path / "lake")):
        assert (tmp_path / "lake").is_dir()


def test_how_many_processes_decode_makes_no_other_lake(executor: Executor, store: Store) -> None:
    store.arrive(store.hour(0))
    store.update(executor)
    with update.planned(store.files(), str(store.lake), OPTIONS._replace(jobs=OPTIONS.jobs + 1)) as again:
        assert not again.has_news


def test_a_renamed_capture_is_found_again_by_another_version(
    executor: Executor, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(2):
        store.arrive(store.hour(n))
        store.update(executor)
    before = lake_rows(store.lake)
    monkeypatch.setattr(update, "code_version", lambda package: f"another {package}")
    (store.day / store.hour(0)[0]).rename(store.day / "renamed.pcap")
    store.update(executor)
    counts = {name: len(found) for name, found in lake_rows(store.lake).items()}
    assert counts == {name: len(found) for name, found in before.items()}


def test_two_runs_at_once_are_refused(executor: Executor, store: Store) -> None:
    store.arrive(store.names)
    with lake_files.locked(str(store.lake)), pytest.raises(BrokerscopeError, match="another run"):
        store.update(executor)


def test_the_command_keeps_a_lake_and_replaces_what_it_answers(store: Store) -> None:
    store.arrive(store.hour(0))
    wanted = ["analyze", str(store.day), "-o", str(store.lake), "--quiet"]
    run(*wanted, *UPDATE)
    page = (store.lake / "report.html").read_bytes()
    store.arrive([name for n in range(1, HOURS) for name in store.hour(n)])
    run(*wanted, *UPDATE)
    assert lake_rows(store.lake) == store.expected()
    assert (store.lake / "report.html").read_bytes() != page
    entries = {"records", "tables", "forensics.jsonl", "analysis.json", "report.html", ".lake"}
    assert {path.name for path in store.lake.iterdir()} == entries
    assert attempt(*wanted).exit_code != 0, "a plain run must not replace a lake"
    assert lake_rows(store.lake) == store.expected()


def test_a_run_that_finds_no_new_packets_makes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.arrive(store.names[:-1])
    runs: list[str] = []

    def noted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            runs.append(what)
            return function(*args, **named)

        return run

    monkeypatch.setattr(analysis._Run, "_executor", noted("executor", analysis._Run._executor))
    monkeypatch.setattr(analysis, "compute", noted("tables", compute))

    def update(*more: str) -> tuple[list[str], str]:
        """(what the run did, what it wrote to stderr)"""
        runs.clear()
        done = attempt("analyze", store.day, "-o", store.lake, *UPDATE, *more)
        assert done.exit_code == 0, done.output
        assert "latency: " in done.stdout
        assert done.stdout.splitlines()[-1] == str(store.lake / "report.html")
        return list(runs), done.stderr

    def entries() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in store.lake.rglob("*") if path.is_file()}

    def stands(by: tuple[str, ...] = (), bucket_us: int | None = None) -> bool:
        """Whether a run that is asked for this would make nothing."""
        lake = str(store.lake)
        return freshness.standing(lake, freshness.fingerprints(lake, by, bucket_us, None)) is not None

    everything = ["executor", "tables"]
    assert update()[0] == everything
    before = entries()
    did, said = update()
    assert did == []
    assert "no packets are new" in said
    assert entries() == before
    assert stands()
    assert not stands(by=("client",))
    assert not stands(bucket_us=1_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(freshness, "code_version", lambda package: f"another {package}")
        assert not stands()
    of_each_kind = ("tables/hops.parquet", "tables/latency.csv", "report.html", "forensics.jsonl", "analysis.json")
    missing = [store.lake / name for name in of_each_kind]
    for path in missing:
        data = path.read_bytes()
        path.unlink()
        assert not stands(), path
        path.write_bytes(data)
        assert stands(), path
    for path in missing:
        path.unlink()
    assert update()[0] == everything
    assert all(path.exists() for path in missing)
    did, said = update("--by", "client", "--bucket", "1s")
    assert did == everything
    assert "no packets are new" not in said
    assert stands(by=("client",), bucket_us=1_000_000)
    assert not stands()
    store.arrive(store.names[-1:])
    assert update()[0] == everything
    assert lake_rows(store.lake) == store.expected()
    assert update()[0] == []


def test_records_only_leaves_tables_and_page_to_a_later_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.arrive(store.names[:-1])
    wanted = ["analyze", str(store.day), "-o", str(store.lake), *UPDATE]

    def made() -> dict[str, bytes]:
        entries = [path for path in store.lake.rglob("*") if path.is_file() and ".lake" not in path.parts]
        return {str(path): path.read_bytes() for path in entries if "records" not in path.parts}

    assert run(*wanted, "--records-only").splitlines() == [str(store.lake / "records")]
    assert lake_rows(store.lake) == store.expected()
    assert made() == {}
    run("top", store.lake, "--by", "api")
    run("report", store.lake)  # the page has tables of its own
    (store.lake / "report.html").unlink()
    run(*wanted)
    before = made()
    store.arrive(store.names[-1:])
    with monkeypatch.context() as patch:
        patch.setattr(analysis, "compute", lambda *args: pytest.fail("tables were computed"))
        run(*wanted, "--records-only")
        again = attempt(*wanted, "--records-only")
        assert "no packets are new: records are" in again.stderr
    assert lake_rows(store.lake) == store.expected()
    assert made() == before
    page = tmp_path / "page.html"
    run("report", store.lake, "-o", page)
    assert made() == before
    run(*wanted)  # what was left is made though no packets are new
    assert made() != before
    facts = [re.findall(r"[\d,]+ (?:requests|exchanges|batches)", text) for text in (page.read_text(), whole(store))]
    assert facts[0] == facts[1] != []


def whole(store: Store) -> str:
    """The page of the whole lake."""
    return (store.lake / "report.html").read_text()


def test_a_run_that_is_killed_before_its_page_is_there_is_made_good_by_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ["analyze", str(store.day), "-o", str(store.lake), "--quiet", *UPDATE]
    store.arrive(store.hour(0))
    run(*wanted)
    page = (store.lake / "report.html").read_bytes()
    store.arrive(store.hour(1))
    real = outputs.swap

    def dies(new: Path, target: Path) -> None:
        if target.name == "report.html":
            raise KeyboardInterrupt
        real(new, target)

    with monkeypatch.context() as patch:
        patch.setattr(outputs, "swap", dies)
        attempt(*wanted)
    assert (store.lake / "report.html").read_bytes() == page
    run(*wanted)
    assert (store.lake / "report.html").read_bytes() != page


def test_a_lake_holds_no_password_of_a_url_and_knows_its_files_without(executor: Executor, store: Store) -> None:
    secrets = ["first-s3cret", "another-s3cret"]
    store.arrive(store.names)
    exchanges = len(store.expected()["exchanges"])
    for path in store.files():
        for secret in secrets:
            shutil.copy(path, f"{path}?token={secret}")

    def urls(secret: str, hours: int) -> list[str]:
        return [f"file://{store.day}/{name}?token={secret}" for n in range(hours) for name in store.hour(n)]

    update_records(executor, urls(secrets[0], HOURS - 1), str(store.lake), OPTIONS)
    known = last_commit(store.lake)
    update_records(executor, urls(secrets[1], HOURS), str(store.lake), OPTIONS)
    after = last_commit(store.lake)
    had, has = (sum(len(site.files) for site in lake.manifest.sites.values()) for lake in (known, after))
    assert has == had * HOURS // (HOURS - 1)  # the same files under another token are not read again
    assert len(lake_rows(store.lake)["exchanges"]) == exchanges
    for file in filter(Path.is_file, store.lake.rglob("*")):
        text = file.read_bytes()
        if file.suffix == ".parquet":
            text += repr(pq.read_table(file).to_pylist()).encode()
        assert not any(secret.encode() in text for secret in secrets), file


def test_a_lake_that_follows_its_store_is_as_of_one_run(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, chosen[:2])
    store.arrive(store.hour(0))
    steps = [lambda: None, lambda: store.arrive(store.hour(1) + store.hour(2)), lambda: None, lambda: None]

    def between_looks(seconds: float) -> None:
        assert seconds == 2
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(arrivals, "arrivals", partial(arrivals.arrivals, wait=between_looks))
    done = attempt("analyze", store.day, "-o", store.lake, "--follow", "2s", *UPDATE)
    assert done.exit_code == 130, done.output
    assert lake_rows(store.lake) == store.expected()
    assert done.stdout.count("report.html") == 2
