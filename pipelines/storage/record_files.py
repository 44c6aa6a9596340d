"""Records as Parquet files: <root>/<table>/<date>~<site>~<name>.parquet.

A table is one flat folder. So whoever lists it sees the files of one moment, also while a lake is being updated
(`lake_files`), and no library takes a part of a path for a column, with a type of its own choice. What a file holds
stands in its columns: those of the table, and `date`, the day (UTC) of the row's time, null of rows without a time. All
rows of a file have one date and one site. Its name says both, so that files of other days need not be opened. Where
there are more than MANY_SITES, those of a date stand together, and the name says no site: each query opens every file.
Roots are local paths or any URL that fsspec opens for writing.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import secrets as random
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dissectors import arrow, records
from dissectors.capture.files import site_of
from dissectors.limits import MIB
from dissectors.options import Options
from pipelines.formats.parquet import open_writer, row_group
from pipelines.storage import filesystem

DATE = "date"  # the column
UNDATED = "undated"  # in the name of a file whose rows have no time; sorts behind all dates
_EMPTY = "empty"  # in the name of a file without rows
_BETWEEN = "~"
DATE_FIELD = pa.field(DATE, pa.date32())
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPED = re.compile(r'[\x00-\x1f\x7f"#%\'*/:=?\\{}\[\]^]')  # what paths, globs, URLs or Hive give a meaning to
_LONGEST = 190  # bytes of a site in the name of a file, of 255 that file systems take
_DIGEST = 32  # characters that stand for the rest of a longer one
_GROUP_BYTES = 32 * MIB  # of rows gathered for a row group
_WAITING_BYTES = 128 * MIB  # of rows that wait in all files of a writer
_OPEN = 32  # files that a writer has open at once
MANY_SITES = 64
"""Capture points of a run whose records are written at once, beyond which they have no files of their own."""


class Written(NamedTuple):
    """A file of records."""

    table: str
    path: str  # below the root
    rows: int


class TableFile(NamedTuple):
    """A file with rows of a table, wherever it lies."""

    table: str
    url: str


def place(table: str, site: str | None, day: int | None, name: str) -> str:
    """Where a file with rows of a site and a day (since the epoch) lies, below the root."""
    return f"{table}/{_dated(day)}{_BETWEEN}{_quoted(site)}{_BETWEEN}{name}.parquet"


def has_many_sites(files: Iterable[str], options: Options) -> bool:
    """Whether captures are of more than MANY_SITES capture points."""
    return len({site_of(file, options.site, options.joined) for file in files}) > MANY_SITES


def share(path: str) -> str:
    """What files of the same table, date and site have in common."""
    return path.rpartition(_BETWEEN)[0]


def named(share: str, name: str) -> str:
    """Where a file of a table, date and site lies, below the root. share: as of `share`."""
    return f"{share}{_BETWEEN}{name}.parquet"


def may_be_of_site(path: str, site: str) -> bool:
    """Whether a file of records may hold rows of a site."""
    return not names_site(path) or path.split(_BETWEEN, 1)[-1].startswith(f"{_quoted(site)}{_BETWEEN}")


def names_site(path: str) -> bool:
    """Whether the name of a file of records says of which site its rows are."""
    return posixpath.basename(path).split(_BETWEEN)[1:2] not in ([], [""])


def date_of(path: str) -> str:
    """The date in the name of a file of records; UNDATED of rows without a time; "" where the name says none."""
    date, named, _ = posixpath.basename(path).partition(_BETWEEN)
    return date if named else ""


def may_hold(path: str, since: int) -> bool:
    """Whether a file of records may hold a row of this time (ns) or later."""
    return date_of(path) >= _dated(since // 1000 // _DAY_US)


def _dated(day: int | None) -> str:
    return UNDATED if day is None else (_EPOCH + timedelta(days=day)).date().isoformat()


def _quoted(site: str | None) -> str:
    name = _ESCAPED.sub(lambda m: f"%{ord(m[0]):02X}", site or "")
    if len(name.encode("utf-8", "replace")) <= _LONGEST:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
    return f"{name[: (_LONGEST - _DIGEST) // 4]}{_BETWEEN}{digest}"


@dataclass
class _File:
    path: str
    schema: pa.Schema
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    stream: pa.PythonFile | None = None  # counts its bytes: not every file system's files do
    writer: Any = None


class RecordWriter:
    """Writes record batches of any tables; a file for each table, site and day."""

    def __init__(self, root: str, name: str, *, by_site: bool = True) -> None:
        """name: what its files' names begin with; no other writer of this root may use it.

        by_site: whether each site has files of its own.
        """
        self._root = root
        self._by_site = by_site
        self._name = name
        self._files: OrderedDict[tuple[str, str | None, int | None], _File] = OrderedDict()
        self._waiting = 0  # bytes of rows
        self._written: list[Written] = []
        self.sizes: dict[str, int] = {}  # of the files that have ended: path -> bytes

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Take a batch; its rows reach their files some time before `close` returns."""
        for site, day, rows in _shares(table, batch, by_site=self._by_site):
            key = (table, site, day)
            file = self._files.get(key)
            if file is None:
                path = place(*key, f"{self._name}-{len(self._written) + len(self._files):05}")
                file = self._files[key] = _File(path, rows.schema.append(DATE_FIELD))
                if len(self._files) > _OPEN:
                    self._end(next(iter(self._files)))
            self._files.move_to_end(key)
            date = pa.repeat(pa.scalar(day, DATE_FIELD.type), rows.num_rows)
            file.waiting.append(pa.RecordBatch.from_arrays([*rows.columns, date], schema=file.schema))
            file.size += rows.nbytes
            self._waiting += rows.nbytes
            if file.size >= _GROUP_BYTES:
                self._flush(file)
            elif self._waiting >= _WAITING_BYTES:
                self._flush(max(self._files.values(), key=lambda file: file.size))

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
        self.sizes[file.path] = file.stream.tell()
        file.stream.close()
        self._written.append(Written(key[0], file.path, file.rows))

    def _flush(self, file: _File) -> None:
        if file.writer is None:
            file.stream = pa.PythonFile(filesystem.create(filesystem.join(self._root, file.path)), mode="w")
            file.writer = open_writer(file.stream, file.schema)
        if file.waiting:
            table = row_group(file.waiting)
            file.writer.write_table(table, row_group_size=max(1, table.num_rows))
            file.rows += table.num_rows
        self._waiting -= file.size
        file.waiting, file.size = [], 0


