"""Where decoders put rows, and where rows become Arrow record batches.

A decoder appends NamedTuples of `records` to the list of their table. A name that the decoder does not know is written
as a token, and whoever learns one reports it with `name`: see `late_names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dissectors import arrow, records
from dissectors.arrow import Bools, Ints
from dissectors.late_names import LIKELY, Name
from dissectors.limits import Limits
from dissectors.records import PACKET_MASK, PACKET_SHIFT, Conn
from dissectors.redaction import public_path

_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor
_OF_CONNECTION = attrgetter(*(column.name for column in records.CONNECTION_COLUMNS))
_NOBODY = (None,) * len(records.CONNECTION_COLUMNS)
_HEX = np.array([b"%02x" % byte for byte in range(256)], "S2")
_MESSAGE_BYTES = 1024  # what a row of `messages` takes, about
_OBJECTS = 4_000  # rows of a table that are kept as objects
_COPIES = 3  # of a payload, on its way from a batch to a row
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
    pieces: tuple[tuple[int, int, int], ...]  # stream offset, packet reference and time of each segment


def bounded(suspects: Iterable[Suspect], limits: Limits) -> list[Suspect]:
    """The first ones on the wire, within the limits."""
    kept: list[Suspect] = []
    size = 0
    for suspect in sorted(suspects, key=lambda s: (s.pieces[0][2], s.pieces[0][1], s.offset))[: limits.suspects]:
        size += len(suspect.unit)
        if size > limits.suspect_bytes:
            break
        kept.append(suspect)
    return kept


class Coded(NamedTuple):
    """A column by its distinct values: `values[codes[i]]` is that of row i."""

    values: Sequence[Any]
    codes: Ints


class Masked(NamedTuple):
    """A column in which values are missing."""

    values: Ints
    missing: Bools


def text_column(*parts: Coded | Ints) -> pa.Array:
    """Texts joined from parts, row by row: texts by their distinct values, or numbers as decimals."""
    columns = [
        arrow.take(pa.array(part.values, pa.string()), part.codes)
        if isinstance(part, Coded)
        else arrow.decimals(arrow.column(part))
        for part in parts
    ]
    return arrow.joined(*columns)


def hex_column(values: Ints) -> pa.Array:
    """Unsigned 32-bit numbers as `checksum.shown` has them: 0x and eight digits."""
    characters = np.empty((len(values), 10), np.uint8)
    characters[:, :2] = tuple(b"0x")
    characters[:, 2:] = _HEX[values.astype(">u4").view(np.uint8)].view(np.uint8).reshape(-1, 8)
    return arrow.texts(characters)


class Sink:
    """Row lists of the wanted tables. `tables` is what decoders ask before they do work for a table."""

    def __init__(
        self,
        tables: Iterable[str],
        *,
        full: bool = False,
        bodies_of: Iterable[str] = (),
        payloads: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.tables = frozenset(tables)
        self.full = full
        self.bodies_of = frozenset(bodies_of)
        self.payloads = payloads
        self.exchanges: list[records.Exchange] = []
        self.batches: list[records.Batch] = []
        self.errors: list[records.Error] = []
        self.connections: list[records.Connection] = []
        self.findings: list[records.Finding] = []
        self.messages: list[records.Message] = []
        self.names: list[Name] = []  # reported since the last `take_names`, each that says something new
        self._most_names = (limits or Limits()).names
        self._latest: dict[str, Name] = {}  # report of each key
        self._most_messages = self._room = (limits or Limits()).message_bytes
        self._waiting = 0  # bytes of messages that wait with their requests, from one drain to the next
        self._most_objects = min((limits or Limits()).rows, _OBJECTS)
        self._shared: dict[tuple[bytes, str], tuple[bytes, str]] = {}
        self._ready: dict[str, list[pa.RecordBatch]] = {}
        self.suspects: list[Suspect] | None = None  # a list where bad checksums are to be looked into
        self.files: list[str] = []  # file index -> path, for packet references

    def name(self, key: str, time: int, name: str, *, likely: bool = False) -> None:
        """Report what `key` is called: for certain, or likely. The same name again says nothing new, unless earlier."""
        if likely:
            key += LIKELY
        latest = self._latest.get(key)
        report = Name(key, time, name)
        if latest is None:
            if len(self._latest) > self._most_names:
                return
        elif latest.name == name and latest.time <= time:
            self._latest[key] = report
            return
        elif latest.name != name:
            self.names.append(latest)  # so long it was called otherwise
        self._latest[key] = report
        self.names.append(report)

    # --- which bodies are wanted ---

    @property
    def wants_all_bodies(self) -> bool:
        """Whether every exchange is reported with its bodies."""
        return self.full and not self.bodies_of

    def wants_body(self, api: str | None) -> bool:
        """Whether exchanges of an API are reported with their bodies."""
        return self.full and (not self.bodies_of or api in self.bodies_of)

    # --- how much may be unfolded ---

    @property
    def room(self) -> int:
        """Bytes that one more batch may unfold into, where its messages become rows."""
        return max(0, self._room) // (_COPIES if self.payloads else 1)

    def unfold(self, size: int, messages: int) -> int:
        """Take room for the messages of a batch of `size` bytes; how many there is room for."""
        self._room -= size * (_COPIES if self.payloads else 1)
        most = max(0, min(messages, self._room // _MESSAGE_BYTES))
        self._room -= most * _MESSAGE_BYTES
        return most

    def keep(self, size: int, messages: int) -> int:
        """Let unfolded messages wait with their request; what to `let_go` later, 0 where too many wait already."""
        kept = size * (_COPIES if self.payloads else 1) + messages * _MESSAGE_BYTES
        if self._waiting and self._waiting + kept > self._most_messages // 2:
            return 0
        self._waiting += kept
        return kept

    def let_go(self, kept: int) -> None:
        """Messages wait no longer."""
        self._waiting -= kept

    def compact(self, table: str) -> None:
        """Let many rows of a table become a record batch: as objects they take several times as much."""
        rows = self._list(table)
        if len(rows) >= self._most_objects:
            self._ready.setdefault(table, []).append(self._batch(table, rows))
            rows.clear()

    def share(self, known: tuple[bytes, str]) -> tuple[bytes, str]:
        """An equal value that others keep already, where there is one."""
        if len(self._shared) > self._most_names:
            self._shared.clear()
        return self._shared.setdefault(known, known)

    def take_names(self) -> list[Name]:
        """What was reported since the last time."""
        names, self.names = self.names, []
        return names

    def where(self, packet_ref: int) -> dict[str, object]:
        """A packet, for a finding's evidence."""
        return {"file": public_path(self.files[packet_ref >> PACKET_SHIFT]), "packet": packet_ref & PACKET_MASK}

    def extend(self, table: str, rows: int, /, **columns: Any) -> None:
        """Add rows by column, under the names of the table's fields; what is not named is null.

        A column is an array (numpy's or Arrow's), Masked, Coded, a list, or one value for all rows.
        """
        have = {"": True, "full": self.full, "payloads": self.payloads}
        arrays: list[pa.Array] = []
        for field in records.fields(table):
            if not have[field.only]:
                continue
            column = columns.get(field.name)
            if column is None:
                arrays += [pa.nulls(rows, c.type) for c in field.columns]
            else:
                arrays += _columns(field, column, rows, self.files)
        batch = pa.RecordBatch.from_arrays(arrays, schema=records.schema(table, full=self.full, payloads=self.payloads))
        self._ready.setdefault(table, []).append(batch)

    def rows(self) -> int:
        """Rows waiting in the fullest table."""
        ready = {table: sum(batch.num_rows for batch in batches) for table, batches in self._ready.items()}
        return max((len(self._list(table)) + ready.get(table, 0) for table in self.tables), default=0)

    def drain(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The waiting rows as one record batch a table; the lists are empty afterwards."""
        self._room = self._most_messages - self._waiting
        for table in records.TABLES:
            rows, batches = self._list(table), self._ready.pop(table, [])
            if rows and table in self.tables:
                batches.append(self._batch(table, rows))
            rows.clear()
            if batches:
                yield table, joined(batches)

    def _batch(self, table: str, rows: list[Any]) -> pa.RecordBatch:
        return to_batch(table, rows, self.files, full=self.full, payloads=self.payloads)

    def _list(self, table: str) -> list[Any]:
        rows: list[Any] = getattr(self, table)
        return rows


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch of several; of one, itself: Arrow would copy it."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def to_batch(
    table: str, rows: Sequence[tuple[Any, ...]], files: Sequence[str], *, full: bool = False, payloads: bool = False
) -> pa.RecordBatch:
    """Rows of a table as one record batch with the table's schema."""
    have = {"": True, "full": full, "payloads": payloads}
    arrays: list[pa.Array] = []
    for field, values in zip(records.fields(table), zip(*rows, strict=True), strict=True):
        if not have[field.only]:
            continue
        if field.kind == "conn":
            arrays += _connection_columns(values)
        elif field.kind == "packet_ref":
            arrays += _packet_ref_columns(values, files)
        elif field.kind == "time":
            arrays.append(_times(values))
        else:
            arrays.append(_array(values, field.columns[0].type))
    return pa.RecordBatch.from_arrays(arrays, schema=records.schema(table, full=full, payloads=payloads))


def _columns(field: records.Field, column: Any, rows: int, files: Sequence[str]) -> list[pa.Array]:
    """The Arrow columns of one field, given as `Sink.extend` has it."""
    if field.kind == "conn":
        return _connections(column.values, arrow.column(column.codes))
    if field.kind == "packet_ref":
        return _packet_ref_columns(column, files)
    if field.kind == "time":
        return [_times(column)]
    type = field.columns[0].type
    if isinstance(column, pa.Array):
        return [column]
    if isinstance(column, Coded):
        return [_coded(*column, type)]
    if isinstance(column, Masked):
        return [_numbers(column.values, type, column.missing)]
    if isinstance(column, np.ndarray):
        return [_numbers(column, type)]
    if isinstance(column, list):
        return [_array(column, type)]
    return [pa.repeat(pa.scalar(column, type), rows)]


def _coded(values: Sequence[Any], codes: Ints, type: pa.DataType) -> pa.Array:
    if len(codes) and (codes == codes[0]).all():  # a third of the cost
        return pa.repeat(_array([values[codes[0]]], type)[0], len(codes))
    return arrow.take(_array(values, type), codes)


def _numbers(values: npt.NDArray[Any], type: pa.DataType, missing: Bools | None = None) -> pa.Array:
    if type == pa.string():
        return arrow.decimals(arrow.column(values, missing=missing))
    return arrow.column(values, type, missing)


def _connection_columns(conns: Sequence[Conn | None]) -> list[pa.Array]:
    distinct = list({id(conn): conn for conn in conns}.values())
    code = {id(conn): i for i, conn in enumerate(distinct)}
    return _connections(distinct, pa.array([code[id(conn)] for conn in conns], pa.int32()))


def _connections(distinct: Sequence[Conn | None], index: pa.Array) -> list[pa.Array]:
    rows = [_NOBODY if conn is None else _OF_CONNECTION(conn) for conn in distinct]
    return [
        arrow.take(_array(values, column.type), index)
        for values, column in zip(zip(*rows, strict=True), records.CONNECTION_COLUMNS, strict=True)
    ]


def _packet_ref_columns(packet_refs: Sequence[int | None], files: Sequence[str]) -> list[pa.Array]:
    flat, missing = _integers(packet_refs)
    names = _array(list(map(public_path, files)), pa.string())
    index, packet = (arrow.column(each, missing=missing) for each in (flat >> PACKET_SHIFT, flat & PACKET_MASK))
    return [arrow.take(names, index), packet]


def _times(values: Sequence[int | None] | Masked) -> pa.Array:
    ns, missing = _integers(values)
    us = ns // 1000
    missing = missing | (us < 0) | (us > _MAX_US)
    return arrow.column(us, pa.timestamp("us", "UTC"), missing)


def _integers(values: Sequence[int | None] | Masked) -> tuple[Ints, Bools]:
    """Values as int64, 0 where there is none or where it does not fit, and a mask of these."""
    if isinstance(values, Masked):
        return values.values, values.missing
    if isinstance(values, np.ndarray):
        return values, np.zeros(len(values), bool)
    numbers = _array(values, pa.int64())
    return arrow.as_numbers(numbers, 0), arrow.missing(numbers)


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
