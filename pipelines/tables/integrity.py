"""What the checksums say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.tables.table import Ask, Column, Records, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LISTED = 10_000  # bad batches in their table
VERDICTS = ("ok", "bad", "unverifiable", "absent")
_KEYS = ["protocol", "topic", "role", "checksum_kind"]


def _integrity(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    verdicts = [F.count_if(F.col("verdict") == verdict).alias(verdict) for verdict in VERDICTS]
    verified = F.when(F.col("verdict").isin("ok", "bad"), F.col("stored_bytes"))
    return (
        records["batches"]
        .groupBy(*_KEYS)
        .agg(
            F.count("*").alias("batches"),
            *verdicts,
            F.sum("stored_bytes").alias("stored_bytes"),
            F.coalesce(F.sum(verified), F.lit(0)).alias("verified_bytes"),
        )
        .orderBy(F.desc("bad"), *_KEYS)
    )


INTEGRITY = Table(
    "integrity",
    "Checksums, verified: one row per topic, role and kind of checksum.",
    (
        Column("protocol", "kafka, pulsar or iggy"),
        Column("topic", "topic name"),
        Column("role", "produce, consume or replicate"),
        Column("checksum_kind", "crc32, crc32c, xxh3-64 or none"),
        Column("batches", "checksummed units", "count"),
        Column("ok", "the checksum holds", "count"),
        Column("bad", "every byte was captured, and the checksum does not hold", "count"),
        Column("unverifiable", "bytes that it covers were not captured", "count"),
        Column("absent", "none on the wire", "count"),
        Column("stored_bytes", "size on the wire", "bytes"),
        Column("verified_bytes", "size of those with a verdict ok or bad", "bytes"),
    ),
    _integrity,
    headline=("protocol", "topic", "role", "checksum_kind", "batches", "ok", "bad", "unverifiable", "absent"),
)


_BAD = (
    "protocol", "time", "topic", "partition", "position", "role", "records", "stored_bytes", "checksum_kind",
    "checksum_stored", "checksum_computed", "outcome", "connection", "file", "packet",
)  # fmt: skip


def _corrupt(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    bad = records["batches"].where(F.col("verdict") == "bad")
    return bad.select(*_BAD).orderBy("time", "file", "packet", "position").limit(LISTED)


CORRUPT = Table(
    "corrupt",
    f"Batches whose checksum does not hold: one row each, the first {LISTED}. `brokerscope forensics` says what broke.",
    (
        Column("protocol", "kafka, pulsar or iggy"),
        Column("time", "first byte of the batch", "time"),
        Column("topic", "topic name"),
        Column("partition", "partition number", "code"),
        Column("position", "offset, or ledger:entry"),
        Column("role", "produce, consume or replicate"),
        Column("records", "messages in it", "count"),
        Column("stored_bytes", "size on the wire", "bytes"),
        Column("checksum_kind", "crc32, crc32c or xxh3-64"),
        Column("checksum_stored", "as on the wire"),
        Column("checksum_computed", "over the bytes captured"),
        Column("outcome", "what the answer said of a produced batch"),
        Column("connection", "client ip:port>server ip:port"),
        Column("file", "where its first byte is"),
        Column("packet", "its packet number in that file, from 1", "code"),
    ),
    _corrupt,
    headline=(
        "protocol", "topic", "position", "role", "stored_bytes", "checksum_kind", "checksum_stored",
        "checksum_computed", "outcome", "file", "packet",
    ),
)  # fmt: skip
