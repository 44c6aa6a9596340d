"""Aggregate tables add up to the records they were made from, and two engines make the same."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dissectors
from pipelines.spark.tables import SparkEngine
from pipelines.tables.compute import BUCKETS, WIDTHS_US, TableEngine, bound, choose_bucket, compute, relations
from pipelines.tables.dialect import Spark
from pipelines.tables.on_duckdb import LocalEngine, WrittenTables
from pipelines.tables.registry import BY, PRINTED, TABLES, Ask
from pipelines.tables.table import RECORDS as SUMMED
from tests.pipelines import made_lake, synthetic
from tests.pipelines.colliding import colliding
from tests.pipelines.sessions import settings

RECORDS = synthetic.make(exchanges=400, seconds=40)
ASK = Ask(bucket_us=10_000_000)
Rows = list[dict[str, Any]]


def written(records: dict[str, pa.Table], folder: Path) -> Path:
    """Records as `analyze` leaves them; without `positions`, as older releases left them, where these have none."""
    for name in filter(records.__contains__, SUMMED):
        (folder / name).mkdir(parents=True)
        pq.write_table(records[name], folder / name / "part-0.parquet")
    return folder


def local_engine(records: Path) -> LocalEngine:
    sources = {name: [str(records / name)] for name in SUMMED if (records / name).exists()}
    return LocalEngine(str(records), sources, records / "scratch")


def spark_engine(spark: Any, records: Path, exchange: Path | None = None) -> SparkEngine:
    frames = {name: spark.read.parquet(str(records / name)) for name in SUMMED if (records / name).exists()}
    return SparkEngine(spark, frames, None if exchange is None else str(exchange))


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(RECORDS, tmp_path_factory.mktemp("records"))


@pytest.fixture(scope="module")
def engine(made_up: Path) -> Iterator[LocalEngine]:
    with local_engine(made_up) as running:
        yield running


def built(name: str, engine: TableEngine, ask: Ask = ASK) -> pa.Table:
    known, _ = relations(engine)
    return engine.fetch(
        bound(engine.dialect, TABLES[name].query(engine.dialect, ask), known) + f" order by {TABLES[name].ordering}"
    )


def rows(name: str, engine: TableEngine, ask: Ask = ASK) -> Rows:
    made: Rows = built(name, engine, ask).to_pylist()
    return made


def computed(engine: TableEngine, folder: Path, **ask: Any) -> dict[str, pa.Table]:
    """Every table, as it is read back from where it was written."""
    compute(engine, folder, **ask)
    with WrittenTables(folder) as tables:
        return {name: tables.first(name, 1_000_000).rows for name in tables.names()}


# --- what a table says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_columns_that_it_documents(engine: LocalEngine, name: str) -> None:
    table = TABLES[name]
    documented = [c.name for c in table.columns]
    assert built(name, engine).column_names == documented
    assert set(table.headline) <= set(documented)
    assert table.rank in {"", *documented}


def test_what_is_printed_exists() -> None:
    assert set(PRINTED) <= set(TABLES)


def test_the_worst_come_first(engine: LocalEngine) -> None:
    short = [row["service_sum_ns"] for row in rows("latency", engine) if not row["long_poll"]]
    assert short == sorted(short, reverse=True)
    assert [row["bad"] for row in rows("integrity", engine)][:2] == [1, 0]
    health = rows("health", engine)
    assert (health[0]["error_findings"], health[0]["coverage"]) == (1, pytest.approx(29 / 30))


@pytest.mark.parametrize("keys", [("client",), ("topic", "version"), ("server", "site", "dialect", "bucket")])
def test_latency_by_more_keys_splits_the_same_calls(engine: LocalEngine, keys: tuple[str, ...]) -> None:
    made = rows("latency", engine, ASK._replace(by=keys))
    assert list(made[0])[3 : 3 + len(keys)] == list(keys)
    whole = sum(r["count"] for r in rows("latency", engine))
    assert sum(r["count"] for r in made) == whole  # each made-up exchange names one topic
    assert set(keys) <= set(BY)


def test_errors_that_are_part_of_normal_work_come_last(engine: LocalEngine) -> None:
    expected = [r["expected"] for r in rows("errors", engine)]
    assert set(expected) == {False, True}
    assert expected == sorted(expected)


@pytest.mark.parametrize(("memory", "threads"), [("100MB", 1), ("512MB", 1), ("1TB", os.cpu_count())])
def test_threads_are_no_more_than_memory_is_enough_for(memory: str, threads: int, tmp_path: Path) -> None:
    with LocalEngine(str(tmp_path), {}, tmp_path, memory) as engine:
        engine.limit_threads()
        assert engine.fetch("select current_setting('threads') as threads").to_pylist() == [{"threads": threads}]


def test_a_bucket_begins_at_a_whole_multiple_of_its_length(engine: LocalEngine) -> None:
    assert {row["bucket"].second % 10 for row in rows("throughput", engine)} == {0}


def test_a_bucket_is_chosen_that_fits_the_span(engine: LocalEngine) -> None:
    assert choose_bucket(engine) == 1_000_000


@pytest.mark.parametrize("apart_s", [0, 0.01, 0.3, 2, 7, 30, 59, 60, 61, 400, 5_000, 90_000, 1_000_000])
def test_the_bucket_is_the_narrowest_of_which_few_hold_anything(apart_s: float, tmp_path: Path) -> None:
    exchanges = RECORDS["exchanges"].slice(0, 300)
    at = [1_760_000_000_000_000 + int(n * apart_s * 1_000_000) for n in range(exchanges.num_rows)]
    column = exchanges.schema.get_field_index("time")
    times = pa.array(at, exchanges.schema.field(column).type)
    exchanges = exchanges.set_column(column, exchanges.schema.field(column), times)
    narrowest = next((width for width in WIDTHS_US if len({time // width for time in at}) <= BUCKETS), WIDTHS_US[-1])
    with local_engine(written({**RECORDS, "exchanges": exchanges}, tmp_path / "records")) as engine:
        assert choose_bucket(engine) == narrowest


def test_tables_of_nothing_are_empty(tmp_path: Path) -> None:
    nothing = {name: table.slice(0, 0) for name, table in RECORDS.items()}
    with local_engine(written(nothing, tmp_path / "records")) as engine:
        made = computed(engine, tmp_path / "tables")
    assert {name: table.num_rows for name, table in made.items()} == dict.fromkeys(TABLES, 0)


def test_of_batches_of_one_send_that_came_at_the_same_time_one_counts(tmp_path: Path) -> None:
    made = synthetic.resent()
    at = made["batches"].schema.get_field_index("time")
    column = made["batches"].schema.field(at)
    times = pa.array([made["batches"]["time"][0].as_py()] * made["batches"].num_rows, column.type)
    for number, moment in enumerate((times, pa.nulls(len(times), column.type))):
        batches = made["batches"].set_column(at, column, moment)
        with local_engine(written({**made, "batches": batches}, tmp_path / str(number))) as engine:
            (row,) = rows("throughput", engine, Ask(bucket_us=3_600_000_000))
        assert (row["batches"], row["messages"], row["resent"], row["refused"]) == (4, 20, 10, 10)


def test_absurd_numbers_saturate_and_end_no_job(tmp_path: Path) -> None:
    absurd = dict(RECORDS)
    largest = (1 << 63) - 1
    for name, column in (("exchanges", "total_ns"), ("exchanges", "request_bytes"), ("connections", "client_bytes")):
        at = absurd[name].schema.get_field_index(column)
        values = pa.array([largest] * absurd[name].num_rows, pa.int64())
        absurd[name] = absurd[name].set_column(at, absurd[name].schema.field(at), values)
    with local_engine(written(absurd, tmp_path / "records")) as engine:
        made = computed(engine, tmp_path / "tables")
    assert set(made["latency"].column("total_sum_ns").to_pylist()) == {largest}
    assert set(made["traffic"].column("captured_bytes").to_pylist()) == {largest}


# --- two engines -----------------------------------------------------------------------------------------------------


def same(one: dict[str, pa.Table], other: dict[str, pa.Table]) -> None:
    assert set(one) == set(other) == set(TABLES)
    for name in TABLES:
        assert one[name].schema == other[name].schema, name
        assert one[name].to_pylist() == other[name].to_pylist(), name


@pytest.fixture(scope="module")
def every_kind(samples: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up records, those of the samples, of many connections and of connections that share a hash, together.

    Spark takes as long for few rows as for many: what it makes of all of them is compared once.
    """
    folder = tmp_path_factory.mktemp("every kind")
    lake = made_lake.make(folder / "lake", connections=900, topics=50, clients=20)
    many = {name: pq.read_table(lake / name, partitioning=None) for name in SUMMED if (lake / name).exists()}
    kinds = (RECORDS, dissectors.dissect(samples, SUMMED), many, colliding(samples))
    records = {}
    for name in SUMMED:
        schema = dissectors.records.schema(name)
        parts = [kind[name].select(schema.names).cast(schema) for kind in kinds if name in kind]
        records[name] = pa.concat_tables(parts)
    return written(records, folder / "records")


