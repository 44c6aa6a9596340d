"""Aligned columns for people: what matters most of each table, in a person's units, as wide as the terminal.

Nothing a capture holds can reach the terminal as a control sequence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from pipelines.formats import Writer, cells, units
from pipelines.formats.columns import is_flat_list, is_number, json_value
from pipelines.formats.grid import Grid, GridColumn, terminal_width, wants_colour
from pipelines.formats.hosts import with_names
from pipelines.formats.intervals import interval_ns, is_interval


class Shown(NamedTuple):
    """One column of the text: where it stands, the record columns it is made of, how they become text."""

    column: GridColumn
    columns: tuple[str, ...]
    show: Callable[..., str]


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


def _payload(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (dict, list)):
        return json.dumps(json_value(value), ensure_ascii=False)
    return _plain(value)


def _in(unit: str) -> Callable[[Any], str]:
    """How values of a unit of `cells` are written."""
    return partial(cells.show, unit=unit)


def _time(value: Any) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M:%S.%f}"


def _interval(value: pa.MonthDayNano | None) -> str:
    if value is None:
        return ""
    ns = interval_ns(value)
    return units.interval(*value) if ns is None else units.duration(ns)


def _error(status: str | None, name: str | None, code: int | None) -> str:
    return (name or f"error {code}") if status == "error" else _plain(status)


def _api(api: str | None, version: int | None) -> str:
    return (api or "?") + ("" if version is None else f" v{version}")


def _kind(kind: str | None, long_poll: bool | None) -> str:
    return _plain(kind) + (" (long poll)" if long_poll else "")


def _partition(topic: str | None, partition: int | None) -> str:
    return _plain(topic) + ("" if partition is None else f"[{partition}]")


def _software(name: str | None, version: str | None) -> str:
    return " ".join(part for part in (name, version) if part)


def _coverage(framed: int | None, skipped: int | None, pending: int | None) -> str:
    have = (framed or 0) + (skipped or 0) + (pending or 0)
    return units.share((framed or 0) / have) if have else ""


def _text(
    head: str, *columns: str, show: Callable[..., str] = _plain, need: int = 0, once: bool = False, toned: bool = False
) -> Shown:
    return Shown(GridColumn(head, need, once=once, elastic=True, toned=toned), columns, show)


def _number(head: str, column: str, show: Callable[..., str] = units.count, need: int = 0) -> Shown:
    return Shown(GridColumn(head, need, right=True), (column,), show)


def _below(column: str) -> Shown:
    return Shown(GridColumn(column, below=True), (column,), _payload)


def _when(column: str = "time") -> tuple[Shown, Shown]:
    """The date, stated once where all rows share it, and the time of day."""
    return Shown(GridColumn("", once=True, lenient=True), (column,), _in("date")), Shown(
        GridColumn("time"), (column,), _in("clock")
    )


def _packet(file: str = "file", packet: str = "packet") -> tuple[Shown, Shown]:
    """The file, stated once where there is one, and the packet's number in it."""
    return (
        Shown(GridColumn("file", once=True, elastic=True, lenient=True), (file,), _in("file")),
        Shown(GridColumn("packet", right=True), (packet,), _plain),
    )


PROTOCOL = _text("protocol", "protocol", once=True, need=1)
CONNECTION = _text("connection", "connection", once=True, need=8)
API = _text("api", "api", "version", show=_api)
TOPIC = _text("topic", "topic", "partition", show=_partition)

