"""What costs most: exchanges by topic, partition, client, broker, api, group or connection, also along time."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pipelines.answers.records import Relations, Row, query
from pipelines.sql.words import CLIENT, EXCUSED, HELD, SERVER, UNHEARD
from pipelines.tables.causes import PARTS, largest, network, parts
from pipelines.tables.dialect import DuckDB
from pipelines.tables.points import POINTS, points
from pipelines.tables.table import CONNECTION

By = Literal["topic", "partition", "client", "broker", "server", "api", "group", "connection"]
Sort = Literal["p99", "time", "bytes", "errors", "count"]
TABLES = ("exchanges", "errors", "batches", "connections")
TABLES_OF_CAUSES = ("exchanges", "batches", "connections", "stalls")


class Key(NamedTuple):
    """What the rows stand for, in SQL."""

    of_exchange: str
    of_batch: str
    exchanges: str = "exchanges"  # where `of_exchange` is read
    stored: bool = False  # an exchange may have several keys: bytes are those of its batches, not of its frames
    failed: str = "true"  # whether an exchange `e` with an error failed for the key


PARTITION = "topic || '[' || \"partition\" || ']'"
_WITH_PARTITIONS = f"""(
    SELECT e.*, b.named_partition FROM exchanges e
    JOIN (SELECT DISTINCT site, exchange_id, {PARTITION} AS named_partition FROM batches) b USING (site, exchange_id)
)"""
_PARTITION_FAILED = f"""coalesce((
    SELECT bool_or(coalesce({PARTITION} = e.named_partition, true)) FROM errors r
    WHERE r.site = e.site AND r.exchange_id = e.exchange_id
), true)"""
KEYS = {
    "topic": Key("unnest(topics)", "topic", stored=True),
    "partition": Key("named_partition", PARTITION, _WITH_PARTITIONS, stored=True, failed=_PARTITION_FAILED),
    "client": Key(CLIENT, CLIENT),
    "server": Key(SERVER, SERVER),
    "broker": Key(SERVER, SERVER),
    "api": Key("api", "api"),
    "group": Key('"group"', '"group"'),
    "connection": Key("connection", "connection"),
}
"""--by -> key"""
SORTS = {"p99": "p99_ns", "time": "time_ns", "bytes": "bytes", "errors": "errors", "count": "count"}
"""--sort -> column, largest first"""

_QUERY = f"""
WITH excused AS ({EXCUSED}), unheard AS ({UNHEARD}), keyed AS (
    SELECT {{exchange_key}} AS key, {{bucket}} AS bucket, e.*,
           e.status = 'error' AND x.exchange_id IS NULL AND {{failed}} AS failed,
           {HELD} OR total_ns IS NULL AS untimed,
           EXISTS (SELECT 1 FROM unheard u WHERE u.site = e.site AND u.connection = e.connection
               AND u.incarnation = e.incarnation) AS unheard
    FROM {{exchanges}} e LEFT JOIN excused x USING (exchange_id, site)
), carried AS (
    SELECT protocol, {{batch_key}} AS key, {{bucket}} AS bucket, sum(records) AS messages, sum(stored_bytes) AS stored
    FROM batches GROUP BY ALL
)
SELECT {{time}} k.protocol, k.key, count(*) AS count, count(*) FILTER (failed) AS errors,
       count(*) FILTER (kind = 'unanswered' AND NOT unheard) AS unanswered,
       quantile_disc(total_ns, 0.5) FILTER (NOT untimed) AS p50_ns,
       quantile_disc(total_ns, 0.99) FILTER (NOT untimed) AS p99_ns,
       max(total_ns) FILTER (NOT untimed) AS max_ns,
       sum(total_ns::HUGEINT) FILTER (NOT untimed)::BIGINT AS time_ns,
       {{bytes}} AS bytes,
       any_value(c.messages)::BIGINT AS messages
