"""Why requests were slow: the parts of their time, by API, broker, client and topic.

    parts    of each slow exchange, from its own durations and what held its connection back (the records `stalls`)
    causes   their sums

An exchange has four phases. What a stall covers of one is its part, what is left is the phase's own:

    request  first to last byte of the request               sending
    queue    until the requests before it were answered      queued
    service  from then to the first byte of the answer       broker
    answer   first to last byte of the answer                transfer

A stall counts where it held back bytes of this exchange: one of the asking side if it, or the first one that held back
the same bytes, began while the request was still being sent (a broker reads bytes in order, so it waits for lost ones
before them); one of the answering side if it began within the answer, or ended with bytes of it. Parts are cut to their
phase in the order of _STALLS, so they never exceed it.
"""

from __future__ import annotations

from typing import NamedTuple

from pipelines.sql.words import CLIENT, EXPLAINED_NS, HELD_NS, SERVER
from pipelines.tables.dialect import Dialect
from pipelines.tables.points import THE_SAME_EXCHANGE, outermost
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, alike, equal

NEAR_US = 2  # times are whole microseconds: of two that stand for one packet, how far apart they may be


class TimePart(NamedTuple):
    """A part of the time of an exchange."""

    name: str
    doc: str
    says: str
    """The words for it in a sentence: `most of it went to …`."""


PARTS = (
    TimePart("sending", "sending the request: its packets came with gaps, without loss", "sending the request"),
    TimePart(
        "network",
        "between two capture points: what the point near the client took longer; null where one point saw it",
        "the network between the two capture points",
    ),
    TimePart("resent", "bytes were lost and sent again, of either side", "lost packets that were sent again"),
    TimePart(
        "window", "the receiver's window was zero, of either side", "a receiver that did not read (a window of zero)"
    ),
    TimePart(
        "delayed_ack",
        "a piece waited for an acknowledgement that the other side delayed (Nagle with delayed ACK)",
        "a delayed acknowledgement (Nagle)",
    ),
    TimePart("queued", "behind earlier requests of the same connection", "earlier requests of the same connection"),
    TimePart("throttled", "the broker held the answer, or did not read the connection, because of a quota", "a quota"),
    TimePart(
        "broker",
        "what is left of the wait: the broker, and the way to it and back where that was captured at the client",
        "the broker",
    ),
    TimePart("transfer", "what is left of the answer: its bytes on their way", "the transfer of the answer"),
)
_STALLS = ("resent", "window", "delayed_ack", "throttled")
_CAUSE = "case kind when 'zero_window' then 'window' when 'delayed_ack' then 'delayed_ack' else 'resent' end"
_ENDS_WITHIN = f"side <> asker and stall_to >= answered - {NEAR_US} and stall_to <= ends + {NEAR_US}"
_HOLDS_BYTES = "cause <> 'throttled' and (" + f"side <> asker and stall_from >= answered - {NEAR_US} or {_ENDS_WITHIN})"
_IS_WAITED_FOR = f"""(cause = 'throttled' or {_ENDS_WITHIN}
    or side = asker and cause <> 'delayed_ack' and first_from <= sent + {NEAR_US})"""


class Phase(NamedTuple):
    """A phase of an exchange."""

    own: str
    """The part that is what is left of it."""
    duration: str
    span: tuple[str, str]
    """Its begin and end, as columns."""
    counts: str
    """Whether a stall held back what the phase waits for."""


_PHASES = {
    "request": Phase("sending", "request_ns", ("begins", "sent"), "side = asker"),
    "queue": Phase("queued", "queue_ns", ("sent", "begun"), _IS_WAITED_FOR),
    "service": Phase("broker", "wait_ns - queue_ns - held_ns", ("begun", "answered"), _IS_WAITED_FOR),
    "answer": Phase("transfer", "response_ns", ("answered", "ends"), _HOLDS_BYTES),
}
_KEY = (*CONNECTION, "exchange_id")
_TOLD = ("protocol", "api", "client", "server", "topics", "file", "packet", "total_ns")
_HOLDS_ANSWER = """
    ((api = 'Produce' and version < 6 or api = 'Fetch' and version < 8) and throttle_ms <= wait_ns / 1000000)"""
"""Kafka: whether the broker held a throttled answer for the throttle time, as those before KIP-219 do. Later ones
answer at once, and then leave the connection unread for so long."""
_LONGEST_US = 9_000_000_000_000_000  # of a duration: with its nanoseconds, it is a bigint
_THROTTLE_US = f"least(throttle_ms, {_LONGEST_US // 1000}) * 1000"


