"""Requests and batches, as the page carries them: what its script filters, counts and draws from.

    grain        width in us of the time buckets of requests that are carried together
    names        dimension -> names, the busiest first; place 0 stands for none, and the last may stand for all others
    topic_sets   lists of places in names["topic"]: what a request may name
    connections  of the requests: client, server, first and last time, how it ended …
    requests     packed, a row a request: times in us since `epoch`, durations in ns, names as places
    batches      packed, a row a batch, with the place of its request
    stalled      packed, a row for each request that TCP or a quota held back, of at most STALLED: the place of the
                 request and the parts of its time in ns, as `tables/causes.py` has them

The page carries at most ROWS requests one by one: those that verdicts count, those that failed, and the slowest come
first. Of all others, those of one time bucket that have names, outcome and tenth of a decade of the duration in common
are one row: its `weight` says how many, its durations are their means. The weight of a request that stands alone is 0.
Time buckets are as wide as it takes, and the rarest combinations of names lose client, group and topics, so that the
page is of bounded size whatever the capture. Names go before times do: the page says how many requests lack names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.formats.statuses import STATUS
from pipelines.report.packed import packed
from pipelines.report.records import Records
from pipelines.sql.words import BARRIER, CLIENT, EXCUSED, HELD, SERVER, UNHEARD, UNPACKED_BYTES
from pipelines.tables.causes import PARTS, parts
from pipelines.tables.dialect import DuckDB
from pipelines.tables.table import alike, equal
from pipelines.tables.throughput import ANSWER, KNOWN, SENDS, sent_first
from pipelines.tables.verdicts import SCHEMA
from pipelines.tables.verdicts.evidence import SAME_ROW

ROWS = 60_000  # requests that the page carries one by one
CELLS = 40_000  # rows of those that it carries together
STALLED = 10_000  # requests whose parts it carries: those that were held back longest
BATCHES = 80_000  # batches that it carries one by one, or rows of batches that it carries together
NAMES = 10_000  # names of a dimension
TOPIC_SETS = 60_000
CONNECTIONS = 5_000
EVIDENCE = 100_000  # requests that verdicts count, of all verdicts together, those of the worst first
COMBINATIONS = 4_000  # of names, of requests that it carries together: the others lack client, group and topics
# time buckets, bins of durations in a decade, COMBINATIONS divided by: the first that make at most CELLS rows
GRAINS = (
    (1_000, 10, 1),
    (250, 10, 1),
    (60, 10, 1),
    (60, 10, 4),
    (60, 1, 4),
    (60, 1, 16),
    (60, 0, 64),
    (60, 0, 1_000),
    (10, 0, 1_000),
    (1, 0, 1_000),
)
_ALL = ("client", "group", "broker", "topic", "partition")
# time buckets of batches together, and names that they lose: the first that make at most BATCHES rows
BATCH_GRAINS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (250, ()),
    (120, ()),
    (60, ()),
    (60, ("client", "group")),
    (10, ("client", "group")),
    (60, _ALL),
    (1, _ALL),
)

DIMENSIONS = ("api", "client", "broker", "topic", "group", "protocol", "site")
KINDS = ("call", "unanswered", "oneway", "push", "orphan")
# of `flags`; its three lowest bits are KINDS
LONG_POLL, RETRANSMITTED, FAILED, BARRED, EXPECTED, OF_UNHEARD = 8, 16, 32, 64, 128, 256
ROLES = ("produce", "consume", "replicate")

_DURATIONS = ("total", "sent", "queued", "wait", "received")
_AMOUNTS = ("request_bytes", "answer_bytes", "messages", "throttled")
_NAMED = ("site", "protocol", "api", "client", "broker", '"group"', "error", "topics")
_CONNECTION = ("site", "connection", "incarnation")
_DELTAS = frozenset({"time", "packet", "answer_packet", "request", "row"})
_CALLS = f"""
    select correlation_id, site, exchange_id, connection, incarnation, protocol,
        coalesce(api, '?') as api, {CLIENT} as client,
        {SERVER} as broker, "group", coalesce(topics, []) as topics, epoch_us(time) as time, total_ns as total,
        request_ns as sent, case when queued_ns is not null then greatest(least(queued_ns, wait_ns), 0) end as queued,
        wait_ns as wait, response_ns as received,
        greatest(request_bytes, 0) as request_bytes, greatest(response_bytes, 0) as answer_bytes,
        greatest(records, 0) as messages, greatest(throttle_ms, 0) as throttled,
        coalesce(request_file, response_file) as file, coalesce(request_packet, response_packet) as packet,
        case when request_packet is not null then response_file end as answer_file,
        case when request_packet is not null then response_packet end as answer_packet,
        case when status = 'error' then {STATUS} end as error,
        coalesce(list_position({list(KINDS)}, kind), 1) - 1
            + case when long_poll then {LONG_POLL} else 0 end
            + case when retransmitted then {RETRANSMITTED} else 0 end
            + case when {BARRIER} then {BARRED} else 0 end
            + case when unheard then {OF_UNHEARD} else 0 end
            + case when status <> 'error' or status is null then 0 when excused then {EXPECTED} else {FAILED} end
            as flags,
        (not {HELD} and kind = 'call')::int as timed
    from exchanges left join (select *, true as excused from ({EXCUSED})) using (site, exchange_id)
        left join (select *, true as unheard from ({UNHEARD})) using (site, connection, incarnation)
    where time is not null"""

_SEND = ", ".join(SENDS)
_BATCHES = f"""
    with carried as (
        select b.*, coalesce(outcome = 'error', false) as refused, epoch_us(time) as us,
            not coalesce(control, false) and coalesce(outcome <> 'error', true) as counts, row_number() over () as nth
        from batches b where time is not null
    ), sends as (
        select * from carried where {KNOWN} and counts
    ), repeated as (
        select {_SEND} from sends group by {_SEND} having count(*) > 1
    ), again as (
        select s.nth from sends s join repeated r on {alike(SENDS, "s", "r")}
        qualify row_number() over (
            partition by {", ".join(f"s.{column}" for column in SENDS)} order by {sent_first(DuckDB())}
        ) > 1
    ), answers as (
        select {", ".join(ANSWER)}, sum(records) as carried from carried
        where role = 'consume' and counts and exchange_id is not null group by all
    ), short as (
        select {", ".join(f"a.{column}" for column in ANSWER)}, max(records) / carried as received
        from answers a join all_exchanges e on {equal(ANSWER, "a", "e")}
        where kind = 'call' and payload_bytes > 0
        group by {", ".join(f"a.{column}" for column in ANSWER)}, carried having max(records) < carried
    ), fresh as (
        select c.*, c.counts and a.nth is null as fresh,
            case when c.role = 'consume' then s.received end as received
        from carried c left join again a using (nth) left join short s on {equal(ANSWER, "c", "s")}
    )
    select us as time, site, exchange_id, protocol, coalesce(api, '?') as api, {CLIENT} as client, {SERVER} as broker,
        "group", topic, partition, role, case when fresh then records * coalesce(received, 1) else 0 end as messages,
        case when refused then records else 0 end as refused, case when fresh then stored_bytes else 0 end as stored,
        case when fresh then {UNPACKED_BYTES} end as uncompressed
    from fresh"""
"""Messages and bytes as the table `throughput` counts them: without what was refused, sent again or not received."""


_ORDER = "time, connection, packet, api, correlation_id, exchange_id"
_VALUES = ", ".join((*_DURATIONS, *_AMOUNTS))
_COMMON = (*_NAMED, "flags")
_KEPT = ("site", "protocol", "api", "broker", "error", "flags")
_OTHERS = "(select * from page_calls where rowid not in (from page_alone))"
_COMBINED = f"""
    create or replace temp table page_combinations as
    select {", ".join(_COMMON)}, row_number() over (order by count(*) desc, {", ".join(_COMMON)}) as place,
        dense_rank() over (order by {", ".join(_KEPT)}) as kept
    from {_OTHERS} group by {", ".join(_COMMON)}"""
"""Names and flags that requests have in common, the most frequent first; `kept` tells only those of `_KEPT` apart."""

_REST = f"""
    create or replace temp table page_rest as
    select place, kept, time, log10(greatest(total, 1)) as duration, {_VALUES}
    from {_OTHERS} r
        join page_combinations c on {alike(_COMMON, "r", "c")}"""
_KEY = "case when place <= {combinations} then place else -kept end as key"
_BUCKET = "time - (time - {epoch}) % {width} as time"
_CELL = f"{_KEY}, {_BUCKET}, floor(duration * {{bins}}) as bin"
_CELLS = f"""
    create or replace temp table page_cells as
    select {{cell}}, count(*) as weight,
        {", ".join(f"avg({name})::bigint as {name}" for name in _DURATIONS)},
        {", ".join(f"sum({name})::bigint as {name}" for name in _AMOUNTS)}
    from page_rest group by 1, 2, 3"""
_ROWS = f"""
    create or replace temp table page_rows as
    select *, (row_number() over (order by {_ORDER}, key, bin) - 1)::int as row from (
        select {", ".join(_COMMON)}, correlation_id, time, {_VALUES}, 0 as weight, connection, incarnation,
            exchange_id, file, packet, answer_file, answer_packet, null as key, null as bin
        from page_calls c join page_alone on c.rowid = id
        union all by name
        select time, {_VALUES}, weight, key, bin, {", ".join(_KEPT)},
            case when key > 0 then client end as client,
            case when key > 0 then "group" end as "group",
            case when key > 0 then topics else [] end as topics
        from page_cells join (
            select * from (select *, {_KEY} from page_combinations)
            qualify row_number() over (partition by key) = 1
        ) using (key)
    )"""
_PLACES = pa.schema([("rank", pa.int32()), ("counted", pa.string()), *SCHEMA.field("evidence").type.value_type])
_EVIDENCE = {
    "exchanges": """
        select rank, row from page_places e
        join page_rows r on r.exchange_id = e.exchange_id and e.file in (r.file, r.answer_file)""",
    **{
        table: f"""
            select rank, p.row from page_places e join {table} r on {SAME_ROW[table]}
            join page_rows p on {alike(keys, "p", "r")}"""
        for table, keys in {
            "batches": ("site", "exchange_id"),
            "connections": _CONNECTION,
            "findings": _CONNECTION,
        }.items()
    },
}
"""Record table -> the requests that the evidence e of verdicts stands for: those that carried the batches, and what
went over the connections, also those of findings."""
_EVERY_EVIDENCE = " union all ".join(f"{rows} where e.counted = '{table}'" for table, rows in _EVIDENCE.items())


def _joins(row: str, dimensions: Sequence[str]) -> str:
    return " ".join(
        f"left join page_names n_{d} on n_{d}.dimension = '{d}' and n_{d}.name = {row}.\"{d}\"" for d in dimensions
    )


def _place(dimension: str) -> str:
    return f'coalesce(n_{dimension}.place, 0) as "{dimension}"'


class Requests:
    """The requests and batches of an analysis, as the page carries them.

    verdicts: rows of the table `verdicts`; the requests that they count are carried one by one. limit: how many rows or
    names this page carries, of those that a page carries at most (`Payload.limit`).
    """

    def __init__(
        self, records: Records, verdicts: Sequence[Mapping[str, Any]], limit: Callable[[int], int] = int
    ) -> None:
        self._records, self._limit = records, limit
        records.keep("page_calls", _CALLS)
        records.keep("page_batches", _BATCHES)
        ((self.asked,),) = records.tuples("select count(*) filter (flags & 7 <= 1) from page_calls")
        ((self.epoch, end),) = records.tuples("""
            select coalesce(min(first), 0), coalesce(max(last), 0) from (
                select min(time) as first, max(time + coalesce(total, 0) // 1000) as last from page_calls
                union all
                select epoch_us(min(start_time)), epoch_us(max(end_time)) from connections
                union all
                select epoch_us(min(time)), epoch_us(max(time)) from findings where severity <> 'info')""")
        self.span = end - self.epoch
        records.give("page_places", _places(verdicts))
        self._lay_out()
        self._name()

    def _lay_out(self) -> None:
        """Make the table `page_rows`: the rows that the page carries, each with its place."""
        self._records.run(f"""
            create or replace temp table page_alone as
            select page_calls.rowid as id from page_calls left join (
                select distinct exchange_id, true as told from page_places where exchange_id is not null
            ) using (exchange_id)
            order by told nulls last, flags & {FAILED} = 0, flags & {7 | OF_UNHEARD} <> 1, timed desc,
                total desc nulls last, {_ORDER}
            limit {self._limit(ROWS)}""")
        self._records.run(_COMBINED)
        self._records.run(_REST)
        for buckets, bins, divisor in GRAINS:
            combinations = max(1, self._limit(COMBINATIONS) // divisor)
            width = self._grain = max(1, self.span // buckets)
            cell = _CELL.format(combinations=combinations, epoch=self.epoch, width=width, bins=bins)
            if self._groups(cell, "page_rest") <= self._limit(CELLS):
                break
        self._records.run(_CELLS.format(cell=cell))
        self._records.run(_ROWS.format(combinations=combinations))

    def _groups(self, keys: str, table: str) -> int:
        """How many rows a table has that differ in these columns."""
        ((count,),) = self._records.tuples(f"select count(*) from (select distinct {keys} from {table})")
        return int(count)

    def _name(self) -> None:
        """Make tables of names, lists of topics and connections, each with its place."""
        sources = (
            *(
                (d, d, table)
                for d in DIMENSIONS
                for table in ("page_calls", "page_batches")
                if (d, table) != ("topic", "page_calls")
            ),
            ("topic", "topic", "(select unnest(topics) as topic from page_calls)"),
            ("error", "error", "page_calls"),
            ("file", "file", "page_rows"),
            ("file", "answer_file", "page_rows"),
        )
        named = " union all ".join(
            f"select '{dimension}' as dimension, \"{column}\" as name, count(*) as n from {table} group by all"
            for dimension, column, table in sources
        )
        self._records.run(f"""
            create or replace temp table page_names as
            select dimension, name, least({self._limit(NAMES)}, row_number() over (
                partition by dimension order by sum(n) desc, name))::int as place, sum(n) as n
            from ({named}) where name is not null and name <> '' group by dimension, name""")
        self._records.run(f"""
            create or replace temp table page_topic_sets as
            select topics, list_sort(list_distinct(list(place))) as places,
                least({self._limit(TOPIC_SETS)}, row_number() over (order by count(*) desc, topics))::int as place
            from (select row, topics, unnest(topics) as topic from page_rows where len(topics) > 0)
                join page_names on dimension = 'topic' and name = topic
            group by topics""")
        keys, same = ", ".join(_CONNECTION), alike(_CONNECTION, "u", "c")
        self._records.run(f"""
            create or replace temp table page_connections as
            select u.*, epoch_us(start_time) as start, epoch_us(end_time) as stop, closed, closed_by, file, packet,
                rtt_ns, handshake, concat_ws(' ', client_software, client_version) as software, tls_handshake_ns,
                tls_resumed
            from (
                select {keys}, row_number() over (order by min(row)) as place from page_rows
                where connection is not null group by {keys}
                order by count(*) desc, min(row) limit {self._limit(CONNECTIONS)}
            ) u left join connections c on {same}
            qualify row_number() over (partition by u.place order by start_time, packet) = 1""")

    def carried(self) -> dict[str, Any]:
        """All of it but evidence. Texts are as the capture holds them."""
        return {
            "epoch": self.epoch,
            "span": self.span,
            "grain": self._grain,
            "names": self._names(),
            "topic_sets": [[], *(row[0] for row in self._records.tuples(_TOPIC_SETS))],
            "connections": [list(row) for row in self._records.tuples(_USED.format(epoch=self.epoch))],
            "requests": self._packed(_REQUESTS.format(epoch=self.epoch)),
            "batches": self._packed(self._batches()),
            "partitions": [list(row) for row in self._records.tuples(_PARTITIONS)],
            "stalled": self._packed(_STALLED),
        }

    def evidence(self) -> pa.Table:
        """The requests that verdicts count, ordered: `rank` of the verdict, and `row`, the place of the request."""
        most = self._limit(EVIDENCE)
        return self._records.arrow(
            f"select distinct rank, row from ({_EVERY_EVIDENCE}) order by rank, row limit {most}"
        )

    def _packed(self, sql: str) -> dict[str, Any]:
        return packed_table(self._records.arrow(sql))

    def _names(self) -> dict[str, list[str | None]]:
        """Names by place; null stands for all names beyond NAMES."""
        names: dict[str, list[str | None]] = {d: [""] for d in (*DIMENSIONS, "error", "file")}
        for dimension, name in self._records.tuples("""
                select dimension, case when count(*) = 1 then any_value(name) end from page_names
                group by dimension, place order by dimension, place"""):
            names[dimension].append(name)
        return names

    def _batches(self) -> str:
        """SQL of the batches: each one, or, where they are too many, those of a time bucket with names in common."""
        ((count,),) = self._records.tuples("select count(*) from page_batches")
        most = self._limit(BATCHES)
        if count <= most:
            self._records.run(_EACH_BATCH)
        else:
            for buckets, lost in BATCH_GRAINS:
                width = max(1, self.span // buckets)
                kept = (f'"{name}"' if name not in lost else f'null as "{name}"' for name in _BATCH_NAMES)
                keys = ", ".join((_BUCKET.format(epoch=self.epoch, width=width), *kept))
                if self._groups(keys, "page_batches") <= most:
                    break
            self._records.run(_BATCHES_TOGETHER.format(keys=keys))
        self._records.run("""
            create or replace temp table page_partitions as
            select topic, partition, row_number() over (order by sum(messages) desc, topic, partition) - 1 as place
            from page_moves group by topic, partition""")
        return _MOVED.format(epoch=self.epoch)


def packed_table(rows: pa.Table) -> dict[str, Any]:
    """Pack a table of the page. Which of its columns change little from row to row is known by their names."""
    return packed({name: rows[name] for name in rows.column_names}, _DELTAS)


def _places(verdicts: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The evidence of verdicts as one table: rank and table of the verdict, and where each row is."""
    names = SCHEMA.field("evidence").type.value_type.names
    found = [
        (verdict["rank"], verdict["counted"], *(place.get(name) for name in names))
        for verdict in verdicts
        for place in verdict["evidence"]
    ]
    columns = zip(*found, strict=True) if found else ((),) * len(_PLACES)
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, _PLACES.types, strict=True)], schema=_PLACES
    )


