"""The tables, by Spark."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.tables.dialect import Dialect, Spark
from pipelines.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkEngine:
    """Runs the tables' queries over record tables. Its views have names of their own, gone at the end of `with`."""

    at_once = 4  # each query is a small job with pauses of its own

    def __init__(
        self, spark: SparkSession, records: Mapping[str, DataFrame], *, shares_disk: bool | None = None
    ) -> None:
        """shares_disk: whether tasks can write where this process reads; by default as the session's master says."""
        self.dialect: Dialect = Spark()
        self._shares_disk = _in_this_process(spark) if shares_disk is None else shares_disk
        self._spark = spark
        self._prefix = f"brokerscope_{secrets.token_hex(8)}"
        self._views: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self.relations: Mapping[str, str] = {f"all_{name}": self._view(name, frame) for name, frame in records.items()}

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for view in self._views:
            self._spark.catalog.dropTempView(view)
        for frame in self._kept:
            frame.unpersist()

    def add(self, name: str, rows: pa.Table) -> None:
        """Give a table of few rows a name."""
        from pyspark.sql.pandas.types import from_arrow_schema

        frame = self._spark.createDataFrame(
            [tuple(row.values()) for row in rows.to_pylist()], from_arrow_schema(rows.schema)
        )
        self.relations = {**self.relations, name: self._view(name, frame)}

    def columns(self, relation: str) -> Sequence[str]:
        return self._views[relation].columns

    def fetch(self, query: str) -> pa.Table:
        return self._spark.sql(query).toArrow()

    def keep(self, name: str, query: str) -> str:
        frame = self._spark.sql(query).persist()
        self._kept.append(frame)
        return self._view(name, frame)

    def write(self, query: str, table: Table, path: Path) -> None:
        frame = self._spark.sql(query)
        if self._shares_disk:
            frame.write.mode("overwrite").option("compression", "zstd").parquet(str(path))
            return
        path.mkdir(parents=True)
        written = 0
        for row in frame.mapInArrow(_as_files, "file binary").toLocalIterator():
            (path / f"part-{written:05}.parquet").write_bytes(row["file"])
            written += 1
        if not written:
            pq.write_table(frame.limit(0).toArrow(), path / "part-00000.parquet")

    def _view(self, name: str, frame: DataFrame) -> str:
        view = f"{self._prefix}_{name}"
        frame.createOrReplaceTempView(view)
        self._views[view] = frame
        return view


def _in_this_process(spark: SparkSession) -> bool:
    """Whether tasks run here, not on workers elsewhere."""
    from pyspark.sql.utils import is_remote

    return not is_remote() and str(spark.conf.get("spark.master", "")).startswith("local")


def _as_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as one Parquet file; nothing where there are none."""
    file, writer = BytesIO(), None
    for batch in batches:
        if batch.num_rows:
            writer = writer or pq.ParquetWriter(file, batch.schema, compression="zstd")
            writer.write_batch(batch)
    if writer is not None:
        writer.close()
        yield pa.RecordBatch.from_arrays([pa.array([file.getvalue()], pa.binary())], names=["file"])