FROM keyed k
LEFT JOIN carried c ON k.key = c.key AND k.protocol = c.protocol AND k.bucket IS NOT DISTINCT FROM c.bucket
WHERE k.key IS NOT NULL AND k.key <> ''
GROUP BY k.bucket, k.protocol, k.key
ORDER BY k.bucket, {{order}} DESC NULLS LAST, count DESC, k.key
"""
_WIRE = "sum(coalesce(request_bytes, 0)::HUGEINT + coalesce(response_bytes, 0))::BIGINT"
_STORED = "any_value(c.stored)::BIGINT"


def top(tables: Relations, by: str, sort: str, every_us: int | None = None) -> list[Row]:
    """One row a key, the largest first; with every_us, of each span of so many microseconds, in order of time.

    Columns: protocol, key, count, errors (expected ones left out), unanswered (as far as answers
    were captured), p50_ns, p99_ns, max_ns and time_ns of
    the total time (long polls left out), bytes (on the wire; by topic and partition: of message data), messages; with
    every_us, time first: the beginning of the span.
    """
    key = KEYS[by]
    bucket = "NULL" if every_us is None else f"time_bucket(to_microseconds({every_us}), time)"
    text = _QUERY.format(
        exchange_key=key.of_exchange,
        batch_key=key.of_batch,
        exchanges=key.exchanges,
        failed=key.failed,
        bucket=bucket,
        time="" if every_us is None else "k.bucket AS time,",
        bytes=_STORED if key.stored else _WIRE,
        order=SORTS[sort],
    )
    return query(tables, text)


SORTS_OF_CAUSES = {sort: SORTS[sort] for sort in ("time", "count")}
_CAUSES = """
WITH {points} slow AS (
    SELECT {own}, total_ns AS slow_ns, {part_ns} FROM ({parts})
), keyed AS (
    SELECT {exchange_key} AS key, {bucket} AS bucket, e.protocol, slow.*
    FROM {exchanges} e JOIN slow USING ({own})
)
SELECT {time} protocol, key, count(*) AS count, sum(slow_ns)::BIGINT AS time_ns, max(slow_ns) AS max_ns,
       {largest} AS largest, {shares}
FROM keyed
WHERE key IS NOT NULL AND key <> ''
GROUP BY bucket, protocol, key
ORDER BY bucket, {order} DESC, count DESC, key
"""


def causes(
    tables: Relations, by: str, sort: str, every_us: int | None = None, seen: Relations | None = None
) -> list[Row]:
    """Where the time of slow requests went: one row a key, the largest first; with every_us, of each span of time.

    tables: TABLES_OF_CAUSES, in which what several capture points saw stands once. seen: what each of these points saw,
    which tells `network`. sort: a key of SORTS_OF_CAUSES.

    Columns: protocol, key, count, time_ns, max_ns, largest (the part that took most) and `<part>_share` of time_ns for
    each of `causes.PARTS`; with every_us, time first.
    """
    key, d = KEYS[by], DuckDB()
    text = _CAUSES.format(
        points=f"{POINTS} AS ({points(d)})," if seen else "",
        own=", ".join((*CONNECTION, "exchange_id")),
        part_ns=", ".join(f"{part.name}_ns" for part in PARTS),
        parts=parts(d, network(d) if seen else None),
        exchange_key=key.of_exchange,
        exchanges=key.exchanges,
        bucket="NULL" if every_us is None else f"time_bucket(to_microseconds({every_us}), time)",
        time="" if every_us is None else "bucket AS time,",
        largest=largest("sum({}_ns)"),
        shares=", ".join(f"sum({part.name}_ns) / nullif(sum(slow_ns), 0) AS {part.name}_share" for part in PARTS),
        order=SORTS_OF_CAUSES[sort],
    )
    every = {f"all_{name}": seen[name] for name in ("exchanges", "connections")} if seen else {}
    return query({**tables, **every}, text)
