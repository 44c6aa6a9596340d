"""Parquet, zstd; batches that come one after the other are gathered into row groups.

Intervals, for which Arrow's Parquet has no type, are durations in µs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from pipelines.formats import Writer, intervals

try:  # `pyarrow.parquet` loads file systems and TLS too, a twentieth of a start
    from pyarrow._parquet import ParquetWriter as FileWriter
except ImportError:  # it lies elsewhere in another version
    from pyarrow.parquet import ParquetWriter as FileWriter

_ROWS = 32_000  # of a row group: each costs a page and statistics a column
_BYTES = 4 << 20  # kept until then


def open_writer(stream: Any, schema: pa.Schema) -> FileWriter:
    """A writer of records: times, sizes and numbers of packets as differences, what repeats itself by a dictionary.

    A dictionary of values that hardly repeat costs a third of the writing and half as many bytes again: those are
    written one after the other. Least and greatest values are kept of numbers and times only: rows of a group have the
    same time, about, but any text. Texts may come as dictionaries: readers are told of plain ones.
    """
    numbers = [field.name for field in schema if pa.types.is_int64(field.type) or pa.types.is_timestamp(field.type)]
    repeating = [
        f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
        for field in schema
        if field.name not in (*numbers, "exchange_id")
    ]
    encodings = dict.fromkeys(numbers, "DELTA_BINARY_PACKED")
    coded = any(map(pa.types.is_dictionary, schema.types))
    return FileWriter(
        stream,
        schema,
        store_schema=not coded,  # of records with plain texts Parquet's own types say all
        compression="zstd",
        compression_level=1,
        use_dictionary=repeating,
        column_encoding=encodings,
        write_statistics=numbers,
        writer_engine_version="V2",
    )


def row_group(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Batches as one table, whose dictionaries are the same in all of them: only such are written as they are."""
    return pa.Table.from_batches(batches).unify_dictionaries()


class ParquetWriter(Writer):
    """Writes batches as Parquet."""

    def __init__(self, schema: pa.Schema, stream: BinaryIO, table: str = "") -> None:
        """schema: of the batches, all of which may have dictionaries in the place of texts."""
        self._intervals = [at for at, kind in enumerate(schema.types) if intervals.is_interval(kind)]
        for at in self._intervals:
            schema = schema.set(at, schema.field(at).with_type(intervals.DURATION))
        self._schema = schema
        self._stream = stream
        self._out: FileWriter | None = None  # open once it is known how texts come
        self._gathered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._gathered.append(self._held(batch) if self._intervals else batch)
        self._rows += batch.num_rows
        self._bytes += batch.get_total_buffer_size()  # `nbytes` asks each column what of its buffers it shows
        if self._rows >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def _held(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch as Parquet can hold it."""
        held = [intervals.durations(c) if at in self._intervals else c for at, c in enumerate(batch.columns)]
        return pa.RecordBatch.from_arrays(held, schema=self._schema)

    def close(self) -> None:
        self._flush()
        self._opened(self._schema).close()

    def abandon(self) -> None:
        self._gathered.clear()

    def _opened(self, schema: pa.Schema) -> FileWriter:
        if self._out is None:
            self._out = open_writer(pa.PythonFile(self._stream, mode="w"), schema)
        return self._out

    def _flush(self) -> None:
        if self._gathered:
            table = row_group(self._gathered)
            self._opened(table.schema).write_table(table)
            self._gathered.clear()
            self._rows = self._bytes = 0
