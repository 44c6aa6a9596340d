"""What brokers of Pulsar acknowledged, and whether subscriptions that are done with it got it.

An entry of which the subscription got nothing is lost if

- a consumer acknowledged that very entry: it must have been on its way to it, or
- the subscription is Exclusive or Failover, and one consumer got entries before and behind it one after the other,
  without a SEEK, a new SUBSCRIBE or another active consumer between, and the subscription acknowledged a later one.

It is skipped if a subscription of these types, which had got nothing behind it, went past it with SEEK, or was deleted
and made again behind it.
A loss in many gaps, with entries that came between them, is doubtful: a filter in the broker does that.
All are judged at one broker only: clusters that replicate a topic number its entries each for itself.
Shared subscriptions may pass over an entry that others of their consumers are yet to get. Not judged: topics that keep
nothing, entries of transactions (brokers hold back what is aborted), and consumers that read what compaction left.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.sql.database import Row, literal
from pipelines.tables.audit.statement import (
    DELIVERED,
    DOUBTFUL,
    HAS_HOLE,
    LOST,
    OWN_DOING,
    SKIPPED,
    UNKNOWN,
    Ask,
    Statement,
    messages_of,
    statement,
    was,
)
from pipelines.tables.dialect import LISTED

_ENTRY = [f"TRY_CAST(split_part(position, ':', {n}) AS BIGINT)" for n in (1, 2)]
_CONNECTION = "site, connection, incarnation"
_SERVER = "server_ip || ' ' || server_port AS server"


def _same(other: str, entry: str = "s", owner: str = "o") -> str:
    """Whether a row is about an entry and the subscription that a row names."""
    return (
        f"{other}.topic = {entry}.topic AND {other}.partition IS NOT DISTINCT FROM {entry}.partition "
        f"AND {other}.owner = {owner}.owner AND {other}.ledger = {entry}.ledger AND {other}.entry = {entry}.entry"
    )


def _got(which: str, then: str) -> str:
    """The first or the last entry that the subscription of a row p got before or after its time."""
    return f"""SELECT {which}((ledger, entry)) FROM v_dispatched d WHERE d.topic = p.topic
            AND d.partition IS NOT DISTINCT FROM p.partition AND d.owner = p.owner AND d.time {then} p.time"""


VIEWS = {
    # of each subscription, whether it gets entries in order, and whether compaction may have left some out
    "v_types": """
        SELECT "group" AS owner, topic,
            bool_and(text IN ('Exclusive', 'Failover')) FILTER (kind = 'joined') AS in_order,
            bool_or(kind = 'compacted') AS compacted
        FROM (
            SELECT "group", topic, kind, text FROM events
            WHERE protocol = 'pulsar' AND kind IN ('joined', 'compacted') AND "group" IS NOT NULL
        ) GROUP BY ALL""",
    "v_stored": f"""
        SELECT topic, partition, {_ENTRY[0]} AS ledger, {_ENTRY[1]} AS entry, {_SERVER}, max(records) AS records,
            min(time) AS time, min_by(file, (time, file, packet)) AS file,
            min_by(packet, (time, file, packet)) AS packet
        FROM batches
        WHERE protocol = 'pulsar' AND role = 'produce' AND outcome = 'ok' AND position LIKE '%:%' AND topic IS NOT NULL
            AND NOT coalesce(transactional, false) AND topic NOT LIKE 'non-persistent:%'
        GROUP BY ALL""",
    "v_dispatched": f"""
        SELECT topic, partition, "group" AS owner, {_ENTRY[0]} AS ledger, {_ENTRY[1]} AS entry, {_CONNECTION},
            {_SERVER}, time, file, packet, stream_offset
        FROM batches
        WHERE protocol = 'pulsar' AND role = 'consume' AND position LIKE '%:%' AND topic IS NOT NULL
            AND "group" IS NOT NULL""",
    "v_done": f"""
        SELECT topic, partition, "group" AS owner, ledger, value AS entry, {_CONNECTION}, {_SERVER}
        FROM positions
        WHERE protocol = 'pulsar' AND what = 'committed' AND api = 'ACK' AND topic IS NOT NULL
            AND "group" IS NOT NULL""",
    # between which two entries a consumer got none, and nothing else explains that
    "v_leaps": f"""
        WITH follows AS (
            SELECT *, lead((ledger, entry)) OVER next AS after, lead(time) OVER next AS until FROM v_dispatched
            WINDOW next AS (PARTITION BY topic, partition, owner, {_CONNECTION} ORDER BY time, file, packet,
                stream_offset)
        )
        SELECT f.* FROM (FROM follows WHERE (ledger, entry) < after) f ASOF LEFT JOIN (
            SELECT "group", topics[1] AS topic, time AS at FROM exchanges WHERE protocol = 'pulsar' AND api IN (
                'SEEK', 'SUBSCRIBE', 'ACTIVE_CONSUMER_CHANGE', 'CLOSE_CONSUMER', 'UNSUBSCRIBE',
                'REDELIVER_UNACKNOWLEDGED_MESSAGES')
        ) x ON x."group" = f.owner AND x.topic = f.topic AND x.at <= f.until
        WHERE x.at IS NULL OR x.at < f.time""",
    "v_gone_past": "SELECT topic, partition, owner, max((ledger, entry)) AS furthest FROM v_done GROUP BY ALL",
    # where subscriptions went on with a SEEK, or after they had been deleted, and how far they had got
    "v_seeks": f"""
        SELECT p.* EXCLUDE (target), coalesce(target, ({_got("min", ">")})) AS target, ({_got("max", "<")}) AS stood
        FROM (
            SELECT topic, partition, "group" AS owner, {_SERVER}, time, (ledger, value) AS target, false AS deleted
            FROM positions WHERE protocol = 'pulsar' AND what = 'committed' AND api = 'SEEK'
            UNION ALL SELECT topic, partition, "group", {_SERVER}, time, null, true
            FROM events WHERE protocol = 'pulsar' AND kind = 'deleted' AND "group" IS NOT NULL AND number = 0
        ) p""",
    # topics of which clusters have copies, each with numbers of its own
    "v_copied": "SELECT DISTINCT topic FROM batches WHERE protocol = 'pulsar' AND role = 'replicate'",
    "v_judged_entries": f"""
        WITH owners AS (
            SELECT DISTINCT topic, partition, owner FROM v_dispatched
            UNION SELECT DISTINCT topic, partition, owner FROM v_done
        ), stored AS (
            SELECT s.*, o.owner, EXISTS (SELECT 1 FROM v_dispatched d WHERE {_same("d")}) AS came,
                EXISTS (SELECT 1 FROM v_dispatched d WHERE {_same("d")} AND d.server = s.server) AS came_here,
                EXISTS (SELECT 1 FROM v_done d WHERE {_same("d")} AND d.server = s.server) AS acknowledged
            FROM v_stored s JOIN owners o ON s.topic = o.topic AND s.partition IS NOT DISTINCT FROM o.partition
                JOIN v_gone_past p ON p.topic = o.topic AND p.partition IS NOT DISTINCT FROM o.partition
                    AND p.owner = o.owner
            WHERE (s.ledger, s.entry) <= furthest AND NOT EXISTS (
                SELECT 1 FROM v_types t WHERE t.owner = o.owner AND t.topic = o.topic AND t.compacted)
        ), known AS (
            SELECT *, came_here OR came AND topic NOT IN (FROM v_copied) AS found FROM stored
        ), ways AS (
            SELECT topic, partition, owner, server, (ledger, entry) AS start, after AS stop, false AS sought,
                null AS time, false AS deleted FROM v_leaps
            UNION ALL SELECT topic, partition, owner, server, stood, target, true, time, deleted FROM v_seeks
        ), gone_over AS (
            SELECT m.topic, m.partition, m.owner, m.server, m.ledger, m.entry, bool_or(NOT sought) AS leapt,
                bool_or(sought) AS sought, bool_or(deleted) AS deleted
            FROM (FROM known WHERE NOT came) m JOIN ways w ON w.topic = m.topic AND w.owner = m.owner
                AND w.partition IS NOT DISTINCT FROM m.partition AND w.server = m.server
                AND w.start < (m.ledger, m.entry) AND (m.ledger, m.entry) < w.stop
                AND (NOT sought OR deleted OR w.time > m.time)
            WHERE (m.topic, m.owner) IN (SELECT (topic, owner) FROM v_types WHERE in_order)
            GROUP BY ALL
        )
        SELECT k.*, NOT came AND (acknowledged OR coalesce(leapt, false)) AS lost, coalesce(sought, false) AS skipped,
            coalesce(deleted, false) AS deleted
        FROM known k LEFT JOIN gone_over g ON {_same("g", "k", "k")} AND g.server = k.server""",
    "v_broken": f"""
        SELECT owner, count(*) AS connections FROM (
            SELECT DISTINCT owner, {_CONNECTION} FROM (
                SELECT owner, {_CONNECTION} FROM v_dispatched UNION SELECT owner, {_CONNECTION} FROM v_done)
        ) JOIN connections c USING ({_CONNECTION})
        WHERE {HAS_HOLE} GROUP BY ALL""",
}
"""Queries that the look reads by name."""


def losses(ask: Ask) -> Iterator[Statement]:
    """What was acknowledged to producers, and whether it was delivered to each subscription that is done with it."""
    for row in ask("""
        SELECT 'pulsar' AS protocol, topic, owner, max(coalesce(connections, 0)) AS holes,
            count(*) FILTER (found) AS found, sum(records) FILTER (found) AS messages,
            count(*) FILTER (lost OR skipped) AS lacking, count(*) FILTER (NOT found) AS open
        FROM (SELECT DISTINCT topic, owner FROM v_dispatched UNION SELECT DISTINCT topic, owner FROM v_done)
            LEFT JOIN v_judged_entries USING (topic, owner) LEFT JOIN v_broken USING (owner)
        GROUP BY ALL"""):
        whole = f"Whether subscription {row['owner']} got all messages of topic {row['topic']} cannot be told"
        if row["holes"]:
            yield statement(
                UNKNOWN, row,
                f"{whole}: bytes of its consumers' connections are missing.",
                f"holes in {units.counted(row['holes'], 'connection')} of its consumers",
            )  # fmt: skip
            continue
        if row["lacking"]:
            yield from _lacking(ask, row)
        if row["found"]:
            yield statement(
                DELIVERED, row,
                f"{messages_of(row['messages'], row['found'])} of topic {row['topic']} were delivered to subscription "
                f"{row['owner']}, which acknowledged them or later ones.",
                "receipts of the broker, entries on their way to its consumers, and what these acknowledged",
            )  # fmt: skip
        elif not row["lacking"]:
            why = (
                "a subscription may pass over entries that others of its consumers are yet to get"
                if row["open"]
                else "the capture shows no entry that a broker acknowledged to a producer before one that the "
                "subscription acknowledged"
            )
            yield statement(UNKNOWN, row, f"{whole}: {why}.", "what the capture shows of receipts and acknowledgements")


_SOUGHT = "went past them with SEEK"
_APART = 10  # gaps of a partition, with entries that came between them: what is lost or expires lies together


def _lacking(ask: Ask, of: Row) -> Iterator[Statement]:
    """What did not come to a subscription of a topic."""
    for row in ask(f"""
        SELECT 'pulsar' AS protocol, topic, owner, lost, deleted, count(*) AS batches, sum(records) AS messages,
            min_by(ledger || ':' || entry, time) AS first, min(time) AS time, min_by(partition, time) AS partition,
            list(ledger || ':' || entry ORDER BY ledger, entry) AS entries, min_by(file, time) AS file,
            min_by(packet, time) AS packet, count(DISTINCT partition) AS parts, count(*) FILTER (begins) AS gaps
        FROM (
            SELECT *, lost AND NOT acknowledged AND NOT lag(lost, 1, false) OVER (
                PARTITION BY partition ORDER BY ledger, entry) AS begins
            FROM v_judged_entries WHERE topic = {literal(of["topic"])} AND owner = {literal(of["owner"])}
        ) WHERE lost OR skipped GROUP BY ALL"""):
        number, several = row["partition"], row["parts"]  # of them the first one
        part = ("", f", partition {number}", f", {several} partitions (first {number})")[min(several, 2)]
        place = f"topic {row['topic']}{part}, from entry {row['first']} on"
        said = (
            f"{messages_of(row['messages'], row['batches'])} of {place}, {was(row['messages'])} acknowledged and never "
            f"delivered to subscription {row['owner']}, which "
        )
        seen = "receipts of the broker, entries on their way to its consumers, "
        row["offsets"] = ", ".join(row["entries"][:LISTED])
        if row["lost"]:
            apart = row["gaps"] >= _APART * max(row["parts"], 1)
            filtered = f"; {row['gaps']} gaps, as a filter of the broker leaves them" if apart else ""
            yield statement(
                LOST, row, f"{said}is done with them{filtered}.",
                f"{seen}what these acknowledged, and their connections without a hole; a time to live, or an "
                "administrator, skips messages on purpose",
                excuse=DOUBTFUL if apart else None,
            )  # fmt: skip
        else:
            yield statement(
                SKIPPED, row, f"{said}{'was deleted and made again behind them' if row['deleted'] else _SOUGHT}.",
                f"{seen}{'and its UNSUBSCRIBE' if row['deleted'] else 'and the position that the SEEK named'}",
                excuse=OWN_DOING,
            )  # fmt: skip
