"""The data of the page: one JSON object, deflated and in base64, in a block that no browser runs.

    strings   every text of the page once: cleaned, cut to a readable length
    files     names of captures as they are, for commands that people copy
    tables    name -> columns, rows (numbers as they are, texts as places in `strings`), what the selector matches
    meanings  name of an error -> what it says, both as places in `strings`
    requests  what requests.py carries; a name is a place in `strings`, that of a file [place in `files`, short name]
    verdicts  rank, kind, first and last time …
    frames    "place of a file:packet" of a request -> [side, packet, decoded text, bytes in base64, note] of both sides
    evidence  packed: rank of a verdict, and row of a request that it counts

No text of a capture stands in the page's markup: base64 has no sign that could end the block.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pipelines.formats import cells, hosts
from pipelines.report.elements import shown
from pipelines.report.load import PageFrame
from pipelines.report.packed import deflated
from pipelines.tables.table import TableColumn

Row = Mapping[str, Any]
CARRIED = 1_000  # rows of a table that the page carries
LIST = 20  # names of a list that the page carries; a row says in `<column>_total` how many there are, if not all
PACKET = "packet"  # the unit of a column that holds (file, packet number)

# requests that a percentile must rest on, else its cell stays blank
ENOUGH = {"p50": 5, "p90": 10, "p99": 100, "p999": 1000}
ENOUGH_TEXT = (
    "A percentile is blank where too few requests stand behind it: "
    + ", ".join(f"{name} needs {count:,}" for name, count in ENOUGH.items())
    + "."
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NUMBERS = cells.NUMBERS | {"time"}
# column -> the dimension of the selector that it holds, and how: the name itself, a list of names, the address only
_MATCHES = {
    "site": ("site", "is"),
    "protocol": ("protocol", "is"),
    "api": ("api", "is"),
    "broker": ("broker", "is"),
    "server": ("broker", "is"),
    "servers": ("broker", "has"),
    "topic": ("topic", "is"),
    "topics": ("topic", "has"),
    "client": ("client", "is"),
    "clients": ("client", "has"),
    "client_address": ("client", "address"),
    "group": ("group", "is"),
}


class Payload:
    """Collects what the page needs; each text is kept once."""

    def __init__(self, share: float = 1.0) -> None:
        """share: of the rows that a page may carry of each table, how many this one does."""
        self._share = share
        self._strings: dict[str, int] = {}
        self._shown: list[str] = []
        self._files: dict[str, int] = {}
        self._tables: dict[str, Any] = {}
        self._meanings: dict[int, int] = {}
        self._verdicts: list[dict[str, Any]] = []
        self._requests: dict[str, Any] | None = None
        self._evidence: Mapping[str, Any] | None = None
        self._frames: dict[str, list[list[Any]]] = {}

    def limit(self, most: int) -> int:
        """How many rows this page carries, of those that a page carries at most."""
        return max(1, int(most * self._share))

    def text(self, value: Any) -> int:
        """The place of a text. Different texts have different places, also where they look the same."""
        whole = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
        place = self._strings.setdefault(whole, len(self._shown))
        if place == len(self._shown):
            self._shown.append(shown(whole))
        return place

    def packet(self, file: str | None, packet: int | None) -> list[int] | None:
        """A packet as the script knows it: place of the file, number, place of the file's short name."""
        if file is None or packet is None:
            return None
        return [self._files.setdefault(file, len(self._files)), packet, self.text(file.rsplit("/", 1)[-1])]

    def table(
        self,
        name: str,
        columns: Sequence[TableColumn],
        rows: Sequence[Row],
        *,
        total: int | None = None,
        limit: int = CARRIED,
        more: str = "",
        marks: Mapping[str, str] | None = None,
        grey: str = "",
    ) -> None:
        """Carry a table: the first `limit` of `rows`, or the share of these that this page carries.

        total: rows that there are, by default what the rows' own `total` says, or their number; more: where all of them
        are; marks: column -> class of its cells that are not zero; grey: a column that says which rows are nothing to
        worry about.
        """
        kept = [_with_dimensions(row) for row in rows[: self.limit(limit)]]
        columns = _one_packet_column(columns)
        carried = [*columns, *_hidden(columns, kept, grey)]
        cells_of = [self._cells(column) for column in carried]
        self._tables[name] = {
            "columns": [_column(c, (marks or {}).get(c.name), c not in columns) for c in carried],
            "rows": [[cell(row) for cell in cells_of] for row in kept],
            "total": next((row.get("total", len(rows)) for row in rows[:1]), 0) if total is None else total,
            "more": more,
            "match": {
                dimension: [at, how]
                for at, c in enumerate(carried)
                for dimension, how in [_MATCHES.get(c.name, ("", ""))]
                if dimension
            },
            "grey": next((at for at, c in enumerate(carried) if c.name == grey), None),
        }

    def requests(self, carried: Mapping[str, Any]) -> None:
        """Carry requests and batches. carried: see requests.py."""
        names = {
            dimension: ["" if name == "" else None if name is None else self._name(dimension, name) for name in names]
            for dimension, names in carried["names"].items()
        }
        told = [[shown(value) if isinstance(value, str) else value for value in row] for row in carried["connections"]]
        self._requests = {**carried, "names": names, "connections": told}

    def meanings(self, errors: Iterable[Row]) -> None:
        """Carry what errors say, by name; a name that says two things, in two protocols, is left out."""
        said: dict[str, set[str | None]] = {}
        for row in errors:
            said.setdefault(row["name"], set()).add(row["meaning"])
        plain = {name: next(iter(all_said)) for name, all_said in said.items() if len(all_said) == 1}
        self._meanings = {self.text(name): self.text(text) for name, text in plain.items() if text}

    def _name(self, dimension: str, name: str) -> Any:
        if dimension != "file":
            return self.text(name)
        return [self._files.setdefault(name, len(self._files)), self.text(name.rsplit("/", 1)[-1])]

    def evidence(self, packed: Mapping[str, Any]) -> None:
        """Carry the requests that verdicts count: a packed table of `rank` and `row`, in this order."""
        self._evidence = packed

    def frames(self, of: Mapping[tuple[str, int], Sequence[PageFrame]]) -> None:
        """Carry the bytes of requests, as many as this page carries."""
        for (file, packet), frames in list(of.items())[: self.limit(len(of))]:
            place = self._files.setdefault(file, len(self._files))
            self._frames[f"{place}:{packet}"] = [
                [one.side, one.packet, one.text, base64.b64encode(one.data).decode(), one.note] for one in frames
            ]

    def verdict(self, verdict: Row) -> None:
        """Carry what the script needs of a verdict, but for the requests that it counts."""
        times = {name: verdict[f"{name}_time"] for name in ("first", "last")}
        self._verdicts.append(
            {
                "rank": verdict["rank"],
                "kind": verdict["kind"],
                "severity": verdict["severity"],
                "sentence": self.text(hosts.with_names(verdict["sentence"])),
                "name": f"{verdict['kind'].replace('_', '-')}-{verdict['rank']}",
                **{name: None if time is None else _time(time) for name, time in times.items()},
                "servers": [self.text(server) for server in verdict["servers"][:LIST]],
            }
        )

    def block(self) -> str:
        """The whole, as the script reads it."""
        return base64.b64encode(deflated(self.json().encode())).decode()

    def json(self) -> str:
        """The whole as JSON."""
        whole = {
            "strings": self._shown,
            "files": list(self._files),
            "tables": self._tables,
            "meanings": self._meanings,
            "enough": ENOUGH,
            "hosts": {address: shown(name) for address, name in hosts.names_in_use().items()},
            "verdicts": self._verdicts,
            "evidence": self._evidence,
            "frames": self._frames,
            "requests": self._requests,
        }
        return json.dumps(whole, separators=(",", ":"), allow_nan=False)

    def _cells(self, column: TableColumn) -> Callable[[Row], Any]:
        """What makes a row's cell of a column."""
        if column.unit == PACKET:
            return lambda row: self.packet(row.get("file"), row.get("packet"))
        name, least = column.name, _least(column.name)
        value_of = _time if column.unit == "time" else _number if column.unit in _NUMBERS else self.text

        def cell(row: Row) -> Any:
            value = row.get(name)
            if value is None or (least and _rests_on(row, least) < least):
                return None
            if isinstance(value, list | tuple):
                return self._list(value, row.get(f"{name}_total", len(value)))
            return value_of(value)

        return cell

    def _list(self, values: Sequence[Any], total: int) -> list[Any]:
        """The first names of a list, and how many more there are."""
        return [[self.text(value) for value in values[:LIST]], max(0, total - LIST)]


