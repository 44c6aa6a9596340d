"""What producers risk with few confirmations, and transactions that kept readers waiting."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.answers.audit.statement import HELD, PLACE, UNCONFIRMED, Ask, Statement, messages_of, statement
from pipelines.formats import units


def unconfirmed(ask: Ask) -> Iterator[Statement]:
    """What was produced without the confirmation of all replicas."""
    risks = {
        0: ("no answer says whether a broker took them", "requests without an answer by protocol"),
        1: ("they are lost if the leader fails before a replica has fetched them", "acks in the requests"),
    }
    for row in ask("""
        SELECT protocol, topic, null AS owner, client, acks, count(*) AS batches, sum(records) AS messages,
            min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM (
            SELECT b.*, b.client_ip || ' ' || coalesce(b.client_id, '') AS client, acks
            FROM batches b JOIN (SELECT site, exchange_id, acks FROM exchanges WHERE acks IN (0, 1)) x
                USING (site, exchange_id)
            WHERE role = 'produce' AND topic IS NOT NULL
        ) GROUP BY ALL"""):
        risk, rests_on = risks[row["acks"]]
        yield statement(
            UNCONFIRMED, row,
            f"{row['client']} sent {messages_of(row['messages'], row['batches'])} of topic {row['topic']} with "
            f"acks={row['acks']}: {risk}.",
            rests_on,
            messages=row["messages"],
        )  # fmt: skip


def held(ask: Ask) -> Iterator[Statement]:
    """Transactions at which the last stable offset stood still while the partition went on."""
    for row in ask(f"""
        SELECT protocol, topic, null AS owner, partition, s.value, count(*) AS batches,
            (epoch_us(max(s.time)) - epoch_us(min(s.time))) * 1000 AS held_ns, max(h.value - s.value) AS messages,
            min_by(s.file, s.time) AS file, min_by(s.packet, s.time) AS packet,
            (SELECT min_by(client_ip || ' ' || coalesce(client_id, ''), time) FROM batches b
                WHERE b.topic = s.topic AND b.partition = s.partition AND b.base_offset = s.value AND b.transactional
                    AND b.role = 'produce') AS client
        FROM positions s JOIN positions h USING (site, exchange_id, {PLACE})
        WHERE s.what = 'last_stable' AND h.what = 'high_watermark' AND s.value < h.value
        GROUP BY protocol, s.topic, topic, partition, s.partition, s.value"""):
        whose = f"a transaction of {row['client']}" if row["client"] else "a transaction that began before the capture"
        yield statement(
            HELD, row,
            f"In partition {row['partition']} of topic {row['topic']}, {whose} held readers of committed messages at "
            f"offset {row['value']} for {units.duration(row['held_ns'])} at least, up to "
            f"{units.counted(row['messages'], 'message')} before the end.",
            "last stable offsets and high watermarks of answers to Fetch",
            messages=row["messages"],
        )  # fmt: skip
