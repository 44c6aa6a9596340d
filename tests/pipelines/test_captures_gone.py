"""A store whose old captures are removed is updated all the same, also by another release and with other options."""

import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dissectors
from dissectors.findings import CAPTURES_GONE
from dissectors.options import Options
from pipelines.executors.executor import Executor
from pipelines.lake import update
from pipelines.lake.update import planned, update_records
from tests.pipelines.cutting import cut, read, shifted, times, write
from tests.pipelines.stored import last_commit
from tests.pipelines.stored import read as stored_rows

HOURS = 5
Rows = dict[str, list[str]]


class Store:
    """The captures of one folder, an hour each, and a lake of them."""

    def __init__(self, folder: Path, sample: Path) -> None:
        self.day, self.lake = folder / "day", folder / "lake"
        self.day.mkdir()
        cut(sample, self.day, HOURS)
        self.hours = sorted(self.day.iterdir())
        self.options = Options()
        self.release = "one"

    def update(self, executor: Executor) -> list[tuple[str, str]]:
        """Bring the lake up to date by the release and the options of now; returns the problems."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(update, "code_version", lambda package: f"{self.release} {package}")
            files = sorted(map(str, self.day.iterdir()))
            return update_records(executor, files, str(self.lake), self.options).problems

    def has_news(self) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(update, "code_version", lambda package: f"{self.release} {package}")
            with planned(sorted(map(str, self.day.iterdir())), str(self.lake), self.options) as wanted:
                return wanted.has_news

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {name: stored_rows(self.lake / "records" / name).to_pylist() for name in self.options.tables}


def begins_in(table: str, row: dict[str, Any]) -> str | None:
    """The name of the capture in which a row begins."""
    if table == "exchanges":
        return row["request_file"] or row["response_file"]
    return row["file"]


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows if row.get("kind") != CAPTURES_GONE)


def of_captures(tables: dict[str, list[dict[str, Any]]], names: set[str]) -> dict[str, list[dict[str, Any]]]:
    return {name: [row for row in rows if begins_in(name, row) in names] for name, rows in tables.items()}


def decoded(files: list[Path], options: Options) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, pa.Table] = dissectors.dissect(
        sorted(map(str, files)), tables=options.tables, full=options.full, site=options.site
    )
    return {name: table.to_pylist() for name, table in found.items()}


def counted_on(kept: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is where connections between the same endpoints have rows already."""
    of_place = [
        one["incarnation"] for one in kept if (one["site"], one["connection"]) == (row["site"], row["connection"])
    ]
    if not of_place:
        return row
    out = row | {"incarnation": row["incarnation"] + max(of_place) + 1}
    if row.get("exchange_id"):
        out["exchange_id"] = conn_id(out) + row["exchange_id"].removeprefix(conn_id(row))
    return out


def conn_id(row: dict[str, Any]) -> str:
    return blake2b(f"{row['connection']} {row['incarnation']}".encode(), digest_size=8).hexdigest()


def as_one(*parts: dict[str, list[dict[str, Any]]]) -> Rows:
    """The rows of several parts of a lake, of which the last was decoded anew."""
    *kept, made = parts
    old = [row for part in kept for row in part["connections"]]
    new = {name: [counted_on(old, row) for row in rows] for name, rows in made.items()}
    return {name: texts([row for part in (*kept, new) for row in part.get(name, [])]) for name in made}


@pytest.fixture
def sample(samples: list[str]) -> Path:
    return max((Path(path) for path in samples if path.endswith(".pcap")), key=os.path.getsize)


@pytest.fixture
def store(tmp_path: Path, sample: Path) -> Store:
    return Store(tmp_path, sample)


