"""What producers risk with few confirmations, and transactions that kept readers waiting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from pipelines.formats import units
from pipelines.sql.database import Row
from pipelines.tables.audit.statement import HELD, PLACE, UNCONFIRMED, Ask, Statement, messages_of, statement


def unconfirmed(ask: Ask) -> Iterator[Statement]:
    """What was produced without the confirmation of all replicas, less what was refused.

    With acks=1, the same bytes are the same batch, but where answers say that they stand at several offsets.
    """
    risks = {
        0: ("no answer says whether a broker took them", "requests without an answer by protocol"),
        1: ("they are lost if the leader fails before a replica has fetched them", "acks in the requests"),
    }
    for row in ask(f"""
        SELECT protocol, topic, null AS owner, client, acks, sum(batches) AS batches,
            sum(records * batches) AS messages, min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM (
            SELECT {PLACE}, client_ip || ' ' || coalesce(client_id, '') AS client, acks, any_value(records) AS records,
                greatest(1, count(DISTINCT base_offset)) AS batches, min(time) AS time, min_by(file, time) AS file,
                min_by(packet, time) AS packet
            FROM batches JOIN (SELECT site, exchange_id, acks FROM exchanges WHERE acks IN (0, 1)) x
                USING (site, exchange_id)
            WHERE role = 'produce' AND topic IS NOT NULL AND outcome IS DISTINCT FROM 'error'
            GROUP BY {PLACE}, client_ip, client_id, acks, producer, producer_epoch, base_sequence,
                coalesce(CASE WHEN acks = 1 THEN checksum_stored END, exchange_id)
        ) GROUP BY ALL"""):
        risk, rests_on = risks[row["acks"]]
        yield statement(
            UNCONFIRMED, row,
            f"{row['client']} sent {messages_of(row['messages'], row['batches'])} of topic {row['topic']} with "
            f"acks={row['acks']}: {risk}.",
            rests_on,
        )  # fmt: skip


_HELD = f"""
    WITH stood AS (
        SELECT {PLACE}, s.value, count(*) AS batches, min(s.time) AS seen, max(s.time) AS last_seen,
            max(h.value - s.value) AS messages, min_by(s.file, s.time) AS file, min_by(s.packet, s.time) AS packet
        FROM positions s JOIN positions h USING (site, exchange_id, {PLACE})
        WHERE s.what = 'last_stable' AND h.what = 'high_watermark' AND s.value < h.value
        GROUP BY ALL
    ), wrote AS (
        SELECT {PLACE}, base_offset AS value, producer, producer_epoch,
            min_by(concat_ws(' ', client_ip, client_id), time) AS client, min(time) AS wrote
        FROM batches WHERE transactional AND role = 'produce' AND NOT coalesce(control, false) GROUP BY ALL
    ), named AS (
        SELECT producer, any_value(name) AS name, any_value(allowed_ms) AS allowed_ms FROM (
            SELECT cast(number AS VARCHAR) AS producer, subject AS name, null AS allowed_ms FROM events
            WHERE kind = 'transaction_aborted' AND number IS NOT NULL
            UNION ALL
            SELECT text AS producer, subject AS name, number AS allowed_ms FROM events
            WHERE kind = 'transaction_began' AND text IS NOT NULL
        ) GROUP BY ALL
    )
    SELECT s.*, null AS owner, w.client, n.name AS transaction, n.allowed_ms,
        least(s.seen, coalesce(w.wrote, s.seen)) AS time,
        (SELECT min(time + to_microseconds(total_ns // 1000)) FROM exchanges x
            WHERE x.api = 'EndTxn' AND x.status = 'ok' AND concat_ws(' ', x.client_ip, x.client_id) = w.client
                AND x.time >= w.wrote) AS ended
    FROM stood s LEFT JOIN wrote w USING ({PLACE}, value) LEFT JOIN named n USING (producer)"""
"""A row for each offset at which the last stable offset stood still, with the transaction whose first batch lies there:
from that batch to the answer that ended it, or as long as the capture shows it."""


LEAST_NS = 1_000_000_000
"""That readers waited at one offset before it is said: transactions are open for moments."""


def held(ask: Ask) -> Iterator[Statement]:
    """Transactions at which the last stable offset stood still while the partition went on: the longest of each id."""
    found: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in ask(_HELD):
        over = row["time"] + timedelta(milliseconds=row["allowed_ms"]) if row["allowed_ms"] else None
        row["is_aborted"] = over is not None and row["ended"] is not None and row["ended"] > over
        if row["is_aborted"]:
            row["ended"] = over
        row["until"] = max(row["ended"] or row["last_seen"], row["last_seen"])
        row["time_ns"] = (row["until"] - row["time"]) // timedelta(microseconds=1) * 1000
        found[row["topic"], row["partition"], row["transaction"] or row["client"]].append(row)
    for rows in found.values():
        row = max(rows, key=lambda each: each["time_ns"])
        if row["time_ns"] < LEAST_NS:
            continue
        if row["transaction"]:
            whose = f"transaction {row['transaction']} of {row['client']}"
        elif row["client"]:
            whose = f"a transaction of {row['client']}"
        else:
            whose = "a transaction that began before the capture"
        more = f", the longest of {units.count(len(rows))} times" if len(rows) > 1 else ""
        if row["allowed_ms"]:
            more += f"; its producer lets it stay open for {units.duration(row['allowed_ms'] * 1_000_000)}"
        if row["is_aborted"]:
            more += ", and then the coordinator aborts it"
        whole = row["ended"] is not None and row["client"] is not None
        yield statement(
            HELD, row,
            f"In partition {row['partition']} of topic {row['topic']}, {whose} held readers of committed messages at "
            f"offset {row['value']} for {units.duration(row['time_ns'])}{'' if whole else ' at least'}, up to "
            f"{units.counted(row['messages'], 'message')} before the end{more}.",
            "last stable offsets and high watermarks of answers to Fetch, the first batch of the transaction and its "
            "EndTxn",
        )  # fmt: skip
