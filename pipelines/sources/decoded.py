"""The Spark data source `brokerscope`: what captures say, as rows of a table.

    spark.read.format("brokerscope").option("table", "exchanges").load("captures/")
    spark.readStream.format("brokerscope").option("table", "errors").load("captures/")

Tables are those of records.md, tables.md and `verdicts`. Options are those of options.ROWS; any other is refused. Of a
schema that is given, which names some of the columns, only these are made. A record table is made by tasks that each
decode some connections (see parts.py); any other table by one task, as it needs all records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from dissectors.arrow import first_rows
from dissectors.errors import InputError, UsageError
from pipelines.executors.local import LocalExecutor
from pipelines.jobs import forensics
from pipelines.jobs.records import stream_to_records
from pipelines.process import keep_freed_memory
from pipelines.report.records import opened
from pipelines.sources.columns import aggregate, arrow_schema, chosen, columns, fitted, refuse_others
from pipelines.sources.files import files_of, values
from pipelines.sources.parts import Asked, PartRun, RowsPart, plan, rows
from pipelines.sources.pushdown import can_test, ends_of, is_asked_for_filters, passes, site_of
from pipelines.spark.options import ROWS, STREAM
from pipelines.storage import scratch
from pipelines.tables.integrity import CORRUPT
from pipelines.tables.table import RECORDS

NAME = "brokerscope"


class BrokerscopeDataSource(DataSource):
    """Captures as rows of a table."""

    def __init__(self, options: dict[str, str]) -> None:
        """Raises UsageError for options that mean nothing, InputError where a path does not exist."""
        super().__init__(options)
        self.given = values(NAME, options, (*ROWS, *STREAM))
        self.aggregate = aggregate(self.given["table"])
        files_of(self.given)  # a path that is missing is known before a query runs

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        given = self.given
        every = columns(given["table"], given["by"], full=given["full"], payloads=given["payloads"])
        return chosen(every, given["columns"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of a schema. Raises UsageError where there is no such column."""
        refuse_others(NAME, schema, self.schema())
        if given := [option.name for option in STREAM if self.given[option.name] is not None]:
            raise UsageError(f"{given[0]}: is an option of streams: spark.readStream")
        if self.aggregate is None:
            return (FilteredReader if is_asked_for_filters() else RecordsReader)(self.given, schema)
        return AggregateReader(self.given, self.aggregate, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark names it
        """Reads the columns of a schema as captures come. Raises UsageError for a table that no rows are added to."""
        from pipelines.sources.stream import RecordsStream

        refuse_others(NAME, schema, self.schema())
        if self.given["limit"] is not None:
            raise UsageError("limit: a stream has no end: limit what is made of it")
        if self.aggregate is not None:
            raise UsageError(
                f"table: {self.aggregate} is made of all records, so it is no stream: stream record tables, or read it"
            )
        return RecordsStream(self.given, schema)


class RecordsReader(DataSourceReader):
    """A record table, by as many tasks as captures ask for."""

    def __init__(self, given: Mapping[str, Any], schema: StructType) -> None:
        """given: values of options.ROWS."""
        self._files = files_of(given)
        self._asked = Asked.of(given, (given["table"],)).of_files(self._files)
        self._parts: int | None = given["parts"]
        self._schema = arrow_schema(schema)
        self._limit: int | None = given["limit"]
        self._tests: tuple[Filter, ...] = ()  # that rows pass

    def partitions(self) -> list[InputPartition]:
        return list(plan(self._files, self._asked, self._parts))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not self._files:
            return
        assert isinstance(partition, RowsPart)
        made = (passes(batch, self._tests) for batch in rows(self._files, partition, self._asked))
        for batch in first_rows(made, self._limit):
            yield fitted(batch, self._schema)


class FilteredReader(RecordsReader):
    """A record table, of which Spark hands over what the query asks for."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark names it
        """Take those filters that rows can be tested with; the others are Spark's."""
        taken = [test for test in filters if can_test(test, self._schema)]
        self._tests = tuple(taken)
        selection = self._asked.selection
        if selection.site is None:
            selection = replace(selection, site=site_of(taken))
        self._asked = replace(self._asked, ends=ends_of(taken), selection=selection)
        yield from (test for test in filters if not any(test is one for one in taken))


class AggregateReader(DataSourceReader):
    """A table that is made of all records, by one task: it decodes to temporary files, over which its query runs."""

    def __init__(self, given: Mapping[str, Any], table: str, schema: StructType) -> None:
        """given: values of options.ROWS. table: an aggregate table."""
        self._files = files_of(given)
        self._asked = Asked.of(given, RECORDS).of_files(self._files)
        self._bucket_us: int | None = given["bucket"]
        self._by: tuple[str, ...] = given["by"]
        self._table = table
        self._schema = arrow_schema(schema)
        self._limit: int | None = given["limit"]

    def partitions(self) -> list[InputPartition]:
        return [RowsPart(tuple(range(len(self._files))))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not self._files:
            return
        assert isinstance(partition, RowsPart)
        keep_freed_memory()
        asked = self._asked
        with scratch.folder() as room:
            run = PartRun(self._files, partition, asked)
            decoded = stream_to_records(run, str(room))
            if asked.fails and decoded.problems:
                raise InputError(decoded.problems[0][1])
            with opened(decoded.folder, asked.selection) as records:
                assert records is not None
                cases = []
                if self._table == CORRUPT.name:
                    cases = forensics.cases(LocalExecutor(1), records.engine, decoded, str(room))
                records.compute(room, cases, self._by, self._bucket_us, (self._table,))
            with pq.ParquetFile(room / f"{self._table}.parquet") as file:
                for batch in first_rows(file.iter_batches(), self._limit):
                    yield fitted(batch, self._schema)