def first_names(name: str, value: str = "") -> str:
    """SQL for a SELECT list over groups: the first distinct names in a list, and how many there are.

    name: of one of them, without the s; value: the expression that gives it, its name by default.
    """
    value = value or name
    return f"(list(distinct {value} order by {value}))[:{LIST}] as {name}s, count(distinct {value}) as {name}s_total"


def _time(value: Any) -> int:
    return value if isinstance(value, int) else (value - _EPOCH) // _MICROSECOND


def _number(value: Any) -> Any:
    return value if math.isfinite(value) else None


def _least(column: str) -> int:
    """How many values must stand behind one of a column; 0 where that is no percentile."""
    return next((ENOUGH[part] for part in column.split("_") if part in ENOUGH), 0)


def _rests_on(row: Row, otherwise: int) -> int:
    """How many values stand behind the percentiles of a row, where it says so."""
    return next((row[name] for name in ("timed", "count", "deliveries") if row.get(name) is not None), otherwise)


def _one_packet_column(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Replace the columns `file` and `packet` by one at the end, which names both."""
    if not {"file", "packet"} <= {c.name for c in columns}:
        return list(columns)
    packet = TableColumn("packet", "the packet: name of the file, and its number there, from 1", PACKET)
    return [*(column for column in columns if column.name not in ("file", "packet")), packet]


def _with_dimensions(row: Row) -> Row:
    """A row with the names that the selector knows."""
    known = dict(row)
    if row.get("connection") and "broker" not in row:
        client, _, known["broker"] = row["connection"].partition(">")
        known["client_address"] = client.rpartition(":")[0].strip("[]")
    if row.get("client_ip") and "client" not in row:
        known["client"] = " ".join(part for part in (row["client_ip"], row.get("client_id")) if part is not None)
    return known


def _hidden(columns: Sequence[TableColumn], rows: Sequence[Row], grey: str) -> list[TableColumn]:
    """Columns that nobody sees: the selector's names that the table does not show."""
    seen, there = {c.name for c in columns}, {name for row in rows[:1] for name in row}
    matched = {_MATCHES[name][0] for name in seen if name in _MATCHES}
    names = [n for n, (dimension, _) in _MATCHES.items() if n in there and n not in seen and dimension not in matched]
    return [TableColumn(name, "") for name in (*dict.fromkeys(names), *([grey] if grey and grey not in seen else []))]


def _column(column: TableColumn, mark: str | None, hidden: bool) -> dict[str, Any]:
    described = {
        "name": column.name,
        "head": cells.head(column.name),
        "doc": column.doc,
        "unit": column.unit,
        "mark": mark,
        "hidden": hidden,
    }
    return {key: value for key, value in described.items() if value}
