"""A Spark application, as this package uses it: a context runs tasks, a session computes tables."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

MASTER = "spark.master"


class Application:
    """A running Spark.

    Plain tasks need no more than its context. A session costs Java a second of CPU, so a new one is made when it is
    first asked for. Spark Connect has a session and no context.
    """

    def __init__(self, context: SparkContext | None, session: SparkSession | None = None) -> None:
        """context: None of Connect, which needs a session."""
        self.context = context
        self._session = session

    @classmethod
    def of(cls, session: SparkSession) -> Application:
        """The application of a session, which may be one of Connect."""
        context = None
        with suppress(Exception):  # of several kinds: a session of Connect has no context
            context = session.sparkContext
        return cls(context, session)

    @property
    def session(self) -> SparkSession:
        """Its session."""
        if self._session is None:
            from pyspark.sql import SparkSession

            self._session = SparkSession.builder.getOrCreate()
        return self._session

    @property
    def settings(self) -> dict[str, str]:
        """All settings by name: those of the session where there is one, which may have changed since the start."""
        if self._session is not None:
            return dict(self._session.conf.getAll)
        assert self.context is not None
        return dict(self.context.getConf().getAll())

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine. Of a Connect server's nothing is known."""
        return self.context is not None and is_local(self.context.master or "")


def running() -> Application | None:
    """The application that runs in this process, if there is one."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        return Application.of(session)
    context = SparkContext._active_spark_context
    return None if context is None else Application(context)


def is_local(master: str) -> bool:
    """Whether a Spark master is this machine: `local`, `local[2]`, `local[*]`."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None
