"""Was a message lost, doubled or put out of order? What records prove of it, and what they cannot tell.

lost          acknowledged by the broker, and never delivered to a group that went past: batches before and behind it
              were delivered to its members, and it committed a later offset
delivered     what was checked so, and found
cannot tell   why nothing can be said of a topic and a group
doubled       delivered more than once to members of a group, with what lies between the deliveries
sent twice    the same bytes, acknowledged at two offsets: a resend by a producer that is not idempotent
out of order  a batch that was sent again, and stands behind one that was sent after it
unconfirmed   produced with acks=0, or 1: what that risks
held          a transaction that kept readers of committed messages waiting: the last stable offset stood still

Messages count as delivered when a batch with their offsets was on its way to a client of the group: one that joined it,
beat its heart or committed for it, or, of Iggy, that polled as the group. A group is judged where the connections of
its members have no hole. Compacted topics drop messages on purpose, which a capture cannot tell from a loss; so does
retention, but brokers say where a log begins, and what lies before it is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pipelines.answers.records import Relations, Row, database_of
from pipelines.formats import units
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import reached

TABLES = ("exchanges", "batches", "connections", "positions")
ACKS_OF = ("Produce",)  # whose bodies say acks
LOST, DELIVERED, UNKNOWN, DOUBLED, TWICE = "lost", "delivered", "cannot tell", "doubled", "sent twice"
DISORDER, UNCONFIRMED, HELD = "out of order", "unconfirmed", "held"
ORDER = (LOST, UNKNOWN, DOUBLED, TWICE, DISORDER, HELD, UNCONFIRMED, DELIVERED)
"""What statements are about, in the order in which they are shown."""

_PLACE = "protocol, topic, partition"
_OWNER = f"{_PLACE}, owner"


class Statement(NamedTuple):
    """One thing that records prove, or cannot tell."""

    what: str
    protocol: str
    topic: str | None
    group: str | None
    messages: int | None  # that it is about
    sentence: str
    rests_on: str
    file: str | None = None  # where the first of what it is about lies
    packet: int | None = None


def audit(tables: Relations) -> list[Statement]:
    """All statements, losses first. tables: TABLES, each exchange once, with the bodies of ACKS_OF where they are."""
    with database_of(tables) as connection:

        def ask(query: str) -> list[Row]:
            rows: list[Row] = connection.sql(query).to_arrow_table().to_pylist()
            return rows

        for name, query in _VIEWS.items():
            connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
        found = [statement for look in _LOOKS for statement in look(ask)]
    return sorted(found, key=lambda each: (ORDER.index(each.what), each.protocol, each.topic or "", each.group or ""))


_Ask = Callable[[str], list[Row]]
_VIEWS: Mapping[str, str] = {
    # acknowledged batches, each once
    "acked": f"""
        SELECT {_PLACE}, base_offset AS base, last_offset AS last, any_value(records) AS records, min(time) AS time,
            min_by(file, (time, file, packet)) AS file, min_by(packet, (time, file, packet)) AS packet
        FROM batches
        WHERE role = 'produce' AND outcome = 'ok' AND protocol <> 'pulsar' AND topic IS NOT NULL
            AND partition IS NOT NULL AND base_offset IS NOT NULL AND last_offset IS NOT NULL
        GROUP BY ALL""",
    # who belongs to a group of Kafka
    "members": """
        SELECT DISTINCT site, protocol, "group" AS owner, client_ip, client_id FROM exchanges
        WHERE protocol = 'kafka' AND "group" IS NOT NULL AND client_id IS NOT NULL AND api IN (
            'JoinGroup', 'SyncGroup', 'Heartbeat', 'ConsumerGroupHeartbeat', 'OffsetCommit', 'TxnOffsetCommit')""",
    # batches on their way to members of a group
    "given": f"""
        SELECT b.protocol, topic, partition, owner, base_offset AS base, last_offset AS last, records, b.time,
            b.client_ip, b.client_id, b.connection, b.incarnation, b.site, b.file, b.packet
        FROM batches b JOIN members m
            ON b.site = m.site AND b.protocol = m.protocol AND b.client_ip = m.client_ip AND b.client_id = m.client_id
        WHERE role = 'consume' AND topic IS NOT NULL AND base_offset IS NOT NULL AND last_offset IS NOT NULL
        UNION ALL
        SELECT {_PLACE}, "group" AS owner, base_offset AS base, last_offset AS last, records, time, client_ip,
            client_id, connection, incarnation, site, file, packet
        FROM batches
        WHERE protocol = 'iggy' AND role = 'consume' AND "group" IS NOT NULL AND topic IS NOT NULL
            AND base_offset IS NOT NULL AND last_offset IS NOT NULL""",
    # how far groups went, and whether all bytes of their members' connections are there
    "past": f"""
        SELECT protocol, topic, part AS partition, owner, max(number) AS number FROM ({reached(DuckDB())})
        WHERE api NOT IN ('OffsetFetch', 'GET_CONSUMER_OFFSET') GROUP BY ALL""",
    "holes": """
        SELECT owner, count(*) AS connections FROM connections c JOIN members m
            ON c.site = m.site AND c.client_ip = m.client_ip
        WHERE coalesce(gap_bytes, 0) + coalesce(cut_bytes, 0) + coalesce(gaps, 0) > 0 AND c.protocol = 'kafka'
        GROUP BY ALL
        UNION ALL
        SELECT owner, count(DISTINCT (c.connection, c.incarnation)) AS connections FROM connections c JOIN given g
            ON c.site = g.site AND c.connection = g.connection AND c.incarnation = g.incarnation
        WHERE coalesce(gap_bytes, 0) + coalesce(cut_bytes, 0) + coalesce(gaps, 0) > 0 AND c.protocol = 'iggy'
        GROUP BY ALL""",
    "begins": f"""
        SELECT {_PLACE}, max(value) AS log_start FROM positions
        WHERE what = 'log_start' AND topic IS NOT NULL GROUP BY ALL""",
    # of each partition and group, the acknowledged batches between the first and the last that was delivered
    "checked": f"""
        WITH spans AS (
            SELECT {_OWNER}, min(base) AS first, max(last) AS final FROM given GROUP BY ALL
        ), judged AS (
            SELECT a.*, s.owner FROM acked a JOIN spans s USING ({_PLACE}) JOIN past p USING ({_OWNER})
                LEFT JOIN begins b USING ({_PLACE})
            WHERE a.base >= s.first AND a.last <= s.final AND a.last < p.number AND a.base >= coalesce(log_start, 0)
        )
        SELECT j.*, coalesce(g.last >= j.base, false) AS found
        FROM judged j ASOF LEFT JOIN given g
            ON j.protocol = g.protocol AND j.topic = g.topic AND j.partition = g.partition AND j.owner = g.owner
                AND j.last >= g.base""",
}
"""Relations that several looks read, in the order in which they are made."""


def _losses(ask: _Ask) -> Iterator[Statement]:
    """What was acknowledged, and whether it was delivered to each group that went past."""
    for row in ask("""
        SELECT protocol, topic, c.owner, max(coalesce(h.connections, 0)) AS holes, count(*) AS batches,
            sum(records) AS messages, count(*) FILTER (NOT found) AS lacking,
            sum(records) FILTER (NOT found) AS lost, count(DISTINCT partition) FILTER (NOT found) AS partitions,
            min_by(partition, time) FILTER (NOT found) AS partition, min_by(base, time) FILTER (NOT found) AS base,
            min_by(file, time) FILTER (NOT found) AS file, min_by(packet, time) FILTER (NOT found) AS packet
        FROM checked c LEFT JOIN (SELECT owner, sum(connections) AS connections FROM holes GROUP BY ALL) h USING (owner)
        GROUP BY ALL"""):
        whole = f"what was acknowledged of topic {row['topic']}"
        group = f"group {row['owner']}"
        if row["holes"]:
            yield _statement(
                UNKNOWN, row,
                f"Whether {group} got all of {whole} cannot be told: bytes of its members' connections are missing.",
                f"holes in {units.counted(row['holes'], 'connection')} of its members",
            )  # fmt: skip
        elif row["lacking"]:
            lost = _messages(row["lost"], row["lacking"])
            place = f"partition {row['partition']} from offset {row['base']}"
            more = f", and of {row['partitions'] - 1} more" if row["partitions"] > 1 else ""
            yield _statement(
                LOST, row,
                f"{lost} of topic {row['topic']}, {place}{more}, were acknowledged and never delivered to {group}, "
                "which went past.",
                "batches before and behind them that were delivered, a later offset that the group committed, and "
                "connections of its members without a hole; a compacted topic drops messages on purpose",
                messages=row["lost"],
            )  # fmt: skip
        else:
            yield _statement(
                DELIVERED, row,
                f"{_messages(row['messages'], row['batches'])} of topic {row['topic']} that {group} went past were "
                "delivered, all that were acknowledged.",
                "answers to Produce, batches on their way to its members, and offsets that it committed",
                messages=row["messages"],
            )  # fmt: skip
    yield from _not_judged(ask)


def _not_judged(ask: _Ask) -> Iterator[Statement]:
    """Groups and topics of which nothing could be checked, and why."""
    for row in ask("""
        SELECT protocol, topic, owner,
            bool_or(EXISTS (SELECT 1 FROM acked a WHERE a.topic = o.topic AND a.protocol = o.protocol)) AS produced,
            bool_or(EXISTS (SELECT 1 FROM given g WHERE g.topic = o.topic AND g.owner = o.owner)) AS consumed,
            bool_or(EXISTS (SELECT 1 FROM past p WHERE p.topic = o.topic AND p.owner = o.owner)) AS committed
        FROM (SELECT protocol, topic, owner FROM given UNION SELECT protocol, topic, owner FROM past) o
        WHERE NOT EXISTS (
            SELECT 1 FROM checked c WHERE c.protocol = o.protocol AND c.topic = o.topic AND c.owner = o.owner)
        GROUP BY ALL"""):
        lacks = next(
            (text for known, text in (
                (row["produced"], "no batch of it that a broker acknowledged at an offset"),
                (row["consumed"], "no batch of it on its way to a member of the group"),
                (row["committed"], "no offset of it that the group committed"),
            ) if not known),
            "no acknowledged batch between two that the group got and went past",
        )  # fmt: skip
        yield _statement(
            UNKNOWN, row,
            f"Whether group {row['owner']} got all messages of topic {row['topic']} cannot be told: the capture shows "
            f"{lacks}.",
            "what the capture shows of producers, members and commits",
        )  # fmt: skip
    for row in ask("""
        SELECT DISTINCT 'pulsar' AS protocol, topic, "group" AS owner FROM batches
        WHERE protocol = 'pulsar' AND role = 'consume' AND "group" IS NOT NULL AND topic IS NOT NULL"""):
        yield _statement(
            UNKNOWN, row,
            f"Whether subscription {row['owner']} got all messages of topic {row['topic']} cannot be told: a "
            "subscription may pass over entries that others of its consumers are yet to get.",
            "the kinds of subscriptions of Pulsar",
        )  # fmt: skip


def _doubled(ask: _Ask) -> Iterator[Statement]:
    """What members of a group got more than once, by what lies between two deliveries."""
    for row in ask(f"""
        WITH every AS (
            SELECT *, lag(time) OVER again AS before, lag(client_ip || ' ' || client_id) OVER again AS client_before,
                lag(connection) OVER again AS connection_before, client_ip || ' ' || client_id AS client
            FROM given WINDOW again AS (PARTITION BY {_OWNER}, base ORDER BY time, file, packet)
        ), steps AS (
            SELECT *, lag(number) OVER (
                PARTITION BY protocol, topic, part, owner ORDER BY at_us, number) AS number_before
            FROM ({reached(DuckDB())})
        ), causes AS (
            SELECT e.*, EXISTS (
                SELECT 1 FROM steps s WHERE s.owner = e.owner AND s.topic = e.topic AND s.part = e.partition
                    AND s.number < s.number_before AND s.at_us BETWEEN epoch_us(before) AND epoch_us(time)) AS back,
                EXISTS (
                    SELECT 1 FROM exchanges x WHERE x."group" = e.owner AND x.api = 'JoinGroup' AND x.status = 'ok'
                        AND x.time BETWEEN before AND e.time) AS joined
            FROM every e WHERE before IS NOT NULL
        )
        SELECT protocol, topic, owner, CASE
                WHEN back THEN 'the group committed a smaller offset than before'
                WHEN client <> client_before AND joined THEN 'a rebalance gave the partition to another member, which '
                    || 'went on from the last committed offset'
                WHEN client <> client_before THEN 'another member fetched them'
                WHEN joined THEN 'the group rebalanced, and the member went on from the last committed offset'
                WHEN connection <> connection_before THEN 'the member fetched them again on another connection'
                ELSE 'the member fetched them again' END AS why,
            count(*) AS batches, sum(records) AS messages, min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM causes GROUP BY ALL"""):
        yield _statement(
            DOUBLED, row,
            f"{_messages(row['messages'], row['batches'])} of topic {row['topic']} came to group {row['owner']} more "
            f"than once: {row['why']}.",
            "batches of the same offsets on their way to members of the group, and what lies between them",
            messages=row["messages"],
        )  # fmt: skip
    for row in ask("""
        SELECT 'pulsar' AS protocol, topic, "group" AS owner, count(*) AS batches, sum(records) AS messages,
            min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM (
            SELECT *, row_number() OVER (
                PARTITION BY topic, partition, "group", position ORDER BY time, file, packet) AS nth
            FROM batches
            WHERE protocol = 'pulsar' AND role = 'consume' AND "group" IS NOT NULL AND position IS NOT NULL
        ) WHERE nth > 1 AND topic IS NOT NULL GROUP BY ALL"""):
        yield _statement(
            DOUBLED, row,
            f"{_messages(row['messages'], row['batches'])} of topic {row['topic']} came to subscription {row['owner']} "
            "more than once: the broker delivered them again.",
            "entries of the same position on their way to consumers of the subscription",
            messages=row["messages"],
        )  # fmt: skip


_SENT = """
    SELECT protocol, topic, partition, client_ip || ' ' || coalesce(client_id, '') AS client, checksum_stored,
        any_value(records) AS records, min(time) AS time, arg_min(connection, time) AS connection,
        min(base_offset) FILTER (outcome = 'ok') AS base,
        count(*) > 1 AND arg_min(outcome, (time, file, packet)) IS DISTINCT FROM 'ok' AS again,
        arg_max(file, (time, file, packet)) AS file, arg_max(packet, (time, file, packet)) AS packet
    FROM batches
    WHERE role = 'produce' AND protocol = 'kafka' AND checksum_stored IS NOT NULL AND topic IS NOT NULL
        AND producer IS NULL
    GROUP BY protocol, topic, partition, client_ip, client_id, checksum_stored, stored_bytes"""
"""What producers sent that are not idempotent, each batch once: the same bytes are the same batch. `again`: the first
time no answer accepted it, so it was sent again; `time` and `connection` are those of the first time. Equal batches
that were all accepted at once are messages that the application made equal.
"""


def _sent_twice(ask: _Ask) -> Iterator[Statement]:
    """Bytes that a broker took twice: to Kafka they are other messages."""
    for row in ask(f"""
        SELECT protocol, topic, null AS owner, client, count(*) AS batches, sum(records) AS messages,
            min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM ({_SENT}) JOIN (
            SELECT {_PLACE}, checksum_stored FROM batches
            WHERE base_offset IS NOT NULL AND (role = 'consume' OR outcome = 'ok')
            GROUP BY ALL HAVING count(DISTINCT base_offset) > 1
        ) USING ({_PLACE}, checksum_stored) WHERE again GROUP BY ALL"""):
        yield _statement(
            TWICE, row,
            f"{_messages(row['messages'], row['batches'])} stand in topic {row['topic']} once more than {row['client']}"
            " meant: no answer came, it sent them again, and it is not idempotent.",
            "a request without an answer, and batches with the same bytes at two offsets",
            messages=row["messages"],
        )  # fmt: skip


def _disorder(ask: _Ask) -> Iterator[Statement]:
    """Batches that were sent again, and stand behind what was sent after them."""
    for row in ask(f"""
        SELECT protocol, topic, null AS owner, client, count(*) AS batches, sum(records) AS messages,
            min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM (
            SELECT *, min(base) OVER (
                PARTITION BY {_PLACE}, client, connection ORDER BY time, file, packet
                ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS lowest_after
            FROM ({_SENT})
        ) WHERE again AND lowest_after < base GROUP BY ALL"""):
        yield _statement(
            DISORDER, row,
            f"{_messages(row['messages'], row['batches'])} of topic {row['topic']} stand behind messages that "
            f"{row['client']} sent after them: it had to send them again.",
            "the order of batches on the connection, the answers to them and their offsets",
            messages=row["messages"],
        )  # fmt: skip


def _unconfirmed(ask: _Ask) -> Iterator[Statement]:
    """What was produced without the confirmation of all replicas."""
    risks = {
        0: ("no answer says whether a broker took them", "requests without an answer by protocol"),
        1: ("they are lost if the leader fails before a replica has fetched them", "acks in the requests"),
    }
    bodies = "request" in {row["column_name"] for row in ask("DESCRIBE exchanges")}
    acks = "CASE WHEN kind = 'oneway' THEN 0 ELSE CAST(request->>'acks' AS INTEGER) END" if bodies else (
        "CASE WHEN kind = 'oneway' THEN 0 END")  # fmt: skip
    for row in ask(f"""
        SELECT protocol, topic, null AS owner, client, acks, count(*) AS batches, sum(records) AS messages,
            min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM (
            SELECT b.*, b.client_ip || ' ' || coalesce(b.client_id, '') AS client, acks
            FROM batches b JOIN (
                SELECT site, exchange_id, {acks} AS acks FROM exchanges WHERE protocol = 'kafka' AND api = 'Produce'
            ) x USING (site, exchange_id)
            WHERE role = 'produce' AND topic IS NOT NULL
        ) WHERE acks IN (0, 1) GROUP BY ALL"""):
        risk, rests_on = risks[row["acks"]]
        yield _statement(
            UNCONFIRMED, row,
            f"{row['client']} sent {_messages(row['messages'], row['batches'])} of topic {row['topic']} with "
            f"acks={row['acks']}: {risk}.",
            rests_on,
            messages=row["messages"],
        )  # fmt: skip


def _held(ask: _Ask) -> Iterator[Statement]:
    """Transactions at which the last stable offset stood still while the partition went on."""
    for row in ask(f"""
        SELECT protocol, topic, null AS owner, partition, s.value, count(*) AS batches,
            (epoch_us(max(s.time)) - epoch_us(min(s.time))) * 1000 AS held_ns, max(h.value - s.value) AS messages,
            min_by(s.file, s.time) AS file, min_by(s.packet, s.time) AS packet,
            (SELECT min_by(client_ip || ' ' || coalesce(client_id, ''), time) FROM batches b
                WHERE b.topic = s.topic AND b.partition = s.partition AND b.base_offset = s.value AND b.transactional
                    AND b.role = 'produce') AS client
        FROM positions s JOIN positions h USING (site, exchange_id, {_PLACE})
        WHERE s.what = 'last_stable' AND h.what = 'high_watermark' AND s.value < h.value
        GROUP BY protocol, s.topic, topic, partition, s.partition, s.value"""):
        whose = f"a transaction of {row['client']}" if row["client"] else "a transaction that began before the capture"
        yield _statement(
            HELD, row,
            f"In partition {row['partition']} of topic {row['topic']}, {whose} held readers of committed messages at "
            f"offset {row['value']} for {units.duration(row['held_ns'])} at least, up to "
            f"{units.counted(row['messages'], 'message')} before the end.",
            "last stable offsets and high watermarks of answers to Fetch",
            messages=row["messages"],
        )  # fmt: skip


_LOOKS: tuple[Callable[[_Ask], Iterator[Statement]], ...] = (
    _losses,
    _doubled,
    _sent_twice,
    _disorder,
    _unconfirmed,
    _held,
)


def _statement(what: str, row: Row, sentence: str, rests_on: str, messages: Any = None) -> Statement:
    number = None if messages is None else int(messages)
    place = (row.get("file"), row.get("packet"))
    return Statement(what, row["protocol"], row["topic"], row["owner"], number, sentence, rests_on, *place)


def _messages(messages: Any, batches: int) -> str:
    """`90 messages`; of batches whose messages are not counted `9 batches`."""
    return units.counted(batches, "batch") if messages is None else units.counted(int(messages), "message")