def parts(d: Dialect, network: str | None = None) -> str:
    """A SELECT of the slow exchanges with the parts of their time.

    Columns: site, connection, incarnation, exchange_id, protocol, api, client, server, topics, file, packet, total_ns,
    and `<part>_ns` for each of PARTS, which add up to total_ns.

    network: a SELECT of _KEY and `network_ns` of exchanges that two capture points saw; total_ns includes it.
    """
    known = f"left join ({network}) n on {alike(_KEY, 'e', 'n')}" if network else ""
    network_ns = "n.network_ns" if network else "cast(null as bigint)"
    begun, answered = (_us(d.plus("request_ns", column)) for column in ("queue_ns", "wait_ns"))
    kept = (*_KEY, *_TOLD, "network_ns", "request_ns", "queue_ns", "wait_ns", "held_ns", "response_ns")
    covered = {
        f"{phase}_{cause}": d.total(f"case when cause = '{cause}' and {counts} then {_overlap(*span)} end")
        for phase, (_, _, span, counts) in _PHASES.items()
        for cause in _STALLS
    }
    taken = [f"{term} as {name}" for name, term in _taken().items()]
    return f"""
        with calls as (
            select {", ".join(f"e.{name}" for name in _KEY)}, protocol, api, {CLIENT} as client, {SERVER} as server,
                topics, coalesce(request_file, response_file) as file,
                coalesce(request_packet, response_packet) as packet,
                {d.plus("e.total_ns", f"coalesce({network_ns}, 0)", f"-({HELD_NS})")} as total_ns,
                {network_ns} as network_ns, {HELD_NS} as held_ns,
                request_ns, greatest(least(coalesce(queued_ns, 0), wait_ns), 0) as queue_ns, wait_ns, response_ns,
                e.total_ns as own_ns, {d.micros("time")} as begins, coalesce(initiator, 'client') as asker
            from exchanges e {known}
            where kind = 'call' and time is not null and e.total_ns is not null
                and request_ns is not null and wait_ns is not null and response_ns is not null
        ), slow as (
            select *, begins + {_us("request_ns")} as sent, begins + {begun} as begun,
                begins + {answered} as answered, begins + {_us("own_ns")} as ends
            from calls where total_ns >= {EXPLAINED_NS}
        ), held_back as (
            select {", ".join(CONNECTION)}, {_CAUSE} as cause, direction as side, {d.micros("time")} as stall_from,
                {d.micros("time")} + {_us("duration_ns")} as stall_to,
                min({d.micros("time")}) over (partition by {", ".join(CONNECTION)}, direction, stream_offset)
                    as first_from
            from stalls where duration_ns is not null and time is not null and kind <> 'undelivered'
                and not coalesce(spurious, false)
            union all
            select {", ".join(CONNECTION)}, 'throttled' as cause, '' as side,
                {d.micros("time")} + case when {_HOLDS_ANSWER} then {answered} - {_THROTTLE_US}
                    else {_us("total_ns")} end as stall_from,
                {d.micros("time")} + case when {_HOLDS_ANSWER} then {answered}
                    else {_us("total_ns")} + {_THROTTLE_US} end as stall_to, null as first_from
            from (select *, wait_ns as queue_ns from exchanges)
            where kind = 'call' and throttle_ms > 0 and time is not null and total_ns is not null
        ), stalled as (
            select {", ".join(f"e.{name}" for name in _KEY)},
                {", ".join(f"{term} as {name}" for name, term in covered.items())}
            from slow e join held_back s on {equal(CONNECTION, "e", "s")} and stall_from < ends and stall_to > begins
            group by {", ".join(f"e.{name}" for name in _KEY)}
        ), covered as (
            select {", ".join(f"e.{name}" for name in kept)}, {", ".join(covered)}
            from slow e left join stalled s on {equal(_KEY, "e", "s")}
        ), bounded as (
            select *, {", ".join(f"{_us(duration)} as {phase}_us" for phase, (_, duration, _, _) in _PHASES.items())}
            from covered
        ), reached as (
            select *, {", ".join(f"{term} as {name}" for name, term in _reached().items())} from bounded
        ), taken as (
            select *, {", ".join(taken)} from reached
        )
        select {", ".join((*_KEY, *_TOLD))}, {", ".join(f"{_sum_of(part.name)} as {part.name}_ns" for part in PARTS)}
        from taken
    """


def _us(ns: str) -> str:
    """Whole microseconds of a duration in ns."""
    return f"least(cast(floor(({ns}) / 1000) as bigint), {_LONGEST_US})"


def _overlap(start: str, end: str) -> str:
    """How much of a stall lies between two times of an exchange, µs."""
    return f"greatest(least(stall_to, {end}) - greatest(stall_from, {start}), 0)"


