"""What analyze writes is read at once by pandas, polars, DuckDB, pyarrow and Spark, with the right site and date."""

from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dissectors import records
from dissectors.options import Options
from dissectors.records import DEFAULT_TABLES
from dissectors.run import Run
from pipelines.executors.local import LocalExecutor
from pipelines.jobs.records import stream_to_records
from pipelines.lake.update import update_records
from pipelines.spark.job import decode_to_records
from pipelines.storage.record_files import RecordWriter, write_empty
from tests.pipelines.conftest import SAMPLES

Table = list[tuple[str | None, date | None]]  # site and date of each row

SITES = [
    "2024",
    "01",
    "1e3",
    "true",
    "null",
    "2026-01-31",
    "broker 1",
    "a=b/c",
    "_x",
    ".x",
    "",
    None,
    "größe",
    "x" * 300,
]
DAYS = [0, 20_484, None]


def of_pandas(folder: Path) -> Table:
    found = pd.read_parquet(folder)
    return [(site, day) for site, day in found[["site", "date"]].itertuples(index=False)]


def of_polars(folder: Path) -> Table:
    return [(site, day) for site, day in pl.read_parquet(folder).select("site", "date").rows()]


def of_duckdb(folder: Path) -> Table:
    files = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true, union_by_name = true)"
    with duckdb.connect() as database:
        return [(site, day) for site, day in database.sql(f"select site, date from {files}").fetchall()]


def of_pyarrow(folder: Path) -> Table:
    rows = ds.dataset(folder, partitioning="hive").to_table(columns=["site", "date"]).to_pylist()
    return [(row["site"], row["date"]) for row in rows]


def of_spark(spark: Any) -> Callable[[Path], Table]:
    return lambda folder: [tuple(row) for row in spark.read.parquet(str(folder)).select("site", "date").collect()]


@pytest.fixture(scope="module")
def readers(spark: Any) -> list[Callable[[Path], Table]]:
    return [of_pandas, of_polars, of_duckdb, of_pyarrow, of_spark(spark)]


def expected(folder: Path) -> Counter[tuple[str | None, date | None]]:
    """Site and date of every row, by its time."""
    rows: Counter[tuple[str | None, date | None]] = Counter()
    time = "start_time" if folder.name == "connections" else "time"
    for path in folder.iterdir():
        for row in pq.ParquetFile(path).read(["site", time]).to_pylist():
            rows[row["site"], row[time].date() if row[time] else None] += 1
    return rows


def test_records_of_a_local_run_and_of_a_lake_are_read_by_all_five(
    spark: Any, readers: list[Callable[[Path], Table]], tmp_path: Path
) -> None:
    captures = [str(SAMPLES / name) for name in ("kafka-codecs.pcap", "iggy-messages.pcap", "pulsar-corrupted.pcap")]
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(Path(captures[0]).read_bytes()[:500])  # a finding about a file has no time
    options = Options(tables=(*DEFAULT_TABLES, "messages"), site="file")
    stream_to_records(Run([*captures, str(broken)], options), str(tmp_path / "local"))
    decode_to_records(spark, [*captures, str(broken)], str(tmp_path / "spark"), options)
    update_records(LocalExecutor(1), captures[:2], str(tmp_path / "lake"), options)
    update_records(LocalExecutor(1), [*captures, str(broken)], str(tmp_path / "lake"), options)
    filled = 0
    for out in ("local", "spark", "lake"):
        for table in options.tables:
            folder = tmp_path / out / "records" / table
            want = expected(folder)
            filled += bool(want)
            for reader in readers:
                assert Counter(reader(folder)) == want, (out, table, reader)
    assert filled >= 15


def test_sites_stay_the_texts_that_they_are(readers: list[Callable[[Path], Table]], tmp_path: Path) -> None:
    schema = records.schema("exchanges")
    pairs = [(site, day) for site in SITES for day in DAYS]
    given = {
        "site": [site for site, _ in pairs],
        "time": [None if day is None else day * 86_400_000_000 + 5 for _, day in pairs],
    }
    columns = [pa.array(given.get(field.name, [None] * len(pairs)), field.type) for field in schema]
    writer = RecordWriter(str(tmp_path), "part")
    writer.write("exchanges", pa.RecordBatch.from_arrays(columns, schema=schema))
    files = writer.close()
    assert all(len(Path(file.path).name.encode()) < 255 for file in files)
    want = Counter((site, None if day is None else date.fromordinal(719_163 + day)) for site, day in pairs)
    for reader in readers:
        assert Counter(reader(tmp_path / "exchanges")) == want, reader


def test_a_table_without_rows_is_read_too(readers: list[Callable[[Path], Table]], tmp_path: Path) -> None:
    write_empty(str(tmp_path), Options(), set())
    for table in DEFAULT_TABLES:
        assert [reader(tmp_path / table) for reader in readers] == [[]] * 5
