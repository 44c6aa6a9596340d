"""What the checksums say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.tables.table import Ask, Column, Records, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
