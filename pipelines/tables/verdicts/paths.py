"""Bytes that never arrived, as TCP shows it."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import UNDELIVERED, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import ANSWER_US, AT_ONCE_US, IDLE_NS
from pipelines.tables.verdicts.verdict import Ruling, sql_list

FORGOTTEN = "Look for a firewall or load balancer that forgets idle connections; keep-alives avoid it."
"""What to do where a connection fails after a silence of IDLE_NS."""

_STALLED = "kind = 'undelivered'"
_SAID: dict[str, tuple[str, str, str | None]] = {
    "size": (
        " in segments of {smallest:,} bytes and more",
        "; those of up to {passed:,} bytes arrived",
        "Look at the path: an MTU below that of both hosts, and ICMP that is filtered. It is no broker.",
    ),
    "idle": (" after {silence} of silence", "", FORGOTTEN),
    "silent": (
        "",
        "; nothing else came from {receiver} afterwards",
        "Look whether the receiver was up, then at the path to it.",
    ),
    "path": ("", "", None),
}
"""By what it was: which bytes, what is known beside, and what to do; None for what the kind of the verdict says."""


@needs(SomeRows("stalls", _STALLED))
def path_lost(capture: Capture) -> Iterator[Ruling]:
    """Bytes that TCP sent again and again and never got acknowledged: the path, and what of it.

    Left out is what was sent to a broker that was lost. Size or idle time is the cause only where the receiver lived.
    """
    hosts = (one.rows for one in capture.told if one.kind == "broker_lost")
    gone = "".join(
        f" and not (n.server in {sql_list(row['servers'])} and s.direction = 'client' and epoch_us(s.time) between "
        f"{say.micros(row['first_time']) - AT_ONCE_US} and {say.micros(row['last_time'])})"
        for row in hosts
    )
    undelivered = f"""
        with v as (
            select n.* replace (s.time as time, s.time + to_microseconds(s.duration_ns // 1000) as until,
                    s.duration_ns as cost_ns),
                s.direction, s.segment_bytes, s.delivered_segment_bytes, s.idle_ns,
                min(s.time) over (partition by s.direction, n.client_ip, n.server_ip) as since,
                case when s.direction = 'client' then client_undelivered_bytes else server_undelivered_bytes end as lost
            from stalls s join v_connections n using (site, connection, incarnation)
            where s.{_STALLED} and n.protocol is not null{gone}
        ), hosts as (select distinct unnest([server_ip, client_ip]) as receiver from v)
        select v.*, case
                when coalesce(heard <= since + to_microseconds({ANSWER_US}), true) then 'silent'
                when segment_bytes > delivered_segment_bytes then 'size'
                when idle_ns >= {IDLE_NS} then 'idle' else 'path' end as why
        from (select *, case direction when 'client' then server_ip else client_ip end as receiver from v) v left join (
            select receiver, max(until) as heard from (
                select unnest([server_ip, client_ip]) as receiver, until from v_calls where kind = 'call'
            ) semi join hosts using (receiver) group by receiver
        ) using (receiver)"""
    if not capture.keep(UNDELIVERED, undelivered):
        return
    more = """
        min(segment_bytes) as smallest, max(delivered_segment_bytes) as passed, max(idle_ns) as idle_ns,
        saturated(sum(lost)) as lost, names_of(client_ip) as hosts,
        names_of(server_ip) as server_hosts"""
    for row in capture.together(f"select * from {UNDELIVERED}", ["protocol", "direction", "why"], more):
        clients, brokers = say.clients(row), say.listed(row["servers"], "broker")
        sender, receiver = (clients, brokers) if row["direction"] == "client" else (brokers, clients)
        which, beside, advice = _SAID[row["why"]]
        words = row | {"receiver": receiver, "silence": say.span(row["idle_ns"] or 0)}
        text = (
            f"{units.size(row['lost'])} that {sender} sent to {receiver}{which.format(**words)} were sent again and "
            f"again and TCP never acknowledged them{beside.format(**words)}."
        )
        between = f"Between {say.listed(row['hosts'], 'host')} and {say.listed(row['server_hosts'], 'host')}, on "
        yield Ruling("path_lost", text, row, f"{between}{say.counted(row['count'], 'connection')}.", advice=advice)
