"""Messages that members of a group, or consumers of a subscription, got more than once."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.sql.database import Row
from pipelines.sql.words import RELAYED
from pipelines.tables.audit.statement import DOUBLED, DROPPED, OWNER, Ask, Statement, messages_of, statement

VIEWS = {
    # deliveries of batches to a group after their first one, how many messages of each its members had processed, as
    # they had committed them, and how many not
    "v_again": f"""
        WITH every AS (
            SELECT *, lag(time) OVER again AS before, lag(client_ip || ' ' || client_id) OVER again AS client_before,
                lag(connection) OVER again AS connection_before, client_ip || ' ' || client_id AS client
            FROM v_given WINDOW again AS (PARTITION BY {OWNER}, base ORDER BY time, file, packet)
        ), placed AS (
            SELECT e.*, coalesce((SELECT max(value) FROM positions p WHERE p.what = 'fetch' AND p.site = e.site
                    AND p.exchange_id = e.exchange_id AND p.topic = e.topic AND p.partition = e.partition), base)
                AS position
            FROM every e WHERE before IS NOT NULL
        ), steps AS (
            SELECT *, lag(number) OVER (
                PARTITION BY protocol, topic, part, owner ORDER BY at_us, number) AS number_before
            FROM v_reached
        ), causes AS (
            SELECT e.*, EXISTS (
                SELECT 1 FROM steps s WHERE s.owner = e.owner AND s.topic = e.topic AND s.part = e.partition
                    AND s.number < s.number_before AND s.at_us BETWEEN epoch_us(before) AND epoch_us(time)) AS back,
                EXISTS (
                    SELECT 1 FROM exchanges x WHERE x."group" = e.owner AND x.api = 'JoinGroup' AND x.status = 'ok'
                        AND x.time BETWEEN before AND e.time) AS joined,
                EXISTS (
                    SELECT 1 FROM exchanges x WHERE x."group" = e.owner AND x.api = 'ConsumerGroupHeartbeat'
                        AND x.time BETWEEN before AND e.time) AS assigned
            FROM placed e
        )
        SELECT *, greatest(0, least(records, committed - greatest(base, position))) AS twice,
            greatest(0, least(records, last + 1 - greatest(base, position, committed))) AS dropped,
            client <> client_before AS moved, connection <> connection_before AS reconnected
        FROM (
            SELECT c.*, coalesce((
                SELECT max(number) FROM steps s WHERE s.owner = c.owner AND s.topic = c.topic
                    AND s.part = c.partition AND s.at_us <= epoch_us(c.time)), 0) AS committed
            FROM causes c)""",
}
"""Queries that the look reads by name; they read those of `losses`."""


def doubled(ask: Ask) -> Iterator[Statement]:
    """What members of a group of Kafka or Iggy got more than once, by what lies between two deliveries."""
    for row in ask(
        _by_cause("""
        SELECT protocol, topic, partition, owner, base, twice AS records, time, file, packet, CASE
                WHEN back THEN 'the group committed a smaller offset than before'
                WHEN moved AND (joined OR assigned) THEN 'a rebalance gave the partition to '
                    || 'another member, which began before the committed offset'
                WHEN moved THEN 'another member fetched them'
                WHEN joined THEN 'the group rebalanced, and the member began before the committed offset'
                WHEN reconnected THEN 'the member fetched them again on another connection'
                ELSE 'the member fetched them again' END AS why
        FROM v_again WHERE protocol = 'kafka' AND twice > 0 OR protocol <> 'kafka'""")
    ):
        yield statement(
            DOUBLED, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} came to group {row['owner']} more "
            f"than once{_extra(row)}: {row['why']}.",
            "batches of the same offsets on their way to members of the group, from the position on that they asked "
            "for and before the offset that the group had committed; what was fetched ahead and dropped does not count",
            messages=row["messages"],
        )  # fmt: skip
    for row in ask(
        _by_cause("""
        SELECT protocol, topic, partition, owner, base, dropped AS records, time, file, packet, CASE
                WHEN moved AND (joined OR assigned) THEN 'a rebalance gave the partition to another member'
                WHEN moved THEN 'another member fetched them'
                WHEN joined THEN 'the group rebalanced'
                ELSE 'the member went back to a smaller position' END AS why
        FROM v_again WHERE protocol = 'kafka' AND dropped > 0""")
    ):
        yield statement(
            DROPPED, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} were fetched for group "
            f"{row['owner']} again{_extra(row)}, as the group had not committed them: {row['why']}. What its members "
            "had fetched ahead was dropped, or processed without a commit.",
            "batches of the same offsets on their way to members of the group, from the position on that they asked "
            "for, and behind the offset that the group had committed",
            messages=row["messages"],
        )  # fmt: skip


def delivered_again(ask: Ask) -> Iterator[Statement]:
    """Entries that consumers of a subscription of Pulsar got more than once, by what lies between two deliveries."""
    for row in ask(
        _by_cause(f"""
        WITH every AS (
            SELECT b.*, lag(time) OVER again AS before, lag(connection) OVER again AS connection_before
            FROM batches b LEFT JOIN ({RELAYED}) USING (site, connection, incarnation)
            WHERE protocol = 'pulsar' AND role = 'consume' AND "group" IS NOT NULL AND position IS NOT NULL
                AND topic IS NOT NULL AND topic NOT LIKE 'non-persistent:%'
            WINDOW again AS (PARTITION BY topic, partition, "group", position, relayed ORDER BY time, file, packet)
        ), between_them AS (
            SELECT e.*, list(DISTINCT x.api) AS apis, EXISTS (
                    SELECT 1 FROM positions p WHERE p.what = 'pending' AND p."group" = e."group" AND p.topic = e.topic
                        AND e.position = p.ledger || ':' || p.value AND p.time BETWEEN e.before AND e.time) AS pending
            FROM every e LEFT JOIN exchanges x
                ON x.protocol = 'pulsar' AND x."group" = e."group" AND x.time BETWEEN e.before AND e.time
            WHERE before IS NOT NULL GROUP BY ALL
        )
        SELECT 'pulsar' AS protocol, topic, partition, "group" AS owner, position AS base, records, time, file,
            packet, CASE
                WHEN list_contains(apis, 'SEEK') THEN 'a consumer went back with SEEK'
                WHEN list_contains(apis, 'REDELIVER_UNACKNOWLEDGED_MESSAGES') THEN 'a consumer asked for them again'
                WHEN pending THEN 'a transaction that acknowledged them was not committed'
                WHEN list_contains(apis, 'ACTIVE_CONSUMER_CHANGE') THEN 'another consumer became the active one'
                WHEN list_contains(apis, 'SUBSCRIBE') OR connection <> connection_before THEN 'a consumer '
                    || 'subscribed anew, or another one took over, before they were acknowledged'
                ELSE 'the broker delivered them again' END AS why
        FROM between_them""")
    ):
        yield statement(
            DOUBLED, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} came to subscription "
            f"{row['owner']} more than once{_extra(row)}: {row['why']}.",
            "entries of the same position on their way to consumers of the subscription, and what lies between them",
            messages=row["messages"],
        )  # fmt: skip


def _by_cause(deliveries: str) -> str:
    """Deliveries after the first one, added up by their cause: a SELECT.

    deliveries: a SELECT of protocol, topic, partition, owner, base (which batch or entry), records, time, file, packet
    and why. Of it: messages and batches, each counted once, and deliveries, the messages of all of them.
    """
    return f"""
        SELECT protocol, topic, owner, why, count(*) FILTER (nth = 1) AS batches, min(time) AS time, max(time) AS until,
            sum(records) FILTER (nth = 1) AS messages, sum(records) AS deliveries,
            min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM (
            SELECT *, row_number() OVER (PARTITION BY {OWNER}, base, why ORDER BY records DESC, time) AS nth
            FROM ({deliveries})
        ) GROUP BY ALL"""


def _extra(row: Row) -> str:
    """How often messages came after their first delivery, where that was several times."""
    messages, deliveries = row["messages"], row["deliveries"]
    if messages is None or deliveries <= messages:
        return ""
    return f", with {units.count(int(deliveries))} deliveries after the first"
