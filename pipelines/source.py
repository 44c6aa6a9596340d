"""The Spark data source `pcap`: TCP packets of capture files as rows.

    spark.read.format("pcap").load("captures/")
    spark.read.format("pcap").option("site", "file").load(["a.pcap", "b.pcapng.zst"])

Options
    path, paths    files, folders and globs, local or any URL that fsspec opens (what `load` is given)
    site           what names the capture point of a file: folder (default), file, or a regular expression
    limits         limits as a JSON object, for example {"packet_bytes": 1000000}
    splitBytes     an uncompressed pcap file is cut into parts of about this size; everything else is read whole

One partition per part of a large uncompressed pcap, else per file. A row is a TCP packet with its payload, whatever it
was wrapped in; see dissectors.capture.arrow. A row with a `note` is no packet: it reports a file that could not be
read whole. `file_order` is the place of the file among all, by which packets of equal time are ordered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dissectors.capture import Split, expand, plan, read_split
from dissectors.capture.arrow import SEGMENTS, note, to_arrow
from dissectors.capture.split import SPLIT_BYTES
from dissectors.errors import InputError
from dissectors.findings import TRUNCATED, UNREADABLE
from dissectors.limits import Limits

SCHEMA = SEGMENTS.append(pa.field("file_order", pa.int64()))


class PcapDataSource(DataSource):
    """Capture files as rows of TCP packets."""

    @classmethod
    def name(cls) -> str:
        return "pcap"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return PcapReader(self.options)


@dataclass
class PcapPartition(InputPartition):
    """One task's work."""

    split: Split
    order: int  # of the file among all files


class PcapReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = json.loads(options["paths"]) if options.get("paths") else []
        if options.get("path"):
            given.append(options["path"])
        if not given:
            raise InputError("name the captures: spark.read.format('pcap').load(path)")
        self.files = expand(given)
        self.site = options.get("site") or "folder"
        self.limits = Limits(**json.loads(options.get("limits") or "{}"))
        self.split_bytes = int(options.get("splitBytes") or SPLIT_BYTES)

    def partitions(self) -> list[InputPartition]:
        order = {path: i for i, path in enumerate(self.files)}
        return [PcapPartition(split, order[split.path]) for split in plan(self.files, self.site, self.split_bytes)]

    def read(self, partition: PcapPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        split = partition.split
        for batch in _segments(split, self.limits):
            order = pa.array([partition.order] * batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_arrays([*batch.columns, order], schema=SCHEMA)


def _segments(split: Split, limits: Limits) -> Iterator[pa.RecordBatch]:
    try:
        reader, blocks = read_split(split, 0, limits)
    except InputError as error:
        yield note(split.path, split.site, f"{UNREADABLE}: {error}")
        return
    for block in blocks:
        yield to_arrow(block, [split.path], [split.site])
    if reader.problem:
        yield note(split.path, split.site, f"{TRUNCATED}: {reader.problem}")
    for kind, message in reader.remarks():
        yield note(split.path, split.site, f"{kind}: {message}")
