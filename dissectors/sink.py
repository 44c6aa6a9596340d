"""Where decoders put rows, and where rows become Arrow record batches.

A decoder appends NamedTuples of `records` to the list of their table. Names that the decoder has not met (a Kafka topic
id, an Iggy stream number) are written as a token by `unresolved`; whoever learns a name tells it with `name`. Names are
data: `resolve` puts them in afterwards, wherever in the capture set they were told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dissectors import records
from dissectors.records import PLACE_MASK, PLACE_SHIFT, Conn

MARK = "\0"
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor
_TOKEN = re.compile(f"{MARK}([^{MARK}]*){MARK}([^{MARK}]*){MARK}")
NAMED_COLUMNS = ("topic", "topics", "dialect")  # the columns in which tokens may stand
_OF_CONNECTION = attrgetter(*(column.name for column in records.CONNECTION_COLUMNS))
_NOBODY = (None,) * len(records.CONNECTION_COLUMNS)
_MAX_US = 253_402_300_799_999_999  # 9999-12-31: what datetime, pandas and JSON readers can hold


class Suspect(NamedTuple):
    """Bytes whose checksum is wrong, kept for forensics. Indices count from the start of the unit."""

    conn: Conn
    direction: int
    offset: int  # stream offset of the unit: that of its row in `batches`
    unit: bytes  # the batch, entry or run of messages, as captured
    format: str  # as in its row
    kind: str  # of checksum
    stored: int
    computed: int
    covered: tuple[tuple[int, int], ...]  # [start, end) of what the checksum covers, one after the other
    checksum_at: int  # where the stored checksum lies
    checksum_bytes: int
    byteorder: Literal["big", "little"]
    base: int | None  # TCP sequence number of stream offset 0; None where the stream is what TLS carried
    pieces: tuple[tuple[int, int, int], ...]  # stream offset, packet (Place) and time of each segment


class Name(NamedTuple):
    """`key` was called `name` at `time` (ns)."""

    key: str
    time: int
    name: str


def unresolved(key: str, fallback: str) -> str:
    """A token for a name not known here: `key` is looked up at the end, `fallback` is shown if nobody told it."""
    return f"{MARK}{key}{MARK}{fallback}{MARK}"


class Coded(NamedTuple):
    """A column by its distinct values: `values[codes[i]]` is that of row i."""

    values: Sequence[Any]
    codes: npt.NDArray[np.int64]


class Masked(NamedTuple):
    """A column in which values are missing."""

    values: npt.NDArray[np.int64]
    missing: npt.NDArray[np.bool_]


class Sink:
    """Row lists of the wanted tables. `tables` is what decoders ask before they do work for a table."""

    def __init__(self, tables: Iterable[str], *, full: bool = False, payloads: bool = False) -> None:
        self.tables = frozenset(tables)
        self.full = full
        self.payloads = payloads
        self.exchanges: list[records.Exchange] = []
        self.batches: list[records.Batch] = []
        self.errors: list[records.Error] = []
        self.connections: list[records.Connection] = []
        self.findings: list[records.Finding] = []
        self.messages: list[records.Message] = []
        self.names: list[Name] = []
        self._ready: dict[str, list[pa.RecordBatch]] = {}
        self.suspects: list[Suspect] | None = None  # a list where bad checksums are to be looked into
        self.files: list[str] = []  # file index -> name, for Place

    def name(self, key: str, time: int, name: str) -> None:
        """Tell what `key` is called."""
        self.names.append(_new(Name, (key, time, name)))

    def where(self, place: int) -> dict[str, object]:
        """A packet, for a finding's evidence."""
        return {"file": self.files[place >> PLACE_SHIFT], "packet": place & PLACE_MASK}

    def extend(self, table: str, rows: int, /, **columns: Any) -> None:
        """Add rows by column, under the names of the table's fields; what is not named is null.

        A column is an array, Masked, Coded, a list, or one value for all rows.
        """
        have = {"": True, "full": self.full, "payloads": self.payloads}
        arrays: list[pa.Array] = []
        for field in _fields(table):
            if not have[field.only]:
                continue
            column = columns.get(field.name)
            if column is None:
                arrays += [pa.nulls(rows, c.type) for c in field.columns]
            else:
                arrays += _columns(field, column, rows, self.files)
        batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(table, self.full, self.payloads))
        self._ready.setdefault(table, []).append(batch)

    def rows(self) -> int:
        """Rows waiting in the fullest table."""
        ready = {table: sum(batch.num_rows for batch in batches) for table, batches in self._ready.items()}
        return max((len(self._list(table)) + ready.get(table, 0) for table in self.tables), default=0)

    def drain(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The waiting rows as one record batch a table; the lists are empty afterwards."""
        for table in records.TABLES:
            rows, batches = self._list(table), self._ready.pop(table, [])
            if rows and table in self.tables:
                batches.append(to_batch(table, rows, self.files, full=self.full, payloads=self.payloads))
            rows.clear()
            if batches:
                yield table, pa.concat_batches(batches)

    def _list(self, table: str) -> list[Any]:
        rows: list[Any] = getattr(self, table)
        return rows


def to_batch(
    table: str, rows: Sequence[tuple[Any, ...]], files: Sequence[str], *, full: bool = False, payloads: bool = False
) -> pa.RecordBatch:
    """Rows of a table as one record batch with the table's schema."""
    have = {"": True, "full": full, "payloads": payloads}
    arrays: list[pa.Array] = []
    for field, values in zip(_fields(table), zip(*rows, strict=True), strict=True):
        if not have[field.only]:
            continue
        if field.kind == "conn":
            arrays += _connection_columns(values)
        elif field.kind == "place":
            arrays += _place_columns(values, files)
        elif field.kind == "time":
            arrays.append(_times(values))
        else:
            arrays.append(_array(values, field.columns[0].type))
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(table, full, payloads))


