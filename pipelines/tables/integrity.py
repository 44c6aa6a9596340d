"""What the checksums say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.tables.table import Ask, Column, Records, Table, bucket

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LISTED = 10_000  # bad batches in their table
VERDICTS = ("ok", "bad", "unverifiable", "absent")
HOUR_US = 3_600_000_000
_KEYS = ["protocol", "topic", "client", "hour", "role", "checksum_kind"]


def _integrity(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    verdicts = [F.count_if(F.col("verdict") == verdict).alias(verdict) for verdict in VERDICTS]
    verified = F.when(F.col("verdict").isin("ok", "bad"), F.col("stored_bytes"))
    return (
        records["batches"]
        .withColumn("client", F.concat_ws(" ", "client_ip", "client_id"))
        .withColumn("hour", bucket("time", Ask(bucket_us=HOUR_US)))
        .groupBy(*_KEYS)
        .agg(
            F.count("*").alias("batches"),
            *verdicts,
            F.sum("stored_bytes").alias("stored_bytes"),
            F.coalesce(F.sum(verified), F.lit(0)).alias("verified_bytes"),
        )
        .orderBy(F.desc("bad"), F.desc("unverifiable"), *_KEYS)
    )


INTEGRITY = Table(
    "integrity",
    "Checksums, verified: one row per topic, client, hour, role and kind of checksum.",
    (
        Column("protocol", "kafka, pulsar or iggy"),
        Column("topic", "topic name"),
        Column("client", "client address and the name it gives itself"),
        Column("hour", "the hour (UTC) in which the batches passed", "time"),
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
    headline=(
        "protocol", "topic", "client", "hour", "role", "checksum_kind", "batches", "ok", "bad", "unverifiable",
        "absent",
    ),
)  # fmt: skip


CASES = "cases"  # what forensics said of bad batches, beside the record tables
CASE_COLUMNS = (
    Column("pattern", "what broke: single_bit, burst, zeroed_run … (docs/forensics.md)"),
    Column("proven", "the corrected bytes match the checksum"),
    Column("broken", "the first broken bit or byte: packet, byte of the packet, bit"),
    Column("field", "the field and the record that it falls into"),
    Column("broke", "where: before_tcp, after_tcp, producer, broker or undecided"),
    Column("certainty", "certain, likely or undecided"),
    Column("because", "the reasons"),
)
CASE_KEYS = ("connection", "incarnation", "stream_offset", "role", "file", "packet")
CASE_DDL = (
    "connection string, incarnation int, stream_offset bigint, role string, file string, packet bigint, "
    "pattern string, proven boolean, broken string, field string, broke string, certainty string, because string"
)
_BAD = (
    "protocol", "time", "topic", "partition", "position", "role", "records", "stored_bytes", "checksum_kind",
    "checksum_stored", "checksum_computed", "outcome", "connection", "file", "packet",
)  # fmt: skip


def _corrupt(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    bad = records["batches"].where(F.col("verdict") == "bad")
    told = [column.name for column in CASE_COLUMNS]
    if CASES in records:
        bad = bad.join(F.broadcast(records[CASES]), list(CASE_KEYS), "left")
    else:
        bad = bad.withColumns(
            {c.name: F.lit(None).cast("boolean" if c.name == "proven" else "string") for c in CASE_COLUMNS}
        )
    return bad.select(*_BAD, *told).orderBy("time", "file", "packet", "position").limit(LISTED)


def case_row(case: dict[str, Any]) -> tuple[Any, ...]:
    """The JSON object of a case as a row of CASE_DDL."""
    diagnosis, attribution = case["diagnosis"], case["attribution"]
    spot = next(iter(diagnosis["locations"]), None)
    return (
        *(case[key] for key in CASE_KEYS),
        diagnosis["pattern"],
        diagnosis["verified"],
        spot and place(spot),
        spot and spot["field"],
        attribution["where"],
        attribution["certainty"],
        "; ".join(attribution["because"]),
    )


def place(spot: dict[str, Any]) -> str:
    """A location in words."""
    byte = "" if spot["packet_offset"] is None else f", byte {spot['packet_offset']}"
    return f"packet {spot['packet']}{byte}" + ("" if spot["bit"] is None else f", bit {spot['bit']}")


CORRUPT = Table(
    "corrupt",
    f"Batches whose checksum does not hold, and what forensics says of them: one row each, the first {LISTED}.",
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
        *CASE_COLUMNS,
    ),
    _corrupt,
    headline=(
        "protocol", "topic", "position", "role", "stored_bytes", "checksum_kind", "pattern", "broken", "field", "broke",
        "certainty", "file", "packet",
    ),
)  # fmt: skip
