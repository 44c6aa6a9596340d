"""Record batches as text, JSON lines, CSV or Parquet, written as they come: never the whole set in memory.

Names in a capture are anybody's. Text, CSV and JSON hold no character that does something to a terminal; in CSV, text
that a spreadsheet would take for a formula begins with an apostrophe. Parquet holds names as they are.

A writer takes a schema and a binary stream; `write` takes one record batch, `close` ends the output and leaves the
stream open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import PurePath
from typing import BinaryIO, Literal

import pyarrow as pa


class Writer:
    """Writes record batches of one table to a stream."""

    def __init__(self, schema: pa.Schema, stream: BinaryIO, table: str = "") -> None:
        """table: its name, where it has one."""

    def write(self, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def abandon(self) -> None:
        """The output failed: write nothing more."""


def _writer(module: str, name: str) -> Callable[[str, pa.Schema, BinaryIO], Writer]:
    """(table name, schema, stream) -> a writer of a module, which is imported when it is asked for."""

    def made(table: str, schema: pa.Schema, stream: BinaryIO) -> Writer:
        writer: type[Writer] = getattr(import_module(f"pipelines.formats.{module}"), name)
        return writer(schema, stream, table)

    return made


Format = Literal["text", "json", "csv", "parquet"]
_NAMED: dict[str, Format] = {
    ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet", ".pq": "parquet"
}  # fmt: skip

FORMATS = {
    "text": _writer("text", "TextWriter"),
    "json": _writer("json_lines", "JsonWriter"),
    "csv": _writer("csv", "CsvWriter"),
    "parquet": _writer("parquet", "ParquetWriter"),
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
