"""Where decoders put rows, and where rows become Arrow record batches.

The rows of each wanted table stand in a `rows.table.RowTable`. A name that the decoder does not know is written as a
token, and whoever learns one reports it with `name`: see `late_names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from dissectors import records
from dissectors.limits import Limits
from dissectors.records import PACKET_MASK, PACKET_SHIFT, Conn
from dissectors.redaction import public_path
from dissectors.rows.blocks import take_batch
from dissectors.rows.connections import ConnectionColumns
from dissectors.rows.late_names import LIKELY, Name, span
from dissectors.rows.layout import layout
from dissectors.rows.table import RowTable
from dissectors.rows.texts import Numbered, Texts

_MESSAGE_BYTES = 1024  # what a row of `messages` takes, about
_COPIES = 3  # of a payload, on its way from a batch to a row
_COMPILED = ("_texts", "_lists", "_conns", "_conn_columns", "_tables")  # of compiled classes: they are not pickled


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


class _Reported(NamedTuple):
    """What was said of a key, and when (ns)."""

    name: str
    time: int
    until: int  # before then the same name says nothing new


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


class Sink:
    """The rows of the wanted tables. `tables` is what decoders ask before they do work for a table."""

    def __init__(
        self,
        tables: Iterable[str],
        *,
        full: bool = False,
        bodies_of: Iterable[str] = (),
        payloads: bool = False,
        coded: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.tables = frozenset(tables)
        self.full = full
        self.bodies_of = frozenset(bodies_of)
        self.payloads = payloads
        self._coded = coded
        self._make_tables()
        self.names: list[Name] = []  # reported since the last `take_names`, each that says something new
        self._most_names = (limits or Limits()).names
        self._reported: dict[str, _Reported] = {}  # the latest of each key
        self._most_messages = self._room = (limits or Limits()).message_bytes
        self._waiting = 0  # bytes of messages that wait with their requests, from one drain to the next
        self._shared: dict[tuple[bytes, str], tuple[bytes, str]] = {}
        self.suspects: list[Suspect] | None = None  # a list where bad checksums are to be looked into
        self.files: list[str] = []  # file index -> path, for packet references

    def name(self, key: str, time: int, name: str, *, likely: bool = False) -> None:
        """Report what `key` is called: for certain, or likely.

        The same name again says nothing new in the time in which only its first report counts.
        """
        if likely:
            key += LIKELY
        latest = self._reported.get(key)
        if latest is None:
            if len(self._reported) > self._most_names:
                return
        elif latest.name == name and latest.time <= time < latest.until:
            return
        self._reported[key] = _Reported(name, time, span(key, time)[1])
        self.names.append(Name(key, time, name))

    # --- which bodies are wanted ---

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

    def rows(self) -> int:
        """Rows waiting in the fullest table."""
        return max((len(self._tables[table]) for table in self.tables), default=0)

    def drain(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take away the waiting rows, in order, as one record batch a table."""
        self._room = self._most_messages - self._waiting
        for name, table in self._tables.items():
            batch = take_batch(
                table, self._conn_columns, self.files, full=self.full, payloads=self.payloads, coded=self._coded
            )
            if batch is not None and name in self.tables:
                yield name, batch
        if max(self._texts.count, len(self._lists.values), len(self._conns.values)) > self._most_names:
            self._renumber()

    # --- the tables ---

    def _make_tables(self) -> None:
        self._begin_numbers()
        only = [name for name, wanted in (("full", self.full), ("payloads", self.payloads)) if wanted]
        self._tables = {
            name: RowTable(layout(name), self._texts, self._lists, self._conns, only) for name in records.TABLES
        }
        (
            self.exchanges, self.batches, self.errors, self.connections, self.findings, self.messages, self.positions,
            self.stalls, self.events,
        ) = self._tables.values()  # fmt: skip

    def _begin_numbers(self) -> None:
        """Number texts, lists and connections from 0 on."""
        self._texts, self._lists, self._conns = Texts(), Numbered(), Numbered()
        self._conn_columns = ConnectionColumns(self._conns, self._texts)

    def _renumber(self) -> None:
        """Forget texts, lists and connections that no unfinished row has."""
        self._begin_numbers()
        for table in self._tables.values():
            table.renumber(self._texts, self._lists, self._conns)

    def __getstate__(self) -> dict[str, Any]:
        """Plain values, whether compiled code has them or not: rows as their NamedTuples."""
        state = {name: value for name, value in vars(self).items() if name not in (*_COMPILED, *records.TABLES)}
        return state | {"rows": {name: list(table) for name, table in self._tables.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        rows = state.pop("rows")
        vars(self).update(state)
        self._make_tables()
        for name, some in rows.items():
            self._tables[name].extend(some)


def to_batch(
    table: str,
    rows: Iterable[tuple[Any, ...]],
    files: Sequence[str],
    *,
    full: bool = False,
    payloads: bool = False,
    coded: bool = False,
) -> pa.RecordBatch:
    """Rows of a table, at least one, as one record batch with the table's schema."""
    sink = Sink([table], full=full, payloads=payloads, coded=coded)
    sink.files = [*files]
    getattr(sink, table).extend(rows)
    return next(sink.drain())[1]