def _reached() -> dict[str, str]:
    """Columns `<phase>_to_<cause>`: how much of a phase its stalls take, of this kind and those before it, µs."""
    made = {}
    for phase in _PHASES:
        whole = f"{phase}_us"
        each = [f"least(coalesce({phase}_{cause}, 0), {whole})" for cause in _STALLS]
        for number, cause in enumerate(_STALLS, 1):
            made[f"{phase}_to_{cause}"] = f"least({' + '.join(each[:number])}, {whole})"
    return made


def _taken() -> dict[str, str]:
    """Columns `<phase>_<part>_ns`: what each kind of stall takes of a phase, and what is left of it."""
    made = {}
    for phase, (own, duration, _, _) in _PHASES.items():
        before = "0"
        for cause in _STALLS:
            made[f"{phase}_{cause}_ns"] = f"({phase}_to_{cause} - {before}) * 1000"
            before = f"{phase}_to_{cause}"
        made[f"{phase}_{own}_ns"] = f"greatest({duration} - {before} * 1000, 0)"
    return made


def _sum_of(part: str) -> str:
    """What a part takes of all phases, ns."""
    if part == "network":
        return "network_ns"
    return " + ".join(f"{phase}_{part}_ns" for phase, (own, *_) in _PHASES.items() if part in (own, *_STALLS))


def network(d: Dialect) -> str:
    """A SELECT of how much longer exchanges took at the point nearest to their client than at that nearest the server.

    These are durations, so no clocks need to agree. A request of the server, as Pulsar's PING, is left out.
    """
    return f"""
        with {outermost("site, connection, incarnation, exchange_id, total_ns, initiator")}
        select {", ".join(f"s.{name}" for name in _KEY)}, c.total_ns - s.total_ns as network_ns
        from clients c join servers s on {THE_SAME_EXCHANGE}
        where c.sure and c.site <> s.site and c.total_ns >= s.total_ns and coalesce(s.initiator, 'client') = 'client'
    """


_PER = {
    "api": "api",
    "broker": "server",
    "client": "client",
    "topic": "topic",
}  # what rows are about -> column of `parts`


def largest(values: str = "{}_ns") -> str:
    """The name of the largest part; of equal ones the first. values: the column of a part, `{}` being its name."""
    columns = {part.name: f"coalesce({values.format(part.name)}, 0)" for part in PARTS}
    most = f"greatest({', '.join(columns.values())})"
    cases = [f"when {column} = {most} then '{name}'" for name, column in columns.items()]
    return f"case {' '.join(cases)} end"


def _causes(d: Dialect, ask: Ask) -> str:
    each = " union all ".join(f"select '{per}' as per" for per in _PER)
    names = " ".join(f"when '{per}' then {column}" for per, column in _PER.items())
    sums = ", ".join(f"{d.total(f'{part.name}_ns')} as {part.name}_ns" for part in PARTS)
    shares = ", ".join(f"{part.name}_ns / nullif(cast(total_ns as double), 0) as {part.name}_share" for part in PARTS)
    return f"""
        with named as (
            select *, case per {names} end as name from (
                select *, {d.each("case when per = 'topic' then topics end")} as topic
                from ({parts(d, network(d))}) cross join ({each})
            )
        ), counted as (
            select protocol, per, name, count(*) as count, max(total_ns) as max_ns, {d.total("total_ns")} as total_ns,
                {sums}
            from named where name is not null group by protocol, per, name
        )
        select protocol, per, name, count, total_ns, max_ns, {largest()} as largest, {shares},
            {", ".join(f"{part.name}_ns" for part in PARTS)}
        from counted
    """


CAUSES = Table(
    "causes",
    f"Why requests were slow: where the time of those went that took {EXPLAINED_NS // 1_000_000} ms or more, summed by "
    "API, broker, client and topic. The parts of an exchange add up to its time; what each rests on is in "
    "[causes.md](causes.md). Requests that the broker held on purpose (long polls, waits for a group) are left out. A "
    "request that names several topics counts in the row of each.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("per", "what the row is about: api, broker, client or topic"),
        TableColumn("name", "its name: of a broker `ip:port`, of a client its address and the name it gives itself"),
        TableColumn("count", "slow requests", "count"),
        TableColumn("total_ns", "their time, summed: of those that two points saw, as at the client's", "ns"),
        TableColumn("max_ns", "the longest", "ns"),
        TableColumn("largest", f"the part that took most of it: {', '.join(part.name for part in PARTS)}"),
        *(TableColumn(f"{part.name}_share", f"share of that time: {part.doc}", "share") for part in PARTS),
        *(TableColumn(f"{part.name}_ns", f"time of the part {part.name}", "ns") for part in PARTS),
    ),
    _causes,
    headline=(
        "protocol", "per", "name", "count", "total_ns", "largest", "sending_share", "resent_share", "window_share",
        "delayed_ack_share", "queued_share", "broker_share", "transfer_share",
    ),
    order=("per", "total_ns desc", "protocol", "name"),
)  # fmt: skip
