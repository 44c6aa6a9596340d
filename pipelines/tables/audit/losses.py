"""What brokers of Kafka and Iggy acknowledged, and whether groups that went past got it.

A batch that nobody of a group got, behind the offset where the group stood and before one at which its members read
on, is

lost         if a member asked for it: its fetch position stood at it, the broker said that messages up to behind it may
             be read, and gave none of this nor of another partition, and the member did not go on at an offset that it
             had asked for by ListOffsets; or one answer held batches before and behind it. Iggy's polls say no position
skipped      if no member asked for it: a seek, a reset of offsets, or members that the capture does not show
cannot tell  if the topic is compacted: its configuration says so, or batches came with fewer messages than offsets

Clients that share their address and name with members of another group of the same topic say nothing of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pipelines.formats import units
from pipelines.sql.database import Row, literal
from pipelines.sql.views import Parts
from pipelines.tables.audit import overwritten
from pipelines.tables.audit.statement import (
    DELIVERED,
    HAS_HOLE,
    LOST,
    OWN_DOING,
    OWNER,
    PLACE,
    SKIPPED,
    UNKNOWN,
    Ask,
    Statement,
    at_offsets,
    messages_of,
    offsets_of,
    statement,
    was,
)
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import reached
from pipelines.tables.table import alike

_CONNECTION = "site, connection, incarnation"


def _reads(name: str) -> str:
    """Whether a row is of a client that reads its topic for the group of a row m of v_members."""
    return f"{alike(('site', 'client_ip', 'client_id'), name, 'm')} AND coalesce(m.topic = {name}.topic, true)"


_LATEST = DuckDB().latest(
    "CASE WHEN what = 'fetch' THEN value END", f"PARTITION BY {_CONNECTION}, topic, partition ORDER BY time, what"
)

VIEWS: dict[str, str | Parts] = {
    # offsets that groups reached
    "v_reached": reached(DuckDB()),
    # acknowledged batches, each once
    "v_acked": f"""
        SELECT {PLACE}, base_offset AS base, last_offset AS last, any_value(records) AS records, min(time) AS time,
            min_by(file, (time, file, packet)) AS file, min_by(packet, (time, file, packet)) AS packet
        FROM batches
        WHERE role = 'produce' AND outcome = 'ok' AND protocol <> 'pulsar' AND topic IS NOT NULL
            AND partition IS NOT NULL AND base_offset IS NOT NULL AND last_offset IS NOT NULL
        GROUP BY ALL""",
    # topics that were made, deleted or purged, or the streams in which they are, and when: offsets begin anew
    "v_emptied": """
        SELECT DISTINCT s.topic, e.time, exchange_id FROM (
            FROM events WHERE coalesce(number, 0) = 0 AND (
                kind IN ('created', 'deleted') AND thing IN ('stream', 'topic') OR text = 'purged')
        ) e JOIN (SELECT DISTINCT topic FROM positions) s ON e.topic IN (s.topic, split_part(s.topic, '/', 1))""",
    # those that are gone from the log
    "v_overwritten": overwritten.VIEW,
    # who belongs to groups of Kafka, and to how many
    "v_joined": """
        SELECT *, count(*) OVER (PARTITION BY site, client_ip, client_id) AS groups FROM (
            SELECT DISTINCT site, protocol, "group" AS owner, client_ip, client_id FROM exchanges
            WHERE protocol = 'kafka' AND "group" IS NOT NULL AND client_id IS NOT NULL AND api IN (
                'JoinGroup', 'SyncGroup', 'Heartbeat', 'ConsumerGroupHeartbeat', 'OffsetCommit', 'TxnOffsetCommit'))""",
    # of several the topics of which they reached offsets, and how many of them did
    "v_shared": """
        SELECT j.*, topic, count(*) OVER (PARTITION BY site, client_ip, client_id, topic) AS owners
        FROM v_joined j JOIN (SELECT DISTINCT protocol, topic, owner FROM v_reached) r USING (protocol, owner)
        WHERE groups > 1""",
    # who reads a topic, or any, for one group
    "v_members": """
        SELECT site, owner, client_ip, client_id, null AS topic FROM v_joined WHERE groups = 1
        UNION ALL SELECT site, owner, client_ip, client_id, topic FROM v_shared WHERE owners = 1""",
    # batches on their way to members of a group
    "v_given": f"""
        SELECT b.protocol, b.topic, partition, owner, base_offset AS base, last_offset AS last, records, b.time,
            b.client_ip, b.client_id, b.connection, b.incarnation, b.site, b.exchange_id, b.file, b.packet
        FROM batches b JOIN v_members m ON {_reads("b")}
        WHERE b.protocol = 'kafka' AND role = 'consume' AND coalesce(api, 'Fetch') = 'Fetch'
            AND b.topic IS NOT NULL AND partition IS NOT NULL
            AND base_offset IS NOT NULL AND last_offset IS NOT NULL AND NOT coalesce(control, false)
        UNION ALL
        SELECT {PLACE}, "group" AS owner, base_offset AS base, last_offset AS last, records, time, client_ip,
            client_id, connection, incarnation, site, exchange_id, file, packet
        FROM batches
        WHERE protocol = 'iggy' AND role = 'consume' AND "group" IS NOT NULL AND topic IS NOT NULL
            AND base_offset IS NOT NULL AND last_offset IS NOT NULL""",
    # how far groups went, and whether all bytes of their members' connections are there
    "v_past": """
        SELECT protocol, topic, part AS partition, owner, max(number) AS number FROM v_reached
        WHERE api NOT IN ('OffsetFetch', 'GET_CONSUMER_OFFSET') GROUP BY ALL""",
    "v_holes": f"""
        SELECT owner, count(DISTINCT (c.connection, c.incarnation)) AS connections FROM connections c JOIN v_joined m
            ON c.site = m.site AND c.client_ip = m.client_ip
        WHERE {HAS_HOLE} AND c.protocol = 'kafka'
        GROUP BY ALL
        UNION ALL
        SELECT owner, count(DISTINCT (c.connection, c.incarnation)) AS connections FROM connections c JOIN v_given g
            ON c.site = g.site AND c.connection = g.connection AND c.incarnation = g.incarnation
        WHERE {HAS_HOLE} AND c.protocol = 'iggy'
        GROUP BY ALL""",
    # fetch positions of members of a group
    "v_stood": f"""
        SELECT p.protocol, p.topic, p.partition, m.owner, value AS number
        FROM v_readwhole p JOIN v_members m ON {_reads("p")}""",
    "v_begins": f"""
        SELECT {PLACE}, max(value) AS log_start FROM positions
        WHERE what = 'log_start' AND topic IS NOT NULL GROUP BY ALL""",
    # of each partition and group, the acknowledged batches between where the group stood and what its members asked for
    # or got last, and the offset after what was delivered before each
    "v_checked": f"""
        WITH spans AS (
            SELECT {OWNER}, min(first) AS first, max(final) AS final FROM (
                SELECT {OWNER}, base AS first, last AS final FROM v_given
                UNION ALL
                SELECT {OWNER}, null AS first, number - 1 AS final FROM v_stood
                UNION ALL
                SELECT protocol, topic, part, owner, number AS first, null AS final FROM v_reached
                WHERE api = 'OffsetFetch'
            ) GROUP BY ALL
        ), judged AS (
            SELECT a.*, s.owner FROM v_acked a JOIN spans s USING ({PLACE}) JOIN v_past p USING ({OWNER})
                LEFT JOIN v_begins b USING ({PLACE})
                ANTI JOIN v_resets r ON a.topic = r.topic AND a.partition = r.partition AND s.owner = r.owner
                    AND a.base >= r.stood AND a.last < r.went_to
                ANTI JOIN v_overwritten o USING ({PLACE}, base)
            WHERE a.base >= s.first AND a.last <= s.final AND a.last < p.number AND a.base >= coalesce(log_start, 0)
        )
        SELECT j.*, coalesce(g.last >= j.base, false) AS found, g.last + 1 AS since
        FROM judged j ASOF LEFT JOIN v_given g
            ON j.protocol = g.protocol AND j.topic = g.topic AND j.partition = g.partition AND j.owner = g.owner
                AND j.last >= g.base""",
    # what members asked for: at which offset, and up to where they could have read
    "v_asked": f"""
        WITH ends AS (
            SELECT h.*, least(h.value, coalesce(s.value, h.value)) AS bound
            FROM positions h LEFT JOIN (
                SELECT site, exchange_id, topic, partition, min(value) AS value FROM positions
                WHERE what = 'last_stable' AND api = 'Fetch' GROUP BY ALL
            ) s USING (site, exchange_id, topic, partition)
            WHERE what = 'high_watermark' AND api = 'Fetch'
            UNION ALL
            SELECT *, null AS bound FROM positions WHERE what = 'fetch' AND replica IS NULL
        ), told AS (
            SELECT *, {_LATEST} AS start FROM ends WHERE topic IS NOT NULL AND time IS NOT NULL
        )
        SELECT owner, t.topic, partition, t.time, start, bound
        FROM told t JOIN v_members m ON {_reads("t")}
            ANTI JOIN batches b ON b.role = 'consume' AND b.site = t.site AND b.exchange_id = t.exchange_id
                AND (b.topic IS DISTINCT FROM t.topic OR b.partition IS DISTINCT FROM t.partition)
        WHERE start < bound""",
    # what nobody got, where a member went on behind it, and whether one asked for it
    "v_lacking": f"""
        SELECT c.*, EXISTS (
                SELECT 1 FROM v_asked a WHERE a.owner = c.owner AND a.topic = c.topic AND a.partition = c.partition
                    AND a.start BETWEEN c.since AND c.last AND a.bound > c.base AND a.time >= c.time
            ) AND NOT EXISTS (
                SELECT 1 FROM positions n JOIN v_members m ON {_reads("n")}
                WHERE n.api = 'ListOffsets' AND m.owner = c.owner AND n.topic = c.topic AND n.partition = c.partition
                    AND n.value = c.went_on
            ) OR EXISTS (
                SELECT 1 FROM (
                    SELECT {OWNER}, min(base) AS least, max(last) AS most, min(time) AS at FROM v_given
                    GROUP BY {OWNER}, site, exchange_id
                ) g WHERE g.owner = c.owner AND g.topic = c.topic AND g.partition = c.partition
                    AND g.least < c.base AND g.most > c.last AND g.at >= c.time
            ) AS wanted
        FROM (
            SELECT l.*, n.number AS went_on
            FROM (SELECT * FROM v_checked WHERE NOT found) l ASOF LEFT JOIN v_stood n
                ON n.protocol = l.protocol AND n.topic = l.topic AND n.partition = l.partition AND n.owner = l.owner
                    AND n.number > l.last
        ) c""",
}
"""Queries that the looks read by name."""


def losses(ask: Ask) -> Iterator[Statement]:
    """What was acknowledged, and whether it was delivered to each group that went past."""
    compacted, elsewhere = cache(lambda: _removed_on_purpose(ask)), cache(lambda: _read_elsewhere(ask))
    overwritten_topics = {row["topic"] for row in ask("SELECT DISTINCT topic FROM v_overwritten")}
    passed_over = {(row["topic"], row["owner"]) for row in ask("SELECT DISTINCT topic, owner FROM v_resets")}
    for row in ask("""
        SELECT protocol, topic, owner, max(coalesce(h.connections, 0)) AS holes, count(*) AS batches,
            sum(records) AS messages, count(*) FILTER (NOT found) AS lacking
        FROM v_checked LEFT JOIN (SELECT owner, sum(connections) AS connections FROM v_holes GROUP BY ALL) h
            USING (owner)
        GROUP BY ALL"""):
        whole = f"what was acknowledged of topic {row['topic']}"
        group = f"group {row['owner']}"
        if row["holes"]:
            yield statement(
                UNKNOWN, row,
                f"Whether {group} got all of {whole} cannot be told: bytes of its members' connections are missing.",
                f"holes in {units.counted(row['holes'], 'connection')} of its members",
            )  # fmt: skip
        elif not row["lacking"]:
            but = [
                *(["overwritten"] if row["topic"] in overwritten_topics else ()),
                *(["passed over"] if (row["topic"], row["owner"]) in passed_over else ()),
            ]
            yield statement(
                DELIVERED, row,
                f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} that {group} went past were "
                f"delivered, all that were acknowledged{' and not ' if but else ''}{' or '.join(but)}.",
                "answers to Produce, batches on their way to its members, and offsets that it committed",
            )  # fmt: skip
        elif (row["topic"], row["owner"]) in elsewhere():
            yield statement(
                UNKNOWN, row,
                f"Whether {group} got all of {whole} cannot be told: a broker sent its members to another replica, and "
                "the capture does not show all that they read there.",
                "answers to Fetch that name a preferred replica",
            )  # fmt: skip
        elif row["topic"] in compacted():
            yield statement(
                UNKNOWN, row,
                f"Whether {group} got all of {whole} cannot be told: the topic is compacted, or its messages have keys "
                "and nothing says that it is not, and what did not come may have been removed on purpose.",
                "the configuration of the topic, keys of messages, or batches that came with fewer messages than "
                "offsets",
            )  # fmt: skip
        else:
            yield from _lacking(ask, row)


_WITHOUT = {
    "kafka": "its consumers seeked, its offsets were reset",
    "iggy": "its consumers asked for a later offset or time, the messages had been deleted by age or size",
}
_RESTS_ON = {
    "kafka": "fetch positions of its members, none of which stood at these messages while they could be read",
    "iggy": "batches before and behind them that were delivered, no two of them by one answer, and a later offset that "
    "the group stored",
}
"""What is said of messages that nobody is known to have asked for, by protocol."""


def _lacking(ask: Ask, of: Row) -> Iterator[Statement]:
    """What did not come to a group of a topic."""
    topic, group = (literal(of[name]) for name in ("topic", "owner"))
    for row in ask(f"""
        SELECT protocol, topic, owner, wanted, count(*) AS batches, sum(records) AS messages,
            count(DISTINCT partition) AS partitions, min(partition) AS partition, min(time) AS time,
            list([base, last]) FILTER (partition = least_partition) AS runs, min_by(file, (time, base)) AS file,
            min_by(packet, (time, base)) AS packet
        FROM (SELECT *, min(partition) OVER (PARTITION BY wanted) AS least_partition FROM v_lacking
            WHERE topic = {topic} AND owner = {group} AND protocol = '{of["protocol"]}')
        GROUP BY ALL"""):
        offsets = offsets_of(row["runs"])
        place = f"topic {row['topic']}, {at_offsets(offsets)} of partition {row['partition']}"
        if row["partitions"] > 1:
            place += f" and of {units.counted(row['partitions'] - 1, 'more partition')}"
        else:
            row["offsets"] = offsets
        what = f"{messages_of(row['messages'], row['batches'])} of {place}, {was(row['messages'])} acknowledged"
        if row["partitions"] > 1:
            row["partition"] = None
        if row["wanted"]:
            is_kafka = row["protocol"] == "kafka"
            asked = "; its members asked for them; a compacted topic drops messages on purpose" if is_kafka else ""
            yield statement(
                LOST, row,
                f"{what} and never delivered to group {row['owner']}, which went past.",
                "offsets that the group asked for or got before and behind them, a later one that it committed, and "
                f"connections of its members without a hole{asked}",
            )  # fmt: skip
        else:
            yield statement(
                SKIPPED, row,
                f"{what}, and group {row['owner']} went past without asking for them: {_WITHOUT[row['protocol']]}, or "
                "members that the capture does not show got them.",
                _RESTS_ON[row["protocol"]],
                excuse=OWN_DOING,
            )  # fmt: skip


def not_judged(ask: Ask) -> Iterator[Statement]:
    """Groups and topics of which nothing could be checked, and why."""
    for row in ask("""
        SELECT protocol, topic, owner,
            bool_or(EXISTS (SELECT 1 FROM v_acked a WHERE a.topic = o.topic AND a.protocol = o.protocol)) AS produced,
            bool_or(EXISTS (SELECT 1 FROM v_given g WHERE g.topic = o.topic AND g.owner = o.owner)) AS consumed,
            bool_or(EXISTS (
                SELECT 1 FROM v_shared n WHERE n.topic = o.topic AND n.owner = o.owner AND owners > 1)) AS shared,
            bool_or(EXISTS (SELECT 1 FROM v_past p WHERE p.topic = o.topic AND p.owner = o.owner)) AS committed
        FROM (SELECT protocol, topic, owner FROM v_given UNION SELECT protocol, topic, owner FROM v_past) o
        WHERE NOT EXISTS (
            SELECT 1 FROM v_checked c WHERE c.protocol = o.protocol AND c.topic = o.topic AND c.owner = o.owner)
        GROUP BY ALL"""):
        lacks = next(
            (text for known, text in (
                (row["produced"], "no batch of it that a broker acknowledged at an offset"),
                (row["consumed"] or not row["shared"], "no batch of it that is known to be for this group and not for "
                    "another one, whose members have the same address and client id"),
                (row["consumed"], "no batch of it on its way to a member of the group"),
                (row["committed"], "no offset of it that the group committed"),
            ) if not known),
            "no acknowledged batch between two that the group got and went past",
        )  # fmt: skip
        yield statement(
            UNKNOWN, row,
            f"Whether group {row['owner']} got all messages of topic {row['topic']} cannot be told: the capture shows "
            f"{lacks}.",
            "what the capture shows of producers, members and commits",
        )  # fmt: skip


def _removed_on_purpose(ask: Ask) -> set[str]:
    """Topics from which brokers remove messages on purpose while others are kept.

    Their configuration says so, or batches came with fewer messages than offsets; or their messages have keys, and no
    configuration says that they are only deleted by age: compaction keeps the last message of each key. A broker looks
    for what to compact every 15 s (log.cleaner.backoff.ms), so what is read sooner has not been compacted.
    """
    return {
        row["topic"]
        for row in ask("""
            SELECT DISTINCT topic FROM batches
            WHERE protocol = 'kafka' AND role = 'consume' AND format = 'magic 2' AND topic IS NOT NULL
                AND records < last_offset - base_offset + 1
            UNION SELECT topic FROM events
            WHERE protocol = 'kafka' AND kind = 'compacted' AND text LIKE '%compact%' AND topic IS NOT NULL
            UNION SELECT topic FROM batches
            WHERE topic IS NOT NULL AND topic NOT IN (
                SELECT topic FROM events WHERE kind = 'compacted' AND topic IS NOT NULL)
            GROUP BY topic HAVING bool_or(keyed) AND epoch_us(max(time) FILTER (role = 'consume'))
                - epoch_us(min(time) FILTER (role = 'produce')) >= 15000000""")
    }


def _read_elsewhere(ask: Ask) -> set[tuple[str, str]]:
    """Topics and groups of which a broker sent a member to another replica (KIP-392): (topic, group)."""
    return {
        (row["topic"], row["owner"])
        for row in ask(f"""
            SELECT DISTINCT e.topic, m.owner FROM events e JOIN v_members m ON {_reads("e")}
            WHERE e.kind = 'preferred_replica' AND e.topic IS NOT NULL""")
    }
