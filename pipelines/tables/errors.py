"""What brokers refused, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.tables.table import LISTED, Ask, Column, Records, Table, listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = ["protocol", "api", "scope", "code", "name", "retriable"]


def _errors(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    client = F.concat_ws(" ", "client_ip", "client_id")
    return (
        records["errors"]
        .groupBy(*_KEYS)
        .agg(
            F.count("*").alias("count"),
            F.min("time").alias("first_time"),
            F.max("time").alias("last_time"),
            listed("topic").alias("topics"),
            listed(client).alias("clients"),
            F.min_by(F.struct("message", "file", "packet"), "time").alias("first"),
        )
        .select(
            *_KEYS,
            "count",
            "first_time",
            "last_time",
            "topics",
            "clients",
            "first.message",
            "first.file",
            "first.packet",
        )
        .orderBy(F.desc("count"), *_KEYS)
    )


ERRORS = Table(
    "errors",
    f"Errors in answers: one row per API, code and scope. Lists hold at most {LISTED} names.",
    (
        Column("protocol", "kafka, pulsar or iggy"),
        Column("api", "the API that answered"),
        Column("scope", "what failed: request, topic, partition, group …"),
        Column("code", "number on the wire", "code"),
        Column("name", "the protocol's name for it"),
        Column("retriable", "whether the protocol calls it retriable"),
        Column("count", "how often", "count"),
        Column("first_time", "first seen", "time"),
        Column("last_time", "last seen", "time"),
        Column("topics", "topics it was about", "list"),
        Column("clients", "clients that got it", "list"),
        Column("message", "text that came with the first one"),
        Column("file", "where the first one is"),
        Column("packet", "its packet number in that file, from 1", "code"),
    ),
    _errors,
    headline=("protocol", "api", "name", "code", "scope", "retriable", "count", "topics", "clients", "file", "packet"),
    rank="count",
)
