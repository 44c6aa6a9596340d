"""Parquet, one row group a batch, zstd."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq


class ParquetWriter:
    """Writes batches as Parquet."""

    def __init__(self, schema: pa.Schema, stream: BinaryIO) -> None:
        self._out = pq.ParquetWriter(pa.PythonFile(stream, mode="w"), schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._out.write_batch(batch)

    def close(self) -> None:
        self._out.close()

    def abandon(self) -> None:
        self._out.is_open = False  # else its destructor writes the footer to a stream that is closed
