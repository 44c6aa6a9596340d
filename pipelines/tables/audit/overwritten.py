"""Messages that were acknowledged and whose offsets other messages have since: of Kafka by a later leader.

Under a later epoch of the leader, an acknowledged batch and another one have offsets in common, so the log was cut off
where the other one begins. Two batches are different if their producers, epochs or sequences are; where a producer is
not idempotent, if a broker acknowledged both and their checksums differ. A broker that takes the same batch again
answers with the same offsets, and is not accused. Neither is one whose topic was deleted or made in between, nor where
the offsets begin at 0, as those of a topic that was made anew do.

A server of Iggy that stops may lose what it had not written to its disk: a partition then ends before where it ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.sql.views import Parts, SomeRows
from pipelines.tables.audit.statement import LOST, Ask, Statement, at_offsets, messages_of, offsets_of, statement, was
from pipelines.tables.table import alike

_QUERY = """
    WITH told AS (
        SELECT topic, partition, leader, leader_epoch AS epoch, isr, time FROM positions
        WHERE protocol = 'kafka' AND what = 'leader' AND leader_epoch IS NOT NULL AND topic IS NOT NULL
            AND time IS NOT NULL
    ), risen AS (
        SELECT topic, partition FROM told GROUP BY ALL HAVING min(epoch) < max(epoch)
    ), stored AS (
        SELECT topic, partition, base_offset AS base, last_offset AS last, time, role, producer, checksum_stored,
            (producer, producer_epoch, base_sequence) AS sent
        FROM batches JOIN risen USING (topic, partition)
        WHERE protocol = 'kafka' AND base_offset IS NOT NULL AND last_offset IS NOT NULL AND (
            role = 'produce' AND outcome = 'ok' OR role = 'consume' AND coalesce(api, 'Fetch') = 'Fetch')
    ), again AS (
        SELECT a.topic, a.partition, b.base, b.time,
            (SELECT max(epoch) FROM told t
                WHERE t.topic = a.topic AND t.partition = a.partition AND t.time <= a.time) AS epoch,
            (SELECT max(epoch) FROM told t
                WHERE t.topic = a.topic AND t.partition = a.partition AND t.time > a.time) AS later_epoch
        FROM stored a JOIN stored b
            ON a.topic = b.topic AND a.partition = b.partition AND b.base <= a.last AND b.last >= a.base
                AND b.time > a.time
        WHERE a.role = 'produce' AND b.base > 0 AND CASE
                WHEN a.producer IS NOT NULL AND b.producer IS NOT NULL THEN a.sent <> b.sent
                ELSE b.role = 'produce' AND a.checksum_stored <> b.checksum_stored END
            AND NOT EXISTS (
                SELECT 1 FROM exchanges x WHERE x.api IN ('CreateTopics', 'DeleteTopics')
                    AND list_contains(x.topics, a.topic) AND x.time BETWEEN a.time AND b.time)
    ), cuts AS (
        SELECT topic, partition, min(base) AS cut, min(time) AS until, min(epoch) AS epoch,
            max(later_epoch) AS later_epoch
        FROM again WHERE later_epoch > epoch GROUP BY ALL
    )
    SELECT a.*, c.epoch, later_epoch,
        (SELECT arg_max(leader, time) FROM told t
            WHERE t.topic = c.topic AND t.partition = c.partition AND t.epoch = later_epoch) AS later_leader,
        (SELECT arg_max(isr, time) FROM told t
            WHERE t.topic = c.topic AND t.partition = c.partition AND t.epoch = c.epoch AND isr IS NOT NULL) AS in_sync
    FROM v_acked a JOIN cuts c ON a.topic = c.topic AND a.partition = c.partition
    WHERE a.protocol = 'kafka' AND a.last >= cut AND a.time < until
