"""CSV with a header. Times as in JSON, bytes in base64, lists joined with `;`, nothing for null.

Text is made safe: control and direction characters are written as escapes (`\\x1b`, `\\n`), and text that a spreadsheet
would take for a formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
import io
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv

from pipelines.formats import Writer, columns
from pipelines.formats.plain import clean

LIST_SEPARATOR = ";"
_FORMULA = ("=", "+", "-", "@")


class CsvWriter(Writer):
    """Writes batches as CSV."""

    def __init__(self, schema: pa.Schema, stream: BinaryIO, table: str = "") -> None:
        self._flat = pa.schema([(_harmless(f.name), flat_type(f.type)) for f in schema])  # SQL makes names of values
        head = io.StringIO()  # written here: versions of pyarrow quote names that need none
        csv.writer(head, lineterminator="\n").writerow(self._flat.names)
        stream.write(head.getvalue().encode())
        options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
        self._out = pa.csv.CSVWriter(stream, self._flat, write_options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._out.write_batch(pa.RecordBatch.from_arrays([flat(c) for c in batch.columns], schema=self._flat))

    def close(self) -> None:
        self._out.close()


def flat_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column once it is flat."""
    return kind if columns.is_number(kind) or pa.types.is_boolean(kind) else pa.string()


def flat(column: pa.Array) -> pa.Array:
    """A column as CSV can hold it."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return columns.timestamps(column)
    if pa.types.is_binary(kind):
        return columns.base64_text(column)
    if columns.is_flat_list(kind):
        return columns.mapped(columns.joined(column.cast(pa.list_(pa.string())), LIST_SEPARATOR), _harmless)
    if pa.types.is_string(kind):
        return columns.mapped(column, _harmless)
    return column if flat_type(kind) == kind else columns.mapped(columns.plain_texts(column), _harmless)


def _harmless(text: str) -> str:
    """Text that does nothing to a terminal and is no formula."""
    text = clean(text)
    return f"'{text}" if text[:1] in _FORMULA else text
