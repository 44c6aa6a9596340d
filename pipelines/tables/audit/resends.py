"""Batches that producers sent again: taken twice, or put behind later ones."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

from dissectors.wire.crc32c_library import crc32c
from pipelines.sql.database import Row
from pipelines.tables.audit.statement import DISORDER, PLACE, TWICE, Ask, Statement, messages_of, statement
from pipelines.tables.table import alike

VIEWS = {
    # what producers sent that are not idempotent, each batch once: the same bytes are the same batch. `again`: no
    # answer that reached the producer accepted it the first time, so it was sent again; `error`, `sent`, `time`
    # and `connection` are those of the first time, `taken` is when it was sent and accepted. Equal batches that were
    # all accepted at once are messages that the application made equal
    "v_sent_once": """
        WITH received AS (
            SELECT b.* REPLACE (CASE WHEN x.answer IN ('late', 'cut') THEN 'unknown' ELSE outcome END AS outcome),
                outcome AS stored, e.name AS error
            FROM batches b LEFT JOIN (SELECT site, exchange_id, answer FROM exchanges) x USING (site, exchange_id)
                LEFT JOIN (
                    SELECT site, exchange_id, topic, partition, any_value(name) AS name FROM errors GROUP BY ALL
                ) e USING (site, exchange_id, topic, partition)
        )
        SELECT protocol, topic, partition, client_ip || ' ' || coalesce(client_id, '') AS client, checksum_stored,
            any_value(records) AS records, min(time) AS time, arg_min(connection, time) AS connection,
            min((time, stream_offset)) AS sent, min(time) FILTER (stored = 'ok') AS taken,
            min(base_offset) FILTER (stored = 'ok') AS base,
            count(*) > 1 AND arg_min(outcome, (time, file, packet)) IS DISTINCT FROM 'ok' AS again,
            arg_min_null(CASE WHEN outcome = 'error' THEN error END, (time, file, packet)) AS error,
            arg_max(file, (time, file, packet)) AS file, arg_max(packet, (time, file, packet)) AS packet
        FROM received
        WHERE role = 'produce' AND protocol = 'kafka' AND checksum_stored IS NOT NULL AND topic IS NOT NULL
            AND producer IS NULL
        GROUP BY protocol, topic, partition, client_ip, client_id, checksum_stored, stored_bytes""",
    # where the same bytes stand in a log, as producers and consumers were told
    "v_stand": f"""
        SELECT {PLACE}, checksum_stored, min(base_offset) AS least, max(base_offset) AS most FROM batches
        WHERE base_offset IS NOT NULL AND (role = 'consume' OR outcome = 'ok') GROUP BY ALL""",
}
"""Queries that the looks read by name."""


def sent_twice(ask: Ask) -> Iterator[Statement]:
    """Bytes that a broker took twice: to Kafka they are other messages."""
    for row in ask(f"""
        SELECT protocol, topic, null AS owner, client, error, count(*) AS batches, sum(records) AS messages,
            min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM v_sent_once JOIN v_stand USING ({PLACE}, checksum_stored)
        WHERE again AND least < most GROUP BY ALL"""):
        error = row["error"]
        yield statement(
            TWICE, row,
            f"{messages_of(row['messages'], row['batches'])} stand in topic {row['topic']} once more than "
            f"{row['client']} meant: {f'the answer was {error}' if error else 'no answer came'}, it sent them again, "
            "and it is not idempotent.",
            f"a request {'that was answered with an error' if error else 'without an answer'}, and batches with the "
            "same bytes at two offsets",
        )  # fmt: skip


_CONTENT = "protocol, topic, partition, producer, base_sequence, first_timestamp, stored_bytes, checksum_stored"
# entries alike at two positions: both on one connection, or of a message that was sent twice (and not passed on by a
# proxy, where both have one position), as another cluster has positions of its own
_TO_PULSAR = f"""
    SELECT protocol, topic, null AS owner, producer, count(*) AS batches, sum(records) AS messages, min(time) AS time,
        min_by(one, time) AS one, min_by(other, time) AS other, min_by(file, time) AS file,
        min_by(packet, time) AS packet
    FROM (
        SELECT {_CONTENT}, max(records) AS records, min(time) AS time, min_by(one, time) AS one,
            max_by(other, until) AS other, max_by(file, until) AS file, max_by(packet, until) AS packet
        FROM (
            SELECT {_CONTENT}, max(records) AS records, min(time) FILTER (position IS NOT NULL) AS time,
                max(time) FILTER (position IS NOT NULL) AS until,
                count(DISTINCT coalesce(position, file || ' ' || packet)) FILTER (role = 'produce') AS sent,
                count(DISTINCT position) AS places, min_by(position, time) AS one, max_by(position, time) AS other,
                max_by(file, time) AS file, max_by(packet, time) AS packet
            FROM batches
            WHERE protocol = 'pulsar' AND role IN ('produce', 'consume') AND coalesce(position, '') NOT LIKE '-%'
                AND topic IS NOT NULL AND producer IS NOT NULL AND base_sequence IS NOT NULL
                AND checksum_stored IS NOT NULL AND outcome IS DISTINCT FROM 'error' AND NOT coalesce(control, false)
                AND coalesce(client_id, '') NOT LIKE 'pulsar.repl.%'
            GROUP BY {_CONTENT}, CASE role WHEN 'consume' THEN connection END
        ) GROUP BY {_CONTENT} HAVING min(one) <> max(other) AND (max(places) > 1 OR sum(sent) > 1)
    ) GROUP BY ALL"""


def sent_twice_to_pulsar(ask: Ask) -> Iterator[Statement]:
    """Entries of one producer, sequence number, time and content at two positions: the topic does not deduplicate."""
    for row in ask(_TO_PULSAR):
        yield statement(
            TWICE, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} stand in it twice, the first at "
            f"{row['one']} and {row['other']}: producer {row['producer']} sent them again as no receipt reached it, "
            "and the broker had stored them.",
            "entries of one producer, sequence number, time and content at two positions",
        )  # fmt: skip


def sent_twice_in_epochs(ask: Ask) -> Iterator[Statement]:
    """Batches that an idempotent producer sent again under another epoch: a broker knows no sequences of old ones."""
    found: dict[tuple[str, str], list[tuple[Row, int, int]]] = defaultdict(list)
    for row, first, second in _stored_twice(ask):
        found[row["topic"], row["client"]].append((row, first, second))
    for (topic, client), rows in found.items():
        (first_row, one, other), batches = rows[0], len(rows)
        messages = None if any(row["records"] is None for row, _, _ in rows) else sum(r["records"] for r, _, _ in rows)
        yield statement(
            TWICE, {**first_row, "owner": None},
            f"{messages_of(messages, batches)} of topic {topic} stand in it twice, the first at offsets {one} and "
            f"{other}: {client} began a new epoch and sent them again, and the broker had kept what came before.",
            "batches of two epochs at two offsets, with checksums that differ by their producer, epoch and sequence "
            "alone",
            messages=messages,
        )  # fmt: skip


_SAME = ("protocol", "topic", "partition", "stored_bytes", "records", "first_timestamp", "max_timestamp")
_EPOCHS = f"""
    WITH stored AS (
        SELECT *, (producer, producer_epoch) AS life FROM batches
        WHERE protocol = 'kafka' AND format = 'magic 2' AND producer IS NOT NULL AND checksum_stored IS NOT NULL
            AND base_offset IS NOT NULL AND topic IS NOT NULL AND outcome = 'ok' AND NOT coalesce(control, false)
    ), alike AS (
        SELECT {", ".join(_SAME)} FROM stored GROUP BY ALL HAVING min(life) IS DISTINCT FROM max(life)
    )
    SELECT s.*, client_ip || ' ' || coalesce(client_id, '') AS client FROM stored s
        SEMI JOIN alike a ON {alike(_SAME, "s", "a")}
    QUALIFY row_number() OVER (PARTITION BY {PLACE}, base_offset, life, base_sequence, checksum_stored
        ORDER BY CASE role WHEN 'produce' THEN 0 ELSE 1 END, time, file, packet) = 1
    ORDER BY time, file, packet"""
"""Batches at their offsets, each once, that agree in all but producer or epoch, and so may hold the same messages."""


def _stored_twice(ask: Ask) -> Iterator[tuple[Row, int, int]]:
    """Batches that stand at two offsets, under two epochs: what was seen last, and both offsets."""
    found: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in ask(_EPOCHS):
        found[(*(row[name] for name in _SAME), _without_producer(row))].append(row)
    for rows in found.values():
        offsets = sorted({row["base_offset"] for row in rows})
        if len(offsets) > 1 and len({(row["producer"], row["producer_epoch"]) for row in rows}) > 1:
            sender = next((row for row in reversed(rows) if row["role"] == "produce"), rows[-1])
            yield sender, offsets[0], offsets[-1]


_COVERED_FROM, _PRODUCER_AT, _COUNT_AT = 21, 43, 57  # places in a batch of magic 2, as dissectors/kafka/record_batch.py


def _without_producer(row: Row) -> int:
    """The checksum that a batch would have without producer, epoch and sequence.

    A CRC is linear: that of one text, XOR that of another one as long, is that of their difference, XOR that of zeros.
    """
    checksum = crc32c()
    before, behind = bytes(_PRODUCER_AT - _COVERED_FROM), bytes(max(0, row["stored_bytes"] - _COUNT_AT))
    said = struct.pack(">qhi", int(row["producer"]), row["producer_epoch"] or 0, row["base_sequence"] or 0)
    difference = checksum(before + said + behind) ^ checksum(before + bytes(len(said)) + behind)
    return int(row["checksum_stored"], 16) ^ difference


def disorder(ask: Ask) -> Iterator[Statement]:
    """Batches that were sent again, and stand behind what was sent between the first time and the one that counts."""
    for row in ask(f"""
        SELECT protocol, topic, null AS owner, client, count(*) AS batches, sum(records) AS messages,
            min_by(file, time) AS file, min_by(packet, time) AS packet
        FROM (
            SELECT *, min(base) OVER (PARTITION BY {PLACE}, client, connection ORDER BY sent
                ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS lowest_after
            FROM v_sent_once
        ) s JOIN v_stand USING ({PLACE}, checksum_stored)
            SEMI JOIN v_sent_once o ON {alike((*PLACE.split(", "), "client", "connection"), "o", "s")}
                AND o.sent > s.sent AND o.time <= s.taken AND o.base < least
        WHERE again AND lowest_after < least GROUP BY ALL"""):
        yield statement(
            DISORDER, row,
            f"{messages_of(row['messages'], row['batches'])} of topic {row['topic']} stand behind messages that "
            f"{row['client']} sent after them: it had to send them again.",
            "the order of batches on the connection, the answers to them and their offsets",
        )  # fmt: skip
