"""Requests without an answer, where the capture would hold one.

Nothing is said of connections with holes or of one direction only, of a request that the end of the capture cut off, or
of a client that closes with its own fetch outstanding, or shortly after a question on a connection that had answers:
that is how clients stop. A broker that closes while a request is still being sent, without a word, or on a version that
it does not serve, has refused it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import KINDS
from pipelines.tables.verdicts.paths import FORGOTTEN
from pipelines.tables.verdicts.thresholds import ANSWER_US, FETCH_TICK_NS, HELD_US, LARGEST_REQUEST, SOON_US
from pipelines.tables.verdicts.told import Told, said, words
from pipelines.tables.verdicts.verdict import Ruling, first_of, sql_list

_HELD = ("Fetch", "ShareFetch", "JoinGroup", "SyncGroup", "POLL_MESSAGES", "FetchSnapshot")  # by the broker, on purpose
_AT_REST = (
    "Metadata", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "FindCoordinator", "ApiVersions",
    "GetTelemetrySubscriptions", "PushTelemetry", "BrokerHeartbeat", *_HELD,
)  # fmt: skip
_PINGS = ("PING", "PONG")  # `keepalive_timeout` tells of them
REPLICATOR = """(coalesce({0}.client_id, '') like 'pulsar.repl.%' or {0}.exchange_id in (
    select exchange_id from batches where role = 'replicate' and exchange_id is not null))"""
"""Whether geo-replication sends an exchange: what answers it may have the position at the source, not the number."""
REFUSED_BYTES = ("unserved_version", "oversized_frame")
"""Findings about a request on which a broker closes the connection."""
# why a broker closes the connection on a request: a finding about it, or that no broker of its kind takes the version
_REASONS = f"""
    select u.site, u.connection, u.incarnation, u.exchange_id, f.kind as why, f.message as reason
    from findings f join exchanges u using (site, connection, incarnation)
    where f.kind in {sql_list(REFUSED_BYTES)} and f.direction = 'client' and u.kind = 'unanswered'
        and u.exchange_id like '%-c' || f.stream_offset
    union all
    select u.site, u.connection, u.incarnation, u.exchange_id, 'unserved_version' as why,
        'Brokers refuse this version since Kafka 4.0' as reason
    from exchanges u
        anti join (select * from exchanges where kind = 'call') x
            on u.server_ip = x.server_ip and u.server_port = x.server_port and u.api = x.api and u.version = x.version
    where removed(u.protocol, u.api_code, u.version)
        and u.kind = 'unanswered' and (u.site, u.connection, u.incarnation) in (
            select (site, connection, incarnation) from connections where closed <> 'open' and closed_by = 'server')"""
_UNANSWERED = f"""
    select u.* replace (case when n.closed <> 'open' then greatest(n.end_time, u.until) else u.until end as until),
        n.closed <> 'open' as over, f.idle_ns, case when n.closed <> 'open' then n.closed_by end as closed_by,
        r.reason, coalesce(
            r.why, if(u.protocol = 'kafka' and u.request_bytes > {LARGEST_REQUEST}, 'oversized_frame', null)) as why
    from v_calls u join connections n using (site, connection, incarnation)
        semi join v_whole using (site, connection, incarnation)
        left join v_forgotten f using (site, connection, incarnation)
        left join (
            select site, connection, incarnation, exchange_id, max(why) as why, max(reason) as reason from ({_REASONS})
            group by all
        ) r on u.site = r.site and u.connection = r.connection and u.incarnation = r.incarnation
            and u.exchange_id = r.exchange_id
    where (u.kind = 'unanswered' or u.answer = 'late') and n."foreign" is null
        and (coalesce(u.complete, true) or (n.closed <> 'open' and n.closed_by = 'server'))
        and ((n.closed <> 'open' and n.closed_by = 'server') or r.reason is not null
            or epoch_us((select max(end_time) from connections)) - epoch_us(u.time) > {ANSWER_US})
        and coalesce(u.api, '') not in {sql_list(_PINGS)}
        and not (coalesce(u.api, '') in {sql_list(_AT_REST)} and r.reason is null
            and not (n.closed <> 'open' and n.closed_by = 'server' and n.server_bytes = 0)
            and case when u.api in {sql_list(_HELD)}
                    then n.closed <> 'open' or epoch_us(n.end_time) - epoch_us(u.time) < {HELD_US}
                else epoch_us(n.end_time) - epoch_us(u.time) < if(n.server_bytes = 0, {ANSWER_US}, {SOON_US}) end)
        and not (coalesce(u.api, '') = 'SEND' and {REPLICATOR.format("u")} and exists (
            select 1 from exchanges a where a.api like 'SEND%' and a.kind <> 'unanswered' and a.site = u.site
                and a.connection = u.connection and a.incarnation = u.incarnation
                and epoch_us(a.time) + coalesce(a.total_ns, 0) // 1000 > epoch_us(u.time)))
        and not (coalesce(u.api, '') = 'PRODUCER' and (u.site, u.connection, u.incarnation, u.correlation_id) in (
            select (site, connection, incarnation, correlation_id) from exchanges  -- it waits for an exclusive topic
            where api = 'PRODUCER_SUCCESS' and kind = 'push' and correlation_id is not null))"""


LOGINS = ("SaslToken", "SaslAuthenticate", "AUTH_RESPONSE")
"""Requests by which a client logs in, of brokers that may refuse one by closing the connection."""

# answered later than the broker was allowed to wait, by a tick and more
_OVERDUE = f"""
    kind = 'call' and allowed_ns > 0 and coalesce(throttle_ms, 0) = 0
        and wait_ns - coalesce(queued_ns, 0) > allowed_ns + {FETCH_TICK_NS}"""


FETCH_OVERDUE = Told(
    SomeRows("exchanges", _OVERDUE), "fetch_overdue",
    "{count:Fetch request} of {who} took {longest} at {servers:broker}, where the broker was allowed to wait "
    "{allowed_ms} ms for data.",
    lambda capture: f"""
        select *, allowed_ns // 1000000 as allowed_ms from v_calls where {_OVERDUE} and not {capture.explained()}""",
    by=("protocol", "allowed_ms"),
    more="max(wait_ns) as longest_ns",
    keeps="v_overdue",
)  # fmt: skip


_ADVICE = {
    "unserved_version": "Use a client and a broker that have a version of this request in common.",
    "oversized_frame": "Let the client send less in one request, or let the broker take more.",
}
_NAMED = 3  # APIs with their versions that a sentence names
_THESE = "{count:request} of {who}: {what}, {count:?/up to }{largest:bytes}"
_CLOSED = {
    "server": "{servers:broker} {closed}{idle_ns:reset the connection after ~ns~ of silence} instead of an answer to ",
    "client": "The client closed the connection before {servers:broker} answered ",
}
_SOMEBODY = "The connection to {servers:broker} was closed instead of an answer to "
_LOGIN = (
    "The broker refused {count:login} of {who}: {servers:broker} closed the connection instead of answering {apis}."
)
_RENEWAL = (
    "{who} did not log in anew when {servers:broker} asked for it (AUTH_CHALLENGE), {count:times}"
    "{closed_ns:; its connection was closed ~ns~ later}."
)
_RENEW = (
    "Give the client a supplier of tokens, or a file that is kept up to date, in place of one token, and a release "
    "that answers AUTH_CHALLENGE (Pulsar 2.5)."
)
_NO_ANSWER = "{count:request/has/have} no answer: {apis} of {who}{for_topics} to {servers:broker}."
_FIRST = "The first: {first[asked_for]} of {size:number} bytes, {first:place}."
_TOO_LARGE = "{largest:bytes} are more than socket.request.max.bytes allows by default."
_CLOSED_ON = f"""
    arg_min(reason, row(time, file, packet)) as reason, names_of(api) as apis, max(request_bytes) as largest,
    names_of(asked_for) as asked, max(epoch_us(until) - epoch_us(time)) * 1000 as closed_ns,
    case when count(idle_ns) = count(*) then min(idle_ns) end as idle_ns,
    {first_of("asked_for", "request_bytes", "file", "packet")}"""


@needs(SomeRows("v_calls", "kind = 'unanswered' or answer = 'late'"))
def unanswered(capture: Capture) -> Iterator[Ruling]:
    """By whether the connection was closed instead. Where a broker or a topic went, that verdict says it."""
    silent = f"""
        select * replace (case when not login then closed_by end as closed_by) from (
            select *, over and coalesce(api in {sql_list(LOGINS)}, false) as login,
                coalesce(api = 'AUTH_CHALLENGE', false) as renewal,
                coalesce(api, 'an unknown request') || coalesce(' version ' || version, '') as asked_for
            from ({_UNANSWERED})
            where not {capture.explained()}) where not renewal or closed_by is distinct from 'client'"""
    for row in capture.together(silent, ["protocol", "over", "login", "renewal", "closed_by", "why"], _CLOSED_ON):
        asked, first = sorted(row["asked"]), row["first"]
        named = words(row) | {
            "what": say.joined(asked) if len(asked) <= _NAMED else say.listed(row["apis"], "API"),
            "closed": "" if row["idle_ns"] else "closed the connection", "size": first["request_bytes"] or 0,
        }  # fmt: skip
        if row["renewal"]:
            yield Ruling("auth_refused", said(_RENEWAL, named), row, advice=_RENEW)
        elif row["login"]:
            yield Ruling("auth_refused", said(_LOGIN, named), row)
        elif row["over"]:
            gave_up = KINDS["unanswered"].advice if row["closed_by"] == "client" else None
            text = said(f"{_CLOSED.get(row['closed_by'], _SOMEBODY)}{_THESE}.", named)
            why = "{reason}." if row["reason"] else _TOO_LARGE if row["why"] == "oversized_frame" else ""
            advice = FORGOTTEN if row["idle_ns"] else _ADVICE.get(row["why"], gave_up)
            yield Ruling("closed_unanswered", text, row, said(f"{_FIRST} {why}", named).rstrip(), advice=advice)
        else:
            yield Ruling("unanswered", said(_NO_ANSWER, named), row)
