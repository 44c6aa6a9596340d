"""Record batches as text, JSON lines, CSV or Parquet, written as they come: never the whole set in memory.

Names in a capture are anybody's. Text, CSV and JSON hold no character that does something to a terminal; in CSV, text
that a spreadsheet would take for a formula begins with an apostrophe. Parquet holds names as they are.

A writer takes a schema and a binary stream; `write` takes one record batch, `close` ends the output and leaves the
stream open.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import BinaryIO, Literal

import pyarrow as pa


class Writer(typing.Protocol):
    """Writes record batches of one table to a stream."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """The output failed: write nothing more."""


def _text(table: str, schema: pa.Schema, stream: BinaryIO) -> Writer:
    from pipelines.formats.text import TextWriter

    return TextWriter(table, schema, stream)


def _json(table: str, schema: pa.Schema, stream: BinaryIO) -> Writer:
    from pipelines.formats.json_lines import JsonWriter

    return JsonWriter(schema, stream)


def _csv(table: str, schema: pa.Schema, stream: BinaryIO) -> Writer:
    from pipelines.formats.csv import CsvWriter

    return CsvWriter(schema, stream)


def _parquet(table: str, schema: pa.Schema, stream: BinaryIO) -> Writer:
    from pipelines.formats.parquet import ParquetWriter

    return ParquetWriter(schema, stream)


Format = Literal["text", "json", "csv", "parquet"]
_NAMED: dict[str, Format] = {
    ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet", ".pq": "parquet"
}  # fmt: skip

# name -> (table name, schema, stream) -> writer; each module is imported when it is asked for
FORMATS: dict[str, Callable[[str, pa.Schema, BinaryIO], Writer]] = {
    "text": _text,
    "json": _json,
    "csv": _csv,
    "parquet": _parquet,
}
BINARY_FORMATS = frozenset({"parquet"})  # not for a terminal


def named(output: str | None) -> Format:
    """The format that the name of an output ends with; text where it says none."""
    return _NAMED.get(PurePath(output or "").suffix.lower(), "text")


@contextmanager
def writing(format: str, table: str, schema: pa.Schema, stream: BinaryIO) -> Iterator[Writer]:
    """A writer that is closed when the block ends well, and abandoned when it does not."""
    writer = FORMATS[format](table, schema, stream)
    try:
        yield writer
    except BaseException:
        writer.abandon()
        raise
    writer.close()