_KEYS = ", ".join(f'"{d}"' for d in DIMENSIONS)
_WHOLE = f"partition by topic, role order by time, request, partition, {_KEYS}"
_BATCH_NAMES = (*DIMENSIONS, "partition", "role")
_SUMS = """
    sum(messages) as messages, sum(refused)::bigint as refused, sum(stored)::bigint as stored,
    sum(uncompressed)::bigint as uncompressed,
    sum(case when uncompressed is not null then stored else 0 end)::bigint as sized"""
_EACH_BATCH = f"""
    create or replace temp table page_moves as
    select time, row as request, {_KEYS}, partition, role, {_SUMS}
    from page_batches left join (
        select min(row) as row, site, exchange_id from page_rows where exchange_id is not null
        group by site, exchange_id) using (site, exchange_id)
    group by all"""
_BATCHES_TOGETHER = f"""
    create or replace temp table page_moves as
    select {{keys}}, null::int as request, {_SUMS} from page_batches group by all"""
_MOVED = f"""
    with summed as (
        select *, round(sum(messages) over ({_WHOLE} rows unbounded preceding))::bigint as so_far from page_moves
    ), counted as (
        select *, so_far - coalesce(lag(so_far) over ({_WHOLE}), 0) as whole_messages from summed
    )
    select c.time - {{epoch}} as time, request, {", ".join(map(_place, DIMENSIONS))}, p.place as part,
        greatest(coalesce(list_position({list(ROLES)}, role), 1), 1) - 1 as role,
        whole_messages as messages, coalesce(refused, 0) as refused, coalesce(stored, 0) as stored, uncompressed,
        nullif(sized, coalesce(stored, 0)) as sized
    from counted c join page_partitions p on p.topic is not distinct from c.topic
        and p.partition is not distinct from c.partition {_joins("c", DIMENSIONS)}
    order by time, request, part, role, {_KEYS}"""
