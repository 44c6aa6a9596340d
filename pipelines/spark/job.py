"""Captures to records on Spark: OUT/records, and their tables as DataFrames."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, cast
from urllib.parse import urlsplit

import pyarrow as pa

from dissectors.limits import MIB
from dissectors.options import Options
from pipelines.jobs import records
from pipelines.jobs.plan import sizes, split_bytes
from pipelines.jobs.records import DecodedRecords, Mode
from pipelines.jobs.surveys import Surveys, begun
from pipelines.spark import options as spark_options
from pipelines.spark import session
from pipelines.spark.application import Application
from pipelines.spark.executor import SparkExecutor
from pipelines.spark.tables import SparkEngine
from pipelines.spark.tasks import Batches, given, spread
from pipelines.storage import filesystem
from pipelines.storage.record_files import DATE_FIELD, dated_rows_of, schemas
from pipelines.storage.stored_records import StoredRecords
from pipelines.storage.working_folders import working_folder
from pipelines.tables.compute import TableEngine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.tables.table import Records

_READ_HERE = 20_000_000  # records up to which the process that runs a job on a cluster queries them itself
LIGHT = 4096 * MIB  # bytes of captures up to which the quick compiler is enough
HADOOP = frozenset({"s3a", "hdfs", "viewfs", "abfs", "abfss", "wasb", "wasbs", "gs"})
"""Schemes that Spark reads itself, where it has the connector; records elsewhere are read through fsspec."""


@dataclass(frozen=True)
class SparkRecords(DecodedRecords):
    """Decoded records in a Spark application."""

    application: Application = field(kw_only=True)
    table_memory: ClassVar[str] = "20%"  # of this machine's or container's, beside that of Java

    @classmethod
    def of(cls, application: Application, decoded: DecodedRecords) -> SparkRecords:
        """Decoded records, whoever decoded them, in an application."""
        return cls(**vars(decoded), application=application)

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.application.session

    @cached_property
    def records(self) -> Records:
        """The record tables, read from where they were written."""
        return read_records(self.spark, self.stored, self.options)

    @property
    def are_few(self) -> bool:
        """Whether DuckDB computes their tables: no more of them than the setting spark.brokerscope.tableRows says."""
        return self.rows <= cast(int, spark_options.of_session(self.application.settings)["tableRows"])

    @contextmanager
    def engine(self) -> Iterator[TableEngine]:
        """Queries these records: this process where they are few, else Spark."""
        few = self.are_few and self.rows <= _READ_HERE
        with super().engine() if few else self.by_spark() as engine:
            yield engine

    @contextmanager
    def by_spark(self) -> Iterator[TableEngine]:
        """Has Spark query these records, however few they are."""
        with working_folder(posixpath.dirname(self.folder)) as folder:
            exchange = None if self.application.is_local else folder
            with SparkEngine(self.spark, self.records, exchange) as engine:
                yield engine


def begin(files: Sequence[str], master: str | None, conf: Mapping[str, str] | None = None) -> Application:
    """The running application, else one that fits the size of the captures. conf: settings that the user asks for."""
    return session.begin(master, light=sum(sizes(files)) <= LIGHT, conf=conf)


@contextmanager
def ahead(
    files: Sequence[str], master: str | None, conf: Mapping[str, str], options: Options
) -> Iterator[Surveys | None]:
    """Large captures are walked while a session starts on this machine; None where none is about to."""
    known = session.known(master, conf)
    threads = session.threads(master, known)
    if threads is None:
        yield None
        return
    weighed = dict(zip(files, sizes(files), strict=True))
    wanted = spark_options.of_session(known)["splitBytes"]
    least = split_bytes(sum(weighed.values()), threads, wanted)
    with begun([path for path, size in weighed.items() if size > least], least, options.limits) as surveys:
        yield surveys


def decode_to_records(
    spark: SparkSession,
    files: Sequence[str],
    out: str,
    options: Options,
    surveys: Surveys | None = None,
    *,
    mode: Mode = "overwrite",
) -> SparkRecords:
    """Write OUT/records/<table>/*.parquet. Arguments and errors are those of `pipelines.jobs.records`."""
    application = Application.of(spark)
    executor = SparkExecutor(application)
    return SparkRecords.of(application, records.decode_to_records(executor, files, out, options, surveys, mode=mode))


def read_records(spark: SparkSession, stored: StoredRecords, options: Options) -> Records:
    """The record tables as DataFrames."""
    return {name: _read(spark, stored.sources(name), schema) for name, schema in schemas(options).items()}


def read_dated(spark: SparkSession, table: str, files: Sequence[str], options: Options) -> DataFrame:
    """The rows of some files of a record table, with the column `date`."""
    return _read(spark, files, schemas(options)[table].append(DATE_FIELD))


def _read(spark: SparkSession, sources: Sequence[str], schema: pa.Schema) -> DataFrame:
    """The rows of record files or of a folder of them, by Spark where it can, else by tasks."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = from_arrow_schema(schema)

    def by_spark() -> DataFrame:
        frame = spark.read.option("recursiveFileLookup", "true").schema(columns).parquet(*sources)
        assert frame.columns  # which looks for the files, in a Connect session too
        return frame

    if all(filesystem.local_path(url) is not None for url in sources):
        return by_spark()
    if all(urlsplit(url).scheme in HADOOP for url in sources):
        with suppress(Exception):  # no connector, or none that knows the credentials: each says so in its own way
            return by_spark()
    return spread(spark, sources, partial(_read_files, schema.names), columns)


def _read_files(columns: Sequence[str], batches: Batches) -> Batches:
    """A task that reads records where Spark itself cannot: URL of a file -> its rows."""
    for url in given(batches):
        for batch in dated_rows_of(url):
            yield batch.select(columns)
