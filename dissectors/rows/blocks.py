"""Finished rows -> one Arrow record batch with the schema of their table, a column at a time.

Rows are put into order first, as numbers: `ORDER`. Of rows that are in order, whole 64-bit numbers go as they lie,
without a copy.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from dissectors import arrow, records
from dissectors.arrow import Bools, Ints
from dissectors.records import ORDER, PACKET_MASK, PACKET_SHIFT
from dissectors.redaction import public_path
from dissectors.rows.connections import ConnectionColumns
from dissectors.rows.gather import checksums, coded, decimals, exchange_ids, numbered
from dissectors.rows.layout import ABSENT, Kind
from dissectors.rows.table import RowTable
from dissectors.wire.arrays import Bytes, Numbers

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
        self._blocks = [np.asarray(block)[:, :rows] for block, rows in blocks]
        self._loose = loose
        self._files = files
        self._coded = coded
        self._places: Ints = np.zeros(0, np.int64)  # of texts in the dictionary of a column
        self._turn: Ints | None = None
        self._turn = order([self._key(name) for name in ORDER[self._layout.table]])

    def arrays(self, have: dict[str, bool]) -> list[pa.Array]:
        """The columns. have: which options of fields are set."""
        found: list[pa.Array] = []
        for place, field in enumerate(self._layout.fields):
            if have[field.only]:
                found += self._columns(field, self._layout.kinds[place], self._numbers(place))
        return found

    def _numbers(self, place: int) -> Ints:
        """A field of all rows, in order: as it lies in its block, where that is one and in order."""
        parts = [block[place] for block in self._blocks]
        numbers: Ints = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if self._turn is None or (numbers == numbers[0]).all():  # to compare numbers costs less than to move them
            return numbers
        return numbers.take(self._turn)

    def _key(self, name: str) -> Ints:
        """A field as its column is ordered: rows without a value come last."""
        place = self._layout.places[name]
        numbers, kind = self._numbers(place), self._layout.fields[place].kind
        absent = numbers == ABSENT
        if kind == "time":
            numbers = numbers // 1000
            absent |= arrow.beyond_calendars(numbers)
        elif kind == "packet_ref":
            numbers = numbers & PACKET_MASK
        return np.where(absent, _LAST, numbers)

    def _columns(self, field: records.Field, kind: Kind, numbers: Ints) -> list[pa.Array]:
        absent = numbers == ABSENT
        if kind == Kind.CONN:
            return self._connections(numbers, absent)
        if field.kind == "packet_ref":
            return packets(numbers, absent, self._files, coded=self._coded)
        if field.kind == "time":
            return [arrow.times(numbers, absent)]
        type = field.columns[0].type
        if kind == Kind.TEXT:
            return [self._text(field.columns[0], numbers)]
        if absent.all():
            return [pa.nulls(len(numbers), type)]
        if kind == Kind.LIST:
            lists, index = _distinct(self._table.lists.values, numbers, absent)
            return [arrow.take(column_of(lists, type), arrow.column(index, missing=absent))]
        if kind == Kind.LOOSE:
            return [self._loose_column(field, numbers, absent)]
        if field.is_flag:
            return [arrow.column(numbers == 1, missing=absent)]
        return [whole_numbers(numbers, type, absent)]

    def _text(self, column: records.Column, numbers: Ints) -> pa.Array:
        """The texts of a column, by their numbers."""
        known = self._table.texts
        if not (self._coded and column.repeats):
            return texts(known.arena, known.starts, numbers)
        if len(self._places) < known.count:
            self._places = np.zeros(known.count, np.int64)
        return texts(known.arena, known.starts, numbers, self._places)

    def _loose_column(self, field: records.Field, numbers: Ints, absent: Bools) -> pa.Array:
        """Numbers as what the kind of the field makes of them, and loose values."""
        type = field.columns[0].type
        given = (numbers < 0) & ~absent  # as a text or as bytes
        if not given.any():
            return self._made(field, numbers)
        if (given | absent).all():
            return column_of([None if n == ABSENT else self._loose[-1 - n] for n in numbers.tolist()], type)
        made = self._made(field, np.where(given, ABSENT, numbers)).to_pylist()
        for row in np.flatnonzero(given).tolist():
            made[row] = self._loose[-1 - int(numbers[row])]
        return column_of(made, type)

    def _made(self, field: records.Field, numbers: Ints) -> pa.Array:
        """The texts that numbers from 0 on stand for."""
        if field.kind == "decimal":
            return _text_column(decimals(numbers.data), numbers)
        if field.kind == "checksum":
            return _text_column(checksums(numbers.data), numbers)
        conns = self._numbers(self._layout.places["conn"])
        return _text_column(exchange_ids(self._conns.ids, conns.data, numbers.data), numbers)

    def _connections(self, conns: Ints, absent: Bools) -> list[pa.Array]:
        """CONNECTION_COLUMNS of rows."""
        found = []
        for numbers, column in zip(self._conns.numbers(conns, absent), records.CONNECTION_COLUMNS, strict=True):
            if column.type == pa.string():
                found.append(self._text(column, numbers))
            else:
                found.append(whole_numbers(numbers, column.type, numbers == ABSENT))
        return found


def order(keys: Sequence[Ints]) -> Ints | None:
    """Indices of rows, ascending by keys, those that are equal as they come; None where all are in order already."""
    first = keys[0]
    if (first[1:] > first[:-1]).all():
        return None
    turn: Ints = np.argsort(first, kind="stable")
    ordered = first[turn]
    equal = ordered[1:] == ordered[:-1]
    if equal.any():
        tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        rows = turn[tied]
        turn[tied] = rows[np.lexsort([key[rows] for key in reversed(keys)])]
    return None if (turn[1:] > turn[:-1]).all() else turn


def texts(arena: Bytes, starts: Numbers, numbers: Ints, places: Ints | None = None) -> pa.Array:
    """Texts by their numbers, null for ABSENT: text w is arena[starts[w] : starts[w + 1]].

    places: int64, 0 for each text that there is, left so; where they are given, the column is a dictionary.
    """
    if places is None:
        return _text_column(numbered(arena, starts, numbers.data), numbers)
    if (numbers == ABSENT).all():
        return pa.nulls(len(numbers), records.CODED)
    indices, held = coded(numbers.data, places.data)
    index = pa.Array.from_buffers(pa.int32(), len(numbers), [_validity(numbers), pa.py_buffer(indices)])
    known = texts(arena, starts, np.frombuffer(held, np.int64))
    return pa.DictionaryArray.from_arrays(index, known, safe=False)  # the places are ours


def _text_column(gathered: tuple[bytearray, bytearray], numbers: Ints) -> pa.Array:
    """What `gather` made of numbers, as a column."""
    return pa.Array.from_buffers(pa.string(), len(numbers), [_validity(numbers), *map(pa.py_buffer, gathered)])


def _validity(numbers: Ints) -> pa.Buffer | None:
    """Which numbers are not ABSENT, as bits; None where all are there."""
    absent = numbers == ABSENT
    return arrow.bits(~absent) if absent.any() else None


def _some_of(values: Sequence[str | None], index: Ints, *, coded: bool) -> pa.Array:
    """The text values[i] for each i of the index, which may be ABSENT."""
    raw = [b"" if value is None else value.encode("utf-8", "backslashreplace") for value in values]
    starts = array("q", [0, *accumulate(map(len, raw))])
    if None in values:
        of_value = np.array([ABSENT if value is None else i for i, value in enumerate(values)])
        index = np.where(index == ABSENT, ABSENT, of_value[np.maximum(index, 0)])
    return texts(b"".join(raw), starts, index, np.zeros(len(values), np.int64) if coded else None)


def packets(references: Ints, missing: Bools, files: Sequence[str], *, coded: bool = False) -> list[pa.Array]:
    """Files and packet numbers of packet references."""
    names = [*map(public_path, files)]
    index = np.where(missing, ABSENT, references >> PACKET_SHIFT)
    return [_some_of(names, index, coded=coded), arrow.column(references & PACKET_MASK, missing=missing)]


def whole_numbers(numbers: Ints, type: pa.DataType, missing: Bools) -> pa.Array:
    """Numbers of a type of 32 or 64 bits; null where they do not fit."""
    if type.bit_width < 64:
        bound = 1 << (type.bit_width - 1)
        missing = missing | (numbers < -bound) | (numbers >= bound)
    return arrow.column(numbers, type, missing)


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


def _distinct(values: Sequence[Any], numbers: Ints, absent: Bools) -> tuple[list[Any], Ints]:
    """The numbered values that rows have, and which of these each row has: ABSENT where it has none."""
    used = np.zeros(len(values) + 1, bool)  # behind the last: none
    which = np.where(absent, len(values), numbers)
    used[which] = True
    used[-1] = False
    place = np.where(used, np.cumsum(used) - 1, ABSENT)
    return [values[i] for i in np.flatnonzero(used).tolist()], place[which]
