"""Brokers that went away, and what that did to their clients.

    attempts   connections that the broker refused (a SYN that only a reset answered) or left alone (repeated SYNs)
    outages    attempts in a row at one port, with no connection opened there between them
    broker     a port of the same address that served connections and went with the outage: these ended within a short
               time before it, at once where the broker was killed, over seconds where it was stopped in order, and none
               lived on. Where attempts were not answered, connections had been in use and no request was answered.

A stopped broker may be missed at another of its ports than the one that served: its controller's, for example. A broker
whose clients leave one after the other, or that nobody wants to reach again, was not lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipelines.sql.words import REFUSED, SILENT
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.interruption import came_back, out_of_service, resent
from pipelines.tables.verdicts.kinds import CRITICAL, WARNING
from pipelines.tables.verdicts.leader_moved import taken_over
from pipelines.tables.verdicts.thresholds import AT_ONCE_US, DRAIN_US, IN_USE_US, LINKS, SOON_US
from pipelines.tables.verdicts.verdict import Link, Row, Ruling, sql_list

ERRORS_NAMED = 5  # errors that a link names
_MANY = 2  # connections that ended, or attempts that were not answered
_OPENED = "(handshake = 'full' or coalesce(server_bytes, 0) > 0)"

_GONE = f"""
    with attempts as (
        select site, server_ip, server_port as port, epoch_us(start_time) as from_us, {REFUSED} as refused
        from connections where {REFUSED} or {SILENT}
    ), served as (
        select c.site, c.server_ip, c.server_port as port, protocol, epoch_us(start_time) as from_us,
            epoch_us(end_time) as end_us, closed = 'open' as open, {_OPENED} as opened
        from connections c
        where coalesce(server_packets, 0) > 0 and not {REFUSED}
            and exists (select 1 from attempts a where a.site = c.site and a.server_ip = c.server_ip)
    ), numbered as (
        select *, count(*) filter (opened) over (
            partition by site, server_ip, port order by from_us, opened desc) as outage
        from (
            select site, server_ip, port, from_us, refused, false as opened from attempts
            union all
            select site, server_ip, port, from_us, null, true from served where opened
        )
    ), outages as (
        select site, server_ip, port as missed, outage, min(from_us) as first_us, max(from_us) as last_us,
            count(*) as attempts, count(*) filter (refused) as refused
        from numbered where not opened group by all
    ), ended as (
        select o.*, s.port, max(protocol) as protocol,
            max(end_us) filter (end_us <= first_us + {AT_ONCE_US}) as ended_us,
            count(*) filter (end_us > first_us + {AT_ONCE_US} or (open and refused > 0 and port <> missed)) as lived_on,
            count(*) filter (end_us >= first_us - {IN_USE_US}) as in_use
        from outages o join served s on o.site = s.site and o.server_ip = s.server_ip and s.from_us < o.first_us
        where s.port = o.missed or o.refused > 0
        group by all
    ), close as (
        select e.*,
            count(*) filter (end_us >= ended_us - {AT_ONCE_US}) as at_once,
            count(*) filter (end_us >= ended_us - {DRAIN_US}) as drained,
            min(end_us) filter (end_us >= ended_us - {DRAIN_US}) as drained_us
        from ended e join served s on e.site = s.site and e.server_ip = s.server_ip and e.port = s.port
            and s.from_us < e.first_us and s.end_us <= e.ended_us
        group by all
    ), answered as (
        select e.site, e.server_ip, e.missed, e.outage,
            max(epoch_us(c.time)) filter (epoch_us(c.time) < first_us) as before_us,
            count(*) filter (epoch_us(c.time) between first_us and last_us) as meanwhile
        from ended e join exchanges c on e.site = c.site and e.server_ip = c.server_ip and e.port = c.server_port
        where e.refused = 0 and c.kind = 'call' group by all
    ), back as (
        select e.site, e.server_ip, e.missed, e.outage, e.port, min(s.from_us) as back_us
        from ended e join served s on e.site = s.site and e.server_ip = s.server_ip and e.port = s.port
        where s.opened and s.protocol is not null and s.from_us > e.first_us group by all
    )
    select e.site, e.server_ip, e.missed, e.port, e.protocol, e.attempts, e.refused, e.first_us, e.last_us,
        c.at_once is not distinct from c.drained as killed, b.back_us,
        case when e.refused = 0 then coalesce(a.before_us, e.first_us) else c.drained_us end as lost_us,
        case when e.refused = 0 then e.in_use else c.drained end as connections
    from ended e left join close c using (site, server_ip, missed, outage, port)
        left join answered a using (site, server_ip, missed, outage)
        left join back b using (site, server_ip, missed, outage, port)
    where e.protocol is not null and case when e.refused > 0
        then e.lived_on = 0 and c.drained >= {_MANY} and e.first_us - e.ended_us <= {SOON_US}
            and (b.back_us is null or e.port = e.missed or b.back_us > e.last_us)
        else e.attempts >= {_MANY} and e.in_use >= {_MANY} and coalesce(a.meanwhile, 0) = 0 end
    order by lost_us, site, server_ip, e.port, missed limit 100"""


class _Loss(NamedTuple):
    """One broker that went: the rows of `_GONE` that are about it."""

    rows: list[Row]

    @property
    def ports(self) -> list[int]:
        """Ports that served."""
        return sorted({row["port"] for row in self.rows})

    @property
    def missed(self) -> list[int]:
        """Ports where attempts failed."""
        return sorted({row["missed"] for row in self.rows})

    def first(self, column: str) -> int:
        """The least value of a column."""
        return int(min(row[column] for row in self.rows))

    def most(self, column: str) -> int:
        """The sum over ports of a column, of which each port has one value."""
        by_port = {row["port" if column == "connections" else "missed"]: row[column] for row in self.rows}
        return sum(by_port.values())

    def last(self, column: str) -> int:
        """The largest value of a column."""
        return int(max(row[column] for row in self.rows))

    @property
    def back_us(self) -> int | None:
        """When a port that served did so again."""
        return min((row["back_us"] for row in self.rows if row["back_us"] is not None), default=None)


@needs(SomeRows("connections", f"{REFUSED} or {SILENT}"))
def broker_lost(capture: Capture) -> Iterator[Ruling]:
    """Each broker that went."""
    for loss in _merged(capture.rows(_GONE)):
        yield _told(capture, loss)


def _merged(rows: list[Row]) -> list[_Loss]:
    """Rows of one address that are one loss: they began within SOON_US of each other."""
    found: list[_Loss] = []
    for row in rows:
        for loss in found:
            first = loss.rows[0]
            if (first["site"], first["server_ip"]) == (row["site"], row["server_ip"]) and (
                abs(row["lost_us"] - first["lost_us"]) <= SOON_US
            ):
                loss.rows.append(row)
                break
        else:
            found.append(_Loss([row]))
    return found


def _told(capture: Capture, loss: _Loss) -> Ruling:
    first = loss.rows[0]
    ip = f"[{first['server_ip']}]" if ":" in first["server_ip"] else first["server_ip"]
    lost_us, last_us = loss.first("lost_us"), loss.last("last_us")
    servers = [f"{ip}:{port}" for port in loss.ports]
    out = out_of_service(capture, lost_us, servers)
    over_us = max([last_us, *(lost_us + one["out_ns"] // 1000 for one in out)])
    again = resent(capture, "true", lost_us, over_us + SOON_US)
    back = loss.back_us
    killed = all(row["killed"] for row in loss.rows)
    how = "fell silent" if not loss.most("refused") else "was lost" if killed else "was stopped"
    until = (
        f" and answered again after {say.span((back - lost_us) * 1000)}"
        if back
        else " and did not come back in the capture"
    )
    outage = "".join(
        f"; {say.client(one['client'])} could not produce for {say.span(one['out_ns'])}" for one in out[:1]
    )
    attempts = say.counted(loss.most("attempts"), "attempt")
    rows = _rows(capture, loss) | {
        "cost_ns": sum(one["out_ns"] for one in out), "protocol": first["protocol"],
        "first_time": say.moment(lost_us), "last_time": say.moment(over_us),
    }  # fmt: skip
    links = [
        *came_back(out),
        *taken_over(capture, servers, lost_us, over_us + SOON_US),
        *_errors(capture, rows["clients"], lost_us, over_us + SOON_US),
    ]
    return Ruling(
        "broker_lost",
        f"Broker {ip}:{', :'.join(map(str, loss.ports))} {how} at {say.clock(lost_us)}{until}{outage}.",
        rows,
        f"{say.counted(loss.most('connections'), 'connection')} to it ended; {attempts} to connect "
        f"{'failed' if loss.most('refused') else 'got no answer'}. {again.text}".strip(),
        CRITICAL if killed or out else WARNING,
        chain=_chain(capture, loss, links, back),
    )


def _rows(capture: Capture, loss: _Loss) -> Row:
    """The connections that ended and the attempts that failed."""
    from_us, to_us = loss.first("lost_us") - AT_ONCE_US, loss.last("first_us") + AT_ONCE_US
    ended = f"""
        server_port in {sql_list(loss.ports)} and epoch_us(start_time) < {loss.first("first_us")}
        and epoch_us(end_time) between {from_us} and {to_us}"""
    (row,) = capture.together(f"""
        select * replace (case when client_id is not null then client end as client)
        from v_connections where {_at(loss)} and ({ended} or {_attempts(loss)})""")
    return row


def _at(loss: _Loss) -> str:
    """The capture point and address of the broker, as a condition."""
    return f"site = {say.literal(loss.rows[0]['site'])} and server_ip = {say.literal(loss.rows[0]['server_ip'])}"


def _attempts(loss: _Loss) -> str:
    """The attempts that failed, as a condition."""
    return f"""
        (server_port in {sql_list(loss.missed)} and ({REFUSED} or {SILENT})
        and epoch_us(start_time) between {loss.first("first_us")} and {loss.last("last_us")})"""


def _errors(capture: Capture, clients: Sequence[str], from_us: int, to_us: int) -> list[Link]:
    """The errors that its clients got meanwhile, as one link; none where there were none."""
    if not clients:
        return []
    (row,) = capture.rows(f"""
        select number_of(exchange_id) as count, names_of(name) as names, min(time) as time,
            arg_min(file, row(time, packet)) as file, arg_min(packet, row(time, packet)) as packet
        from v_errors where client in {sql_list(clients)} and epoch_us(time) between {from_us} and {to_us}""")
    if not row["count"]:
        return []
    text = f"{say.counted(row['count'], 'answer')} with errors meanwhile: {say.joined(row['names'][:ERRORS_NAMED])}"
    return [Link.of(row, text)]


def _chain(capture: Capture, loss: _Loss, effects: list[Link], back: int | None) -> list[Link]:
    """What happened, in order: its connections end, attempts fail, the effects, and its return."""
    lost_us = loss.first("lost_us")
    links = [Link(say.moment(lost_us), f"{say.counted(loss.most('connections'), 'connection')} to it end"), *effects]
    verb = "refused" if loss.most("refused") else "unanswered"
    for row in capture.rows(f"""
        select server_port, min(start_time) as time, count(*) as count, arg_min(file, start_time) as file,
            arg_min(packet, start_time) as packet
        from connections where {_at(loss)} and {_attempts(loss)} group by 1 order by 2"""):
        attempts = say.counted(row["count"], "attempt")
        links.append(Link.of(row, f"first of {attempts} to connect to :{row['server_port']}, {verb}"))
    if back:
        links.append(Link(say.moment(back), "it accepts connections again"))
    return sorted(links, key=lambda link: link.time)[:LINKS]
