"""Parquet, zstd; batches that come one after the other are gathered into row groups."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

_ROWS = 32_000  # of a row group: each costs a page and statistics a column
_BYTES = 4 << 20  # kept until then


class ParquetWriter:
    """Writes batches as Parquet."""

    def __init__(self, schema: pa.Schema, stream: BinaryIO) -> None:
        self._out = pq.ParquetWriter(pa.PythonFile(stream, mode="w"), schema, compression="zstd")
        self._gathered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._gathered.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._out.close()

    def abandon(self) -> None:
        self._gathered.clear()
        self._out.is_open = False  # else its destructor writes the footer to a stream that is closed

    def _flush(self) -> None:
        if self._gathered:
            self._out.write_table(pa.Table.from_batches(self._gathered))
            self._gathered.clear()
            self._rows = self._bytes = 0
