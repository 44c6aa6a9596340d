"""Columns turned into columns of text, by Arrow's kernels where they can, once per distinct value where they cannot."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc


def timestamps(column: pa.Array) -> pa.Array:
    """timestamp[us, UTC] -> `2026-01-31T10:00:00.000001Z`."""
    local = column.cast(pa.timestamp("us"))
    text = pc.replace_substring(local.cast(pa.string()), " ", "T")
    return pc.binary_join_element_wise(text, "Z", "")


def base64_text(column: pa.Array) -> pa.Array:
    """binary -> base64."""
    return pa.array([None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()], pa.string())


def mapped(column: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Every text changed by `change`, which is called once per distinct text."""
    coded = pc.dictionary_encode(column)
    return pa.array([change(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def joined(column: pa.Array, separator: str) -> pa.Array:
    """list of text -> one text."""
    return pc.binary_join(column, separator)