# need: the order in which columns join where the terminal has room; 0 for those that are always there
COLUMNS: dict[str, tuple[Shown, ...]] = {
    "exchanges": (
        *_when(),
        _number("total", "total_ns", units.duration),
        _number("wait", "wait_ns", units.duration, need=2),
        _text("status", "status", "error_name", "error_code", show=_error, toned=True),
        PROTOCOL,
        _text("api", "api", "version", show=_api),
        _text("topic", "topics", show=_in("list")),
        _text("kind", "kind", "long_poll", show=_kind, need=3),
        _number("request", "request_bytes", units.size, need=5),
        _number("response", "response_bytes", units.size, need=6),
        _number("records", "records", need=7),
        _text("group", "group", need=9),
        CONNECTION,
        *_packet("request_file", "request_packet"),
    ),
    "batches": (
        *_when(),
        PROTOCOL,
        _text("role", "role"),
        TOPIC,
        Shown(GridColumn("position", right=True), ("position",), _plain),
        _number("records", "records", need=2),
        _number("stored", "stored_bytes", units.size, need=3),
        _text("codec", "codec", need=5),
        _text("checksum", "checksum_kind", once=True, need=6),
        _text("verdict", "verdict", toned=True),
        _text("outcome", "outcome", need=4, toned=True),
        CONNECTION,
        *_packet(),
    ),
    "errors": (
        *_when(),
        PROTOCOL,
        API,
        _text("scope", "scope", need=3),
        _number("code", "code", _plain, need=2),
        _text("name", "name"),
        TOPIC,
        CONNECTION,
        *_packet(),
        _below("message"),
    ),
    "connections": (
        *_when("start_time"),
        PROTOCOL,
        _text("connection", "connection"),
        _text("software", "client_software", "client_version", show=_software, need=8),
        _number("span", "duration_ns", units.duration),
        _number("rtt", "rtt_ns", units.duration, need=3),
        _number("from client", "client_bytes", units.size, need=6),
        _number("from broker", "server_bytes", units.size, need=7),
        _number("frames", "frames", need=2),
        Shown(
            GridColumn("understood", 4, right=True), ("framed_bytes", "skipped_bytes", "pending_bytes"), _coverage
        ),
        _number("resent", "retransmissions", need=5),
        _number("lost", "gap_bytes", units.size, need=5),
        _text("handshake", "handshake", need=10),
        _text("closed", "closed", need=9),
        *_packet(),
    ),
    "findings": (
        *_when(),
        _text("severity", "severity", toned=True),
        _text("kind", "kind"),
        CONNECTION,
        *_packet(),
        _below("message"),
    ),
    "messages": (
        *_when(),
        PROTOCOL,
        _text("role", "role"),
        TOPIC,
        Shown(GridColumn("position", right=True), ("position",), _plain),
        _text("timestamp", "timestamp", show=_time, need=5),
        _number("key", "key_bytes", units.size, need=2),
        _number("value", "value_bytes", units.size),
        _number("headers", "header_count", need=3),
        CONNECTION,
        *_packet(),
    ),
    "positions": (
        *_when(),
        PROTOCOL,
        _text("what", "what"),
        TOPIC,
        _number("value", "value", _plain),
        _number("ledger", "ledger", _plain, need=5),
        _text("leader", "leader", need=2),
        _text("isr", "isr", show=_in("list"), need=6),
        _text("group", "group", need=3),
        _text("api", "api", need=4),
        CONNECTION,
        *_packet(),
    ),
    "events": (
        *_when(),
        PROTOCOL,
        _text("kind", "kind"),
        _text("subject", "subject", need=2),
        TOPIC,
        _text("group", "group", need=3),
        _number("number", "number", _plain, need=2),
        _text("text", "text", need=2),
        _text("client", "client_id", need=4),
        _text("api", "api", need=4),
        CONNECTION,
        *_packet(),
    ),
    "stalls": (
        *_when(),
        PROTOCOL,
        _text("kind", "kind"),
        _text("direction", "direction"),
        _number("for", "duration_ns", units.duration),
        CONNECTION,
        *_packet(),
    ),
}  # fmt: skip


def column_of(table: str, heading: str) -> str | None:
    """The record column that a heading of the text output shows first; None where there is no such heading."""
    return next((shown.columns[0] for shown in COLUMNS[table] if shown.column.head == heading), None)


ASKED_FOR = (
    "request",
    "response",
    "key",
    "value",
    "headers",
)  # columns that an option adds


def of_field(field: pa.Field) -> Shown:
    """How a column is shown that stands in no table above: by its type, and the unit that its name ends with."""
    kind, name = field.type, field.name
    if pa.types.is_timestamp(kind):
        return Shown(GridColumn(name), (name,), _time)
    if is_flat_list(kind):
        return _text(name, name, show=_in("list"))
    if is_interval(kind):
        return _number(name, name, _interval)
    if is_number(kind):
        return _number(name.removesuffix("_ns"), name, next((u for end, u in UNITS if name.endswith(end)), _plain))
    return _text(name, name, show=_payload)


UNITS: tuple[tuple[str, Callable[..., str]], ...] = (("_ns", units.duration), ("_bytes", units.size))


class TextWriter(Writer):
    """Writes batches as aligned text."""

    def __init__(self, schema: pa.Schema, stream: BinaryIO, table: str = "") -> None:
        self._stream = stream
        usual = COLUMNS.get(table, ())
        known = {name for shown in usual for name in shown.columns}
        if usual and known <= set(schema.names):
            more = [name for name in schema.names if name in ASKED_FOR and name not in known]
            self._shown = [*usual, *map(_below, more)]
        else:  # some columns, asked for by name
            self._shown = [of_field(field) for field in schema]
        self._grid = Grid([s.column for s in self._shown], terminal_width(), colour=wants_colour(stream))
        self._begun = False

    def write(self, batch: pa.RecordBatch) -> None:
        self._lines(list(self._rows(batch)))

    def close(self) -> None:
        if not self._begun:
            self._lines([])
        self._stream.flush()

    def _rows(self, batch: pa.RecordBatch) -> Iterator[list[str]]:
        made = []
        for shown in self._shown:
            values = [batch.column(name).to_pylist() for name in shown.columns]
            made.append([with_names(shown.show(*row)) for row in zip(*values, strict=True)])
        yield from (list(row) for row in zip(*made, strict=True))

    def _lines(self, rows: list[list[str]]) -> None:
        self._begun = True
        for line in self._grid.lines(rows):
            self._stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
