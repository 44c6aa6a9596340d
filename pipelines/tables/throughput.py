"""How much message data moves, per topic and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.tables.table import Ask, Column, Records, Table, bucket

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_KEYS = ["protocol", "topic", "role", "bucket"]


def _throughput(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    seconds = ask.bucket_us / 1_000_000
    refused = F.col("outcome") == "error"
    data = ~F.coalesce("control", F.lit(False)) & ~F.coalesce(refused, F.lit(False))
    sized = data & F.col("uncompressed_bytes").isNotNull()
    carrier = F.struct(  # pushes have no correlation id, but each batch of theirs is a frame of its own
        "site", "connection", "incarnation", "producer", F.coalesce("correlation_id", -1 - F.col("stream_offset"))
    )
    sums = (
        records["batches"]
        .withColumn("bucket", bucket("time", ask))
        .groupBy(*_KEYS)
        .agg(
            F.count_distinct(carrier).alias("exchanges"),
            F.count("*").alias("batches"),
            _sum(F.when(data, F.col("records"))).alias("messages"),
            _sum(F.when(refused, F.col("records"))).alias("refused"),
            _sum(F.when(data, F.col("stored_bytes"))).alias("stored_bytes"),
            F.sum(F.when(data, F.col("uncompressed_bytes"))).alias("uncompressed_bytes"),
            F.sum(F.when(sized, F.col("stored_bytes"))).alias("_sized"),
        )
    )
    return sums.select(
        *_KEYS,
        F.lit(seconds).alias("bucket_s"),
        "exchanges", "batches", "messages", "refused", "stored_bytes", "uncompressed_bytes",
        (F.col("messages") / seconds).alias("message_rate"),
        (F.col("stored_bytes") / seconds).alias("byte_rate"),
        (F.col("uncompressed_bytes") / F.when(F.col("_sized") > 0, F.col("_sized"))).alias("compression_ratio"),
    ).orderBy(*_KEYS)  # fmt: skip


def _sum(of: Expression) -> Expression:
    from pyspark.sql import functions as F

    return F.coalesce(F.sum(of), F.lit(0))


THROUGHPUT = Table(
    "throughput",
    "Message data on the move: one row per topic, role and time bucket. Control batches and what brokers refused are "
    "not among `messages` and the bytes.",
    (
        Column("protocol", "kafka, pulsar or iggy"),
        Column("topic", "topic name"),
        Column("role", "produce, consume or replicate"),
        Column("bucket", "start of the time bucket", "time"),
        Column("bucket_s", "its width in seconds", "ratio"),
        Column("exchanges", "exchanges that carried it", "count"),
        Column("batches", "checksummed units", "count"),
        Column("messages", "messages as the application counts them", "count"),
        Column("refused", "messages that the broker did not take", "count"),
        Column("stored_bytes", "size on the wire", "bytes"),
        Column("uncompressed_bytes", "size once decompressed; null where nothing was decompressed", "bytes"),
        Column("message_rate", "messages per second", "1/s"),
        Column("byte_rate", "stored bytes per second", "bytes/s"),
        Column("compression_ratio", "uncompressed to stored bytes", "ratio"),
    ),
    _throughput,
    headline=(
        "protocol", "topic", "role", "bucket", "exchanges", "messages", "stored_bytes", "message_rate", "byte_rate",
        "compression_ratio",
    ),
    rank="stored_bytes",
)  # fmt: skip
