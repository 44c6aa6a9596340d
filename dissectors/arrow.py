"""Arrow columns from numpy's arrays, and the few functions over them that rows need.

pyarrow.compute documents three hundred functions whenever it is imported, and pyarrow.array loads numpy's masked arrays
for each of numpy's: together a fifth of what reading a small capture takes. Here neither is loaded; what is called is
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

try:
    from pyarrow._compute import CastOptions, DictionaryEncodeOptions, MatchSubstringOptions, SortOptions, call_function
except ImportError:  # they lie elsewhere in another version; there they are for certain
    from pyarrow.compute import CastOptions, DictionaryEncodeOptions, MatchSubstringOptions, SortOptions, call_function

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]


def column(values: npt.NDArray[Any]) -> pa.Array:
    """Whole numbers as a column of their own type."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])


def as_numbers(values: pa.Array, missing: int) -> Ints:
    """Times or numbers as int64, with `missing` where there is none."""
    numbers = call_function("cast", [values], CastOptions.safe(pa.int64()))
    filled: Ints = _filled(numbers, missing).to_numpy(zero_copy_only=False)
    return filled


def take(values: Any, index: Ints | pa.Array) -> Any:
    """The rows of a column or of a record batch at some indices."""
    return call_function("take", [values, index if isinstance(index, pa.Array) else column(index)])


def keep(batch: pa.RecordBatch, which: Bools) -> pa.RecordBatch:
    """The rows of a record batch that are wanted, with dictionaries of their own texts: not of all that were there.

    Rows that wait and are joined to others, time and again, would otherwise bring along every text that they ever met.
    """
    rows = take(batch, np.flatnonzero(which))
    return pa.RecordBatch.from_arrays([*map(_shrunk, rows.columns)], schema=batch.schema)


def plain(values: pa.Array) -> pa.Array:
    """A column without a dictionary."""
    return take(values.dictionary, values.indices) if isinstance(values, pa.DictionaryArray) else values


def _shrunk(values: pa.Array) -> pa.Array:
    """A column whose dictionary, where it has one, holds no other values than its own."""
    if not isinstance(values, pa.DictionaryArray):
        return values
    used = numbered(values.indices)
    return pa.DictionaryArray.from_arrays(used.indices, take(values.dictionary, used.dictionary), safe=False)


def containing(values: pa.Array, text: str) -> Bools:
    """Whether each text of a column holds another; not where there is none."""
    found = call_function("match_substring", [values], MatchSubstringOptions(text))
    holds: Bools = _filled(found, False).to_numpy(zero_copy_only=False)
    return holds


def numbered(values: pa.Array) -> pa.DictionaryArray:
    """A column as numbers of its values, each of which stands once in its dictionary; null stays null."""
    return call_function("dictionary_encode", [values], DictionaryEncodeOptions())


def flat(lists: pa.Array) -> pa.Array:
    """The values in a column of lists, one after the other."""
    return call_function("list_flatten", [lists])


def parents(lists: pa.Array) -> Ints:
    """The row of each value in a column of lists."""
    rows: Ints = call_function("list_parent_indices", [lists]).to_numpy()
    return rows


def order(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.Array:
    """Indices of the rows, ascending by some columns; rows without a value come last."""
    return call_function("sort_indices", [batch], SortOptions([(name, "ascending") for name in columns]))


def _filled(values: pa.Array, value: Any) -> pa.Array:
    return call_function("coalesce", [values, pa.scalar(value)]) if values.null_count else values


def first_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows of batches, at most `limit`; all where it is None. No batch behind them is asked for."""
    left = limit
    for batch in batches if left != 0 else ():
        rows = batch if left is None or left >= batch.num_rows else batch.slice(0, left)
        if rows.num_rows:
            yield rows
        if left is not None:
            left -= rows.num_rows
            if not left:
                return
