"""Keeps some rows of record files: whole files where all or none of their rows stay, else new files with the rest.

A rule says for each row whether it stays. A row of which the rule says nothing (it names no capture, or has no time)
stays where the row of its connection does, and goes where it names no connection either.
"""

from __future__ import annotations

import secrets as random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dissectors.records import ordered_by
from pipelines.storage import filesystem
from pipelines.storage.record_files import DATE, RecordWriter, Written, names_site

CONNECTIONS = "connections"
_KEY = ("site", "connection", "incarnation")


class Rule(Protocol):
    """Which rows stay."""

    def of_file(self, file: Written) -> bool | None:
        """Whether all rows of a file stay or all go, where its name tells; else None."""

    def columns(self, table: str) -> Sequence[str]:
        """The columns that `mask` looks at."""

    def mask(self, table: str, rows: pa.Table) -> pa.Array:
        """A boolean for each row: whether it stays; null where its connection decides."""


class _Looked(NamedTuple):
    """A file, and which of its rows stay."""

    file: Written
    url: str
    kept: pa.Array  # booleans, null where the connection decides
    keys: pa.Array | None  # of the connection of each row, where some are null
    fits: bool  # whether the file can stay as it is, if all of its rows do


class ChosenRows:
    """The rows of some record files that stay by a rule."""

    def __init__(
        self, rule: Rule, url: Callable[[Written], str], schemas: Mapping[str, pa.Schema] | None = None
    ) -> None:
        """url: where a file lies. schemas: the columns that rows shall have, by table; else those that they have."""
        self._rule = rule
        self._url = url
        self._schemas = schemas or {}
        self._connections: pa.Array | None = None

    def of(self, files: Sequence[Written], root: str, connections: Collection[Written]) -> list[Written]:
        """The files that hold the rows which stay: of `files` those of which all do, and new ones below `root`.

        connections: all files of the table `connections`, which decide for rows of which the rule says nothing. Raises
        StorageError where a file cannot be read or written.
        """
        told = [(file, self._rule.of_file(file)) for file in files]
        unclear = [file for file, stays in told if stays is None]
        looked = iter(filesystem.each(self._look, unclear))
        by_site = any(names_site(file.path) for file in files)
        writer = RecordWriter(root, f"kept-{random.token_hex(8)}", by_site=by_site)
        out = []
        for file, stays in told:
            if stays is not None:
                out += [file] if stays else []
                continue
            look = next(looked)
            kept = self._decided(look, connections)
            staying = pc.sum(kept).as_py() or 0
            if staying == file.rows and look.fits:
                out.append(file)
            elif staying:
                self._write(look, kept, writer)
        return out + writer.close()

    def _look(self, file: Written) -> _Looked:
        url = self._url(file)
        with filesystem.open_file(url) as stream:
            try:
                source = pq.ParquetFile(stream)
                schema = source.schema_arrow
                wanted = [name for name in (*self._rule.columns(file.table), *_KEY) if name in schema.names]
                rows = source.read(columns=wanted)
            except (pa.ArrowException, OSError) as error:
                raise filesystem.StorageError(f"{url}: cannot be read: {error}") from error
        kept = _whole(self._rule.mask(file.table, rows))
        expected = self._schemas.get(file.table)
        is_flat = file.path.count("/") == 1  # formats before had folders by site and date
        fits = is_flat and (expected is None or schema.names == [*expected.names, DATE])
        return _Looked(file, url, kept, _keys(rows) if kept.null_count else None, fits)

    def _decided(self, look: _Looked, connections: Collection[Written]) -> pa.Array:
        """A boolean for each row, none of them null."""
        if look.keys is None:
            return look.kept
        if self._connections is None:
            self._connections = self._staying(connections)
        return pc.coalesce(look.kept, pc.is_in(look.keys, self._connections))

    def _staying(self, connections: Iterable[Written]) -> pa.Array:
        """The keys of the connections whose rows stay."""
        found = [pa.array([], pa.string())]
        for file in connections:
            with filesystem.open_file(self._url(file)) as stream:
                rows = pq.ParquetFile(stream).read(columns=[*dict.fromkeys((*_KEY, *self._rule.columns(CONNECTIONS)))])
            found.append(_keys(rows).filter(pc.fill_null(self._rule.mask(CONNECTIONS, rows), False)))
        return pc.unique(pa.chunked_array(found))

    def _write(self, look: _Looked, kept: pa.Array, writer: RecordWriter) -> None:
        """Write the rows of a file that stay, with the columns that they shall have."""
        with filesystem.open_file(look.url) as stream:
            at = 0
            for batch in pq.ParquetFile(stream).iter_batches():
                some = batch.filter(kept.slice(at, batch.num_rows))
                at += batch.num_rows
                if some.num_rows:
                    writer.write(look.file.table, self._shaped(look.file.table, some))

    def _shaped(self, table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the columns of the wanted schema, those that they lack null; without their date."""
        own = [field for field in batch.schema if field.name != DATE]
        schema = self._schemas.get(table, pa.schema(own))
        there = set(batch.schema.names)
        columns = [
            batch.column(field.name).cast(field.type) if field.name in there else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def time_column(table: str) -> str:
    """The column that says when a row of a table begins."""
    return ordered_by(table)[0]


def _keys(rows: pa.Table) -> pa.Array:
    """The connection of each row as a text; null where it names none."""
    columns = [rows.column(name).cast(pa.string()) for name in _KEY]
    return _whole(pc.binary_join_element_wise(*columns, "\n"))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
