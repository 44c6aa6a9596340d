"""Columns turned into columns of text, by Arrow's kernels where they can, once per distinct value where they cannot."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipelines.formats import units
from pipelines.formats.intervals import is_interval


def timestamps(column: pa.Array) -> pa.Array:
    """timestamp[us, UTC] -> `2026-01-31T10:00:00.000001Z`."""
    import pyarrow.compute as pc  # as below: loading it takes longer than writing a screen of text

    local = column.cast(pa.timestamp("us"))
    text = pc.replace_substring(local.cast(pa.string()), " ", "T")
    return pc.binary_join_element_wise(text, "Z", "")


def base64_text(column: pa.Array) -> pa.Array:
    """binary -> base64."""
    return pa.array([None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()], pa.string())


def mapped(column: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Every text changed by `change`, which is called once per distinct text."""
    coded = column.dictionary_encode()
    return pa.array([change(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def is_number(kind: pa.DataType) -> bool:
    """Whether a column's values are numbers, as JSON has them."""
    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def json_texts(column: pa.Array) -> pa.Array:
    """A column of any type as JSON texts, value by value."""
    return pa.array([None if v is None else json.dumps(json_value(v)) for v in column.to_pylist()], pa.string())


def plain_texts(column: pa.Array) -> pa.Array:
    """A column of any type as texts: JSON of what has parts."""
    values = (json_value(value) for value in column.to_pylist())
    return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values], pa.string())


def json_value(value: Any) -> Any:
    """A value as JSON has it: no NaN and no infinity, times as text, bytes in base64."""
    if isinstance(value, pa.MonthDayNano):  # a tuple too
        return units.interval(*value)
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value is None or isinstance(value, (str, int)) else str(value)


def is_flat_list(kind: pa.DataType) -> bool:
    """Whether a column's values are lists of what has no parts."""
    return pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type) and not is_interval(kind.value_type)


def joined(column: pa.Array, separator: str) -> pa.Array:
    """list of text -> one text."""
    import pyarrow.compute as pc

    return pc.binary_join(column, separator)
