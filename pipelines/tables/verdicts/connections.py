"""Connections that were refused or stood still, that led nowhere, or on which only one side is understood."""

from __future__ import annotations

from functools import partial

from pipelines.sql.words import REFUSED, SERVER, SILENT
from pipelines.tables.verdicts.capture import MISMATCHED, PLACE, Capture
from pipelines.tables.verdicts.check import SomeRows
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.thresholds import ASKED_AGAIN, RESETS, SLOW_NS, SYN_AGAIN_NS, USED_AT_ONCE_US
from pipelines.tables.verdicts.told import Told
from pipelines.tables.verdicts.verdict import sql_list

# --- refused, or left alone ---


def _failed(which: str, capture: Capture) -> str:
    """Attempts that fulfil a condition, but for those of a broker that was lost, and when one succeeded later."""
    return f"""
        with failed as (
            select *, max(until) over (partition by server) as tried from v_connections
            where {which} and server_port in (from v_ports) and not {capture.is_lost("server")}
        )
        select f.*, (
                select min(n.start_time) from v_connections n
                where n.server = f.server and n.handshake = 'full' and n.start_time > f.tried
            ) as later
        from failed f"""


FAILED_CONNECTS = [
    Told(
        SomeRows("connections", which), kind,
        f"Server {{server}} {verb} {{count:connection attempt}} of {{who}}{{later_ns:; it accepted one ~ns~ later}}.",
        partial(_failed, which),
        by=("server",),
        more=f"""
            (epoch_us(min(later)) - epoch_us(max(until))) * 1000 as later_ns,
            if(count(later) > 0, '{NOTE}', null) as severity,
            if(count(later) > 0, 'Nothing: it accepts connections again.', null) as advice""",
    )
    for kind, which, verb in (("connect_refused", REFUSED, "refused"), ("connect_silent", SILENT, "did not answer"))
]  # fmt: skip

_LATE = f"handshake = 'full' and rtt_ns >= {SYN_AGAIN_NS}"

LATE_CONNECTS = Told(
    SomeRows("connections", _LATE), "connect_late",
    "Server {server} kept {count:connection} of {who} waiting, {longest}: it answered the SYN only when it came again.",
    f"select * replace (rtt_ns as cost_ns) from v_connections where {_LATE} and server_port in (from v_ports)",
    by=("server",),
    more=f"max(rtt_ns) as longest_ns, if(count(*) < {RESETS}, '{NOTE}', null) as severity",
)  # fmt: skip
"""Servers that take no more connections for a while: their queue is full, and so the kernel drops what asks for one."""

# less three round trips: TLS 1.2 takes two, and one more where a certificate is long or a hello comes twice
_SHAKEN = f"tls_handshake_ns - 3 * coalesce(rtt_ns, 0) >= {SLOW_NS} and coalesce(retransmissions, 0) = 0"
_AT_BROKERS = "(server_port in (from v_ports) or not exists (from connections where protocol is not null))"

LATE_HANDSHAKES = Told(
    SomeRows("connections", _SHAKEN, least=2), "tls_late",
    "TLS handshakes of {count:connection} of {who} with {servers:server} took {longest}{usual_ns:; others took ~ns~}.",
    f"""
        select * replace (tls_handshake_ns as cost_ns), usual_ns from v_connections cross join (
            select quantile_disc(tls_handshake_ns, 0.5) filter (not {_SHAKEN}) as usual_ns from connections)
        where {_SHAKEN} and {_AT_BROKERS} qualify count(*) over () > 1""",
    more=f"max(cost_ns) as longest_ns, any_value(usual_ns) as usual_ns, if(count(*) < {RESETS}, '{NOTE}', null) "
    "as severity",
)  # fmt: skip
"""TLS handshakes that took long, though no packet was lost: client or server was busy, or looked something up."""

_ALERT = """
    tls_alert is not null and tls_alert not like '%close_notify%' and tls_alert not like '%user_canceled%'
        and protocol is null and coalesce(frames, 0) = 0"""

