"""How long the brokers take, per API; and the same along time, and as a distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.tables.table import (
    Ask,
    Column,
    Records,
    Table,
    bucket,
    by_columns,
    quantile_columns,
    quantiles,
    sketch,
    with_keys,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

BINS_PER_DECADE = 5  # of the distribution: each bin is 1.58 times as wide as the one before


def _latency(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    keys = ["protocol", "api", "long_poll", *ask.by]
    groups = _pairs(with_keys(records["exchanges"], ask)).groupBy(*keys).agg(*_measures())
    totals = quantiles("total_sketch", "total_")
    waits = quantiles("wait_sketch", "wait_")
    mean = (F.col("total_sum_ns") / F.col("timed")).cast("bigint").alias("total_mean_ns")
    return groups.select(
        *keys, "count", "unanswered", "errors", "total_sum_ns", mean, *totals, "total_max_ns", *waits, "wait_max_ns",
        "request_bytes", "response_bytes", "retransmitted", "total_sketch", "wait_sketch",
    ).orderBy(F.desc("total_sum_ns"), *keys)  # fmt: skip


def _activity(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = _pairs(records["exchanges"]).withColumn("bucket", bucket("time", ask))
    calm = F.when(~F.col("long_poll"), F.col("total_ns"))
    groups = pairs.groupBy("protocol", "bucket").agg(*_measures(total=calm))
    seconds = ask.bucket_us / 1_000_000
    return groups.select(
        "protocol", "bucket", F.lit(seconds).alias("bucket_s"), "count", "unanswered", "errors",
        (F.col("count") / seconds).alias("rate"), *quantiles("total_sketch", "total_"), "total_max_ns",
        "request_bytes", "response_bytes",
    ).orderBy("protocol", "bucket")  # fmt: skip


def _distribution(records: Records, ask: Ask) -> DataFrame:
    from pyspark.sql import functions as F

    timed = _pairs(records["exchanges"]).where("total_ns > 0")
    step = F.floor(F.log10("total_ns") * BINS_PER_DECADE).cast("int")
    groups = timed.groupBy("protocol", "api", "long_poll", step.alias("bin")).agg(F.count("*").alias("count"))

    def edge(of: Expression) -> Expression:
        return F.pow(F.lit(10.0), of / BINS_PER_DECADE).cast("bigint")

    return groups.select(
        "protocol",
        "api",
        "long_poll",
        edge(F.col("bin")).alias("from_ns"),
        edge(F.col("bin") + 1).alias("to_ns"),
        "count",
    ).orderBy("protocol", "api", "long_poll", "from_ns")


def _pairs(exchanges: DataFrame) -> DataFrame:
    """Requests that the protocol answers, with what long polling did made a plain yes or no."""
    from pyspark.sql import functions as F

    wanted = exchanges.where(F.col("kind").isin("call", "unanswered"))
    return wanted.withColumn("long_poll", F.coalesce("long_poll", F.lit(False)))


def _measures(total: Expression | None = None) -> list[Expression]:
    from pyspark.sql import functions as F

    total = F.col("total_ns") if total is None else total
    return [
        F.count_if(F.col("kind") == "call").alias("count"),
        F.count_if(F.col("kind") == "unanswered").alias("unanswered"),
        F.count_if(F.col("status") == "error").alias("errors"),
        F.count(total).alias("timed"),
        F.sum(total).alias("total_sum_ns"),
        F.max(total).alias("total_max_ns"),
        F.max("wait_ns").alias("wait_max_ns"),
        F.sum("request_bytes").alias("request_bytes"),
        F.sum("response_bytes").alias("response_bytes"),
        F.count_if(F.col("retransmitted")).alias("retransmitted"),
        sketch(total).alias("total_sketch"),
        sketch(F.col("wait_ns")).alias("wait_sketch"),
    ]


_KEYS = (
    Column("protocol", "kafka, pulsar or iggy"),
    Column("api", "the protocol's own name"),
    Column("long_poll", "the request allowed the broker to wait, and it did: these are apart from all others"),
)
_COUNTS = (
    Column("count", "requests that were answered", "count"),
    Column("unanswered", "requests whose answer is not in the capture", "count"),
    Column("errors", "answers that hold an error", "count"),
)

LATENCY = Table(
    "latency",
    "How long requests took: one row per API, long polls apart. `total` runs from the first byte of the request to the "
    "last byte of the answer, `wait` from the last byte of the request to the first byte of the answer. The sketches "
    "(KLL, of `total_ns` and `wait_ns`) merge, so hours roll up to days without the records.",
    (
        *_KEYS,
        *_COUNTS,
        Column("total_sum_ns", "time spent in all of them together: what this API costs", "ns"),
        Column("total_mean_ns", "total, mean", "ns"),
        *quantile_columns("total_", "total"),
        Column("total_max_ns", "total, longest", "ns"),
        *quantile_columns("wait_", "wait"),
        Column("wait_max_ns", "wait, longest", "ns"),
        Column("request_bytes", "bytes of requests", "bytes"),
        Column("response_bytes", "bytes of answers", "bytes"),
        Column("retransmitted", "exchanges of which a byte was sent twice", "count"),
        Column("total_sketch", "KLL sketch of total_ns", "sketch"),
        Column("wait_sketch", "KLL sketch of wait_ns", "sketch"),
    ),
    _latency,
    headline=(
        "protocol", "api", "long_poll", "count", "unanswered", "errors", "total_sum_ns", "total_p50_ns", "total_p90_ns",
        "total_p99_ns", "total_p999_ns", "total_max_ns", "wait_p99_ns",
    ),
    rank="total_sum_ns",
    extra=by_columns,
)  # fmt: skip

ACTIVITY = Table(
    "activity",
    "Requests along time: one row per protocol and time bucket. Durations leave long polls out.",
    (
        Column("protocol", "kafka, pulsar or iggy"),
        Column("bucket", "start of the time bucket", "time"),
        Column("bucket_s", "its width in seconds", "ratio"),
        *_COUNTS,
        Column("rate", "answered requests per second", "1/s"),
        *quantile_columns("total_", "total"),
        Column("total_max_ns", "total, longest", "ns"),
        Column("request_bytes", "bytes of requests", "bytes"),
        Column("response_bytes", "bytes of answers", "bytes"),
    ),
    _activity,
    headline=("protocol", "bucket", "count", "rate", "errors", "total_p50_ns", "total_p99_ns", "total_max_ns"),
)

DISTRIBUTION = Table(
    "distribution",
    f"How durations are spread: requests per API and bin of `total_ns`, {BINS_PER_DECADE} bins a decade.",
    (
        *_KEYS,
        Column("from_ns", "lower edge of the bin", "ns"),
        Column("to_ns", "upper edge of the bin", "ns"),
        Column("count", "requests in it", "count"),
    ),
    _distribution,
    headline=("protocol", "api", "long_poll", "from_ns", "to_ns", "count"),
)
