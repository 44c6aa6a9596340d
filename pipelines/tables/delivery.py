"""From produced to consumed: how long a batch takes through the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.tables.table import Ask, Column, Records, Table, quantile_columns, quantiles, sketch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = ["site", "protocol", "topic", "partition", "position"]


def _delivery(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    known = records["batches"].where("topic is not null and position is not null")
    produced = known.where("role = 'produce' and coalesce(outcome, '') != 'error'").select(
        *_PLACE, F.struct(F.col("time").alias("produced"), F.col("checksum_stored").alias("made")).alias("origin")
    )
    consumed = known.where("role = 'consume'").select(
        *_PLACE, "connection", "incarnation", "stream_offset", "checksum_stored", F.col("time").alias("consumed")
    )
    # positions come again when a topic is made anew: the latest production before a consumption is its own
    pairs = (
        consumed.join(produced, [consumed[c].eqNullSafe(produced[c]) for c in _PLACE])
        .where("origin.produced <= consumed")
        .groupBy(
            *(consumed[c] for c in _PLACE), "connection", "incarnation", "stream_offset", "checksum_stored", "consumed"
        )
        .agg(F.max("origin").alias("origin"))
        .withColumn("delay_ns", (F.unix_micros("consumed") - F.unix_micros("origin.produced")) * 1000)
    )
    groups = pairs.groupBy("protocol", "topic").agg(
        F.count("*").alias("deliveries"),
        F.count_distinct(F.struct("site", "partition", "position")).alias("batches"),
        F.count_if(F.col("checksum_stored") == F.col("origin.made")).alias("same_checksum"),
        F.count_if(F.col("checksum_stored") != F.col("origin.made")).alias("other_checksum"),
        F.max("delay_ns").alias("delay_max_ns"),
        sketch(F.col("delay_ns")).alias("delay_sketch"),
    )
    return groups.select(
        "protocol",
        "topic",
        "deliveries",
        "batches",
        "same_checksum",
        "other_checksum",
        *quantiles("delay_sketch", "delay_"),
        "delay_max_ns",
    ).orderBy("protocol", "topic")


DELIVERY = Table(
    "delivery",
    "From produce to consume: the time from the first byte of a produced batch to the first byte of the same batch on "
    "its way to a consumer, joined on topic, partition and position within one capture point. Where a protocol does "
    "not tell producers the position (Iggy), or the batch was produced before the capture, there is no row.",
    (
        Column("protocol", "kafka, pulsar or iggy"),
        Column("topic", "topic name"),
        Column("deliveries", "batches seen on their way to a consumer; each consumer counts", "count"),
        Column("batches", "different batches among them", "count"),
        Column("same_checksum", "deliveries that carry the checksum with which the batch was produced", "count"),
        Column("other_checksum", "deliveries that carry another one: the broker wrote the batch anew", "count"),
        *quantile_columns("delay_", "delay"),
        Column("delay_max_ns", "delay, longest", "ns"),
    ),
    _delivery,
    headline=(
        "protocol", "topic", "deliveries", "batches", "same_checksum", "other_checksum", "delay_p50_ns",
        "delay_p90_ns", "delay_p99_ns", "delay_max_ns",
    ),
    rank="deliveries",
)  # fmt: skip
