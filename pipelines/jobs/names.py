"""Names that conversations report (Kafka topic ids, Iggy stream numbers): reduced where they arise, put in by key.

    decoding tasks ─ the changes of each key ─► a file each ─ merged by key ─► buckets ─► tasks that put names in

Every connection may report every name again: `late_names.Names` keeps of each key only when its names changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dissectors.rows.late_names import Name, Names
from pipelines.storage import filesystem

SCHEMA = pa.schema([("key", pa.string()), ("time", pa.int64()), ("name", pa.string())])
FOLDER = "names"  # of a run's staging folder, and of a lake
BUCKETS = 16  # of keys, in each file of names


def save(names: Iterable[Name], path: str) -> int:
    """Write names as a file, a row group for each bucket of keys; returns how many."""
    buckets: list[list[Name]] = [[] for _ in range(BUCKETS)]
    for name in names:
        buckets[zlib.crc32(name.key.encode("utf-8", "surrogatepass")) % BUCKETS].append(name)
    with filesystem.create(path) as stream, pq.ParquetWriter(stream, SCHEMA, compression="zstd") as writer:
        for bucket in buckets:
            columns = list(zip(*bucket, strict=True)) or [(), (), ()]
            arrays = [pa.array(column, type) for column, type in zip(columns, SCHEMA.types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), row_group_size=max(1, len(bucket)))
    return sum(map(len, buckets))


def load(
    paths: Iterable[str], *, bucket: int | None = None, keys: pa.Array | None = None, wait_ns: int | None = None
) -> Names:
    """The names of files; only those of a bucket or of some keys, if wanted."""
    reported: list[Name] = []
    for path in paths:
        with filesystem.open_file(path) as stream:
            file = pq.ParquetFile(stream)
            some = file.read() if bucket is None else file.read_row_group(bucket)
            if keys is not None:
                some = some.filter(pc.is_in(some.column(0), keys))
            reported += map(Name, *(column.to_pylist() for column in some.columns))
    return Names(reported) if wait_ns is None else Names(reported, wait_ns=wait_ns)