_FIELDS: dict[str, list[records.Field]] = {}
_SCHEMAS: dict[tuple[str, bool, bool], pa.Schema] = {}


def _fields(table: str) -> list[records.Field]:
    if table not in _FIELDS:
        _FIELDS[table] = records.fields(table)
    return _FIELDS[table]


def _schema(table: str, full: bool, payloads: bool) -> pa.Schema:
    key = (table, full, payloads)
    if key not in _SCHEMAS:
        _SCHEMAS[key] = records.schema(table, full=full, payloads=payloads)
    return _SCHEMAS[key]


def _columns(field: records.Field, column: Any, rows: int, files: Sequence[str]) -> list[pa.Array]:
    """The Arrow columns of one field, given as `Sink.extend` has it."""
    if field.kind == "conn":
        return _connections(column.values, pa.array(column.codes))
    if field.kind == "place":
        return _place_columns(column, files)
    if field.kind == "time":
        return [_times(column)]
    type = field.columns[0].type
    if isinstance(column, Coded):
        return [_array(column.values, type).take(pa.array(column.codes))]
    if isinstance(column, Masked):
        return [pa.array(column.values, mask=column.missing).cast(type, safe=False)]
    if isinstance(column, np.ndarray):
        return [pa.array(column).cast(type, safe=False)]
    if isinstance(column, list):
        return [_array(column, type)]
    return [pa.repeat(pa.scalar(column, type), rows)]


def _connection_columns(conns: Sequence[Conn | None]) -> list[pa.Array]:
    distinct = list({id(conn): conn for conn in conns}.values())
    code = {id(conn): i for i, conn in enumerate(distinct)}
    return _connections(distinct, pa.array([code[id(conn)] for conn in conns], pa.int32()))


def _connections(distinct: Sequence[Conn | None], index: pa.Array) -> list[pa.Array]:
    rows = [_NOBODY if conn is None else _OF_CONNECTION(conn) for conn in distinct]
    return [
        pa.array(values, column.type).take(index)
        for values, column in zip(zip(*rows, strict=True), records.CONNECTION_COLUMNS, strict=True)
    ]


def _place_columns(places: Sequence[int | None], files: Sequence[str]) -> list[pa.Array]:
    flat, missing = _integers(places)
    index = pa.array(flat >> PLACE_SHIFT, mask=missing)
    return [pa.array(files, pa.string()).take(index), pa.array(flat & PLACE_MASK, mask=missing)]