@pytest.mark.parametrize("option", ["release", "full", "site"])
@settings(
    max_examples=4,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # a smaller example would cost minutes
)
@given(
    removed=st.sets(st.integers(0, HOURS - 1), min_size=1, max_size=HOURS - 1),
    updates=st.integers(1, 2),
)
def test_rows_of_captures_that_are_gone_stay_and_the_rest_is_as_of_one_run_over_the_rest(
    executor: Executor,
    sample: Path,
    tmp_path_factory: pytest.TempPathFactory,
    removed: set[int],
    option: str,
    updates: int,
) -> None:
    store = Store(tmp_path_factory.mktemp("store"), sample)
    later = store.hours[HOURS // 2 :] if updates > 1 else []
    aside = [path.rename(store.day.parent / path.name) for path in later]
    store.update(executor)
    for path in aside:
        path.rename(store.day / path.name)
    if aside:
        store.update(executor)
    before = store.tables()
    gone = {str(store.hours[n]) for n in removed}
    for name in gone:
        Path(name).unlink()
    if option == "release":
        store.release = "two"
    else:
        store.options = Options(full=True) if option == "full" else Options(site="file")
    problems = store.update(executor)
    made = decoded(list(store.day.iterdir()), store.options)
    kept = of_captures(before, gone)
    for row in kept["exchanges"] if option == "full" else []:
        row |= {"request": None, "response": None}
    assert as_one(store.tables()) == as_one(kept, made)
    ((kind, message),) = problems
    assert kind == CAPTURES_GONE
    assert f"{len(gone)} capture" in message
    assert not store.has_news()
    assert as_one(store.tables()) == as_one(kept, made)


def test_a_connection_with_a_second_row_is_counted_in_what_is_said(executor: Executor, store: Store) -> None:
    store.update(executor)
    before = store.tables()["connections"]
    store.hours[0].unlink()
    store.release = "two"
    ((_, message),) = store.update(executor)
    after = store.tables()["connections"]
    twice = len(after) - len({(row["site"], row["connection"]) for row in after})
    assert len(before) < len(after)
    assert f"; {twice} connection" in message
    assert len({(row["site"], row["connection"], row["incarnation"]) for row in after}) == len(after)
    ids = [row["exchange_id"] for row in store.tables()["exchanges"]]
    assert len(set(ids)) == len(ids)
    (said,) = (row["message"] for row in store.tables()["findings"] if row["kind"] == CAPTURES_GONE)
    assert said == message


def test_a_capture_that_is_there_again_is_decoded_with_the_rest(executor: Executor, store: Store) -> None:
    store.update(executor)
    path, data = store.hours[1], store.hours[1].read_bytes()
    path.unlink()
    store.release = "two"
    assert store.update(executor)
    path.write_bytes(data)
    assert store.update(executor) == []
    assert as_one(store.tables()) == as_one(decoded(store.hours, store.options))


def test_captures_that_are_gone_stay_through_several_releases_and_go_on(
    executor: Executor, store: Store, tmp_path: Path
) -> None:
    last = store.hours[-1].rename(tmp_path / "last.pcap")
    store.update(executor)
    kept: list[dict[str, list[dict[str, Any]]]] = []
    for n in range(2):
        kept.append(of_captures(store.tables(), {str(store.hours[n])}))
        store.hours[n].unlink()
        store.release = f"release {n}"
        store.update(executor)
    last.rename(store.hours[-1])
    store.update(executor)
    assert as_one(store.tables()) == as_one(*kept, decoded(store.hours[2:], store.options))


def test_of_captures_under_one_name_the_rows_of_the_one_that_is_gone_stay(
    executor: Executor, store: Store, tmp_path: Path
) -> None:
    """A ring of captures: the first file is written over by the last one."""
    ring, last = store.hours[0], store.hours[-1].rename(tmp_path / "last.pcap")
    store.update(executor)
    first_ends = max(times(*read(ring)))
    last.rename(ring)
    store.update(executor)
    old = of_captures(store.tables(), {str(ring)})
    for name, rows in old.items():
        time = "start_time" if name == "connections" else "time"
        old[name] = [row for row in rows if row[time].timestamp() * 1e9 <= first_ends]
    assert old["exchanges"]
    store.release = "two"
    store.update(executor)
    assert as_one(store.tables()) == as_one(old, decoded([ring, *store.hours[1:-1]], store.options))


def test_a_late_capture_whose_neighbours_are_gone_does_not_end_a_lake(
    executor: Executor, store: Store, tmp_path: Path
) -> None:
    late = store.hours[0].rename(tmp_path / "late.pcap")
    store.update(executor)
    gone = {str(store.hours[1])}
    kept = of_captures(store.tables(), gone)
    store.hours[1].unlink()
    late.rename(store.hours[0])
    ((_, message),) = store.update(executor)
    assert store.hours[1].name in message
    assert as_one(store.tables()) == as_one(kept, decoded([store.hours[0], *store.hours[2:]], store.options))
    assert not store.has_news()


def test_captures_that_are_gone_are_named_once_where_two_capture_points_begin_anew(
    executor: Executor, sample: Path, tmp_path: Path
) -> None:
    stores = []
    for name in ("east", "west"):
        (tmp_path / name).mkdir()
        stores.append(Store(tmp_path / name, sample))
    late = [store.hours[0].rename(tmp_path / f"late-{n}.pcap") for n, store in enumerate(stores)]

    def update_all() -> list[tuple[str, str]]:
        files = sorted(str(path) for store in stores for path in store.day.iterdir())
        return update_records(executor, files, str(tmp_path / "lake"), Options(site="(east|west)")).problems

    update_all()
    for store, path in zip(stores, late, strict=True):
        store.hours[1].unlink()
        path.rename(store.hours[0])
    ((_, message),) = update_all()
    assert "2 captures cannot be read again" in message
    manifest = last_commit(tmp_path / "lake").manifest
    assert sorted(manifest.sites) == ["east", "west"]
    assert sorted(file.path for file in manifest.gone) == sorted(str(store.hours[1]) for store in stores)


def test_a_lake_of_which_every_capture_is_gone_stays_and_new_ones_are_added(executor: Executor, store: Store) -> None:
    store.update(executor)
    kept = store.tables()
    head, packets = read(store.hours[-1])
    for path in store.hours:
        path.unlink()
    store.release = "two"
    new = store.day / "new.pcap"
    write(new, head, shifted(head, packets, 86_400 * 10**9))
    store.update(executor)
    assert as_one(store.tables()) == as_one(kept, decoded([new], store.options))
    assert len(last_commit(store.lake).manifest.gone) == HOURS


def test_columns_that_a_lake_has_no_more_go_from_the_rows_that_stay(executor: Executor, store: Store) -> None:
    store.options = store.options._replace(full=True)
    store.update(executor)
    kept = of_captures(store.tables(), {str(store.hours[0])})
    for row in kept["exchanges"]:
        del row["request"], row["response"]
    store.hours[0].unlink()
    store.options = Options()
    store.update(executor)
    assert as_one(store.tables()) == as_one(kept, decoded(store.hours[1:], store.options))
