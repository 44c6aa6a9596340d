"""Messages that members of a group, or consumers of a subscription, got more than once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipelines.formats import units
from pipelines.sql.database import Row
from pipelines.sql.words import RELAYED
from pipelines.tables.audit.statement import (
    DOUBLED,
    DROPPED,
    OWN_DOING,
    OWNER,
    PLACE,
    Ask,
    Statement,
    messages_of,
    statement,
)

_WENT_BACK = "the group committed a smaller offset than before"
SOUGHT, ASKED_AGAIN = "a consumer went back with SEEK", "a consumer asked for them again"
SET_BACK = "they had been acknowledged, and then the subscription went back"
TURNED, UNASKED = "another consumer became the active one", "the broker delivered them again"
"""Why Pulsar delivers an entry again, in `why` of `v_redelivered`."""
DELIVERED_TO = """protocol = 'pulsar' AND role = 'consume' AND "group" IS NOT NULL AND position IS NOT NULL
                AND topic IS NOT NULL AND topic NOT LIKE 'non-persistent:%'"""
"""batches: whether Pulsar delivered it to a subscription that keeps what is not acknowledged."""


def _last(name: str, rows: str, keys: Mapping[str, str], until: str = "e.time") -> str:
    """A join that finds for each delivery e the last of some rows until then: `name`, with its columns.

    rows: a query. keys: of its columns, what they are equal to. EXISTS with a BETWEEN would compare all with all.
    """
    same = " AND ".join(f"{name}.{column} = {value}" for column, value in keys.items())
    return f"ASOF LEFT JOIN ({rows}) {name} ON {same} AND {name}.at <= {until}"


def _answered(name: str, api: str, where: str) -> str:
    """The last exchange of an API and the group of a delivery."""
    return _last(name, f"""SELECT "group", time AS at FROM exchanges WHERE api = '{api}' AND {where}""", _GROUP)


def _told(name: str, api: str) -> str:
    """The last command of Pulsar about the subscription of a delivery: topics may have one of the same name."""
    rows = f"""SELECT "group", topics[1] AS topic, time AS at FROM exchanges
        WHERE api = '{api}' AND protocol = 'pulsar'"""
    return _last(name, rows, _SUBSCRIPTION)


_PENDING = """
    SELECT "group", topic, ledger || ':' || value AS entry, time AS at FROM positions WHERE what = 'pending'"""
_GROUP = {'"group"': "e.owner"}
_SUBSCRIPTION = {**_GROUP, "topic": "e.topic"}
_OF_PARTITION = {**_SUBSCRIPTION, "part": "coalesce(e.partition, -1)"}
_BEFORE = "e.time - to_microseconds(5000000)"  # brokers keep about once a second what was acknowledged
_ACKED = """SELECT "group", topic, coalesce(partition, -1) AS part, ledger, value, ledger || ':' || value AS entry,
            time AS at FROM positions WHERE protocol = 'pulsar' AND api = 'ACK' AND what = 'committed'"""
# up to where: not of subscriptions that consumers share, nor of those that acknowledge most entries each by itself
_ACKED_TO = f"""{_ACKED} AND ("group", topic) NOT IN (
            SELECT ("group", topic) FROM events WHERE kind = 'joined' AND text IN ('Shared', 'Key_Shared')
                AND "group" IS NOT NULL AND topic IS NOT NULL
            UNION SELECT ("group", topic) FROM (
                SELECT "group", topic, position, 1 AS given, 0 AS acked FROM batches WHERE {DELIVERED_TO}
                UNION SELECT "group", topic, entry, 0, 1 FROM ({_ACKED})
            ) WHERE "group" IS NOT NULL AND topic IS NOT NULL GROUP BY ALL HAVING 2 * sum(acked) > sum(given))"""
_OF_READER = """EXISTS (SELECT 1 FROM events v WHERE v."group" = e.owner AND v.topic = e.topic AND v.kind = 'joined')
            AND NOT EXISTS (SELECT 1 FROM events v WHERE v."group" = e.owner AND v.kind = 'subscribed')"""
"""Whether a delivery e is to a reader: it begins where it chooses each time, as nothing keeps how far it came."""
_PLACE = {"owner": "e.owner", "topic": "e.topic", "part": "e.partition"}

VIEWS = {
    # offsets that groups reached, which of them are smaller than the one before, and the largest until then
    "v_steps": """
        SELECT owner, topic, part, at_us AS at, number < lag(number) OVER (
                PARTITION BY protocol, topic, part, owner ORDER BY at_us, number) AS is_back,
            max(number) OVER (PARTITION BY topic, part, owner ORDER BY at_us) AS largest
        FROM v_reached""",
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
        ), causes AS (
            SELECT e.*, coalesce(back.at >= epoch_us(before), false) AS back,
                coalesce(joined.at >= before, false) AS joined, coalesce(assigned.at >= before, false) AS assigned,
                coalesce(reached.largest, 0) AS committed
            FROM placed e
            {_last("back", "SELECT * FROM v_steps WHERE is_back", _PLACE, "epoch_us(e.time)")}
            {_last("reached", "SELECT * FROM v_steps", _PLACE, "epoch_us(e.time)")}
            {_answered("joined", "JoinGroup", "status = 'ok'")}
            {_answered("assigned", "ConsumerGroupHeartbeat", "true")}
        )
        SELECT *, greatest(0, least(records, committed - greatest(base, position))) AS twice,
            greatest(0, least(records, last + 1 - greatest(base, position, committed))) AS dropped,
            client <> client_before AS moved, connection <> connection_before AS reconnected
        FROM causes c ANTI JOIN v_overwritten USING ({PLACE}, base)  -- other messages have these offsets now
        WHERE NOT EXISTS (SELECT 1 FROM v_emptied e WHERE e.topic = c.topic AND e.time BETWEEN before AND c.time)""",
    # deliveries of Pulsar's entries to a subscription after the first, and what lies between; `most`: how many are
    # of the entry, `delivered`: of all messages. What came on connections of a proxy is compared among itself
    "v_redelivered": f"""
        WITH every AS (
            SELECT b.*, "group" AS owner, lag(time) OVER again AS before,
                lag(connection) OVER again AS connection_before,
                count(*) OVER (PARTITION BY topic, partition, "group", position, relayed) AS most,
                sum(records) OVER (PARTITION BY topic, "group") AS delivered
            FROM batches b LEFT JOIN ({RELAYED}) USING (site, connection, incarnation)
            WHERE {DELIVERED_TO}
            WINDOW again AS (PARTITION BY topic, partition, "group", position, relayed ORDER BY time, file, packet)
        )
        SELECT 'pulsar' AS protocol, e.topic, e.partition, owner, e.position AS base, records, time, file, packet,
            e.site, e.exchange_id, most, delivered, CASE
                WHEN seek.at >= before THEN '{SOUGHT}'
                WHEN done.at IS NOT NULL OR past.at IS NOT NULL AND (past.ledger, past.value) >= (
                    try_cast(split_part(e.position, ':', 1) AS bigint),
                    try_cast(split_part(e.position, ':', 2) AS bigint)) THEN '{SET_BACK}'
                WHEN asked.at >= before THEN '{ASKED_AGAIN}'
                WHEN pending.at >= before THEN 'a transaction that acknowledged them was not committed'
                WHEN active.at >= before THEN '{TURNED}'
                WHEN subscribed.at >= before OR connection <> connection_before THEN 'a consumer '
                    || 'subscribed anew, or another one took over, before an acknowledgement of them was kept'
                ELSE '{UNASKED}' END AS why
        FROM (FROM every WHERE before IS NOT NULL) e
        {_told("seek", "SEEK")}
        {_last("done", _ACKED, {**_OF_PARTITION, "entry": "e.position"}, _BEFORE)}
        {_last("past", _ACKED_TO, _OF_PARTITION, _BEFORE)}
        {_told("asked", "REDELIVER_UNACKNOWLEDGED_MESSAGES")}
        {_told("active", "ACTIVE_CONSUMER_CHANGE")}
        {_told("subscribed", "SUBSCRIBE")}
        {_last("pending", _PENDING, {**_SUBSCRIPTION, "entry": "e.position"})}
        WHERE NOT (coalesce(subscribed.at >= before, false) AND {_OF_READER})""",
}
"""Queries that the look reads by name; they read those of `losses`."""


