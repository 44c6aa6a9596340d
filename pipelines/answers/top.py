"""What costs most: exchanges by topic, client, server, api, group or connection."""

from __future__ import annotations

from pipelines.answers.records import Relations, Row, query
from pipelines.sql.words import CLIENT, EXCUSED, HELD, SERVER

TABLES = ("exchanges", "errors", "batches", "connections")

# --by -> (key of an exchange, key of a batch)
KEYS = {
    "topic": ("unnest(topics)", "topic"),
    "client": (CLIENT, CLIENT),
    "server": (SERVER, SERVER),
    "api": ("api", "api"),
    "group": ('"group"', '"group"'),
    "connection": ("connection", "connection"),
}
# --sort -> column, largest first
SORTS = {"p99": "p99_ns", "time": "time_ns", "bytes": "bytes", "errors": "errors", "count": "count"}

_QUERY = f"""
WITH excused AS ({EXCUSED}), deaf AS (  -- no answer of theirs was captured: nothing is known of any
    SELECT site, connection, incarnation FROM connections WHERE server_packets = 0
), keyed AS (
    SELECT {{exchange_key}} AS key, e.*, e.status = 'error' AND x.exchange_id IS NULL AS failed,
           {HELD} OR total_ns IS NULL AS untimed,
           EXISTS (SELECT 1 FROM deaf d WHERE d.site = e.site AND d.connection = e.connection
               AND d.incarnation = e.incarnation) AS deaf
    FROM exchanges e LEFT JOIN excused x USING (exchange_id, site)
), carried AS (
    SELECT protocol, {{batch_key}} AS key, sum(records) AS messages, sum(stored_bytes) AS stored
    FROM batches GROUP BY ALL
)
SELECT k.protocol, k.key, count(*) AS count, count(*) FILTER (failed) AS errors,
       count(*) FILTER (kind = 'unanswered' AND NOT deaf) AS unanswered,
       quantile_disc(total_ns, 0.5) FILTER (NOT untimed) AS p50_ns,
       quantile_disc(total_ns, 0.99) FILTER (NOT untimed) AS p99_ns,
       max(total_ns) FILTER (NOT untimed) AS max_ns,
       sum(total_ns::HUGEINT) FILTER (NOT untimed)::BIGINT AS time_ns,
       {{bytes}} AS bytes,
       any_value(c.messages)::BIGINT AS messages
FROM keyed k LEFT JOIN carried c ON k.key = c.key AND k.protocol = c.protocol
WHERE k.key IS NOT NULL AND k.key <> ''
GROUP BY k.protocol, k.key
ORDER BY {{order}} DESC NULLS LAST, count DESC, k.key
"""
_WIRE = "sum(coalesce(request_bytes, 0)::HUGEINT + coalesce(response_bytes, 0))::BIGINT"
_STORED = "any_value(c.stored)::BIGINT"  # an exchange may name several topics


def top(tables: Relations, by: str, sort: str) -> list[Row]:
    """One row a key, the largest first.

    Columns: protocol, key, count, errors (expected ones left out), unanswered (as far as answers
    were captured), p50_ns, p99_ns, max_ns and time_ns of
    the total time (long polls left out), bytes (on the wire; by topic: of message data), messages.
    """
    exchange_key, batch_key = KEYS[by]
    text = _QUERY.format(
        exchange_key=exchange_key,
        batch_key=batch_key,
        bytes=_STORED if by == "topic" else _WIRE,
        order=SORTS[sort],
    )
    return query(tables, text)
