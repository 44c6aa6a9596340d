"""Brokers that went away: findings that no single connection shows, so they are made of the rows of `connections`.

    served    connections that the broker answered
    attempts  connections that it refused (a SYN that only a reset answered) or did not answer (a SYN sent again)
    outages   attempts in a row, with no connection opened between them

An outage is a finding where several served connections ended at once just before refused attempts and none lived on;
or, where attempts were not answered, where several had been in use just before and no request was answered meanwhile.
A broker whose clients leave one by one, or that nobody wants to reach again, was not lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from dissectors.findings import KINDS
from pipelines.sql.words import SERVER
from pipelines.tables.dialect import Dialect
from pipelines.tables.table import count_if, earliest

KIND = "broker_lost"
_MANY = 2  # connections that ended
_SECOND = 1_000_000
_AT_ONCE = _SECOND  # within so much time
_SOON = 10 * _SECOND  # between their end and the first refused attempt: clients wait so long at most, then try again
_IN_USE = 60 * _SECOND  # before the first attempt without an answer

_BROKER = "site, server_ip, server_port"
_UNOPENED = "handshake = 'partial' and server_seq is null and coalesce(client_bytes, 0) = 0"
_REFUSED = f"{_UNOPENED} and closed = 'reset' and server_packets > 0"
_SILENT = f"{_UNOPENED} and coalesce(server_packets, 0) = 0 and client_packets > 1"
UNANSWERED = f"({_REFUSED}) or ({_SILENT})"
"""Which connections are attempts to reach a broker that is not there: without any, none was lost."""
_OPENED = "handshake = 'full' or coalesce(server_bytes, 0) > 0"


def lost_brokers(d: Dialect, columns: Sequence[str]) -> str:
    """A SELECT of such findings, over the relations `connections` and `exchanges`. columns: those of `findings`."""
    start, end = d.micros("start_time"), d.micros("end_time")
    same = " and ".join(f"o.{column} = c.{column}" for column in _BROKER.split(", "))
    started = f"partition by {_BROKER} order by from_us, opened desc rows between unbounded preceding and current row"
    first = {
        column: earliest(d, column)
        for column in ("connection", "incarnation", "client_ip", "client_port", "file", "packet")
    }
    values = {
        "site": "site",
        "server_ip": "server_ip",
        "server_port": "server_port",
        "protocol": "protocol",
        **{column: column for column in first},
        "kind": f"'{KIND}'",
        "severity": f"'{KINDS[KIND].severity}'",
        "message": _message(),
        "time": d.timestamp("lost_us"),
        "evidence": _evidence(),
    }
    chosen = ", ".join(f"{values.get(column, 'null')} as {d.quoted(column)}" for column in columns)
    return f"""
        select {chosen} from (
            with attempts as (
                select {_BROKER}, connection, incarnation, client_ip, client_port, start_time as time, file, packet,
                    {start} as from_us, case when {_REFUSED} then 1 else 0 end as refused
                from connections where {UNANSWERED}
            ), brokers as (
                select distinct {_BROKER} from attempts
            ), served as (
                select c.site, c.server_ip, c.server_port, c.protocol, {start} as from_us, {end} as to_us,
                    case when {_OPENED} then 1 else 0 end as opened
                from connections c join brokers o on {same}
                where coalesce(c.server_packets, 0) > 0 and not ({_REFUSED})
            ), numbered as (
                select *, sum(opened) over ({started}) as outage from (
                    select {_BROKER}, connection, incarnation, client_ip, client_port, time, file, packet, from_us,
                        refused, 0 as opened
                    from attempts
                    union all
                    select {_BROKER}, null, null, null, null, null, null, null, from_us, null, 1
                    from served where opened = 1
                )
            ), outages as (
                select {_BROKER}, outage, min(from_us) as first_us, max(from_us) as last_us, count(*) as attempts,
                    sum(refused) as refused, {", ".join(f"{value} as {column}" for column, value in first.items())}
                from numbered where opened = 0 group by {_BROKER}, outage
            ), answered as (
                select c.site, c.server_ip, c.server_port, o.outage,
                    max(case when {d.micros("c.time")} < o.first_us then {d.micros("c.time")} end) as before_us,
                    {count_if(f"{d.micros('c.time')} >= o.first_us and {d.micros('c.time')} <= o.last_us")} as meanwhile
                from exchanges c join outages o on {same} where o.refused = 0 and c.kind = 'call'
                group by c.site, c.server_ip, c.server_port, o.outage
            ), ended as (
                select c.site, c.server_ip, c.server_port, o.outage, max(c.protocol) as protocol,
                    max(case when c.to_us <= o.first_us + {_AT_ONCE} then c.to_us end) as ended_us,
                    {count_if(f"c.to_us > o.first_us + {_AT_ONCE}")} as lived_on,
                    {count_if(f"c.to_us >= o.first_us - {_IN_USE}")} as in_use
                from served c join outages o on {same} where c.from_us < o.first_us
                group by c.site, c.server_ip, c.server_port, o.outage
            ), at_once as (
                select c.site, c.server_ip, c.server_port, o.outage, count(*) as ended
                from served c join ended o on {same}
                where c.from_us <= o.ended_us and c.to_us between o.ended_us - {_AT_ONCE} and o.ended_us
                group by c.site, c.server_ip, c.server_port, o.outage
            ), back as (
                select c.site, c.server_ip, c.server_port, o.outage, min(c.from_us) as back_us
                from served c join outages o on {same} where c.opened = 1 and c.from_us > o.last_us
                group by c.site, c.server_ip, c.server_port, o.outage
            )
            select o.*, e.protocol, b.back_us,
                case when o.refused > 0 then n.ended else e.in_use end as connections,
                case when o.refused > 0 then e.ended_us else coalesce(a.before_us, o.first_us) end as lost_us
            from outages o
            join ended e on {_on("o", "e")}
            left join at_once n on {_on("o", "n")}
            left join answered a on {_on("o", "a")}
            left join back b on {_on("o", "b")}
            where e.protocol is not null and case
                when o.refused > 0 then n.ended >= {_MANY} and e.lived_on = 0 and o.first_us - e.ended_us <= {_SOON}
                else o.attempts >= {_MANY} and e.in_use >= {_MANY} and coalesce(a.meanwhile, 0) = 0 end
        )
    """


def _on(one: str, other: str) -> str:
    """The same outage."""
    return " and ".join(f"{one}.{column} = {other}.{column}" for column in (*_BROKER.split(", "), "outage"))


def _seconds(micros: str) -> str:
    return f"cast(round(({micros}) / 1e6, 1) as string)"


def _clock(micros: str) -> str:
    """`17:05:43`, UTC."""

    def part(unit_us: int, count: int) -> str:
        return f"lpad(cast(cast(floor({micros} / {unit_us}) as bigint) % {count} as string), 2, '0')"

    return f"concat({part(3600 * _SECOND, 24)}, ':', {part(60 * _SECOND, 60)}, ':', {part(_SECOND, 60)})"


def _message() -> str:
    after = f"concat(', until it answered again after ', {_seconds('back_us - lost_us')}, ' s')"
    many = "case when attempts = 1 then ' attempt to connect ' else ' attempts to connect ' end"
    texts = (
        f"'Broker ', {SERVER}, ' was lost at ', {_clock('lost_us')}, ' UTC: ', cast(connections as string)",
        "case when refused > 0 then ' connections ended at once, and ' else ' connections were in use, and ' end",
        f"cast(attempts as string), {many}",
        "case when refused = 0 then 'got no answer' when attempts = 1 then 'was refused' else 'were refused' end",
        f"case when back_us is null then '' else {after} end",
    )
    return f"concat({', '.join(texts)})"


def _evidence() -> str:
    """As JSON."""
    numbers = {
        "connections": "connections",
        "attempts": "attempts",
        "refused": "refused",
        "back_after_s": f"case when back_us is null then null else {_seconds('back_us - lost_us')} end",
    }
    shown = ", ', ', ".join(
        f"""'"{name}": ', coalesce(cast({value} as string), 'null')""" for name, value in numbers.items()
    )
    return f"""concat('{{"server": "', {SERVER}, '", ', {shown}, '}}')"""
