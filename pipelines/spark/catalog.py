"""Records and tables in a table format that the user brings, Iceberg or Delta for example, by a catalog of the session.

    OUT/records/exchanges -> NAMESPACE.records_exchanges
    OUT/tables/latency    -> NAMESPACE.tables_latency

A table is replaced at once, as its format does that; tables of one run follow each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from dissectors.errors import BrokerscopeError
from pipelines.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.tables.table import Records

NAMESPACE = "brokerscope"
_ROWS = 1_000_000  # of a table, handed to Spark at once


@dataclass(frozen=True)
class Catalog:
    """Where tables go, and as what."""

    format: str  # as `using` has it
    namespace: str = NAMESPACE  # CATALOG.NAMESPACE, or one of the session's current catalog

    def prepare(self, spark: SparkSession) -> None:
        """Make the namespace. Raises BrokerscopeError where the session cannot write such tables there."""
        probe = self._table(f"probe_{secrets.token_hex(8)}")
        try:
            spark.sql(f"create namespace if not exists {self._quoted}")
            spark.range(1).writeTo(probe).using(self.format).createOrReplace()
            spark.sql(f"drop table {probe}")
        except Exception as error:  # Connect and the JVM have different ones, connectors their own
            raise BrokerscopeError(
                f"--table-format {self.format}: this session cannot write such tables to {self.namespace}: "
                f"{session.gist(error)}"
            ) from error

    def publish(self, spark: SparkSession, records: Records, tables: Path) -> None:
        """Replace the tables by these records, and by those in a folder of this machine, OUT/tables."""
        for name, frame in records.items():
            frame.writeTo(self._table(f"records_{name}")).using(self.format).createOrReplace()
        for path in sorted(tables.glob("*.parquet")):
            target = self._table(f"tables_{path.stem}")
            for number, frame in enumerate(_frames(spark, path)):
                writer = frame.writeTo(target).using(self.format)
                if number:
                    writer.append()
                else:
                    writer.createOrReplace()

    def _table(self, name: str) -> str:
        return f"{self._quoted}.`{name}`"

    @property
    def _quoted(self) -> str:
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.namespace.split("."))


def _frames(spark: SparkSession, path: Path) -> Iterator[DataFrame]:
    """The rows of a table, a file or a folder of files; one frame at least."""
    source = ds.dataset(path, format="parquet")
    held: list[pa.RecordBatch] = []
    rows = 0
    first = True
    for batch in source.to_batches():
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            yield spark.createDataFrame(pa.Table.from_batches(held))
            held, rows, first = [], 0, False
    if held or first:
        yield spark.createDataFrame(pa.Table.from_batches(held, source.schema))
