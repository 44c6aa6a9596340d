"""Records as Parquet files: <root>/<table>/site=<site>/date=<day>/<name>-<n>.parquet.

The folders are Hive's, so every engine finds a site or a day without opening the others. A row's day (UTC) is that of
its time; `site` stays a column of the files too. Roots are local paths or any URL that fsspec opens for writing.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dissectors import records
from dissectors.limits import MIB
from dissectors.options import Options
from dissectors.release import ORDER
from pipelines import storage
from pipelines.formats.parquet import open_writer

NOWHERE = "__HIVE_DEFAULT_PARTITION__"  # how Hive writes a null
_DATE, _DATED = "date=", len("2026-01-31")
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPED = re.compile(r'[\x00-\x1f\x7f"#%\'*/:=?\\{}\[\]^]')  # what Hive escapes
_LONGEST = 200  # bytes of a folder's name, of 255 that file systems take
_GROUP_BYTES = 32 * MIB  # of rows gathered for a row group
_OPEN = 32  # files that a writer has open at once


class Written(NamedTuple):
    """A file of records."""

    table: str
    path: str  # below the root
    rows: int


def folder(table: str, site: str | None, day: int | None) -> str:
    """Where rows of a site and a day (since the epoch) lie, below the root."""
    return f"{table}/site={_quoted(site)}/{_DATE}{_dated(day)}"


def may_hold(path: str, since: int) -> bool:
    """Whether a file of records may hold a row of this time (ns) or later."""
    return path.rpartition(_DATE)[2][:_DATED] >= _dated(since // 1000 // _DAY_US)


def _dated(day: int | None) -> str:
    return NOWHERE if day is None else (_EPOCH + timedelta(days=day)).date().isoformat()


def _quoted(site: str | None) -> str:
    if not site:
        return NOWHERE
    name = _ESCAPED.sub(lambda m: f"%{ord(m[0]):02X}", site)
    if len(name.encode("utf-8", "replace")) <= _LONGEST:
        return name
    return f"{name[: _LONGEST // 4]}~{hashlib.sha256(site.encode('utf-8', 'replace')).hexdigest()[:32]}"


@dataclass
class _File:
    path: str
    schema: pa.Schema
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    stream: BinaryIO | None = None
    writer: Any = None


class RecordWriter:
    """Writes record batches of any tables; a file for each table, site and day."""

    def __init__(self, root: str, name: str) -> None:
        """name: what its files' names begin with; no other writer of this root may use it."""
        self._root = root
        self._name = name
        self._files: OrderedDict[tuple[str, str | None, int | None], _File] = OrderedDict()
        self._written: list[Written] = []

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Take a batch; its rows reach their files some time before `close` returns."""
        for site, day, rows in _shares(table, batch):
            key = (table, site, day)
            file = self._files.get(key)
            if file is None:
                path = f"{folder(*key)}/{self._name}-{len(self._written) + len(self._files):05}.parquet"
                file = self._files[key] = _File(path, rows.schema)
                if len(self._files) > _OPEN:
                    self._end(next(iter(self._files)))
            self._files.move_to_end(key)
            file.waiting.append(rows)
            file.size += rows.nbytes
            if file.size >= _GROUP_BYTES:
                self._flush(file)

    def close(self) -> list[Written]:
        """End all files; returns them."""
        for key in list(self._files):
            self._end(key)
        return self._written

    def _end(self, key: tuple[str, str | None, int | None]) -> None:
        file = self._files.pop(key)
        self._flush(file)
        file.writer.close()
        assert file.stream is not None
        file.stream.close()
        self._written.append(Written(key[0], file.path, file.rows))

    def _flush(self, file: _File) -> None:
        if file.writer is None:
            file.stream = storage.create(storage.join(self._root, file.path))
            file.writer = open_writer(file.stream, file.schema)
        if file.waiting:
            table = pa.Table.from_batches(file.waiting)
            file.writer.write_table(table, row_group_size=max(1, table.num_rows))
            file.rows += table.num_rows
        file.waiting, file.size = [], 0


def _shares(table: str, batch: pa.RecordBatch) -> Iterator[tuple[str | None, int | None, pa.RecordBatch]]:
    """(site, day, rows): a batch by the folders that its rows belong to."""
    if not batch.num_rows:
        return
    sites = batch.column("site").dictionary_encode()
    micros = batch.column(ORDER[table][0]).cast(pa.int64())
    site = sites.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    day = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), _DAY_US)
    timeless = pc.is_null(micros).to_numpy(zero_copy_only=False)
    keys, which = np.unique(np.stack([site, day, timeless]), axis=1, return_inverse=True)
    names = sites.dictionary.to_pylist()
    for n, (at, since, none) in enumerate(keys.T.tolist()):
        rows = batch if keys.shape[1] == 1 else batch.take(pa.array(np.flatnonzero(which.reshape(-1) == n)))
        yield (None if at < 0 else names[at]), (None if none else since), rows


def rows_of(url: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file. Raises StorageError."""
    with storage.open_file(url) as stream:
        try:
            yield from pq.ParquetFile(stream).iter_batches()
        except (pa.ArrowException, OSError) as error:
            raise storage.StorageError(f"{url}: cannot be read: {error}") from error


def write_empty(root: str, options: Options, written: Iterable[Written]) -> list[Written]:
    """A file without rows for each table that is asked for and has no rows in these files: a reader finds its columns.

    Returns the files that it writes.
    """
    filled = {file.table for file in written if file.rows}
    out = []
    for table, schema in schemas(options).items():
        if table in filled:
            continue
        empty = Written(table, f"{folder(table, None, None)}/empty.parquet", 0)
        with storage.create(storage.join(root, empty.path)) as stream:
            pq.write_table(schema.empty_table(), stream)
        out.append(empty)
    return out


def schemas(options: Options) -> dict[str, pa.Schema]:
    """The columns of the record tables that are asked for, as their files have them."""
    return {name: records.schema(name, full=options.full, payloads=options.payloads) for name in options.tables}
