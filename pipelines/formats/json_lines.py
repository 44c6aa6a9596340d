"""One JSON object a line.

Timestamps are ISO 8601 in UTC with microseconds, bytes are base64, columns that hold JSON stand as what they hold, and
64-bit integers are plain numbers. Where names of machines are known, rows with their addresses hold them as
`host_names`. A line is put together by Arrow from columns of JSON fragments, not row by row.
"""

from __future__ import annotations

import json
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from dissectors.records import JSON_COLUMNS
from pipelines.formats import Writer, columns
from pipelines.formats.hosts import ADDRESSED, HOST_NAMES, beside, names_in_use
from pipelines.payloads.columns import KEY_JSON, VALUE_JSON

_JSON = JSON_COLUMNS | {KEY_JSON, VALUE_JSON}
_CHUNK_ROWS = 4096  # lines put together at once


class JsonWriter(Writer):
    """Writes batches as JSON lines."""

    def __init__(self, schema: pa.Schema, stream: BinaryIO, table: str = "") -> None:
        self._stream = stream

    def write(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, _CHUNK_ROWS):
            self._stream.write(_lines(batch.slice(start, _CHUNK_ROWS)))

    def close(self) -> None:
        self._stream.flush()


def _lines(batch: pa.RecordBatch) -> bytes:
    pieces: list[pa.Array | str] = []
    for at, field in enumerate(batch.schema):
        pieces.append(("{" if at == 0 else ",") + json.dumps(field.name) + ":")
        pieces.append(pc.fill_null(_fragments(field.name, batch.column(at)), "null"))
    if names_in_use():
        pieces.append(_host_names(batch))
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    return b"".join(lines.cast(pa.binary()).to_pylist())


def _host_names(batch: pa.RecordBatch) -> pa.Array:
    """The last member of each row: the names of the machines whose addresses it has; nothing where it has none."""
    there = [batch.column(name).to_pylist() for name in ADDRESSED if name in batch.schema.names]
    named = (beside(row) for row in (zip(*there, strict=True) if there else [()] * batch.num_rows))
    return pa.array([f',"{HOST_NAMES}":{json.dumps(names)}' if names else "" for names in named], pa.string())


def _fragments(name: str, column: pa.Array) -> pa.Array:
    """A column of JSON values as text; null where the value is null."""
    kind = column.type
    if pa.types.is_string(kind) and name in _JSON:
        return _harmless(column)
    if pa.types.is_string(kind):
        return columns.mapped(column, _quote)
    if pa.types.is_timestamp(kind):
        return pc.binary_join_element_wise('"', columns.timestamps(column), '"', "")
    if pa.types.is_binary(kind):
        return pc.binary_join_element_wise('"', columns.base64_text(column), '"', "")
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        return _list_fragments(column)
    if pa.types.is_floating(kind):
        return pa.array([None if v is None else _number(v) for v in column.to_pylist()], pa.string())
    if columns.is_number(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    return columns.json_texts(column)


def _list_fragments(column: pa.ListArray) -> pa.Array:
    values = _fragments("", column.flatten())
    offsets = pa.concat_arrays(
        [pa.array([0], pa.int64()), pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0)).cast(pa.int64())]
    )
    mask = column.is_null() if column.null_count else None
    lists = pa.ListArray.from_arrays(offsets.cast(pa.int32()), pc.fill_null(values, "null"), mask=mask)
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _harmless(column: pa.Array) -> pa.Array:
    """JSON text as it is; written again where it holds a number that is none (NaN, Infinity), which becomes null, or a
    character that may do something to a terminal, which becomes an escape.
    """
    bad_number = pc.match_substring_regex(column, "NaN|Infinity")
    suspect = pc.fill_null(pc.or_(bad_number, pc.invert(pc.utf8_is_printable(column))), False)
    if not pc.any(suspect).as_py():
        return column
    texts = column.to_pylist()
    for at in pc.indices_nonzero(suspect).to_pylist():
        texts[at] = json.dumps(json.loads(texts[at], parse_constant=lambda name: None))
    return pa.array(texts, column.type)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _number(value: float) -> str | None:
    return repr(value) if value - value == 0.0 else None  # JSON has no infinity
