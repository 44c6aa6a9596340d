"""CSV with a header. Times as in JSON, bytes in base64, lists joined with `;`, nothing for null."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv

from pipelines.formats import columns

LIST_SEPARATOR = ";"


class CsvWriter:
    """Writes batches as CSV."""

    def __init__(self, schema: pa.Schema, stream: BinaryIO) -> None:
        self._flat = pa.schema([(f.name, flat_type(f.type)) for f in schema])
        self._out = pa.csv.CSVWriter(stream, self._flat, write_options=pa.csv.WriteOptions(quoting_style="needed"))

    def write(self, batch: pa.RecordBatch) -> None:
        self._out.write_batch(pa.RecordBatch.from_arrays([flat(c) for c in batch.columns], schema=self._flat))

    def close(self) -> None:
        self._out.close()


def flat_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column once it is flat."""
    simple = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind if simple else pa.string()


def flat(column: pa.Array) -> pa.Array:
    """A column as CSV can hold it."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return columns.timestamps(column)
    if pa.types.is_binary(kind):
        return columns.base64_text(column)
    if pa.types.is_list(kind):
        return columns.joined(column.cast(pa.list_(pa.string())), LIST_SEPARATOR)
    return column
