"""Messages that a reader of Kafka passed over after OFFSET_OUT_OF_RANGE: its reset went forward.

A fetch position that the log does not have (retention removed what lay there, or the log was cut off) is refused. A
client then takes the first or the last offset of the log, as auto.offset.reset says, and reads on there. Everything
between both positions was passed over, whoever wrote it and whether the capture shows that or not. Positions that the
reader's group had got before, and share groups, whose fetches are no positions of a reader, are left out, and so are
connections of which bytes are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.audit.statement import SKIPPED, Ask, Statement, statement

RESETS = """
    WITH read_whole AS (
        SELECT p.* FROM positions p JOIN connections c
            ON c.site = p.site AND c.connection = p.connection AND c.incarnation = p.incarnation
        WHERE p.what = 'fetch' AND p.replica IS NULL
            AND coalesce(c.gap_bytes, 0) + coalesce(c.gaps, 0) + coalesce(c.cut_bytes, 0) = 0
    ), refused AS (
        SELECT p.site, p.protocol, p.topic, p.partition, p.client_ip, p.client_id, p.value AS stood, p.time,
            coalesce(x.request_file, x.response_file) AS file, coalesce(x.request_packet, x.response_packet) AS packet
        FROM read_whole p JOIN errors e ON e.site = p.site AND e.exchange_id = p.exchange_id
            AND e.topic IS NOT DISTINCT FROM p.topic AND e.partition IS NOT DISTINCT FROM p.partition
            AND e.name = 'OFFSET_OUT_OF_RANGE'
        JOIN exchanges x ON x.site = p.site AND x.exchange_id = p.exchange_id
        WHERE p.topic IS NOT NULL AND p.partition IS NOT NULL AND p.api = 'Fetch'
    ), went AS (
        SELECT r.*, n.value AS went_to, n.time AS until,
            row_number() OVER (
                PARTITION BY r.site, r.topic, r.partition, r.client_ip, r.client_id, r.time ORDER BY n.time, n.packet
            ) AS nth
        FROM refused r JOIN read_whole n ON n.site = r.site AND n.topic = r.topic AND n.partition = r.partition
            AND n.client_ip = r.client_ip AND n.client_id IS NOT DISTINCT FROM r.client_id AND n.time > r.time
            AND n.value <> r.stood
    ), groups AS (
        SELECT client_ip, client_id, min("group") AS owner FROM exchanges
        WHERE "group" IS NOT NULL AND protocol = 'kafka' GROUP BY ALL
    )
    SELECT w.*, owner, concat_ws(' ', w.client_ip, w.client_id) AS client,
        (SELECT max(value) FROM positions s WHERE s.what = 'log_start' AND s.topic = w.topic
            AND s.partition = w.partition AND s.time <= w.until) AS log_start
    FROM went w LEFT JOIN groups g ON g.client_ip = w.client_ip AND g.client_id IS NOT DISTINCT FROM w.client_id
    WHERE nth = 1 AND went_to > stood
"""
"""A row for each reset that went forward: where the reader stood, where it went on, and where the log began."""


def passed_over(ask: Ask) -> Iterator[Statement]:
    """What was passed over in each partition, the refused position and the one at which reading went on."""
    for row in ask("""
        SELECT DISTINCT ON (topic, partition, owner, client, stood, went_to) * FROM v_resets
        ORDER BY time"""):
        first, end = row["stood"], row["went_to"]
        count = end - first
        gone = min(max((row["log_start"] or 0) - first, 0), count)
        who = f"Group {row['owner']}" if row["owner"] else row["client"].partition(" ")[2] or row["client"]
        lost = ""
        if 0 < gone < count:
            lost = f"; {units.count(gone)} of them had been deleted by then, the others were still there"
        elif gone:
            lost = "; they had been deleted by then"
        yield statement(
            SKIPPED, row | {"offsets": f"{first} to {end - 1}" if count > 1 else str(first)},
            f"{who} never got {units.counted(count, 'message')} of topic {row['topic']}, partition {row['partition']}: "
            f"its position {first} was out of range, and it went on at {end}{lost}.",
            "the fetch position that the broker refused with OFFSET_OUT_OF_RANGE, and the next one of the same reader",
            messages=count,
        )  # fmt: skip
