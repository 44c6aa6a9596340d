"""Who talks, with what software and which versions of the APIs."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pipelines.tables.table import LISTED, Ask, Column, Records, Table, listed

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_KEYS = ["protocol", "client_ip", "client_id", "api"]
_WHERE = ["site", "connection", "incarnation"]


def _clients(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    software = records["connections"].select(
        *_WHERE, F.concat_ws(" ", "client_software", "client_version").alias("software")
    )
    sent = records["exchanges"].where("kind in ('call', 'unanswered', 'oneway')")
    opened = (
        records["connections"]
        .groupBy("protocol", "client_ip", F.window("start_time", "1 minute"))
        .agg(F.count("*").alias("opened"))
        .groupBy("protocol", "client_ip")
        .agg(F.max("opened").alias("opened"))
    )
    known = sent.join(F.broadcast(software), _WHERE, "left").join(
        F.broadcast(opened), ["protocol", "client_ip"], "left"
    )
    return (
        known.groupBy(*_KEYS)
        .agg(
            F.slice(F.array_sort(F.array_remove(F.collect_set("software"), "")), 1, LISTED).alias("software"),
            F.array_sort(F.collect_set("version")).alias("versions"),
            F.array_sort(F.collect_set(F.when(_refused(), F.col("version")))).alias("removed"),
            F.min("version").alias("version_min"),
            F.max("version").alias("version_max"),
            F.count("*").alias("requests"),
            F.count_if(F.col("status") == "error").alias("errors"),
            F.count_distinct(*_WHERE).alias("connections"),
            F.max("opened").alias("connects_peak"),
            F.min("time").alias("first_time"),
            F.max("time").alias("last_time"),
            listed(F.concat_ws(":", "server_ip", F.col("server_port").cast("string"))).alias("servers"),
        )
        .select(
            *_KEYS, "software", "versions", "removed", "version_min", "version_max", "requests", "errors",
            "connections", "connects_peak", "first_time", "last_time", "servers",
        )
        .orderBy("protocol", "client_ip", "client_id", F.desc("requests"), "api")
    )  # fmt: skip


def _refused() -> Expression:
    """Whether an exchange uses a version of an API that Kafka 4.0 removed."""
    from pyspark.sql import functions as F

    from dissectors.kafka.schema import apis

    ranges = [
        (F.col("api_code") == api.key) & F.col("version").between(first, last)
        for api in apis().values()
        for first, last in api.removed.ranges
    ]
    return (F.col("protocol") == "kafka") & reduce(or_, ranges)


CLIENTS = Table(
    "clients",
    f"Who uses which API, and in which versions: one row per client and API. Lists hold at most {LISTED} names.",
    (
        Column("protocol", "kafka, pulsar or iggy"),
        Column("client_ip", "its address"),
        Column("client_id", "what it calls itself"),
        Column("api", "API it uses"),
        Column("software", "client libraries and versions that it told", "list"),
        Column("versions", "versions of the API that it used", "list"),
        Column("removed", "versions among them that Kafka brokers refuse since 4.0: update this client", "list"),
        Column("version_min", "lowest version", "code"),
        Column("version_max", "highest version", "code"),
        Column("requests", "how often", "count"),
        Column("errors", "answers that hold an error", "count"),
        Column("connections", "over how many connections", "count"),
        Column("connects_peak", "most connections that this address opened within a minute", "count"),
        Column("first_time", "first request", "time"),
        Column("last_time", "last request", "time"),
        Column("servers", "brokers it talks to", "list"),
    ),
    _clients,
    headline=(
        "protocol", "client_ip", "client_id", "software", "api", "versions", "removed", "requests", "errors",
        "connections", "connects_peak",
    ),
    rank="requests",
)  # fmt: skip
