"""Records and tables in a table format that the user brings, Iceberg or Delta for example, by a catalog of the session.

    OUT/records/exchanges -> NAMESPACE.records_exchanges    partitioned by date and site
    OUT/tables/latency    -> NAMESPACE.tables_latency

Each table changes in one step, as its format does that; tables of one run follow each other. Of an Iceberg table, the
summary of a snapshot names the run that made it. So an update knows what the table holds, and appends the rows of new
files or, where files went, replaces the partitions that they belong to. Any other table is replaced as a whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dissectors.errors import BrokerscopeError
from pipelines.formats import ddl
from pipelines.spark import session
from pipelines.spark.job import SparkRecords, read_dated
from pipelines.storage import filesystem
from pipelines.storage.code_version import product_version
from pipelines.storage.layout import RECORD_FOLDER
from pipelines.storage.record_files import DATE, UNDATED, date_of, share
from pipelines.tables.registry import BY, TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAMESPACE = "brokerscope"
_ROWS = 1_000_000  # of a table, handed to Spark at once
_RUN = "brokerscope.run"  # in the summary of a snapshot: the edition of the records
_COMPACTION = "replace"  # operation of a snapshot that changes no rows


class Published(NamedTuple):
    """What a run publishes, and what the one before may have."""

    edition: str  # of the records
    before: str = ""  # edition of the records before an update; "" of any other run
    home: str = ""  # the folder that OUT/records was in then
    files: Collection[str] = ()  # below that folder


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

    def publish(self, decoded: SparkRecords, tables: Path, published: Published) -> None:
        """Bring the catalog's tables to these records, and to the tables in a folder of this machine, OUT/tables."""
        summary = {
            _RUN: published.edition,
            "brokerscope.version": product_version(),
            "brokerscope.captures": str(len(decoded.files)),
        }
        for name, files in decoded.stored.files.items():
            table = _RecordTable(decoded, name, self._table(f"records_{name}"), self.format, summary)
            held = table.edition() if published.before else None
            if held is None or held not in (published.before, published.edition) or not table.has_columns_of(files):
                table.replace(files)
            elif held == published.before:
                table.change(files, published)
        for path in sorted(tables.glob("*.parquet")):
            meanings = {column.name: column.doc for column in (*BY.values(), *TABLES[path.stem].columns)}
            for number, frame in enumerate(_frames(decoded.spark, path)):
                writer = _writer(_commented(frame, meanings), self._table(f"tables_{path.stem}"), summary)
                if number:
                    writer.append()
                else:
                    writer.using(self.format).createOrReplace()

    def _table(self, name: str) -> str:
        return f"{self._quoted}.`{name}`"

    @property
    def _quoted(self) -> str:
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.namespace.split("."))


@dataclass(frozen=True)
class _RecordTable:
    """A record table in a catalog."""

    decoded: SparkRecords
    name: str  # as OUT/records has it
    target: str  # as the catalog has it
    format: str
    summary: Mapping[str, str]  # of the snapshots that are made

    def edition(self) -> str | None:
        """The edition of the records whose rows it holds; None where nothing says so."""
        if self.format.lower() != "iceberg":
            return None
        spark = self.decoded.spark
        try:
            snapshots = {row["snapshot_id"]: row for row in spark.table(f"{self.target}.snapshots").collect()}
            (main,) = spark.table(f"{self.target}.refs").where("name = 'main'").collect()
        except Exception:  # there is no such table, or nothing in it; Connect and the JVM have different errors
            return None
        at = snapshots.get(main["snapshot_id"])
        while at is not None and at["operation"] == _COMPACTION:
            at = snapshots.get(at["parent_id"])
        return None if at is None else dict(at["summary"]).get(_RUN)

    def has_columns_of(self, files: Sequence[str]) -> bool:
        """Whether it has the columns of these files of records."""
        there, wanted = self.decoded.spark.table(self.target).schema, self._rows(files).schema
        return {(f.name, f.dataType) for f in there} == {(f.name, f.dataType) for f in wanted}

    def replace(self, files: Sequence[str]) -> None:
        """Make it anew of all files."""
        from pyspark.sql import functions as f

        writer = _writer(self._rows(files), self.target, self.summary).using(self.format)
        writer.partitionedBy(f.col(DATE), f.col("site")).createOrReplace()

    def change(self, files: Sequence[str], published: Published) -> None:
        """Bring it from the files of the edition before to these, in one snapshot."""
        root = filesystem.join(published.home, RECORD_FOLDER)
        before = {path.removeprefix(f"{RECORD_FOLDER}/") for path in published.files}
        old = {file for file in before if file.startswith(f"{self.name}/")}
        new, gone = [file for file in files if file not in old], old.difference(files)
        if not gone:
            if new:
                _writer(self._rows(new), self.target, self.summary).append()
            return
        touched = {share(file): filesystem.join(root, file) for file in gone if date_of(file)}
        touched |= {share(file): self._url(file) for file in new if date_of(file)}
        if not touched:  # files without rows came or went
            return
        sites = filesystem.each(_site, list(touched.values()))
        partitions = reduce(or_, map(_is_of, map(date_of, touched.values()), sites))
        rows = self._rows([file for file in files if share(file) in touched])
        _writer(rows, self.target, self.summary).overwrite(partitions)

    def _url(self, file: str) -> str:
        return filesystem.join(self.decoded.folder, file)

    def _rows(self, files: Sequence[str]) -> DataFrame:
        meanings = {column.name: ddl.comment(column) for column in ddl.columns(self.name)}
        rows = read_dated(self.decoded.spark, self.name, [self._url(file) for file in files], self.decoded.options)
        return _commented(rows, meanings)


def _site(url: str) -> str | None:
    """The site of the rows in a file of records."""
    with filesystem.open_file(url) as stream:
        first = next(pq.ParquetFile(stream).iter_batches(1, columns=["site"]))
    return first.column(0)[0].as_py()  # type: ignore[no-any-return]


def _is_of(day: str, site: str | None) -> Column:
    """The condition that a row is of a day and a site."""
    from pyspark.sql import functions as f

    of_day = f.col(DATE).isNull() if day == UNDATED else f.col(DATE) == f.lit(day).cast("date")
    return of_day & (f.col("site").isNull() if site is None else f.col("site") == f.lit(site))


def _commented(frame: DataFrame, meanings: Mapping[str, str]) -> DataFrame:
    """Rows whose columns carry their meaning as comments."""
    from pyspark.sql import functions as f

    return frame.select(*(
        f.col(f"`{name}`").alias(name, metadata={"comment": meanings[name]}) if name in meanings else f.col(f"`{name}`")
        for name in frame.columns
    ))  # fmt: skip


def _writer(frame: DataFrame, target: str, summary: Mapping[str, str]) -> Any:
    """Writes rows to a table. summary: what its snapshot says of the run, in formats that have such a thing."""
    writer = frame.writeTo(target)
    for key, value in summary.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    return writer


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