def doubled(ask: Ask) -> Iterator[Statement]:
    """What members of a group of Kafka or Iggy got more than once, by what lies between two deliveries."""
    for row in ask(
        _by_cause(f"""
        SELECT protocol, topic, partition, owner, base, twice AS records, time, file, packet, CASE
                WHEN back THEN '{_WENT_BACK}'
                WHEN moved AND (joined OR assigned) THEN 'a rebalance gave the partition to '
                    || 'another member, which began before the committed offset'
                WHEN moved THEN 'another member fetched them'
                WHEN joined THEN 'the group rebalanced, and the member began before the committed offset'
                WHEN reconnected THEN 'the member fetched them again on another connection'
                ELSE 'the member fetched them again' END AS why
        FROM v_again WHERE twice > 0""")
    ):
        yield statement(
            DOUBLED, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} came to group {row['owner']} more "
            f"than once{_extra(row)}: {row['why']}.",
            "batches of the same offsets on their way to members of the group, from the position on that they asked "
            "for and before the offset that the group had committed; what was fetched ahead and dropped does not count",
            excuse=OWN_DOING if row["why"] == _WENT_BACK else None,
        )  # fmt: skip


def dropped(ask: Ask) -> Iterator[Statement]:
    """What members of a group of Kafka or Iggy fetched again, as the group had not committed it, by the cause."""
    for row in ask(
        _by_cause("""
        SELECT protocol, topic, partition, owner, base, dropped AS records, time, file, packet, CASE
                WHEN moved AND (joined OR assigned) THEN 'a rebalance gave the partition to another member'
                WHEN moved THEN 'another member fetched them'
                WHEN joined THEN 'the group rebalanced'
                ELSE 'the member went back to a smaller position' END AS why
        FROM v_again WHERE dropped > 0""")
    ):
        yield statement(
            DROPPED, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} were fetched for group "
            f"{row['owner']} again{_extra(row)}, as the group had not committed them: {row['why']}. What its members "
            "had fetched ahead was dropped, or processed without a commit.",
            "batches of the same offsets on their way to members of the group, from the position on that they asked "
            "for, and behind the offset that the group had committed",
        )  # fmt: skip


def delivered_again(ask: Ask) -> Iterator[Statement]:
    """Entries that consumers of a subscription of Pulsar got more than once, by what lies between two deliveries."""
    for row in ask(_by_cause("FROM v_redelivered")):
        yield statement(
            DOUBLED, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} came to subscription "
            f"{row['owner']} more than once{_extra(row)}: {row['why']}.",
            "entries of the same position on their way to consumers of the subscription, and what lies between them",
            excuse=OWN_DOING,
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
        FROM ({in_turn(deliveries)}) GROUP BY ALL"""


def in_turn(deliveries: str) -> str:
    """Deliveries as `_by_cause` takes them, with `nth` among those of one batch or entry for one cause: a SELECT."""
    return f"""
        SELECT *, row_number() OVER (PARTITION BY {OWNER}, base, why ORDER BY records DESC, time) AS nth
        FROM ({deliveries})"""


def _extra(row: Row) -> str:
    """How often messages came after their first delivery, where that was several times."""
    messages, deliveries = row["messages"], row["deliveries"]
    if messages is None or deliveries <= messages:
        return ""
    return f", with {units.count(int(deliveries))} deliveries after the first"
