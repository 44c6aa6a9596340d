"""Bytes that never arrived, as TCP shows it."""

from __future__ import annotations

from functools import partial

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import UNDELIVERED, Capture
from pipelines.tables.verdicts.check import SomeRows
from pipelines.tables.verdicts.thresholds import ANSWER_US, AT_ONCE_US, IDLE_NS
from pipelines.tables.verdicts.told import Told
from pipelines.tables.verdicts.verdict import sql_list

FORGOTTEN = (
    "Look for a firewall or load balancer that forgets idle connections, or for how long the broker keeps them; "
    "keep-alives, or PINGs, avoid it."
)
"""What to do where a connection fails after a silence of IDLE_NS."""

_STALLED = "kind = 'undelivered'"


def _undelivered(of_client: str, capture: Capture) -> str:
    """What one side sent again and again, kept as UNDELIVERED for both, but for what was sent to a lost broker.

    Size or idle time is the cause only where the receiver lived.
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
    if not capture.has(UNDELIVERED):
        capture.keep(UNDELIVERED, undelivered)
    return f"select * from {UNDELIVERED} where (direction = 'client') is {of_client}"


PATH_LOST = [
    Told(
        SomeRows("stalls", _STALLED), "path_lost",
        f"{{lost:bytes}} that {sender} sent to {receiver}{{least: in segments of ~~ bytes and more}}"
        "{silence_ns: after ~ns~ of silence} were sent again and again and TCP never acknowledged them"
        f"{{passed:; those of up to ~~ bytes arrived}}{{silent:; nothing else came from {receiver} ~~}}.",
        partial(_undelivered, of_client),
        by=("protocol", "direction", "why"),
        more=f"""
            saturated(sum(lost)) as lost, names_of(client_ip) as hosts, names_of(server_ip) as server_hosts,
            if(why = 'size', format('{{:,}}', min(segment_bytes)), null) as least,
            if(why = 'size', format('{{:,}}', max(delivered_segment_bytes)), null) as passed,
            if(why = 'idle', max(idle_ns), null) as silence_ns, if(why = 'silent', 'afterwards', null) as silent,
            case why when 'size' then 'Look at the path: an MTU below that of both hosts, and ICMP that is filtered. '
                || 'It is no broker.' when 'idle' then '{FORGOTTEN}'
                when 'silent' then 'Look whether the receiver was up, then at the path to it.' end as advice""",
        detail="Between {hosts:host} and {server_hosts:host}, on {count:connection}.",
    )
    for sender, receiver, of_client in (("{who}", "{servers:broker}", "true"), ("{servers:broker}", "{who}", "false"))
]  # fmt: skip
"""Bytes that TCP sent again and again and never got acknowledged: the path, and what of it."""
