"""`brokerscope.open`: captures as an object that answers questions."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from html import escape
from typing import Any, overload

import pyarrow as pa

from brokerscope.lazy_table import LazyTable
from brokerscope.plots import Plots
from brokerscope.record_source import RecordSource
from brokerscope.rows import AnswerRow, AnswerRows, first_rows, html_table
from dissectors import records
from dissectors.api import options_of
from dissectors.errors import UsageError
from dissectors.given import CaptureInput, as_paths
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import DEFAULT_TABLES
from dissectors.wording import did_you_mean, nearest
from pipelines.answers import aggregates, diff, upgrade
from pipelines.answers import connection as connections
from pipelines.answers import follow as follow_answers
from pipelines.answers import groups as group_answers
from pipelines.answers import top as top_answers
from pipelines.answers.diff import Difference
from pipelines.answers.records import Relations, batches, counted_once, database_of, gathered
from pipelines.answers.summary import Summary, summary
from pipelines.answers.top import By, Sort
from pipelines.formats.outline import outline
from pipelines.payloads import columns as payload_columns
from pipelines.payloads.messages import PayloadReader, told_in
from pipelines.payloads.schemas import load
from pipelines.sql import bodies, database
from pipelines.sql.views import Views
from pipelines.tables import audit
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts.engine import judged


class ShownExchange:
    """One exchange with all that is known of it: `exchange`, `request`, `response`, `batches`, `errors`, `findings`.

    `times` says where the time of a slow one went: name of the part -> ns, as the table `causes` has them.
    """

    def __init__(
        self,
        exchange: Mapping[str, Any],
        decoded: connections.DecodedExchange,
        related: Mapping[str, Sequence[Any]],
        times: Mapping[str, int],
    ) -> None:
        self.times = dict(times)
        self.exchange = AnswerRow(exchange)
        self.request = decoded.request if not isinstance(decoded.request, dict) else AnswerRow(decoded.request)
        self.response = decoded.response if not isinstance(decoded.response, dict) else AnswerRow(decoded.response)
        self.messages = [AnswerRow(row) for row in decoded.messages]
        self.batches = [AnswerRow(row) for row in related["batches"]]
        self.errors = [AnswerRow(row) for row in related["errors"]]
        self.findings = [AnswerRow(row) for row in related["findings"]]

    def __str__(self) -> str:
        lines = [repr(self)]
        for name in ("request", "response"):
            body = getattr(self, name)
            lines += [name, *outline(dict(body) if isinstance(body, AnswerRow) else body, 100, 2)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        row = self.exchange
        return f"<{row.protocol} {row.api} {row.exchange_id}: {row.error_name or row.status}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class RecordTable:
    """The attribute of captures, or of one connection, that is their record table of this name."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> RecordTable: ...
    @overload
    def __get__(self, of: OpenCapture | OpenConnection, owner: type) -> LazyTable: ...
    def __get__(self, of: OpenCapture | OpenConnection | None, owner: type) -> RecordTable | LazyTable:
        return self if of is None else of.table(self._name)


class OpenConnection:
    """One TCP connection: iterate it for its exchanges; `row` is its row of `connections`."""

    def __init__(self, capture: OpenCapture, row: Mapping[str, Any]) -> None:
        self.row = AnswerRow(row)
        self.name: str = row["connection"]
        self._capture = capture

    exchanges = RecordTable("Its exchanges.")
    findings = RecordTable("What was found in it.")
    batches = RecordTable("The batches that it carried.")

    def events(self) -> AnswerRows:
        """Everything that happened on it in time order, as `brokerscope follow` shows it."""
        tables = self._capture.tables(*follow_answers.TABLES)
        return AnswerRows(follow_answers.follow(tables, dict(self.row)))

    def table(self, name: str) -> LazyTable:
        """Its rows of a record table."""
        own = {column: self.row[column] for column in ("connection", "incarnation")}
        return self._capture.table(name).where(f"site = {database.literal(self.row.site)}", **own)

    def __iter__(self) -> Iterator[AnswerRow]:
        return iter(self.exchanges)

    def __len__(self) -> int:
        return len(self.exchanges)

    def __repr__(self) -> str:
        return f"<connection {self.name}, {self.row.protocol or 'unknown protocol'}>"

    def _repr_html_(self) -> str:
        events = [dict(event) for event in self.events()]
        return f"<p>{escape(repr(self))}</p>{first_rows(events, len(events))}"


