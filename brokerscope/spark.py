"""Captures as Spark DataFrames.

    from brokerscope import spark as captures

    spark = captures.session()
    cap = captures.read(spark, "captures/", since="2026-01-31T08:00")
    cap.exchanges.groupBy("api").count().show()
    cap.verdicts.select("severity", "sentence").show()

Tables are those of `spark.read.format("brokerscope")`, which works in any session whose Python has brokerscope.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "brokerscope"


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, else a new one, with a Java of brokerscope's own where the machine has none.

    master: any Spark master, or sc://… for Spark Connect; `local[*]` by default. conf: settings.
    """
    from pipelines.spark.session import start

    return start(master, conf=conf)


def register(spark: SparkSession) -> None:
    """Make `format("brokerscope")` and `format("pcap")` work in a session.

    Raises BrokerscopeError, which says what to set, where the Python of the session cannot import brokerscope.
    """
    from pipelines.sources.register import register as registered

    registered(spark)


def read(spark: SparkSession, paths: str | os.PathLike[str] | Sequence[str], **options: Any) -> SparkCapture:
    """Captures of a session: files, folders, globs and URLs. Nothing is decoded before a table is used.

    options: those of `format("brokerscope")` but `table`, as Python values: lists of names, dicts, True. Raises what
    Spark raises for an option or a path that is not there, once a table is asked for.
    """
    every = [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
    return SparkCapture(spark, every, {name: as_text(value) for name, value in options.items()})


def decode(
    frame: DataFrame, table: str = "exchanges", *, content: str = "content", path: str | None = "path", **options: Any
) -> DataFrame:
    """The rows of a record table, of a DataFrame with a whole capture in each row: spark.read.format("binaryFile").

    content: the column of captures. path: that of their names, or None. options: those of `format("brokerscope")` that
    say how captures are decoded and which rows are wanted. A connection that reaches over two rows is two connections.
    Raises UsageError for an option that means nothing.
    """
    from pipelines.sources.contents import decode as decoded

    return decoded(frame, content, path, {"table": table, **{name: as_text(value) for name, value in options.items()}})


def as_text(value: Any) -> str:
    """A value of Python as Spark's options have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(map(str, value))
    return str(value)


class SparkCapture:
    """Captures whose tables are DataFrames: `cap.exchanges`, `cap.latency`, `cap.verdicts`, `cap.table("t_errors")`."""

    def __init__(self, spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]) -> None:
        self.paths = list(paths)
        self._spark = spark
        self._options = dict(options)

    def table(self, name: str) -> DataFrame:
        """A record table, an aggregate table or `verdicts`. Raises UsageError where there is no such table."""
        from pipelines.sources.columns import aggregate

        aggregate(name)
        return self._spark.read.format(FORMAT).options(**self._options, table=name).load(self.paths)

    def __getattr__(self, name: str) -> DataFrame:
        from pipelines.sources.columns import names_of_tables

        if name.startswith("_") or name not in names_of_tables():
            raise AttributeError(f"no table {name!r}; there are {', '.join(names_of_tables())}")
        return self.table(name)

    def __dir__(self) -> list[str]:
        from pipelines.sources.columns import names_of_tables

        return [*super().__dir__(), *names_of_tables()]

    def __repr__(self) -> str:
        return f"<captures of {', '.join(self.paths)}>"


__all__ = ["SparkCapture", "decode", "read", "register", "session"]