def test_both_engines_know_the_latest_production(spark: Any, tmp_path: Path) -> None:
    records = written(synthetic.made_anew(), tmp_path / "records")
    with local_engine(records) as local, spark_engine(spark, records) as remote:
        assert rows("delivery", local) == rows("delivery", remote)


def test_times_that_spark_makes_say_utc_whatever_zone_the_session_has(spark: Any, tmp_path: Path) -> None:
    time = "timestamp'2026-01-31 12:00:00Z'"
    query = f"select {time} as time, array(named_struct('time', {time})) as chain"
    zone = settings(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"})
    with zone, SparkEngine(spark, {}, str(tmp_path / "exchange")) as engine:
        engine.write(query, TABLES["verdicts"], tmp_path / "verdicts.parquet")
        engine.write(f"{query} limit 0", TABLES["verdicts"], tmp_path / "empty.parquet")
        made = [engine.fetch(query), pq.read_table(tmp_path / "verdicts.parquet")]
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for rows in made:
        assert rows.to_pylist() == [{"time": noon, "chain": [{"time": noon}]}]
        assert rows.schema.field("time").type == pa.timestamp("us", "UTC")
        assert rows.schema.field("chain").type.value_type.field("time").type == pa.timestamp("us", "UTC")
    assert pq.read_table(tmp_path / "empty.parquet").schema == made[1].schema


def test_what_several_parts_of_a_query_read_is_computed_once_on_spark(spark: Any) -> None:
    part = Spark().once("part", "select id, id * id as square from range(30) where id % 3 = 0")
    frame = spark.sql(f"with {part} select count(*) as n from part union all select max(square) from part")
    assert [row.n for row in frame.collect()] == [10, 27 * 27]
    assert "ReusedExchange" in frame._jdf.queryExecution().executedPlan().toString()
