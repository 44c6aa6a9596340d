"""How well each connection fared, and how much of it was understood."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.tables.table import Ask, Column, Records, Table

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_WHO = ["site", "protocol", "connection", "incarnation"]


def _health(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    counted = (
        records["findings"]
        .where("connection is not null")
        .groupBy("site", "connection", "incarnation")
        .agg(
            F.count_if(F.col("severity") == "error").alias("error_findings"),
            F.count_if(F.col("severity") == "warning").alias("warning_findings"),
        )
    )
    zero = F.lit(0)
    captured = F.coalesce("client_bytes", zero) + F.coalesce("server_bytes", zero)
    packets = F.coalesce("client_packets", zero) + F.coalesce("server_packets", zero)
    known = F.coalesce("framed_bytes", zero) + F.coalesce("skipped_bytes", zero) + F.coalesce("pending_bytes", zero)
    lost = F.coalesce("gap_bytes", zero)
    joined = records["connections"].join(counted, ["site", "connection", "incarnation"], "left")
    return joined.select(
        *_WHO,
        "start_time",
        "duration_ns",
        "handshake",
        "closed",
        "rtt_ns",
        packets.alias("packets"),
        captured.alias("captured_bytes"),
        _share("retransmissions", packets).alias("retransmission_rate"),
        "retransmissions",
        "duplicates",
        "out_of_order",
        "zero_windows",
        "gaps",
        "gap_bytes",
        _share("gap_bytes", captured + lost).alias("loss_rate"),
        "framed_bytes",
        "skipped_bytes",
        "pending_bytes",
        F.when(F.col("protocol").isNotNull(), _share("framed_bytes", known)).alias("coverage"),
        F.coalesce("error_findings", zero).alias("error_findings"),
        F.coalesce("warning_findings", zero).alias("warning_findings"),
        "file",
        "packet",
    ).orderBy(
        F.desc("error_findings"), F.desc_nulls_last("loss_rate"), F.desc_nulls_last("retransmission_rate"),
        F.desc("captured_bytes"), *_WHO,
    )  # fmt: skip


def _share(part: str, whole: Expression) -> Expression:
    from pyspark.sql import functions as F

    return F.col(part) / F.when(whole > 0, whole)


HEALTH = Table(
    "health",
    "Each connection: what TCP lost, and how much of the stream was understood. The worst come first.",
    (
        Column("site", "capture point"),
        Column("protocol", "kafka, pulsar or iggy; null where it is none of these"),
        Column("connection", "client ip:port>server ip:port"),
        Column("incarnation", "0, 1 … when the same addresses and ports are used again", "code"),
        Column("start_time", "first packet", "time"),
        Column("duration_ns", "first to last packet", "ns"),
        Column("handshake", "full, partial or none"),
        Column("closed", "fin, reset or open"),
        Column("rtt_ns", "SYN to the ACK that completes the handshake", "ns"),
        Column("packets", "packets of both directions", "count"),
        Column("captured_bytes", "stream bytes of both directions, each counted once", "bytes"),
        Column("retransmission_rate", "retransmissions to packets", "share"),
        Column("retransmissions", "segments that repeat bytes sent before", "count"),
        Column("duplicates", "packets captured twice", "count"),
        Column("out_of_order", "segments that came late", "count"),
        Column("zero_windows", "packets that announce a window of zero", "count"),
        Column("gaps", "holes in the capture", "count"),
        Column("gap_bytes", "their bytes", "bytes"),
        Column("loss_rate", "bytes lost to captured and lost bytes", "share"),
        Column("framed_bytes", "bytes in frames of the protocol", "bytes"),
        Column("skipped_bytes", "bytes that fit no frame", "bytes"),
        Column("pending_bytes", "bytes of a frame that never ended", "bytes"),
        Column("coverage", "framed to captured bytes; null where the protocol is not known", "share"),
        Column("error_findings", "findings of severity error", "count"),
        Column("warning_findings", "findings of severity warning", "count"),
        Column("file", "where its first packet is"),
        Column("packet", "its number in that file, from 1", "code"),
    ),
    _health,
    headline=(
        "protocol", "connection", "captured_bytes", "rtt_ns", "retransmissions", "out_of_order", "zero_windows", "gaps",
        "loss_rate", "coverage", "error_findings", "warning_findings",
    ),
)  # fmt: skip
