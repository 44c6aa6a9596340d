"""What an aggregate table is: a name, documented columns, and a function from records to a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

QUANTILES = (0.5, 0.9, 0.99, 0.999)
QUANTILE_NAMES = ("p50", "p90", "p99", "p999")
SKETCH_K = 2000  # KLL: error of a rank about 0.05 %; sketches of fewer values are exact
LISTED = 20  # names that a list in a table holds at most


class Column(NamedTuple):
    """One column: what it means and how people read it.

    unit: "ns", "bytes", "bytes/s", "1/s", "share" (0 to 1), "ratio", "count", "time", "code" (a number that is a name),
    "list", "sketch" (binary; Parquet only) or "" for text.
    """

    name: str
    doc: str
    unit: str = ""


class Ask(NamedTuple):
    """What the user asked of the tables."""

    by: tuple[str, ...] = ()
    bucket_us: int = 1_000_000


Records = Mapping[str, "DataFrame"]


@dataclass(frozen=True)
class Table:
    """An aggregate table."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    build: Callable[[Records, Ask], DataFrame]
    headline: tuple[str, ...]
    """The columns that a person reads first: printed, and shown on the page."""
    rank: str = ""
    """Column by which rows are ranked, largest first, when only some can be shown."""
    extra: Callable[[Ask], tuple[Column, ...]] = lambda ask: ()
    """Columns that come with the question: the keys of `--by`."""


# --- what --by may name ----------------------------------------------------------------------------------------------

BY = {
    "version": Column("version", "version of the api", "code"),
    "client": Column("client", "client address and the name it gives itself"),
    "server": Column("server", "server address and port"),
    "topic": Column("topic", "an exchange that names several topics counts in the row of each"),
    "site": Column("site", "capture point"),
    "dialect": Column("dialect", "wire dialect"),
    "bucket": Column("bucket", "start of the time bucket", "time"),
}


def by_columns(ask: Ask) -> tuple[Column, ...]:
    """The columns that `--by` adds."""
    return tuple(BY[name] for name in ask.by)


def with_keys(exchanges: DataFrame, ask: Ask) -> DataFrame:
    """Exchanges with the columns that `--by` names."""
    from pyspark.sql import functions as F

    derived = {
        "client": lambda: F.concat_ws(" ", "client_ip", "client_id"),
        "server": lambda: F.concat_ws(":", "server_ip", F.col("server_port").cast("string")),
        "topic": lambda: F.explode_outer("topics"),
        "bucket": lambda: bucket("time", ask),
    }
    for name in ask.by:
        if name in derived:
            exchanges = exchanges.withColumn(name, derived[name]())
    return exchanges


# --- expressions that several tables use -----------------------------------------------------------------------------


def bucket(time: str, ask: Ask) -> Expression:
    """Start of the bucket that a time falls into, counted from the epoch."""
    from pyspark.sql import functions as F

    width = ask.bucket_us
    micros = F.unix_micros(F.col(time))
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(width)))


def sketch(value: Expression) -> Expression:
    """KLL sketch of a bigint expression; nulls do not count."""
    from pyspark.sql import functions as F

    return F.kll_sketch_agg_bigint(value, F.lit(SKETCH_K))


def quantiles(sketch_column: str, prefix: str, suffix: str = "_ns") -> list[Expression]:
    """p50 … p999 of a sketch; null where it saw no value."""
    from pyspark.sql import functions as F

    have = F.kll_sketch_get_n_bigint(sketch_column) > 0
    return [
        F.when(have, F.kll_sketch_get_quantile_bigint(sketch_column, F.lit(q))).alias(f"{prefix}{name}{suffix}")
        for q, name in zip(QUANTILES, QUANTILE_NAMES, strict=True)
    ]


def quantile_columns(prefix: str, what: str) -> tuple[Column, ...]:
    """Their documentation."""
    texts = ("median", "90 % are at most this", "99 % are at most this", "99.9 % are at most this")
    return tuple(
        Column(f"{prefix}{name}_ns", f"{what}: {text}", "ns") for name, text in zip(QUANTILE_NAMES, texts, strict=True)
    )


def listed(value: str | Expression) -> Expression:
    """The distinct texts of a group, sorted, at most LISTED."""
    from pyspark.sql import functions as F

    return F.slice(F.array_sort(F.collect_set(value)), 1, LISTED)