"""
NEEDS = SomeRows("positions", "protocol = 'kafka' and what = 'leader' and leader_epoch > 0")
VIEW = Parts(
    {
        "protocol": "varchar", "topic": "varchar", "partition": "integer", "base": "bigint", "last": "bigint",
        "records": "bigint", "time": "timestamptz", "file": "varchar", "packet": "bigint", "epoch": "integer",
        "later_epoch": "integer", "later_leader": "varchar", "in_sync": "varchar[]",
    },
    {_QUERY: NEEDS},
)  # fmt: skip
"""The batches that are gone, as in `acked`, with the epochs of the leader that took them and of a later one."""


def overwritten(ask: Ask) -> Iterator[Statement]:
    """What was acknowledged and is no longer in the log, of each partition."""
    for row in ask("""
        SELECT o.protocol, o.topic, null AS owner, o.partition, epoch, later_epoch, later_leader, in_sync,
            count(*) AS batches, sum(o.records) AS messages, list([base, o.last]) AS runs, min(o.time) AS time,
            max(acks) AS acks,
            min_by(o.file, (o.time, base)) AS file, min_by(o.packet, (o.time, base)) AS packet
        FROM v_overwritten o LEFT JOIN (
            SELECT topic, partition, base_offset AS base, min(acks) AS acks
            FROM batches JOIN (SELECT site, exchange_id, acks FROM exchanges WHERE acks IS NOT NULL)
                USING (site, exchange_id)
            WHERE role = 'produce' AND outcome = 'ok' GROUP BY ALL
        ) USING (topic, partition, base) GROUP BY ALL"""):
        row["offsets"] = offsets_of(row["runs"])
        in_sync, leader = row["in_sync"], row["later_leader"]
        if row["messages"] == 1:
            gone, they, them = "is gone from the log, which has another message at its offset", "it was", "it"
        else:
            gone, they, them = "are gone from the log, which has other messages at their offsets", "they were", "them"
        if in_sync and leader is not None and leader not in in_sync:
            why = f": broker {leader} took over, which was not among the in-sync replicas {', '.join(in_sync)}"
        elif row["acks"] == 1:
            why = f": {they} sent with acks=1, and a replica that had not fetched {them} took over"
        elif row["acks"] == -1:
            why = f", although {they} sent with acks=all: a replica that was not in sync took over"
        else:
            why = f": a replica that had not fetched {them} took over"
        yield statement(
            LOST, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']}, {at_offsets(row['offsets'])} "
            f"of partition {row['partition']}, {was(row['messages'])} acknowledged in leader epoch {row['epoch']} and "
            f"{gone} since leader epoch {row['later_epoch']} at the latest{why}.",
            "answers to Produce, another batch at the same offsets that a broker acknowledged or gave to a consumer, "
            "and leader epochs that brokers told",
        )  # fmt: skip


_SERVER = ("site", "server_ip", "server_port")
# the first end of a partition that lies before one that the only server had told while connections were open that had
# all ended before; its topic was not made, deleted or purged in between
_CUT_OFF = f"""
    WITH told AS (
        SELECT *, max(value) OVER earlier AS had, arg_max(time, row(value, time)) OVER earlier AS had_at,
            min((server_ip, server_port)) OVER topic = max((server_ip, server_port)) OVER topic AS is_only
        FROM positions
        WHERE protocol = 'iggy' AND what = 'high_watermark' AND topic IS NOT NULL AND partition IS NOT NULL
        WINDOW topic AS (PARTITION BY topic), earlier AS (
            PARTITION BY {", ".join(_SERVER)}, topic, partition ORDER BY time, packet
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    )
    SELECT DISTINCT ON (t.topic, t.partition) t.*, had - value AS messages, null AS owner
    FROM told t JOIN connections n USING (site, connection, incarnation)
    WHERE value < had AND is_only AND n.start_time > had_at
        AND NOT EXISTS (
            SELECT 1 FROM connections c WHERE {alike(_SERVER, "c", "t")}
                AND c.start_time < had_at AND c.end_time > n.start_time)
        AND NOT EXISTS (SELECT 1 FROM v_emptied e WHERE e.topic = t.topic AND e.time BETWEEN had_at AND t.time)
    ORDER BY t.topic, t.partition, t.time, t.packet"""


def cut_off(ask: Ask) -> Iterator[Statement]:
    """What a server of Iggy no longer has after it was away, of each partition."""
    for row in ask(_CUT_OFF):
        yield statement(
            LOST, row,
            f"{units.counted(row['messages'], 'message')} or more at the end of partition {row['partition']} of topic "
            f"{row['topic']} {was(row['messages'])} lost when server {row['server_ip']}:{row['server_port']} stopped: "
            f"the partition ended at offset {row['had']} before, and at {row['value']} afterwards.",
            "the end of the partition as answers tell it, before and after all connections of its server had ended",
        )  # fmt: skip
