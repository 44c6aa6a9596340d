"""What a person should look at, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.tables.table import Ask, Column, Records, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = ["severity", "kind", "protocol"]


def _findings(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    rank = F.expr("case severity when 'error' then 0 when 'warning' then 1 else 2 end")
    order = F.struct("time", "file", "packet")
    return (
        records["findings"]
        .groupBy(*_KEYS)
        .agg(
            F.count("*").alias("count"),
            F.count_distinct("site", "connection", "incarnation").alias("connections"),
            F.sum("length").alias("bytes"),
            F.min("time").alias("first_time"),
            F.max("time").alias("last_time"),
            F.min_by(F.struct("message", "connection", "file", "packet"), order).alias("f"),
        )
        .select(
            *_KEYS, "count", "connections", "bytes", "first_time", "last_time", "f.message", "f.connection", "f.file",
            "f.packet",
        )
        .orderBy(rank, F.desc("count"), *_KEYS)
    )  # fmt: skip


FINDINGS = Table(
    "findings",
    "What a person should look at: one row per kind of finding, with the first of each. The records hold them all.",
    (
        Column("severity", "info, warning or error"),
        Column("kind", "bad_checksum, malformed_frame, gap …"),
        Column("protocol", "kafka, pulsar or iggy; null for a file"),
        Column("count", "how often", "count"),
        Column("connections", "on how many connections", "count"),
        Column("bytes", "bytes concerned", "bytes"),
        Column("first_time", "first seen", "time"),
        Column("last_time", "last seen", "time"),
        Column("message", "what the first one says"),
        Column("connection", "its connection"),
        Column("file", "its file"),
        Column("packet", "its packet number in that file, from 1", "code"),
    ),
    _findings,
    headline=("severity", "kind", "protocol", "count", "connections", "message", "file", "packet"),
)
