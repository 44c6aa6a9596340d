"""Requests without an answer, where the capture would hold one.

Nothing is said of connections with holes or of one direction only, of a request that the end of the capture cut off, or
of a client that closes with its own fetch or metadata request outstanding: that is how clients stop.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.thresholds import ANSWER_US, HELD_US
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
    where u.kind = 'unanswered' and coalesce(u.complete, true)
        and epoch_us((select max(end_time) from connections)) - epoch_us(u.time) > {ANSWER_US}
        and not (coalesce(u.api, '') in {sql_list(_AT_REST)} and (
            n.closed <> 'open' or epoch_us(n.end_time) - epoch_us(u.time) < {HELD_US}))
        and not (coalesce(u.api, '') = 'SEND' and coalesce(u.client_id, '') like {say.literal(_REPLICATOR)})"""


def unanswered(capture: Capture) -> Iterator[Ruling]:
    """By whether the connection was closed instead. Where a broker or a topic went, that verdict says it."""
    silent = f"select * from ({_UNANSWERED}) where not {capture.explained()}"
    for row in capture.rows(together(silent, ["protocol", "over"], "list(distinct api order by api) as apis")):
        what = f"{say.counted(row['count'], 'request', 'has', 'have')} no answer"
        who = f"{say.apis(row['apis'])} of {say.clients(row['clients'])} to {say.listed(row['servers'], 'broker')}"
        if row["over"]:
            yield Ruling("closed_unanswered", f"{what}: {who}; the connection was closed instead.", row)
        else:
            yield Ruling("unanswered", f"{what}: {who}.", row)
