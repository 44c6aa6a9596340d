"""Rows are the same however captures are foldered by date, in every way of running."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import dissectors
from dissectors.capture import expand
from dissectors.options import Options
from pipelines.executors.local import LocalExecutor
from pipelines.jobs.records import decode_to_records
from pipelines.lake.update import update_records
from tests.pipelines.cutting import cut
from tests.pipelines.stored import read
from tests.pipelines.test_rows_source import table as rows_of_source
from tests.pipelines.test_rows_stream import Query

CAPTURE = Path(__file__).parents[2] / "samples" / "kafka-transactions.pcap"
TABLES = ("exchanges", "connections", "batches")
LAYOUTS = {
    "dt": ["node7/dt=2026-11-26", "node7/dt=2026-11-27", "node7/dt=2026-11-28"],
    "Y/M/D": ["2026/11/26/node7", "2026/11/27/node7", "2026/11/28/node7"],
    "hours": ["node7/date=20261126/hour=22", "node7/date=20261126/hour=23", "node7/date=20261127/hour=00"],
    "names": ["west", "east", "north"],  # by which nobody knows it: packets say it
}
PLACES = ("site", "file", "request_file", "response_file")


def counted(rows: pa.Table | Iterable[dict[str, Any]]) -> Counter[str]:
    """Rows, but for where their captures lie."""
    given = rows.to_pylist() if isinstance(rows, pa.Table) else rows
    return Counter(repr({name: value for name, value in row.items() if name not in PLACES}) for row in given)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    """The rows of the same captures in one folder."""
    files = cut(CAPTURE, tmp_path_factory.mktemp("whole"), 3)
    return {name: counted(rows) for name, rows in dissectors.dissect(files, TABLES).items()}


@pytest.fixture(params=LAYOUTS)
def arrivals(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Sequence[Callable[[], str]]]:
    """(a store, what puts its captures into it, in order, and says where each lies then)."""
    store = tmp_path / "store"
    store.mkdir()

    def arrive(name: str, folder: str) -> str:
        target = store / folder / Path(name).name
        target.parent.mkdir(parents=True, exist_ok=True)
        return str(Path(name).rename(target))

    pieces = cut(CAPTURE, tmp_path, 3)
    folders = LAYOUTS[request.param]
    made = [partial(arrive, name, folder) for name, folder in zip(pieces, folders, strict=True)]
    return store, made


Arrivals = tuple[Path, Sequence[Callable[[], str]]]


def all_there(arrivals: Arrivals) -> str:
    for arrive in arrivals[1]:
        arrive()
    return str(arrivals[0])


@pytest.mark.parametrize("jobs", [1, 2])
def test_by_one_process_and_by_several(arrivals: Arrivals, known: dict[str, Counter[str]], jobs: int) -> None:
    rows = dissectors.dissect(all_there(arrivals), TABLES, jobs=jobs)
    assert {name: counted(made) for name, made in rows.items()} == known
    assert len(set(rows["exchanges"]["site"].to_pylist())) == 1


def test_by_tasks(arrivals: Arrivals, known: dict[str, Counter[str]], tmp_path: Path) -> None:
    files = expand([all_there(arrivals)])
    executor = LocalExecutor(1)
    executor.split_bytes = 20_000
    decode_to_records(executor, files, str(tmp_path / "out"), Options(tables=TABLES))
    assert {name: counted(read(tmp_path / "out" / "records" / name)) for name in TABLES} == known


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)])
def test_by_updates_in_any_order_each_of_what_has_come(
    arrivals: Arrivals, known: dict[str, Counter[str]], order: tuple[int, ...], tmp_path: Path
) -> None:
    for number in order:
        new = arrivals[1][number]()
        update_records(LocalExecutor(1), [new], str(tmp_path / "lake"), Options(tables=TABLES))
    assert {name: counted(read(tmp_path / "lake" / "records" / name)) for name in TABLES} == known


def test_by_the_source_of_spark(arrivals: Arrivals, known: dict[str, Counter[str]]) -> None:
    store = all_there(arrivals)
    for name in TABLES:
        assert counted(rows_of_source([store], table=name, parts="3")) == known[name]


@pytest.mark.parametrize("available_now", [True, False])
def test_by_a_stream(arrivals: Arrivals, known: dict[str, Counter[str]], available_now: bool) -> None:
    query = Query(arrivals[0])
    for arrive in arrivals[1]:
        arrive()
        query.run(available_now=available_now)
    query.run(available_now=True)
    last = {row["exchange_id"]: row for row in query.rows}
    assert counted(last.values()) == known["exchanges"]