def _shares(
    table: str, batch: pa.RecordBatch, *, by_site: bool
) -> Iterator[tuple[str | None, int | None, pa.RecordBatch]]:
    """(site, day, rows): a batch by the files that its rows belong to; without a site where files are of all sites."""
    if not batch.num_rows:
        return
    sites = (batch.column("site") if by_site else pa.nulls(batch.num_rows, pa.string())).dictionary_encode()
    micros = batch.column(records.ordered_by(table)[0]).cast(pa.int64())
    site = sites.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    day = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), _DAY_US)
    timeless = pc.is_null(micros).to_numpy(zero_copy_only=False)
    names: list[str | None] = [None, *sites.dictionary.to_pylist()]
    keys = arrow.numbered(arrow.column((day * 2 + timeless) * len(names) + site + 1))
    for n, key in enumerate(keys.dictionary.to_pylist()):
        date, name = divmod(key, len(names))
        rows = batch if len(keys.dictionary) == 1 else arrow.keep(batch, keys.indices.to_numpy() == n)
        yield names[name], (None if date & 1 else date >> 1), rows


def rows_of(url: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file, as they were written: without their date. Raises StorageError."""
    return (batch.drop_columns([DATE]) for batch in dated_rows_of(url))


def dated_rows_of(url: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with the column `date`. Raises StorageError."""
    with filesystem.open_file(url) as stream:
        try:
            yield from pq.ParquetFile(stream).iter_batches()
        except (pa.ArrowException, OSError) as error:
            raise filesystem.StorageError(f"{url}: cannot be read: {error}") from error


def write_empty(root: str, options: Options, filled: Collection[str], name: str = "") -> list[Written]:
    """A file without rows for each table that is asked for and not `filled`: a reader finds its columns.

    name: what the names of the files tell. Returns the files that it writes.
    """
    lacking = {table: schema for table, schema in schemas(options).items() if table not in filled}
    out = [Written(table, f"{table}/{_EMPTY}-{name}{random.token_hex(8)}.parquet", 0) for table in lacking]
    for file in out:
        with filesystem.create(filesystem.join(root, file.path)) as stream:
            pq.write_table(lacking[file.table].append(DATE_FIELD).empty_table(), stream)
    return out


def write_empty_like(root: str, table: str, url: str) -> Written:
    """Write a file without rows, with the columns of another one."""
    with filesystem.open_file(url) as stream:
        schema = pq.read_schema(stream)
    file = Written(table, f"{table}/{_EMPTY}-{random.token_hex(8)}.parquet", 0)
    with filesystem.create(filesystem.join(root, file.path)) as stream:
        pq.write_table(schema.empty_table(), stream)
    return file


def schemas(options: Options) -> dict[str, pa.Schema]:
    """The columns of the record tables that are asked for; their files have `date` too."""
    return {name: records.schema(name, full=options.full, payloads=options.payloads) for name in options.tables}
