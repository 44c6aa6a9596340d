"""Requests without an answer, where the capture would hold one.

Nothing is said of connections with holes or of one direction only, of a request that the end of the capture cut off, or
of a client that closes with its own fetch or metadata request outstanding: that is how clients stop.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.thresholds import ANSWER_US, FETCH_TICK_NS, HELD_US
from pipelines.tables.verdicts.verdict import Ruling, sql_list, together

_AT_REST = (
    "Fetch", "ShareFetch", "Metadata", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "JoinGroup",
    "SyncGroup", "FindCoordinator", "ApiVersions", "GetTelemetrySubscriptions", "PushTelemetry", "BrokerHeartbeat",
    "POLL_MESSAGES", "PING", "PONG", "FetchSnapshot",
)  # fmt: skip
_REPLICATOR = "pulsar.repl.%"  # brokers answer it with the position at the source, not with the number that it sent
_UNANSWERED = f"""
    select u.*, n.closed <> 'open' as over, n.end_time as ended
    from v_calls u join connections n using (site, connection, incarnation)
        semi join v_whole using (site, connection, incarnation)
    where u.kind = 'unanswered' and coalesce(u.complete, true) and n."foreign" is null
        and epoch_us((select max(end_time) from connections)) - epoch_us(u.time) > {ANSWER_US}
        and not (coalesce(u.api, '') in {sql_list(_AT_REST)} and (
            n.closed <> 'open' or epoch_us(n.end_time) - epoch_us(u.time) < {HELD_US}))
        and not (coalesce(u.api, '') = 'SEND' and coalesce(u.client_id, '') like {say.literal(_REPLICATOR)})"""


LOGINS = ("SaslToken", "SaslAuthenticate", "AUTH_RESPONSE")
"""Requests by which a client logs in, of brokers that may refuse one by closing the connection."""

# answered behind a later request of the same connection, where decoding found that this happened
_OVERTAKEN = """
    select * from (
        select c.*, min(response_packet) over (
            partition by site, connection, incarnation order by time, request_packet
            rows between 1 following and unbounded following) as earliest_later
        from v_calls c semi join (
            select site, connection, incarnation from findings where kind = 'out_of_order_answers'
        ) using (site, connection, incarnation)
        where kind = 'call' and request_file = response_file)
    where earliest_later < response_packet"""

# answered later than the broker was allowed to wait, by a tick and more, of connections on which decoding found it
_OVERDUE = f"""
    select c.*, n.allowed_ms from v_calls c join (
        select site, connection, incarnation, max(whole(evidence->>'allowed_ms')) as allowed_ms
        from v_findings where kind = 'fetch_overdue' group by all
    ) n using (site, connection, incarnation)
    where api = 'Fetch' and kind = 'call' and wait_ns > allowed_ms * 1000000 + {FETCH_TICK_NS}"""


def out_of_order_answers(capture: Capture) -> Iterator[Ruling]:
    """Requests of Kafka whose answer came after that of a later request."""
    apis = "list(distinct api order by api) as apis"
    for row in capture.rows(together(_OVERTAKEN, ["protocol", "server"], apis)):
        yield Ruling(
            "out_of_order_answers",
            f"Broker {row['server']} answered {say.counted(row['count'], 'request')} of {say.clients(row['clients'])} "
            f"({say.apis(row['apis'])}) after later requests of the same connection.",
            row,
        )


def fetch_overdue(capture: Capture) -> Iterator[Ruling]:
    """Fetches that brokers answered later than they were allowed to wait for data, by how long that was."""
    overdue = f"select * from ({_OVERDUE}) where not {capture.explained()}"
    for row in capture.rows(together(overdue, ["protocol", "allowed_ms"], "max(wait_ns) as longest_ns")):
        capture.explain(overdue)
        yield Ruling(
            "fetch_overdue",
            f"{say.counted(row['count'], 'Fetch request')} of {say.clients(row['clients'])} took "
            f"{say.most(row['count'], row['longest_ns'])} at {say.listed(row['servers'], 'broker')}, where the broker "
            f"was allowed to wait {row['allowed_ms']} ms for data.",
            row,
        )


def unanswered(capture: Capture) -> Iterator[Ruling]:
    """By whether the connection was closed instead. Where a broker or a topic went, that verdict says it."""
    silent = f"""
        select *, over and coalesce(api in {sql_list(LOGINS)}, false) as login from ({_UNANSWERED})
        where not {capture.explained()}"""
    apis = "list(distinct api order by api) as apis"
    for row in capture.rows(together(silent, ["protocol", "over", "login"], apis)):
        what = f"{say.counted(row['count'], 'request')} got no answer"
        who = f"{say.apis(row['apis'])} of {say.clients(row['clients'])} to {say.listed(row['servers'], 'broker')}"
        if row["login"]:
            logins = f"{say.counted(row['count'], 'login')} of {say.clients(row['clients'])}"
            closed = f"{say.listed(row['servers'], 'broker')} closed the connection"
            text = f"The broker refused {logins}: {closed} instead of answering {say.apis(row['apis'])}."
            yield Ruling("auth_refused", text, row)
        elif row["over"]:
            yield Ruling("closed_unanswered", f"{what} before the connection was closed: {who}.", row)
        else:
            yield Ruling("unanswered", f"{what}: {who}.", row)