TLS_REFUSED = [
    Told(
        SomeRows("connections", "tls_alert is not null"), "tls_refused",
        f"{who} {{count:times}}: {{reason}}.",
        f"""
            select *, replace(regexp_extract(tls_alert, ': [^ ]* (.*)', 1), '_', ' ') as reason from v_connections
            where {_ALERT} and starts_with(tls_alert, 'client: ') is {by_client}
                and {_AT_BROKERS}""",
        by=("server", "tls_alert"),
        more="any_value(reason) as reason",
    )
    for who, by_client in (
        ("{who} refused the TLS certificate or handshake of {server}", "true"),
        ("{server} refused the TLS handshake of {who}", "false"),
    )
]  # fmt: skip
"""Handshakes at ports of brokers that an alert in clear ended, by its reason."""

# --- addresses that brokers tell ---

_LOOKUPS = ("Metadata", "FindCoordinator", "DescribeCluster", "LOOKUP", "PARTITIONED_METADATA", "GET_CLUSTER_METADATA")
_BEFORE_WORK = ("ApiVersions", "CONNECT", "SaslHandshake", "SaslAuthenticate", "InitProducerId", "PING")
_LOCAL = "regexp_matches(told, '^(localhost|127\\.|\\[?::1\\]?:|0\\.0\\.0\\.0)')"
# who was told an address and used none there: one of its own machine, or one at which connects failed
_UNUSED = f"""
    with told as (
        select e.site, e.connection, e.incarnation, e.time, e.client_ip, e.server_ip, e.protocol,
            regexp_replace(e.subject, '^[a-z+]+://', '') as told,
            min(e.time) over (partition by e.client_ip, e.subject) as since, n.closed_by = 'client'
                and epoch_us(n.end_time) - epoch_us(e.time) < {USED_AT_ONCE_US}  -- it had only this to ask, perhaps
                and count(*) over (partition by e.client_ip, e.subject) < {ASKED_AGAIN} as is_done
        from events e left join connections n using ({PLACE}) where e.kind = 'advertised' and e.subject is not null
    ), used as (
        select distinct client_ip, {SERVER} as told from connections where coalesce(server_bytes, 0) > 0
    ), failed as (
        select {SERVER} as told, count(*) as attempts, max(start_time) as last_attempt from connections
        where {REFUSED} or {SILENT} group by all
    ), worked as (
        select client_ip, max(time) as last_work from exchanges
        where kind = 'call' and coalesce(api, '') not in {(*_LOOKUPS, *_BEFORE_WORK)}
        group by all
    )
    select distinct t.site, t.connection, t.incarnation, t.told, f.attempts,
        case when w.last_work < t.since then t.since end as since  -- it worked until it was told
    from told t left join failed f using (told)
        left join used u on u.client_ip = t.client_ip and u.told = t.told
        left join worked w on w.client_ip = t.client_ip
    where u.told is null and (
        {_LOCAL} and t.client_ip <> t.server_ip and not regexp_matches(t.client_ip, '^(127\\.|::1$)')
            and (coalesce(w.last_work < t.since, true) and is_done is not true or f.attempts is not null)
            and epoch_us((select max(end_time) from connections)) - epoch_us(t.time) >= {USED_AT_ONCE_US}
        or f.attempts is not null and t.time <= f.last_attempt and w.last_work is null)"""

