"""Capture points: a connection that several of them saw is a shared one.

Records stay per site. What several points saw counts once, as the point nearest to the server saw it:

    connections of two sites --pairs--> shared --durations--> points (site, connection, incarnation, shared_id, rank)
    all_exchanges, all_batches, …       what every point saw
    exchanges, batches, …               each counted once

Two rows are the same connection where addresses and ports are the same and the sequence numbers overlap; or, where an
address was translated on the way, where both directions begin at the same sequence number, 64 bits in all, which no
other connection of either site shares. One site may see both sides of a translation, as on all interfaces of a host:
then the two also begin at the same moment. The point nearest to the server is the one at which answers took least time:
durations only, so no two clocks need to agree. Rows of a shared connection are the same thing where they agree in what
is given below and are the first, second … such row of their point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipelines.tables.dialect import Dialect
from pipelines.tables.table import CONNECTION, alike, equal

POINTS = "points"
NO_POINTS = """(
    select '' as site, '' as connection, 0 as incarnation, '' as shared_id, 1 as rank, 1 as points where 1 = 0
)"""
SHOWN = 100  # sets of capture points that are listed
_CIRCLE = 1 << 32  # sequence numbers
_AT_ONCE_US = 100_000  # within which both sides of a translation are passed
_VIEWS = 4  # of one connection at one site, at most: what more have in common says nothing


class Sameness(NamedTuple):
    """When two rows of one shared connection are the same thing."""

    values: tuple[str, ...]
    """Columns in which they agree; not names, which one point may not know."""
    order: tuple[str, ...]
    """In which order a point saw those that agree."""
    prefer: str = ""
    """Which one counts, before the point's rank: the least."""


SAME = {
    "exchanges": Sameness(
        ("api", "correlation_id", "request_bytes"),
        ("time", "request_packet", "response_packet"),
        "case kind when 'call' then 0 else 1 end",
    ),
    "batches": Sameness(
        (
            "role", "partition", "position", "producer", "base_sequence", "correlation_id", "checksum_stored",
            "stored_bytes",
        ),
        ("time", "packet", "stream_offset"),
        "case when topic is null then 2 when verdict in ('ok', 'bad') then 0 else 1 end",
    ),
    "errors": Sameness(
        ("api", "scope", "partition", "code", "correlation_id"),
        ("time", "packet"),
        "case when topic is null then 1 else 0 end",
    ),
    "findings": Sameness(("kind", "direction", "stream_offset", "length"), ("time", "packet", "message")),
    "positions": Sameness(
        ("api", "what", "partition", "value", "ledger", "correlation_id"),
        ("time", "packet"),
        "case when topic is null then 1 else 0 end",
    ),
    "events": Sameness(
        ("kind", "api", "partition", "number", "direction", "correlation_id"),
        ("time", "packet"),
        "case when topic is null then 1 else 0 end",
    ),
    "stalls": Sameness(("kind", "direction", "stream_offset"), ("time", "packet")),
    "connections": Sameness((), ("start_time", "incarnation")),
}  # fmt: skip


def several(connections: str) -> str:
    """Whether some connections may have been seen more than once, as a row with one column; connections: a relation."""
    return f"""
        with alike as (
            select site, count(*) as rows, min(connection) <> max(connection) as translated,
                client_seq is not null and server_seq is not null as known
            from {connections} group by site, client_seq, server_seq
        )
        select count(distinct site) > 1 or
            coalesce(max(case when known and translated and rows <= {_VIEWS} then 1 else 0 end), 0) = 1 as several
        from alike
    """


def points(d: Dialect) -> str:
    """The connections that several points saw: (site, connection, incarnation, shared_id, rank, points)."""
    own = "concat_ws(' ', site, connection, cast(incarnation as string))"
    seen = numbered("exchanges", "all_exchanges", "s.shared_id", "shared")
    missing = ("coalesce(gap_bytes, 0)", "coalesce(cut_bytes, 0)", "1")
    return f"""
        with ends as (
            select site, connection, incarnation, client_seq, server_seq, {d.micros("start_time")} as start_us,
                coalesce(protocol, '') as protocol,
                {d.plus("coalesce(client_bytes, 0)", *missing)} as client_span,
                {d.plus("coalesce(server_bytes, 0)", *missing)} as server_span,
                count(*) over (partition by site, client_seq, server_seq) as alike, {own} as own
            from all_connections
        ), looks as ({_collapsed("ends", _LOOK)}
        ), starts as ({_collapsed("(select * from ends where alike = 1)", _START)}
        ), pairs as (
            select a.site, a.connection, a.incarnation, a.own, {_ELSEWHERE} as other
            from ends a join looks b on a.connection = b.connection
            where {_overlap("client")} and {_overlap("server")}
            union all
            select a.site, a.connection, a.incarnation, a.own, {_ELSEWHERE} as other
            from ends a join starts b on a.client_seq = b.client_seq and a.server_seq = b.server_seq
            where a.alike = 1
            union all
            select a.site, a.connection, a.incarnation, a.own, b.own as other
            from ends a join ends b
                on a.site = b.site and a.client_seq = b.client_seq and a.server_seq = b.server_seq
                and a.client_span = b.client_span and a.server_span = b.server_span and a.protocol = b.protocol
            where a.alike <= {_VIEWS} and a.connection <> b.connection
                and abs(a.start_us - b.start_us) <= {_AT_ONCE_US}
        ), shared as (
            select site, connection, incarnation, least(own, min(other)) as shared_id
            from pairs where other is not null group by site, connection, incarnation, own
        ), seen as (
            select *, count(*) over (partition by {same_thing("exchanges")}) as sightings
            from ({seen}) where wait_ns is not null
        ), durations as (
            select site, connection, incarnation, avg(wait_ns) as wait
            from seen where sightings > 1 group by site, connection, incarnation
        )
        select s.site, s.connection, s.incarnation, s.shared_id,
            row_number() over (
                partition by s.shared_id order by d.wait nulls last, s.site, s.connection, s.incarnation
            ) as rank,
            count(*) over (partition by s.shared_id) as points
        from shared s left join durations d on {equal(CONNECTION, "s", "d")}
    """