_PLAIN = [d for d in (*DIMENSIONS, "error", "file") if d != "topic"]
_REQUESTS = f"""
    select time - {{epoch}} as time, {", ".join(_DURATIONS)}, {", ".join(_AMOUNTS)}, flags, weight,
        {", ".join(map(_place, _PLAIN))}, coalesce(t.place, 0) as topics, coalesce(u.place, 0) as connection, r.packet,
        coalesce(n_answer.place, 0) as answer_file, answer_packet
    from page_rows r {_joins("r", _PLAIN)} left join page_topic_sets t on t.topics = r.topics
        left join page_names n_answer on n_answer.dimension = 'file' and n_answer.name = r.answer_file
        left join page_connections u on {alike(_CONNECTION, "u", "r")}
    order by row"""
_TOPIC_SETS = (
    "select list_sort(list_distinct(flatten(list(places)))) from page_topic_sets group by place order by place"
)
_USED = """
    select split_part(connection, '>', 1), split_part(connection, '>', 2), start - {epoch}, stop - {epoch}, closed,
        closed_by, coalesce(n.place, 0), packet, rtt_ns, software, handshake,
        tls_handshake_ns, tls_resumed
    from page_connections u left join page_names n on n.dimension = 'file' and n.name = u.file order by u.place"""
_PARTS = [part.name for part in PARTS if part.name != "network"]
_HELD_BACK = "resent_ns + window_ns + delayed_ack_ns + throttled_ns"
_STALLED = f"""
    select row, {", ".join(f"{name}_ns as {name}" for name in _PARTS)} from (
        select r.row, p.* from page_rows r
            join ({parts(DuckDB())}) p on {equal((*_CONNECTION, "exchange_id"), "r", "p")}
        where {_HELD_BACK} > 0 order by {_HELD_BACK} desc, r.row limit {STALLED}
    ) order by row"""
_PARTITIONS = f"""
    select {_place("topic")}, partition from page_partitions p {_joins("p", ["topic"])} order by p.place"""