UNREACHABLE_ADDRESS = Told(
    SomeRows("events", "kind = 'advertised'"), "unreachable_address",
    "{servers:broker} sends {who} to {told}{whose}{attempts:, and ~attempt~ to connect there failed}: "
    "asked {count:times} in {within_ns:ns}, and no broker was used there.",
    f"""
        select * from (
            select c.*, a.told, a.attempts, regexp_matches(told, '^(localhost|127\\.|\\[::1\\]|0\\.0\\.0\\.0)') as local
            from v_calls c join ({_UNUSED}) a using (site, connection, incarnation)
            where c.kind in ('call', 'unanswered') and c.api in {_LOOKUPS} and coalesce(c.until >= a.since, true)
        ) qualify local or attempts is not null or count(*) over (partition by protocol, told) >= {ASKED_AGAIN}""",
    by=("protocol", "told"),
    more="""
        max(attempts) as attempts, if(bool_or(local), ', which is their own machine', '') as whose,
        (epoch_us(max(until)) - epoch_us(min(time))) * 1000 as within_ns""",
)  # fmt: skip

# --- of different eras ---

# connections on which an answer shows it
_SHOWN = """
    select c.*, e.subject as spoken, e.text as does from v_connections c
    join (select site, connection, incarnation, subject, text from events where kind = 'other_version') e
        using (site, connection, incarnation)"""
_NOTHING_READ = """
    protocol is not null and "foreign" is null and server_bytes > 0 and frames > 0 and framed_bytes <= client_bytes
        and coalesce(skipped_bytes, 0) + coalesce(pending_bytes, 0) >= server_bytes"""
# whole connections with requests, on which the server said something and none of it is an answer
_UNREAD = f"""
    select c.*, dialect as spoken, null::varchar as does
    from v_connections c semi join v_whole using (site, connection, incarnation)
    where {_NOTHING_READ}
        and not exists (
            select 1 from exchanges e where e.kind <> 'unanswered'
                and e.site = c.site and e.connection = c.connection and e.incarnation = c.incarnation)
        and exists (
            select 1 from exchanges e where e.kind = 'unanswered'
                and e.site = c.site and e.connection = c.connection and e.incarnation = c.incarnation)"""


def _mismatched(capture: Capture) -> str:
    """Connections of clients and servers of different versions, kept as MISMATCHED: what fails there is explained."""
    tls = [server for one in capture.told if one.kind == "tls_mismatch" for server in one.rows["servers"]]
    unread = f"select * from ({_UNREAD}){f' where server not in {sql_list(tls)}' if tls else ''}"
    capture.keep(MISMATCHED, f"{_SHOWN} union all by name {unread}")
    return f"select * from {MISMATCHED}"


WRONG_PROTOCOL_VERSION = Told(
    (SomeRows("events", "kind = 'other_version'"), SomeRows("connections", _NOTHING_READ)), "wrong_protocol_version",
    "Server {server} {answers}; {who} {those:?speaks/speak} {language}: nothing works on {count:connection}.",
    _mismatched,
    by=("protocol", "server", "does", "spoken"),
    more="coalesce(does, 'answers in another protocol version') as answers, coalesce(spoken, protocol) as language",
)  # fmt: skip
"""Servers that answer clients of another protocol version, by what shows it; those that speak TLS are told apart."""

# --- that stood still ---

_STOPPED = "zero_windows > 0 and protocol is not null"

ZERO_WINDOW = Told(
    SomeRows("connections", _STOPPED), "zero_window",
    "On {count:connection} of {who} a receiver stopped reading and announced a TCP window of zero {packets:times}.",
    f"""
        select c.* replace (coalesce(began, c.time) as time, coalesce(ended, c.until) as until), window_ns, slow_ns
        from v_connections c left join (
            select {PLACE}, min(time) as began, max(time + to_microseconds(duration_ns // 1000)) as ended
            from stalls where kind = 'zero_window' group by all
        ) s using ({PLACE}) left join (
            select {PLACE}, sum(window_ns) as window_ns, sum(total_ns) as slow_ns from v_causes group by all
        ) w using ({PLACE})
        where {_STOPPED}""",
    more="saturated(sum(zero_windows)) as packets, saturated(sum(window_ns)) as closed_ns, "
    "sum(window_ns) / sum(slow_ns)::double as share",
    detail="That took {closed_ns:ns}, {share:share} of the time of slow requests there.",
)  # fmt: skip
"""Receivers that did not read, from when to when."""
