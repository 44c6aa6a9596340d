"""Finished rows -> Arrow record batches with the schema of their table, a column at a time.

Whole 64-bit numbers go as they lie, without a copy. Texts are taken from the numbered ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dissectors import arrow, records
from dissectors.arrow import Bools, Ints
from dissectors.records import PACKET_MASK, PACKET_SHIFT
from dissectors.redaction import public_path
from dissectors.rows.layout import ABSENT, Kind
from dissectors.rows.table import RowTable
from dissectors.rows.texts import Texts

_OF_CONNECTION = attrgetter(*(column.name for column in records.CONNECTION_COLUMNS))
_NOBODY = (None,) * len(records.CONNECTION_COLUMNS)
_HEX = np.array([b"%02x" % byte for byte in range(256)], "S2")
_MAX_US = 253_402_300_799_999_999  # 9999-12-31: what datetime, pandas and JSON readers can hold


def take_batches(
    table: RowTable, files: Sequence[str], *, full: bool = False, payloads: bool = False
) -> list[pa.RecordBatch]:
    """Take the finished rows of a table. files: file index -> path, for packet references."""
    blocks, loose = table.take()
    if not blocks:
        return []
    schema = records.schema(table.layout.table, full=full, payloads=payloads)
    reading = _Reading(table, loose, files, {"": True, "full": full, "payloads": payloads})
    return [
        pa.RecordBatch.from_arrays(reading.arrays(np.asarray(block)[:, :rows]), schema=schema) for block, rows in blocks
    ]


class _Reading:
    """What the numbers of some blocks of a table stand for, as Arrow arrays; made when the first row needs them."""

    def __init__(self, table: RowTable, loose: list[Any], files: Sequence[str], have: dict[str, bool]) -> None:
        self._layout = table.layout
        self._loose = loose
        self._files = files
        self._have = have
        self._table = table
        self._texts: pa.Array | None = None

    def arrays(self, block: Ints) -> list[pa.Array]:
        """The columns of a block: int64[fields, rows]."""
        found: list[pa.Array] = []
        for field, kind, numbers in zip(self._layout.fields, self._layout.kinds, block, strict=True):
            if self._have[field.only]:
                found += self._columns(field, kind, numbers, block)
        return found

    def _columns(self, field: records.Field, kind: Kind, numbers: Ints, block: Ints) -> list[pa.Array]:
        absent = numbers == ABSENT
        if kind == Kind.CONN:
            return connections(*_distinct(self._table.conns.values, numbers, absent))
        if field.kind == "packet_ref":
            return packets(numbers, absent, self._files)
        if field.kind == "time":
            return [times(numbers, absent)]
        type = field.columns[0].type
        if kind == Kind.TEXT:
            return [self._text(numbers, absent)]
        if kind == Kind.LIST:
            lists, index = _distinct(self._table.lists.values, numbers, absent)
            return [arrow.take(array(lists, type), index)]
        if kind == Kind.LOOSE:
            return [self._loose_column(field, numbers, absent, block)]
        if field.is_flag:
            return [arrow.column(numbers == 1, missing=absent)]
        return [whole_numbers(numbers, type, absent)]

    def _text(self, numbers: Ints, absent: Bools) -> pa.Array:
        if self._texts is None:
            self._texts = texts(self._table.texts)
        if (numbers == numbers[0]).all():  # a third of the cost
            value = None if absent[0] else self._texts[int(numbers[0])]
            return pa.nulls(len(numbers), pa.string()) if value is None else pa.repeat(value, len(numbers))
        return arrow.take(self._texts, _index(numbers, absent))

    def _loose_column(self, field: records.Field, numbers: Ints, absent: Bools, block: Ints) -> pa.Array:
        """Numbers as what the kind of the field makes of them, and loose values."""
        type = field.columns[0].type
        if absent.all():
            return pa.nulls(len(numbers), type)
        given = (numbers < 0) & ~absent  # as a text or as bytes
        if not given.any():
            return self._made(field, numbers, absent, block)
        if (given | absent).all():
            return array([None if n == ABSENT else self._loose[-1 - n] for n in numbers.tolist()], type)
        made = self._made(field, numbers, absent | given, block).to_pylist()
        for row in np.flatnonzero(given).tolist():
            made[row] = self._loose[-1 - int(numbers[row])]
        return array(made, type)

    def _made(self, field: records.Field, numbers: Ints, absent: Bools, block: Ints) -> pa.Array:
        """The texts that numbers from 0 on stand for."""
        if field.kind == "decimal":
            return arrow.decimals(arrow.column(numbers, missing=absent))
        made = self._ids(numbers, block) if field.kind == "exchange_id" else self._checksums(numbers, block)
        return arrow.where(~absent, made) if absent.any() else made

    def _ids(self, numbers: Ints, block: Ints) -> pa.Array:
        """Ids of exchanges, as `records.LOOSE_KINDS` has them."""
        conn = block[self._layout.places["conn"]]
        conns, index = _distinct(self._table.conns.values, conn, conn == ABSENT)
        ids = arrow.take(pa.array([conn.id for conn in conns], pa.string()), index)
        sides = arrow.take(pa.array(["-c", "-s"]), arrow.column(numbers & 1))
        return arrow.joined(ids, sides, arrow.decimals(arrow.column(numbers >> 1)))

    def _checksums(self, numbers: Ints, block: Ints) -> pa.Array:
        """0x and as many hexadecimal digits as checksums of the row's kind have."""
        short = hex_column(numbers & 0xFFFFFFFF, 4)
        wide = [self._table.texts.of(kind) for kind in records.WIDE_CHECKSUMS]
        is_wide = np.isin(block[self._layout.places["checksum_kind"]], wide)
        if not is_wide.any():
            return short
        index = np.where(is_wide, len(numbers), 0) + np.arange(len(numbers))
        return arrow.take(pa.concat_arrays([short, hex_column(numbers, 8)]), index)