_LOOK = "connection, client_seq, server_seq, client_span, server_span"
_START = "client_seq, server_seq"
_ELSEWHERE = "case when b.first_site <> a.site then b.first_own else b.next_own end"
"""Of the rows that `b` stands for, the first one of another site than that of `a`; null where there is none."""


def _collapsed(ends: str, columns: str) -> str:
    """Rows of `ends` that agree in some columns as one, so that n sites with one connection need no n * n pairs.

    first_own: the least of their keys, first_site: its site; next_own: the least key of another site, if there is one.
    """
    return f"""
            select {columns}, min(own) as first_own, min(first_site) as first_site,
                min(case when site <> first_site then own end) as next_own
            from (select *, first_value(site) over (partition by {columns} order by own) as first_site from {ends})
            group by {columns}"""


def sharing(d: Dialect) -> str:
    """Which capture points saw the same connections, the one nearest to the server first, and how many."""
    return f"""
        select sites, count(*) as connections
        from (select shared_id, {d.in_order("site", "rank")} as sites from {POINTS} group by shared_id)
        group by sites order by connections desc, sites limit {SHOWN}
    """


def _overlap(side: str) -> str:
    """Whether what two points saw of one direction lies in the same range of sequence numbers, as far as is known."""

    def reaches(one: str, other: str) -> str:
        ahead = f"({other}.{side}_seq - {one}.{side}_seq + {_CIRCLE}) % {_CIRCLE}"
        return f"{ahead} <= {one}.{side}_span"

    return f"coalesce({reaches('a', 'b')} or {reaches('b', 'a')}, true)"


def numbered(table: str, relation: str, columns: str, shared: str = POINTS) -> str:
    """Rows of shared connections, with `nth`: of the rows that agree in `Sameness.values`, which one this is.

    columns: a SELECT list of what else is wanted of the rows, `r`, and of the shared connections, `s`.
    """
    alike_at_point = ", ".join(f"r.{column}" for column in (*CONNECTION, *SAME[table].values))
    order = ", ".join(f"r.{term}" for term in SAME[table].order)
    return f"""
        select r.*, {columns}, row_number() over (partition by {alike_at_point} order by {order}) as nth
        from {relation} r join {shared} s on {equal(CONNECTION, "r", "s")}
    """


def outermost(columns: str) -> str:
    """Parts of a WITH: `clients` and `servers`, the exchanges of shared connections at the point nearest to each.

    columns: a SELECT list of what is wanted of them, beside what `THE_SAME_EXCHANGE` reads. `sure` is whether all that
    agree are certain to be paired rightly.
    """
    seen = numbered("exchanges", "all_exchanges", "s.shared_id, s.rank, s.points")
    known = f"shared_id, nth, sure, {', '.join(SAME['exchanges'].values)}, {columns}"
    # Without ids on the wire, one answer without a request may mean that all of its api are paired one off.
    orphan = "case when kind = 'orphan' and correlation_id is null then 1 else 0 end"
    return f"""
        seen as (
            select *, sum({orphan}) over (partition by shared_id, api) = 0 as sure from ({seen})
        ), clients as (
            select {known} from seen where rank = points and kind in ('call', 'oneway')
        ), servers as (
            select {known} from seen where rank = 1 and kind in ('call', 'oneway')
        )"""


THE_SAME_EXCHANGE = f"c.shared_id = s.shared_id and c.nth = s.nth and {alike(SAME['exchanges'].values, 'c', 's')}"
"""Whether a row `c` of `clients` and a row `s` of `servers` are the same exchange."""


def same_thing(table: str) -> str:
    """The columns of `numbered` in which rows of several points agree that are the same thing."""
    return ", ".join(("shared_id", *SAME[table].values, "nth"))


def counted(d: Dialect, table: str, columns: Sequence[str]) -> str:
    """A record table in which what several points saw stands once."""
    relation, names = f"all_{table}", ", ".join(map(d.quoted, columns))
    prefer = f"{SAME[table].prefer}, rank" if SAME[table].prefer else "rank"
    return f"""
        select {names} from (
            select *, row_number() over (partition by {same_thing(table)} order by {prefer}) as sighting
            from ({numbered(table, relation, "s.shared_id, s.rank")})
        ) where sighting = 1
        union all
        select {names} from {relation} r where not exists (
            select 1 from {POINTS} s where {equal(CONNECTION, "r", "s")}
        )
    """
