"""The tables, by Spark."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dissectors.limits import MIB
from pipelines.spark.tasks import MADE, Batches, Task, collect, made, over
from pipelines.storage import filesystem
from pipelines.tables.dialect import Dialect, Spark
from pipelines.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GROUP_BYTES = 16 * MIB  # of rows gathered for a row group


class SparkEngine:
    """Runs the tables' queries over record tables. Its views have names of their own, gone at the end of `with`."""

    at_once = 4  # each query is a small job with pauses of its own
    plans_dearly = True
    too_little_memory: tuple[type[Exception], ...] = ()  # what does not fit goes to disk

    def __init__(self, spark: SparkSession, records: Mapping[str, DataFrame], exchange: str | None = None) -> None:
        """exchange: a path or URL where tasks can write what this process reads; None where they can do so anywhere."""
        self.dialect: Dialect = Spark()
        self._exchange = exchange
        self._spark = spark
        self._prefix = f"brokerscope_{secrets.token_hex(8)}"
        self._views: dict[str, DataFrame] = {}
        self.relations: Mapping[str, str] = {
            f"all_{name}": self._view(f"all_{name}", frame) for name, frame in records.items()
        }
        self.shared: dict[tuple[str, ...], int] | None = None

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for view in self._views:
            self._spark.catalog.dropTempView(view)

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
        return _in_utc(self._spark.sql(query).toArrow())

    def keep(self, name: str, query: str) -> str:
        # Queries that read a cached frame are analysed with its whole plan, once for each time that they name it; a
        # checkpoint has none. Executors hold it: `checkpoint` would need a folder that all of them reach.
        return self._view(name, self._spark.sql(query).localCheckpoint())

    def write(self, query: str, table: Table, path: Path) -> None:
        frame = self._spark.sql(query)
        if self._exchange is None:
            frame.write.mode("overwrite").option("compression", "zstd").parquet(str(path))
            return
        place = filesystem.join(self._exchange, f"{table.name}-{secrets.token_hex(8)}")
        try:
            files = collect(over(frame, _writer(place), MADE))
            path.mkdir(parents=True)
            for number, file in enumerate(files):
                filesystem.download(filesystem.join(place, file), path / f"part-{number:05}.parquet")
        finally:
            filesystem.remove_folder(place)
        if not files:
            pq.write_table(_in_utc(frame.limit(0).toArrow()), path / "part-00000.parquet")

    def _view(self, name: str, frame: DataFrame) -> str:
        view = f"{self._prefix}_{name}"
        frame.createOrReplaceTempView(view)
        self._views[view] = frame
        return view


def _writer(place: str) -> Task:
    """Tasks that write their rows below a place: rows of a partition -> the name of their file, if there are any."""

    def write(batches: Batches) -> Batches:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        name = f"part-{secrets.token_hex(8)}.parquet"  # a task that is tried again writes another file
        with (
            filesystem.create(filesystem.join(place, name)) as stream,
            pq.ParquetWriter(stream, _schema_in_utc(first.schema), compression="zstd") as writer,
        ):
            for rows in map(_in_utc, _gathered(chain([first], batches))):
                writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        yield from made([name])

    return write


def _gathered(batches: Batches) -> Iterator[pa.Table]:
    """Batches together, some megabytes at once: a row group each."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _in_utc(rows: pa.Table) -> pa.Table:
    """Rows whose times, also those inside of lists and structs, say UTC: Spark says the session's time zone.

    The moments stay the same.
    """
    return rows.cast(_schema_in_utc(rows.schema))


def _schema_in_utc(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_type_in_utc(field.type)) for field in schema])


def _type_in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_utc(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in kind])
    return kind
