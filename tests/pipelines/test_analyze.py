"""The command `analyze`."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dissectors.options import Options
from pipelines.analyze import LOCAL_BYTES, analyze, choose
from pipelines.compare import differences
from pipelines.tables.on_duckdb import LocalEngine
from pipelines.tables.registry import TABLES
from pipelines.tables.table import RECORDS
from tests.commands import attempt
from tests.pipelines.conftest import Analysed
from tests.pipelines.sessions import settings
from tests.pipelines.test_by_tasks import without_room_for


@pytest.mark.parametrize(("width", "micros"), [("500ms", 500_000), ("10s", 10_000_000), ("1.5 h", 5_400_000_000)])
def test_a_bucket_is_put_in_words(width: str, micros: int) -> None:
    from pipelines.cli.analyze import _micros

    assert _micros(width, "--bucket") == micros


def test_analyze_prints_tables_and_says_what_it_could_not_read(analysed: Analysed) -> None:
    out, foreign, done = analysed
    assert done.exit_code == 3, done.output
    assert "latency" in done.stdout
    assert done.stdout.rstrip().endswith(str(out / "report.html"))
    assert str(foreign) in done.stderr
    assert pq.read_table(out / "tables" / "latency.parquet").column_names[3] == "client"


def test_tables_have_the_same_columns_and_rows_whoever_computes_them(
    spark: Any, samples: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few rows this process computes those that fit in its memory; Spark computes the others, and all of many rows.

    test_points.py has both make all tables.
    """
    few, many = tmp_path / "few", tmp_path / "many"
    monkeypatch.setattr("pipelines.report.write", lambda out, **more: out / "report.html")  # it shows all tables
    some = {name: TABLES[name] for name in ("verdicts", "impacts", "transactions", "latency", "clients", "traffic")}
    for module in ("pipelines.analyze", "pipelines.compare", "pipelines.tables.compute"):
        monkeypatch.setattr(f"{module}.TABLES", some)
    monkeypatch.setattr("pipelines.analyze.PRINTED", some)
    monkeypatch.setattr(LocalEngine, "write", without_room_for({"traffic"}))
    for out, rows in ((few, "1000000"), (many, "0")):
        out.mkdir()
        with settings(spark, {"spark.brokerscope.tableRows": rows}):
            analyze(samples[2:8], out, Options(tables=RECORDS), "spark", by=("client",), bucket_us=1_000_000)
    compared, different = differences(few, many)
    assert compared > 100
    assert different == []
    assert _columns(few) == _columns(many)
    by_spark = [{path.stem for path in (out / "tables").glob("*.parquet") if path.is_dir()} for out in (few, many)]
    assert by_spark == [{"traffic"}, some.keys()]


def _columns(out: Path) -> list[tuple[str, str]]:
    """Names and types of each table. Which values are never null the engines note differently, and no reader heeds."""
    places = sorted((out / "tables").glob("*.parquet"))
    files = (place if place.is_file() else next(place.glob("*.parquet")) for place in places)
    return [(field.name, _kind(field.type)) for file in files for field in pq.read_schema(file)]


def _kind(type: pa.DataType) -> str:
    return f"list of {_kind(type.value_type)}" if pa.types.is_list(type) else str(type)


@pytest.mark.parametrize(
    ("sizes", "engine", "master", "chosen"),
    [
        ([1_000], None, None, "local"),
        ([1_000], "spark", None, "spark"),
        ([1_000], None, "local[2]", "spark"),
        ([LOCAL_BYTES // 2, LOCAL_BYTES], None, None, "spark"),
        ([LOCAL_BYTES // 2, LOCAL_BYTES], "local", None, "local"),
    ],
)
def test_the_engine_fits_the_captures_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int], engine: Any, master: str | None, chosen: str
) -> None:
    monkeypatch.setattr("pipelines.analyze.running", lambda: None)
    files = [tmp_path / f"{n}.pcap" for n in range(len(sizes))]
    for file, size in zip(files, sizes, strict=True):
        with file.open("wb") as stream:
            stream.truncate(size)
    assert choose([str(file) for file in files], engine, master).engine == chosen
    updating = "spark" if "spark" in (engine, chosen if master else None) else "local"
    assert choose([str(file) for file in files], engine, master, update=True).engine == updating


def test_a_running_session_is_used(spark: Any, samples: list[str]) -> None:
    assert choose(samples).engine == "spark"


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_a_new_run_replaces_the_old_one_whole_and_a_failed_one_nothing(samples: list[str], tmp_path: Path) -> None:
    def run(capture: str) -> int:
        wanted = ["analyze", capture, "-o", str(tmp_path / "out"), "--engine", "local", "--quiet"]
        return attempt(*wanted).exit_code

    (tmp_path / "foreign.pcap").write_bytes(b"nothing of the sort")
    assert run(samples[0]) == 0
    first = contents(tmp_path / "out")
    assert run(str(tmp_path / "foreign.pcap")) == 3
    assert contents(tmp_path / "out") == first
    assert run(samples[-1]) == 0
    about = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert (about["files"], about["engine"]) == ([samples[-1]], "local")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_run_does_not_wait_for_its_own_locks(
    samples: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    clock = SimpleNamespace(**{**vars(time), "sleep": waits.append})  # of that module alone: threads of others may wait
    monkeypatch.setattr("pipelines.storage.outputs.time", clock)
    done = attempt("analyze", samples[0], "-o", tmp_path / "out", "--engine", "local", "-q")
    assert done.exit_code == 0
    assert waits == []


def test_two_analyses_are_compared_row_by_row(samples: list[str], tmp_path: Path) -> None:
    for name, capture in (("one", samples[0]), ("again", samples[0]), ("other", samples[-1])):
        (tmp_path / name).mkdir()
        analyze([capture], tmp_path / name, Options(), "local")
    rows, different = differences(tmp_path / "one", tmp_path / "again")
    assert rows > 10
    assert different == []
    assert "latency" in differences(tmp_path / "one", tmp_path / "other")[1]


def test_one_connection_with_absurd_values_ends_no_job(tmp_path: Path) -> None:
    folder = os.environ.get("BROKERSCOPE_CAPTURES")
    if folder is None:
        pytest.skip("needs captures of hostile traffic: set BROKERSCOPE_CAPTURES")
    outcome = analyze([str(Path(folder, "hostile", "analyze-overflow.pcap"))], tmp_path, Options(), "local")
    assert outcome.tables["latency"].total > 0