def _times(values: Sequence[int | None]) -> pa.Array:
    ns, missing = _integers(values)
    us = ns // 1000
    missing |= (us < 0) | (us > _MAX_US)
    return pa.array(us, mask=missing).cast(pa.timestamp("us", "UTC"))


def _integers(values: Sequence[int | None]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Values as int64, 0 where there is none or where it does not fit, and a mask of these."""
    try:
        return np.array(values, np.int64), np.zeros(len(values), bool)
    except (TypeError, OverflowError):
        fits = [v if v is not None and -(1 << 63) <= v < 1 << 63 else None for v in values]
        missing = np.array([v is None for v in fits], bool)
        return np.array([0 if v is None else v for v in fits], np.int64), missing


def _array(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type)
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        return pa.array([_fitting(v, type) for v in values], type)


def _fitting(value: Any, type: pa.DataType) -> Any:
    """A hostile capture holds numbers and texts that no column holds: such a value becomes null or is escaped."""
    if isinstance(value, int) and pa.types.is_integer(type):
        bound = 1 << (type.bit_width - 1)
        return value if -bound <= value < bound else None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, (list, tuple)):
        return [_fitting(v, type.value_type) for v in value]
    return value


# --- names -----------------------------------------------------------------------------------------------------------


class Names:
    """Names told anywhere in a capture set."""

    def __init__(self, told: Iterable[Name] = ()) -> None:
        self._told: dict[str, list[tuple[int, str]]] = {}
        for name in sorted(set(told), key=lambda n: (n.key, n.time, n.name)):
            history = self._told.setdefault(name.key, [])
            if not history or history[-1][1] != name.name:
                history.append((name.time, name.name))

    def get(self, key: str, time: int) -> str | None:
        """The name last told at or before `time` (ns), else the first one told after it."""
        history = self._told.get(key)
        if not history:
            return None
        return next((name for at, name in reversed(history) if at <= time), history[0][1])

    def text(self, text: str, time: int) -> str:
        """`text` with its tokens replaced."""
        return _TOKEN.sub(lambda m: self.get(m[1], time) or m[2], text)


def has_tokens(batch: pa.RecordBatch) -> bool:
    """Whether a name in this batch is still a token."""
    for column in NAMED_COLUMNS:
        at = batch.schema.get_field_index(column)
        if at >= 0:
            values = batch.column(at)
            flat = values.flatten() if pa.types.is_list(values.type) else values
            if pc.any(pc.match_substring(flat, MARK)).as_py():
                return True
    return False


def resolve(batch: pa.RecordBatch, names: Names) -> pa.RecordBatch:
    """The batch with every token replaced by the name told for it, or by its fallback."""
    timed = "time" if "time" in batch.schema.names else "start_time"
    times = batch.column(timed).cast(pa.int64())
    for column in NAMED_COLUMNS:
        at = batch.schema.get_field_index(column)
        if at < 0:
            continue
        field = batch.schema.field(at)
        batch = batch.set_column(at, field, _resolved(batch.column(at), times, names))
    return batch


def _resolved(column: pa.Array, times: pa.Array, names: Names) -> pa.Array:
    """The column with its tokens replaced; only the rows that hold one are touched."""
    if pa.types.is_list(column.type):
        marked = pc.match_substring(column.flatten(), MARK).fill_null(False)
        rows = pc.list_parent_indices(column).filter(marked).unique()
        replace: list[Any] = [
            _distinct(names.text(text, _ns(time)) for text in texts)
            for texts, time in zip(column.take(rows).to_pylist(), times.take(rows).to_pylist(), strict=True)
        ]
    else:
        rows = pc.indices_nonzero(pc.match_substring(column, MARK).fill_null(False))
        replace = [
            names.text(text, _ns(time))
            for text, time in zip(column.take(rows).to_pylist(), times.take(rows).to_pylist(), strict=True)
        ]
    if not replace:
        return column
    index = np.arange(len(column))
    index[rows.to_numpy()] = len(column) + np.arange(len(replace))
    return pa.concat_arrays([column, pa.array(replace, column.type)]).take(pa.array(index))


def _ns(us: int | None) -> int:
    return (us or 0) * 1000 + 999


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