class OpenCapture:
    """Captures that are read when something is asked of them; what was read is kept in memory for the next question."""

    def __init__(
        self, captures: CaptureInput | Sequence[CaptureInput], options: Options, schemas: str | None = None
    ) -> None:
        with ExitStack() as stack:
            self._source = RecordSource(stack.enter_context(as_paths(captures)), options)
            self._close = weakref.finalize(self, stack.pop_all().close)
        self.options = options
        given = None if schemas is None else load(schemas)
        self._payload_reader = PayloadReader(given, lambda: told_in(self.files, options))
        self._tables: dict[str, pa.Table] = {}

    @property
    def files(self) -> list[str]:
        """The captures; of a folder that `analyze` wrote those that it was made of, as far as they are there."""
        return self._source.files

    # --- tables ---

    exchanges = RecordTable("Requests with their answers; with decoded bodies where `full` was asked for.")
    batches = RecordTable("Checksummed units of messages.")
    errors = RecordTable("Error codes in answers.")
    connections = RecordTable("TCP connections.")
    findings = RecordTable("What a person should look at.")
    messages = RecordTable("Single messages; with key, value and headers where `payloads` was asked for.")
    positions = RecordTable("Where partitions, consumer groups and consumers stand, as requests and answers say it.")
    stalls = RecordTable("Times in which one side of a connection made no progress, and why.")
    events = RecordTable("What frames say that no column of another table holds: who joins, what is deleted, …")

    def table(self, name: str) -> LazyTable:
        """A record table by its name. Raises UsageError where there is none."""
        if name not in records.TABLES:
            raise UsageError(f"no such table: {name}; {did_you_mean(name, records.TABLES)}")
        schema = payload_columns.schema(name, full=self.options.full, payloads=self.options.payloads)
        return LazyTable(
            name, lambda: self.tables(name)[name], schema, named=lambda: self.tables("exchanges")["exchanges"]
        )

    def tables(self, *names: str) -> dict[str, pa.Table]:
        """Record tables, read together where they have not been read yet. Raises InputError where nothing can be."""
        missing = [name for name in names if name not in self._tables]
        if missing:
            default = RECORDS if set(missing) <= set(RECORDS) else ()
            wanted = [name for name in dict.fromkeys((*missing, *default)) if name not in self._tables]
            self._tables |= self._with_payloads(wanted) if self.options.payloads else self._source.read(wanted)
        return {name: self._tables[name] for name in names}

    def _with_payloads(self, names: Sequence[str]) -> dict[str, pa.Table]:
        """Record tables with what keys and values of messages mean."""
        rows = batches(self._source.read(payload_columns.read_for(names)))
        made = gathered(self._payload_reader.of(rows, names), names, full=self.options.full, payloads=True)
        order = {name: [(column, "ascending") for column in records.ordered_by(name)] for name in names}
        return {name: made[name].sort_by(order[name]) for name in names}

    # --- answers ---

    @property
    def plot(self) -> Plots:
        """What happened along time, as pictures: `cap.plot.latency(by="server", every="10s")`."""
        return Plots(self.tables)

    @contextmanager
    def _once(self, *names: str) -> Iterator[Relations]:
        """Record tables in which what several capture points saw stands once."""
        with counted_once(self.tables(*names)) as (tables, _):
            yield tables

    def _aggregate(self, name: str) -> pa.Table:
        """The rows of an aggregate table."""
        return aggregates.aggregate(self.tables(*RECORDS), name)

    def verdicts(self) -> AnswerRows:
        """What is wrong, the worst first: severity, kind, sentence, advice, count, clients, topics …"""
        with self._once(*RECORDS) as tables, database_of(tables) as duckdb:
            return AnswerRows(
                judged(duckdb).verdicts.to_pylist(), ("severity", "sentence", "advice", "count", "first_time")
            )

    def summary(self) -> Summary:
        """What the captures hold, what is wrong, what cannot be seen, and the slowest requests."""
        with self._once(*RECORDS) as tables:
            return summary(tables)

    def groups(self) -> AnswerRows:
        """Consumer groups and subscriptions: members, rebalances, lag …, each with its `events` in order of time."""
        return AnswerRows(group_answers.with_events(*group_answers.groups(self.tables(*RECORDS))))

    def lag(self) -> AnswerRows:
        """How far each group is behind in each partition: messages, lag_ns, the longest that it was, status."""
        with self._once(*RECORDS) as tables:
            return AnswerRows(group_answers.lag(tables))

    def transactions(self) -> AnswerRows:
        """Each transaction: who began it, how long it was open, what it wrote, how it ended."""
        return AnswerRows(self._aggregate("transactions").to_pylist())

    def audit(self) -> AnswerRows:
        """What became of acknowledged messages: what, sentence, topic, rests_on, file, packet …"""
        with self._once(*audit.TABLES) as tables, database_of(tables) as duckdb:
            return AnswerRows([said._asdict() for said in audit.audit(Views(duckdb, audit.VIEWS), "")])

    def forensics(self) -> AnswerRows:
        """Each wrong checksum: where its bytes broke, on which side, and how sure that is. Reads the captures again."""
        from dissectors.forensics import Investigation, report

        investigation = Investigation(self.files, self.options)
        investigation.run()
        return AnswerRows([report.as_json(case) for case in investigation.cases()])

    def diff(self, other: OpenCapture | CaptureInput) -> Difference:
        """What changed from these captures to other ones: `apis`, names that are `new`, names that are `gone`.

        other: opened, or what `open` takes.
        """
        if not isinstance(other, OpenCapture):
            with open_captures(other) as opened:
                return self.diff(opened)
        with self._once(*diff.TABLES) as before, other._once(*diff.TABLES) as after:
            return diff.diff(before, after)

    def top(self, by: By = "api", sort: Sort = "time", head: int | None = None, *, causes: bool = False) -> AnswerRows:
        """What costs most, the largest first: key, count, errors, unanswered, p50_ns, p99_ns, max_ns, bytes …

        causes: instead of these, of requests that took 20 ms or more: count, time_ns, largest and the share of each
        part of their time, `broker_share`, `queued_share` …; sort is then "time" or "count".
        """
        sorts = top_answers.SORTS_OF_CAUSES if causes else top_answers.SORTS
        for name, value, known in (("by", by, top_answers.KEYS), ("sort", sort, sorts)):
            if value not in known:
                raise UsageError(f"{name}: no {value!r}; {did_you_mean(value, known)}")
        if causes:
            with self._once(*top_answers.TABLES_OF_CAUSES) as tables:
                return AnswerRows(top_answers.causes(tables, by, sort)[:head])
        with self._once(*top_answers.TABLES) as tables:
            return AnswerRows(top_answers.top(tables, by, sort)[:head])

    def changes(self) -> pa.Table:
        """Who created, deleted or altered what, in order of time: the table `changes`."""
        return self._aggregate("changes")

    def upgrades(self, to: str | None = None) -> pa.Table:
        """What clients send that brokers of a release no longer understand: rows of the table `upgrades`.

        to: "4.0", "iggy=0.7"; the newest release that is known by default. Raises UsageError for one that nobody knows.
        """
        broken, _ = upgrade.against(self._aggregate("upgrades"), upgrade.targets(to))
        return broken

    def sql(self, text: str) -> pa.Table:
        """The rows of a query over record tables, and aggregate tables such as t_latency and t_verdicts.

        Raises UsageError for a query that means nothing.
        """
        import duckdb

        tables = self.tables(*RECORDS)
        try:
            made = tables | aggregates.made(tables, aggregates.named(text))
            with database_of(made, json_bodies=self.options.full) as connection:
                if self.options.full:
                    text = bodies.spelled_for(connection, text)
                return connection.sql(text).to_arrow_table()
        except (duckdb.Error, bodies.UnknownFieldError) as error:
            raise UsageError(database.against(error, (*records.TABLES, *aggregates.COLUMNS))) from None

    def connection(self, name: str) -> OpenConnection:
        """The connection of this name, or the only one that has it as a part, `:43210`, or that a client of it uses.

        Of one that was opened again, the first. Raises UsageError where none fits, or several do.
        """
        found = connections.named(self.tables("connections", "exchanges"), name)
        names = list(dict.fromkeys(row["connection"] for row in found))
        if not names:
            known = set(self.tables("exchanges")["exchanges"]["client_id"].unique().to_pylist()) - {None, ""}
            near = nearest(name, known)
            hint = f"; did you mean the client {near}?" if near else ""
            raise UsageError(f"no connection and no client {name} in these captures{hint}")
        if len(names) > 1:
            raise UsageError(f"{name} fits {len(names)} connections: {', '.join(names[:10])}")
        return OpenConnection(self, found[0])

    def show(self, place: str | int, *, messages: bool = False) -> ShownExchange:
        """The exchange of an id, or the first one of a packet, `FILE:PACKET`; of a single file `:17` or 17 will do.

        messages: add the messages of its batches. Raises UsageError where there is none.
        """
        tables = self.tables(*connections.TABLES)
        place = f":{place}" if isinstance(place, int) else place
        file, colon, number = place.rpartition(":")
        if colon and number.isdecimal():
            path = self._file(file)
            packet = connections.packet(path, int(number), self.options.limits)
            if packet is None:
                raise UsageError(f"{path}: there is no TCP packet {number}")
            found = connections.at_packet(tables, packet)
        else:
            found = connections.by_id(tables, place)
        if not found:
            raise UsageError(f"no exchange at {place} in these captures")
        read = self._payload_reader if messages and self.options.payloads else None
        decoded = connections.decoded(self.files, self.options, found[0], messages=messages, read=read)
        times = {part.name: ns for part, ns in connections.times(tables, found[0])}
        return ShownExchange(found[0], decoded, connections.related(tables, found[0]), times)

    def _file(self, name: str) -> str:
        """The one file that a name, or the end of one, means."""
        found = [path for path in self.files if path == name] or [path for path in self.files if path.endswith(name)]
        if len(found) != 1:
            raise UsageError(f"{name or 'no name'} names {len(found)} of the files {', '.join(self.files[:5])}")
        return found[0]

    # --- the object itself ---

    def __getattr__(self, name: str) -> Any:
        """Only what there is not: say what was probably meant."""
        raise AttributeError(f"no {name!r}; {did_you_mean(name, [own for own in dir(type(self)) if own[0] != '_'])}")

    def close(self) -> None:
        """Let go of what was read, and of files that were made of bytes."""
        self._tables.clear()
        self._close()

    def __enter__(self) -> OpenCapture:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        named = self.files if self._source.out is None else [self._source.out]
        return f"<capture of {', '.join(named[:3])}{' …' if len(named) > 3 else ''}>"

    def _repr_html_(self) -> str:
        rows = [(v.severity, v.sentence, v.count) for v in self.verdicts()]
        found = html_table(("severity", "verdict", "count"), rows) if rows else "<p>Nothing wrong was seen.</p>"
        return f"<p>{escape(repr(self))}</p>{found}"


def open_captures(
    captures: CaptureInput | Sequence[CaptureInput],
    *,
    full: bool = False,
    payloads: bool = False,
    schemas: str | None = None,
    site: str = "place",
    decode_as: Mapping[int, str] | None = None,
    keylog: str | None = None,
    dialects: Mapping[str, str] | None = None,
    jobs: int = 0,
    limits: Limits | None = None,
) -> OpenCapture:
    """Open captures: paths, globs, folders and URLs, bytes, or files open in binary mode, one or several; or the folder
    that `analyze` wrote, alone.

    Nothing is read yet, but where no file can be. full: decoded bodies in `exchanges`, as `row.request.acks`.
    payloads: keys and values in `messages`, and what they mean in `key_json` and `value_json`; schemas: a folder of
    schemas, or a saved registry, by which they are read. jobs: processes that decode large captures; 0 for one on each
    core. The others are those of `dissect`. Raises UsageError for what is no capture and for an argument that means
    nothing, InputError for a path that is not there.
    """
    options = options_of(DEFAULT_TABLES, full, payloads, site, decode_as, keylog, dialects, jobs, limits)
    if schemas is not None and not payloads:
        raise UsageError("schemas are for payloads=True")
    return OpenCapture(captures, options, schemas)
