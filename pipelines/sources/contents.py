"""Captures that are values of a DataFrame's column, as Spark's `binaryFile` gives them: decoded, each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dissectors.capture.fragments import Fragments
from dissectors.capture.reader import Reader
from dissectors.errors import InputError, UsageError
from pipelines.answers.records import part_of
from pipelines.sources.columns import aggregate, arrow_schema, columns, fitted
from pipelines.sources.parts import Asked, PartRun, RowsPart
from pipelines.spark.options import CONTENTS, of_source
from pipelines.spark.tasks import Batches, over
from pipelines.storage import scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UNNAMED = "capture"  # the name of one without a path


def decode(frame: DataFrame, content: str, path: str | None, options: Mapping[str, str]) -> DataFrame:
    """The rows of a record table of captures, each of which is a value of a column.

    content: a binary column: whole captures, compressed or not. path: a column of text with their names, which become
    the `file` of rows and, by their folders, the capture points. options: of options.CONTENTS. Raises UsageError for
    one that means nothing, or a table that is made of all records.
    """
    given = of_source(options, CONTENTS)
    table = given["table"]
    if aggregate(table) is not None:
        raise UsageError(f"table: {table} is made of all records; captures in a column are decoded each by itself")
    asked = Asked.of(given, (table,))
    schema = columns(table, full=given["full"], payloads=given["payloads"])
    arrow = arrow_schema(schema)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            names = batch.column(1) if batch.num_columns > 1 else pa.nulls(batch.num_rows, pa.string())
            for value, name in zip(batch.column(0), names, strict=True):
                if value.is_valid:
                    yield from _decoded(value.as_buffer(), name.as_py() or _UNNAMED, asked, arrow)

    return over(frame.select(content, *([] if path is None else [path])), run, schema)


def _decoded(data: pa.Buffer, name: str, asked: Asked, schema: pa.Schema) -> Batches:
    with scratch.folder() as room:
        place = room / "content"
        place.write_bytes(data)
        captured = _ContentRun(name, place, asked)
        with part_of(captured.records(), asked.tables, asked.selection) as some:
            for table, batch in some:
                if table in asked.tables:
                    yield fitted(captured.of_connections(batch), schema)
        if asked.fails and captured.problems:
            raise InputError(captured.problems[0][1])


class _ContentRun(PartRun):
    """A run over one capture that lies elsewhere than its name says."""

    def __init__(self, name: str, place: Path, asked: Asked) -> None:
        super().__init__([str(place)], RowsPart((0,), is_all=False), asked)
        self.files = [name]
        self._place = place

    def reader(self, index: int, path: str, fragments: Fragments) -> Reader:
        try:
            reader = super().reader(index, str(self._place), fragments)
        except InputError as error:
            raise InputError(str(error).replace(str(self._place), path)) from None
        reader.path = path
        return reader