def texts(numbered: Texts) -> pa.Array:
    """All texts, by number; their bytes are not copied."""
    offsets = np.asarray(numbered.starts)[: numbered.count + 1].astype(np.int32)
    data = pa.py_buffer(numbered.arena)
    return pa.Array.from_buffers(pa.string(), numbered.count, [None, pa.py_buffer(offsets), data])


def connections(distinct: Sequence[Any], index: pa.Array) -> list[pa.Array]:
    """CONNECTION_COLUMNS of rows: distinct connections (Conn or None), and which of them each row has."""
    rows = [_NOBODY if conn is None else _OF_CONNECTION(conn) for conn in distinct or (None,)]
    return [
        arrow.take(array(values, column.type), index)
        for values, column in zip(zip(*rows, strict=True), records.CONNECTION_COLUMNS, strict=True)
    ]


def packets(references: Ints, missing: Bools | None, files: Sequence[str]) -> list[pa.Array]:
    """Files and packet numbers of packet references."""
    names = array([*map(public_path, files)], pa.string())
    index, packet = (
        arrow.column(each, missing=missing) for each in (references >> PACKET_SHIFT, references & PACKET_MASK)
    )
    return [arrow.take(names, index), packet]


def times(ns: Ints, missing: Bools | None) -> pa.Array:
    """Nanoseconds as timestamps; null where no calendar of readers holds them."""
    us = ns // 1000
    beyond = (us < 0) | (us > _MAX_US)
    return arrow.column(us, pa.timestamp("us", "UTC"), beyond if missing is None else beyond | missing)


def whole_numbers(numbers: Ints, type: pa.DataType, missing: Bools) -> pa.Array:
    """Numbers of a type of 32 or 64 bits; null where they do not fit."""
    if type.bit_width < 64:
        bound = 1 << (type.bit_width - 1)
        missing = missing | (numbers < -bound) | (numbers >= bound)
    return arrow.column(numbers, type, missing)


def hex_column(values: npt.NDArray[Any], size: int = 4) -> pa.Array:
    """Unsigned numbers of some bytes as `checksum.shown` has them: 0x and two digits for each byte."""
    characters = np.empty((len(values), 2 + 2 * size), np.uint8)
    characters[:, :2] = tuple(b"0x")
    octets = values.astype(f">u{size}").view(np.uint8)
    characters[:, 2:] = _HEX[octets].view(np.uint8).reshape(-1, 2 * size)
    return arrow.texts(characters)


def array(values: Sequence[Any], type: pa.DataType) -> pa.Array:
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


def _distinct(values: Sequence[Any], numbers: Ints, absent: Bools) -> tuple[list[Any], pa.Array]:
    """The numbered values that rows have, and which of these each row has."""
    used = np.zeros(len(values), bool)
    used[numbers[~absent]] = True
    place = np.cumsum(used) - 1
    index = np.where(absent, 0, place[np.where(absent, 0, numbers)] if len(values) else 0)
    return [values[i] for i in np.flatnonzero(used).tolist()], _index(index, absent)


def _index(numbers: Ints, absent: Bools) -> pa.Array:
    """Numbers as indices, null where there is none."""
    return arrow.column(numbers, missing=absent if absent.any() else None)
