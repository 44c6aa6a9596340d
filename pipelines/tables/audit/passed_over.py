"""Messages that a group passed over: it began behind them, or was put behind them.

out of range  the log did not have a fetch position, as retention had removed what lay there, and reading went on at a
              later one: the first or the last of the log, as auto.offset.reset says
behind end    likewise, but reading went on at an earlier one: the topic was created again, or its log was cut off
no offset     a group that reads the topic began with one partition at its end, where it had never committed and more
              had been written since the group was there: a new partition, and auto.offset.reset=latest
offset gone   a broker had no offset any more for a group that had committed one, and a member began at the end
set forward   somebody who is no member committed a later offset for the group, and its members went on there
leapt         a reader of Iggy got messages behind the ones that were next, once: these had expired, or it chose to
emptied       somebody purged or deleted a topic of Iggy before a reader had read all of it

Everything between both positions was passed over, whoever wrote it and whether the capture shows that or not.
Positions that the reader's group had got before, and share groups, whose fetches are no positions of a reader, are left
out, and so are connections of which bytes are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.sql.views import Parts, SomeRows
from pipelines.tables.audit.statement import DOUBTFUL, HAS_HOLE, OWN_DOING, OWNER, SKIPPED, Ask, Statement, statement
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import called, reached, reached_by
from pipelines.tables.table import alike

_CLIENT = ("client_ip", "client_id")
_PART = ("site", "topic", "partition")
_NEXT = ", ".join(f"r.{name}" for name in (*_PART, *_CLIENT, "time"))
# without which nothing is passed over for one of the causes
_REFUSALS = SomeRows("errors", "name = 'OFFSET_OUT_OF_RANGE'")
_ENDS = SomeRows("positions", "api = 'ListOffsets' and what = 'high_watermark' and value > 0")
_SETTINGS = SomeRows("events", "kind = 'altered' and thing = 'offsets'")
_STORED = SomeRows("positions", "protocol = 'iggy' and what = 'committed'")
_SET = SomeRows("positions", "api = 'STORE_CONSUMER_OFFSET'")
NEEDS = (_REFUSALS, _ENDS, _SETTINGS, _STORED)

OUT_OF_RANGE, BEHIND_END, NO_OFFSET, GONE, SET_FORWARD, LEAPT, EMPTIED = (
    "out of range", "behind end", "no offset", "offset gone", "set forward", "leapt", "emptied")  # fmt: skip

VIEWS: dict[str, str | Parts] = {
    # where clients read, on connections without a hole, and the groups that they are in
    "v_readwhole": f"""
        SELECT p.*, g.owner, g.is_only
        FROM positions p JOIN connections c USING (site, connection, incarnation) LEFT JOIN (
            SELECT client_ip, client_id, min("group") AS owner, count(DISTINCT "group") = 1 AS is_only FROM exchanges
            WHERE "group" IS NOT NULL AND protocol = 'kafka' GROUP BY ALL
        ) g ON {alike(_CLIENT, "g", "p")}
        WHERE p.what = 'fetch' AND p.replica IS NULL AND p.api = 'Fetch' AND p.topic IS NOT NULL
            AND p.partition IS NOT NULL AND NOT {HAS_HOLE}""",
    # a row for each position that the log did not have, and where the reader went on
    "v_outofrange": f"""
        WITH refused AS (
            SELECT p.* REPLACE (coalesce(x.request_file, x.response_file) AS file,
                coalesce(x.request_packet, x.response_packet) AS packet)
            FROM v_readwhole p JOIN errors e ON e.name = 'OFFSET_OUT_OF_RANGE'
                AND {alike((*_PART, "exchange_id"), "e", "p")}
            JOIN exchanges x ON x.site = p.site AND x.exchange_id = p.exchange_id
        ), went AS (
            SELECT r.*, n.value AS went_to, n.time AS until,
                row_number() OVER (PARTITION BY {_NEXT} ORDER BY n.time, n.packet) AS nth
            FROM refused r JOIN v_readwhole n
                ON {alike((*_PART, *_CLIENT), "n", "r")} AND n.time > r.time AND n.value <> r.value
        )
        SELECT *, value AS stood FROM went WHERE nth = 1""",
    # of each group the first position in a partition, where it is the end that the broker had just named, and a batch
    # from which on messages were acknowledged while the group read other partitions
    "v_begunatend": f"""
        WITH begun AS (
            SELECT f.*, max(e.time) AS asked FROM (
                SELECT DISTINCT ON ({OWNER}) * FROM v_readwhole WHERE is_only ORDER BY {OWNER}, time, packet
            ) f JOIN positions e ON e.api = 'ListOffsets' AND e.what = 'high_watermark' AND e.value = f.value
                AND {alike((*_PART, *_CLIENT), "e", "f")} AND e.time <= f.time
            ANTI JOIN v_holes h ON h.owner = f.owner
            ANTI JOIN v_reached c ON c.topic = f.topic AND c.part = f.partition AND c.owner = f.owner
                AND c.at_us <= epoch_us(f.time)
            GROUP BY ALL
        )
        SELECT f.*, f.value AS went_to, f.time AS until, min(a.base) AS stood
        FROM begun f JOIN (SELECT topic, owner, min(at_us) AS since FROM v_reached GROUP BY ALL) k USING (topic, owner)
            JOIN v_acked a ON a.topic = f.topic AND a.partition = f.partition AND a.last < f.value
                AND epoch_us(a.time) > k.since AND a.time < f.asked
        GROUP BY ALL""",
    # first positions after an answer without an offset, at the end that was named, and how far the group was before
    "v_offsetgone": f"""
        WITH begun AS (
            SELECT f.*, o.time AS asked FROM (
                SELECT *, lag(time) OVER (PARTITION BY {", ".join((*_PART, *_CLIENT))} ORDER BY time, packet) AS before
                FROM v_readwhole WHERE is_only AND owner IS NOT NULL AND client_id IS NOT NULL
            ) f ASOF JOIN (
                SELECT site, exchange_id, "group" AS owner, client_ip, client_id, time, unnest(topics) AS topic
                FROM exchanges WHERE api = 'OffsetFetch' AND kind = 'call' AND status = 'ok'
            ) o ON o.owner = f.owner AND o.client_ip = f.client_ip AND o.client_id = f.client_id AND o.topic = f.topic
                AND o.time < f.time
            SEMI JOIN positions e ON e.api = 'ListOffsets' AND e.what = 'high_watermark' AND e.value = f.value
                AND {alike((*_PART, *_CLIENT), "e", "f")} AND e.time BETWEEN o.time AND f.time
            ANTI JOIN v_reached n ON n.site = o.site AND n.exchange_id = o.exchange_id AND n.topic = f.topic
                AND n.part = f.partition
            WHERE coalesce(before < o.time, true)
        )
        SELECT f.*, f.value AS went_to, f.time AS until, greatest(max_by(c.number, c.at_us), max(g.last + 1)) AS stood
        FROM begun f JOIN v_reached c ON c.topic = f.topic AND c.part = f.partition AND c.owner = f.owner
                AND c.at_us < epoch_us(f.asked)
            LEFT JOIN v_given g ON g.topic = f.topic AND g.partition = f.partition AND g.owner = f.owner
                AND g.time < f.asked
            ANTI JOIN v_holes h ON h.owner = f.owner
        GROUP BY ALL HAVING stood < went_to""",
    # offsets that somebody set for a group whose members went on there, and where it had stood
    "v_setforward": f"""
        WITH set_by AS (
            SELECT e.* EXCLUDE ("group"), e."group" AS owner, try_cast(split_part(e.text, '=', 2) AS bigint) AS went_to,
                max_by(c.number, c.at_us) AS stood
            FROM events e JOIN v_reached c ON c.topic = e.topic AND c.part = e.partition AND c.owner = e."group"
                AND c.at_us < epoch_us(e.time) AND c.exchange_id IS DISTINCT FROM e.exchange_id
            WHERE e.kind = 'altered' AND e.thing = 'offsets' AND e.api = 'OffsetCommit' AND coalesce(e.number, 0) = 0
            GROUP BY ALL
        ), went AS (
            SELECT s.*, r.value, r.time AS until,
                row_number() OVER (PARTITION BY s.exchange_id, s.topic, s.partition ORDER BY r.time, r.packet) AS nth
            FROM set_by s JOIN v_readwhole r
                ON r.topic = s.topic AND r.partition = s.partition AND r.owner = s.owner AND r.is_only
                AND r.time > s.time AND NOT ({alike(_CLIENT, "r", "s")})
            WHERE s.went_to > s.stood
        )
        SELECT w.* FROM went w
            ANTI JOIN v_readwhole r ON r.topic = w.topic AND r.partition = w.partition AND r.owner = w.owner
                AND r.value > w.stood AND r.value < w.went_to
            ANTI JOIN v_given g ON g.topic = w.topic AND g.partition = w.partition AND g.owner = w.owner
                AND g.base >= w.stood AND g.last < w.went_to
        WHERE w.nth = 1 AND w.value = w.went_to""",
    # polls of Iggy that begin behind what their reader had stored, where no poll gave what lies between; once a reader
    "v_leapt": f"""
        WITH polled AS (
            SELECT * FROM batches WHERE protocol = 'iggy' AND role = 'consume' AND base_offset IS NOT NULL
        )
        SELECT b.*, r.owner, r.stood, b.base_offset AS went_to, b.time AS until FROM (
            SELECT *, max(number) OVER (PARTITION BY topic, part, owner ORDER BY at_us
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS stood
            FROM ({reached(DuckDB(), alone=True)}) WHERE protocol = 'iggy'
        ) r JOIN polled b ON b.site = r.site AND b.exchange_id = r.exchange_id AND b.topic = r.topic
            AND b.partition = r.part AND b.base_offset > r.stood
        WHERE NOT EXISTS (
            SELECT 1 FROM polled g WHERE g.topic = b.topic AND g.partition = b.partition
                AND g.base_offset < b.base_offset AND g.last_offset >= r.stood)
            AND NOT EXISTS (SELECT 1 FROM connections WHERE protocol = 'iggy' AND {HAS_HOLE})
        QUALIFY count(*) OVER (PARTITION BY b.topic, b.partition, r.owner) = 1""",
    # polls of Iggy, for whom, and what each got
    "v_polled": f"""
        SELECT p.*, {reached_by(DuckDB())} AS owner, base, last FROM positions p JOIN (
            SELECT site, exchange_id, topic, partition, min(base_offset) AS base, max(last_offset) AS last
            FROM batches WHERE protocol = 'iggy' AND role = 'consume' GROUP BY ALL
        ) USING (site, exchange_id, topic, partition) WHERE protocol = 'iggy' AND what = 'high_watermark'""",
    # offsets of Iggy that somebody stored who does not poll for their owner, where it had got less and went on there
    "v_storedforward": f"""
        WITH stored AS (
            SELECT *, {reached_by(DuckDB())} AS owner FROM positions p
            WHERE protocol = 'iggy' AND topic IS NOT NULL AND api = 'STORE_CONSUMER_OFFSET' AND NOT EXISTS (
                SELECT 1 FROM exchanges x WHERE x.api LIKE 'POLL_MESSAGES%' AND x.client_ip = p.client_ip
                    AND x."group" IS NOT DISTINCT FROM p."group" AND list_contains(x.topics, p.topic))
        )
        SELECT s.*, p.last + 1 AS stood, s.value AS went_to, n.time AS until
        FROM stored s ASOF JOIN v_polled p
                ON p.topic = s.topic AND p.partition = s.partition AND p.owner = s.owner AND p.time < s.time
            ASOF JOIN v_polled n
                ON n.topic = s.topic AND n.partition = s.partition AND n.owner = s.owner AND n.time > s.time
        WHERE p.last + 1 < s.value AND n.base = s.value
            AND NOT EXISTS (SELECT 1 FROM connections WHERE protocol = 'iggy' AND {HAS_HOLE})""",
    # readers of Iggy whose topic was purged or deleted, how far each was, and where the partition ended
    "v_unread": f"""
        WITH ends AS (
            SELECT topic, partition AS part, null AS owner, epoch_us(time) AS at_us, value AS number FROM positions
            WHERE protocol = 'iggy' AND what = 'high_watermark'
            UNION ALL
            SELECT topic, part, owner, at_us, number FROM ({reached(DuckDB(), alone=True)}) WHERE protocol = 'iggy'
            UNION ALL
            SELECT topic, partition, owner, epoch_us(time), last + 1 FROM v_polled
        ), latest AS (
            SELECT m.exchange_id, e.topic, part, owner, max(number) AS number
            FROM v_emptied m JOIN ends e ON e.topic = m.topic AND at_us < epoch_us(m.time)
            WHERE NOT EXISTS (FROM v_emptied WHERE topic = m.topic AND time < m.time AND epoch_us(time) >= at_us)
            GROUP BY ALL
        )
        SELECT e.* REPLACE (r.topic AS topic, r.part AS partition), r.owner, r.number AS stood, h.number AS went_to,
            e.time AS until
        FROM events e JOIN latest r USING (exchange_id) JOIN latest h
            ON h.exchange_id = r.exchange_id AND h.topic = r.topic AND h.part = r.part AND h.owner IS NULL
        WHERE e.protocol = 'iggy' AND e.kind IN ('altered', 'deleted') AND r.owner IS NOT NULL AND stood < went_to
            AND NOT EXISTS (SELECT 1 FROM connections WHERE protocol = 'iggy' AND {HAS_HOLE})""",
    "v_resets": Parts(
        {
            "cause": "varchar", "site": "varchar", "protocol": "varchar", "topic": "varchar", "partition": "integer",
            "client_ip": "varchar", "client_id": "varchar", "owner": "varchar", "stood": "bigint",
            "went_to": "bigint", "time": "timestamptz", "until": "timestamptz", "file": "varchar", "packet": "bigint",
        },
        {
            f"SELECT CASE WHEN went_to > stood THEN '{OUT_OF_RANGE}' ELSE '{BEHIND_END}' END AS cause, * "
            "FROM v_outofrange": _REFUSALS,
            f"SELECT '{NO_OFFSET}' AS cause, * FROM v_begunatend": _ENDS,
            f"SELECT '{GONE}' AS cause, * FROM v_offsetgone": _ENDS,
            f"SELECT '{SET_FORWARD}' AS cause, * FROM v_setforward": _SETTINGS,
            f"SELECT '{SET_FORWARD}' AS cause, * FROM v_storedforward": _SET,
            f"SELECT '{LEAPT}' AS cause, * FROM v_leapt": _STORED,
            f"SELECT '{EMPTIED}' AS cause, * FROM v_unread": _STORED,
        },
    ),
}  # fmt: skip
"""v_resets has a row for each time that a reader passed over messages: where it stood, and where it went on."""

_REFUSED = "the fetch position that the broker refused with OFFSET_OUT_OF_RANGE, and the next one of the same reader"
_SAID = {
    OUT_OF_RANGE: (
        "{who} {never} {place}: its position {stood} was out of range, and it went on at {went_to}{gone}.",
        _REFUSED,
    ),
    BEHIND_END: (
        "{who} stood at {stood} {place}, behind the end of the log, and went on at {went_to}: the topic was created "
        "again, or its log was cut off. If the topic is new, it {never} of it.",
        _REFUSED,
    ),
    NO_OFFSET: (
        "{who} {never} {place}: it had no offset there, and began at {went_to}, the end, though they had been written "
        "while it read the topic.",
        "the first fetch position of the group, the end of the partition as ListOffsets had told it, offsets that the "
        "group had in other partitions before, and answers to Produce",
    ),
    GONE: (
        "{who} {never} {place}: it had come to {stood}, the broker had no offset for it any more when it came back, "
        "and it began at {went_to}, the end.",
        "an answer to OffsetFetch without an offset, those that the group had committed before, and the fetch position "
        "at the end that ListOffsets had named",
    ),
    SET_FORWARD: (
        "{who} {never} {place}: {by} set it forward from offset {stood} to {went_to}.",
        "the offset that was committed without a member, the one that the group had before, and the next fetch "
        "position of its members",
    ),
    LEAPT: (
        "{who} {never} {place}: {stood} was next, and its poll began at {went_to}. They had expired or were deleted, "
        "unless it chose to, or read them where the capture does not show it.",
        "the offset that was stored for it, and the first message of its next poll",
    ),
    EMPTIED: (
        "{who} {never} {place}: it was purged or deleted when {stood} was next.",
        "the offset that was stored for it, and the end of the partition as the last poll before told it",
    ),
}
"""What is said of each cause, and what that rests on."""
_EXCUSES = dict.fromkeys((BEHIND_END, SET_FORWARD, LEAPT, EMPTIED), DOUBTFUL)


def passed_over(ask: Ask) -> Iterator[Statement]:
    """What was passed over in each partition: from the position where reading stood to where it went on."""
    for row in ask(f"""
        SELECT DISTINCT ON (topic, partition, owner, client, stood, went_to) *, (
            SELECT max(value) FROM positions s WHERE s.what = 'log_start' AND {alike(_PART, "s", "w")}
                AND s.time <= w.until) AS log_start, EXISTS (
            SELECT 1 FROM events d WHERE d.topic = w.topic AND coalesce(d.number, 0) = 0 AND d.time <= w.until
                AND (d.thing = 'records' OR d.kind = 'altered' AND regexp_matches(
                    coalesce(d.text, ''), '^(message_expiry|max_topic_size)='))) AS cut
        FROM (SELECT *, concat_ws(' ', client_ip, client_id) AS client FROM v_resets) w ORDER BY time"""):
        first, end = row["stood"], row["went_to"]
        if row["cause"] == BEHIND_END:
            first = min(row["log_start"] or 0, end)
        count = end - first
        if not count:
            continue
        name = row["client"].partition(" ")[2] or row["client"]
        gone, deleted = "", min(max((row["log_start"] or 0) - first, 0), count)
        if 0 < deleted < count:
            gone = f"; {units.count(deleted)} of them had been deleted by then, the others were still there"
        elif deleted:
            gone = "; they had been deleted by then"
        said, rests_on = _SAID[row["cause"]]
        said = said.format(
            who=called(row["owner"]) if row["owner"] else name,
            never=f"never got {units.counted(count, 'message')}",
            place=f"of topic {row['topic']}, partition {row['partition']}",
            gone=gone, stood=row["stood"], went_to=end,
            by=" on ".join(filter(None, (row["client_id"], row["client_ip"]))),
        )  # fmt: skip
        offsets = f"{first} to {end - 1}" if count > 1 else str(first)
        excuse = OWN_DOING if row["cause"] == LEAPT and not row["cut"] else _EXCUSES.get(row["cause"])
        yield statement(SKIPPED, row | {"offsets": offsets}, said, rests_on, count, excuse)
