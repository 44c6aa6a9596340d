"""The Spark data source `pcap`: TCP packets of capture files as rows.

    spark.read.format("pcap").load("captures/")
    spark.read.format("pcap").option("site", "file").load(["a.pcap", "b.pcapng.zst"])

Options are those of options.SOURCE; any other is refused. Of a schema that is given, which names some of the
columns, only these are made. Paths are those of the driver: relative ones are made absolute there, and one that is not
there is an error at `load`. Spark hands a table's options on when the table is made, but not when it is read: so
`create table … using pcap` is refused, and `create temporary view … using pcap options (path '…')` is what SQL has.

One partition per part of a large uncompressed pcap, else per file. A row is a TCP packet with its payload, whatever it
was wrapped in; see dissectors.capture.arrow. A row with a `note` is no packet: it reports a file that could not be
read whole. `file_order` is the place of the file among all, by which packets of equal time are ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dissectors.capture import Split, plan, read_split
from dissectors.capture.arrow import SEGMENTS, note, to_arrow
from dissectors.errors import InputError
from dissectors.findings import TRUNCATED, UNREADABLE
from dissectors.limits import Limits
from pipelines.sources.columns import refuse_others
from pipelines.sources.files import files_of, values
from pipelines.spark.options import SOURCE

ORDER = "file_order"
SCHEMA = SEGMENTS.append(pa.field(ORDER, pa.int64()))
NAME = "pcap"


class PcapDataSource(DataSource):
    """Capture files as rows of TCP packets."""

    def __init__(self, options: dict[str, str]) -> None:
        """Raises UsageError for options that mean nothing, InputError where a path does not exist."""
        super().__init__(options)
        self.given = values(NAME, options, SOURCE)
        self.files = files_of(self.given)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        whole = from_arrow_schema(SCHEMA)
        return whole if self.given["payload"] else StructType([field for field in whole if field.name != "payload"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of a schema. Raises UsageError where there is no such column."""
        refuse_others(NAME, schema, self.schema())
        return PcapReader(self.files, self.given, schema.names)


@dataclass
class PcapPartition(InputPartition):
    """One task's work."""

    split: Split
    order: int  # of the file among all files


class PcapReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, files: Sequence[str], given: Mapping[str, Any], names: Sequence[str]) -> None:
        """given: values of options.SOURCE. names: columns of SCHEMA to read."""
        self.files = files
        self.site: str = given["site"]
        self.limits: Limits = given["limits"]
        self.split_bytes: int = given["splitBytes"]
        self.fails: bool = not given["ignoreCorruptFiles"]
        self.names = names

    def partitions(self) -> list[InputPartition]:
        order = {path: i for i, path in enumerate(self.files)}
        return [
            PcapPartition(split, order[split.path])
            for split in plan(self.files, self.site, self.split_bytes, self.limits)
        ]

    def read(self, partition: PcapPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        made = [name for name in self.names if name != ORDER]
        schema = pa.schema([SCHEMA.field(name) for name in self.names])
        if not isinstance(partition, PcapPartition):  # Spark's own, where there are no files
            return
        for batch in _segments(partition.split, self.limits, made or [SEGMENTS.names[0]], fails=self.fails):
            order = pa.array([partition.order] * batch.num_rows, pa.int64())
            columns = [order if name == ORDER else batch.column(name) for name in self.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _segments(split: Split, limits: Limits, names: Sequence[str], *, fails: bool) -> Iterator[pa.RecordBatch]:
    """The packets of a split, and what is to be said of its file, as these columns of SEGMENTS.

    fails: raise InputError for a file that cannot be read whole, rather than say so in a row.
    """
    try:
        reader, blocks = read_split(split, 0, limits)
    except InputError as error:
        if fails:
            raise
        yield note(split.path, split.site, f"{UNREADABLE}: {error}", names)
        return
    for block in blocks:
        yield to_arrow(block, [split.path], [split.site], names)
    if fails and reader.problem:
        raise InputError(reader.problem)
    problem = [(TRUNCATED, reader.problem)] if reader.problem else []
    for kind, message in problem + reader.remarks():
        yield note(split.path, split.site, f"{kind}: {message}", names)
