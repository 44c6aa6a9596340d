"""Finished rows -> one Arrow record batch with the schema of their table, a column at a time.

Rows are put into order first, as numbers: `ORDER`. Of rows that are in order, whole 64-bit numbers go as they lie,
without a copy.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from dissectors import arrow, records
from dissectors.arrow import Ints
from dissectors.records import ORDER
from dissectors.redaction import public_path
from dissectors.rows import pack
from dissectors.rows.connections import ConnectionColumns
from dissectors.rows.gather import checksums, coded, decimals, exchange_ids, numbered
from dissectors.rows.layout import ABSENT, Kind
from dissectors.rows.table import RowTable
from dissectors.wire.arrays import Bytes, Numbers, numbers

_LAST = np.iinfo(np.int64).max


def take_batch(
    table: RowTable,
    conns: ConnectionColumns,
    files: Sequence[str],
    *,
    full: bool = False,
    payloads: bool = False,
    coded: bool = False,
) -> pa.RecordBatch | None:
    """Take the finished rows of a table, in order; None where there are none.

    files: file index -> path; coded: see `Options.coded`.
    """
    blocks, loose = table.take()
    if not blocks:
        return None
    schema = records.schema(table.layout.table, full=full, payloads=payloads, coded=coded)
    rows = _Rows(table, conns, blocks, loose, files, coded=coded)
    return pa.RecordBatch.from_arrays(rows.arrays({"": True, "full": full, "payloads": payloads}), schema=schema)


class _Rows:
    """The rows of some blocks of a table, in order, and what the numbers in them stand for."""

    def __init__(
        self,
        table: RowTable,
        conns: ConnectionColumns,
        blocks: list[tuple[Numbers, int]],
        loose: list[Any],
        files: Sequence[str],
        *,
        coded: bool,
    ) -> None:
        self._table = table
        self._conns = conns
        self._layout = table.layout
        block, rows = blocks[0] if len(blocks) == 1 else _joined(blocks)
        self._absent, self._same = pack.survey(block, rows)
        self._columns: Ints = np.asarray(block)[:, :rows]
        self._loose = loose
        self._files = files
        self._coded = coded
        self._places = numbers(0)  # of texts in the dictionary of a column
        self._turn = order(self._keys())

    def arrays(self, have: dict[str, bool]) -> list[pa.Array]:
        """The columns. have: which options of fields are set."""
        found: list[pa.Array] = []
        for place, field in enumerate(self._layout.fields):
            if have[field.only]:
                found += self._arrays(place, field)
        return found

    def _numbers(self, place: int) -> Numbers:
        """A field of all rows, in order: as it lies in its block, where that is in order."""
        column: Ints = self._columns[place]
        return column.data if self._turn is None or self._same[place] else column.take(self._turn).data

    def _keys(self) -> Iterator[Ints]:
        """The fields by which rows are ordered, as their columns are: rows without a value come last."""
        for name in ORDER[self._layout.table]:
            place = self._layout.places[name]
            column, kind = self._columns[place], self._layout.fields[place].kind
            if kind == "time":
                column = np.asarray(pack.microseconds(column.data)[0])
            elif kind == "packet_ref":
                column = np.asarray(pack.packets(column.data)[1])
            yield np.where(column == ABSENT, _LAST, column)

    def _arrays(self, place: int, field: records.Field) -> list[pa.Array]:
        """The columns of a field."""
        kind, type = self._layout.kinds[place], field.columns[0].type
        values, absent = self._numbers(place), self._absent[place]
        if kind == Kind.CONN:
            return self._connections(values)
        if field.kind == "packet_ref":
            files, found = pack.packets(values)
            return [self._file_names(files, absent), whole_numbers(pa.int64(), found, absent)]
        if kind == Kind.TEXT:
            return [self._text(field.columns[0], values, absent)]
        if absent == len(values):
            return [pa.nulls(absent, type)]
        if field.kind == "time":
            return [whole_numbers(type, *pack.microseconds(values))]
        if kind == Kind.LIST:
            lists, index = _distinct(self._table.lists.values, np.asarray(values))
            return [arrow.take(column_of(lists, type), whole_numbers(pa.int64(), index.data, absent))]
        if kind == Kind.LOOSE:
            return [self._loose_column(field, values, absent)]
        if field.is_flag:
            return [_column(type, values, absent, pack.flags(values))]
        return [whole_numbers(type, values, absent)]

    def _text(self, column: records.Column, which: Numbers, absent: int) -> pa.Array:
        """The texts of a column, by their numbers."""
        known = self._table.texts
        if not (self._coded and column.repeats):
            return texts(known.arena, known.starts, which, absent)
        if len(self._places) < known.count:
            self._places = numbers(known.count)
        return texts(known.arena, known.starts, which, absent, self._places)

    def _loose_column(self, field: records.Field, values: Numbers, absent: int) -> pa.Array:
        """Numbers as what the kind of the field makes of them, and loose values."""
        type, found = field.columns[0].type, np.asarray(values)
        loose = int(np.count_nonzero(found < 0)) - absent  # as a text or as bytes
        if not loose:
            return self._made(field, values, absent)
        if loose + absent == len(values):
            return column_of([None if n == ABSENT else self._loose[-1 - n] for n in values.tolist()], type)
        made = self._made(field, np.where(found < 0, ABSENT, found).data, loose + absent).to_pylist()
        for row in np.flatnonzero((found < 0) & (found != ABSENT)).tolist():
            made[row] = self._loose[-1 - values[row]]
        return column_of(made, type)

    def _made(self, field: records.Field, values: Numbers, absent: int) -> pa.Array:
        """The texts that numbers from 0 on stand for."""
        if field.kind == "decimal":
            return _column(pa.string(), values, absent, *decimals(values))
        if field.kind == "checksum":
            return _column(pa.string(), values, absent, *checksums(values))
        conns = self._numbers(self._layout.places["conn"])
        return _column(pa.string(), values, absent, *exchange_ids(self._conns.ids, conns, values))

    def _connections(self, conns: Numbers) -> list[pa.Array]:
        """CONNECTION_COLUMNS of rows."""
        columns = self._conns.columns(conns)
        absent, _ = pack.survey(columns.data, len(conns))
        return [
            self._text(column, values.data, count)
            if column.type == pa.string()
            else whole_numbers(column.type, values.data, count)
            for values, count, column in zip(columns, absent, records.CONNECTION_COLUMNS, strict=True)
        ]

    @cached_property
    def _names(self) -> tuple[bytes, Numbers]:
        """The paths of files, one behind the other, and where each begins."""
        raw = [public_path(path).encode("utf-8", "backslashreplace") for path in self._files]
        return b"".join(raw), memoryview(array("q", [0, *accumulate(map(len, raw))]))

    def _file_names(self, files: Numbers, absent: int) -> pa.Array:
        """The paths of files by their indices."""
        return texts(*self._names, files, absent, numbers(len(self._files)) if self._coded else None)


def _joined(blocks: list[tuple[Numbers, int]]) -> tuple[Numbers, int]:
    """Blocks as one, and its number of rows."""
    block = np.hstack([np.asarray(block)[:, :rows] for block, rows in blocks])
    return block.data, block.shape[1]


def order(keys: Iterator[Ints]) -> Ints | None:
    """Indices of rows, ascending by keys, those that are equal as they come; None where all are in order already."""
    first = next(keys)
    if (first[1:] > first[:-1]).all():
        return None
    turn: Ints = np.argsort(first, kind="stable")
    ordered = first[turn]
    equal = ordered[1:] == ordered[:-1]
    if equal.any():
        tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        rows = turn[tied]
        turn[tied] = rows[np.lexsort([key[rows] for key in reversed([first, *keys])])]
    return None if (turn[1:] > turn[:-1]).all() else turn


def texts(arena: Bytes, starts: Numbers, which: Numbers, absent: int, places: Numbers | None = None) -> pa.Array:
    """Texts by their numbers, null for ABSENT, as so many are: text w is arena[starts[w] : starts[w + 1]].

    places: 0 for each text that there is, left so; where they are given, the column is a dictionary.
    """
    if places is None:
        return _column(pa.string(), which, absent, *numbered(arena, starts, which))
    if absent == len(which):
        return pa.nulls(absent, records.CODED)
    indices, held = coded(which, places)
    index = _column(pa.int32(), which, absent, indices)
    known = texts(arena, starts, memoryview(held), 0)
    return pa.DictionaryArray.from_arrays(index, known, safe=False)  # the places are ours


def whole_numbers(type: pa.DataType, values: Numbers, absent: int) -> pa.Array:
    """Numbers of a type of 32 or 64 bits; null where they do not fit."""
    if type.bit_width == 64:
        return _column(type, values, absent, values)
    valid, data, absent = pack.halves(values)
    buffers = [pa.py_buffer(valid) if absent else None, pa.py_buffer(data)]
    return pa.Array.from_buffers(type, len(values), buffers, absent)


def _column(type: pa.DataType, values: Numbers, absent: int, *data: Any) -> pa.Array:
    """A column of buffers that were made of some numbers, of which so many are ABSENT."""
    valid = pa.py_buffer(pack.validity(values)) if absent else None
    return pa.Array.from_buffers(type, len(values), [valid, *map(pa.py_buffer, data)], absent)


def column_of(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """Python values as a column. Numbers that do not fit the type become null, text that is no Unicode is escaped."""
    try:
        return pa.array(values, type)
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        return pa.array([_fitting(v, type) for v in values], type)


def _fitting(value: Any, type: pa.DataType) -> Any:
    if isinstance(value, int) and pa.types.is_integer(type):
        bound = 1 << (type.bit_width - 1)
        return value if -bound <= value < bound else None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, (list, tuple)):
        return [_fitting(v, type.value_type) for v in value]
    return value


def _distinct(values: Sequence[Any], numbers: Ints) -> tuple[list[Any], Ints]:
    """The numbered values that rows have, and which of these each row has: ABSENT where it has none."""
    used = np.zeros(len(values) + 1, bool)  # behind the last: none
    which = np.where(numbers == ABSENT, len(values), numbers)
    used[which] = True
    used[-1] = False
    place = np.where(used, np.cumsum(used) - 1, ABSENT)
    return [values[i] for i in np.flatnonzero(used).tolist()], place[which]
