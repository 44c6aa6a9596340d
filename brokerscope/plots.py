"""What happened along time, as pictures: `cap.plot.latency(by="server", every="10s")`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from brokerscope.drawing import draw
from dissectors.errors import UsageError
from dissectors.wording import did_you_mean
from pipelines.answers import top as top_answers
from pipelines.answers.records import query
from pipelines.formats import units
from pipelines.tables.compute import WIDTHS_US
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import LAG
from pipelines.tables.table import RECORDS, Ask

By = Literal["topic", "client", "server", "broker", "api", "group", "connection"]
INTERVALS = 60  # that a picture has at most, where nobody says how long one is
LINES = 12  # labels that a picture has at most: those with most requests, or farthest behind
_MS, _SECOND = 1e6, 1e9


class Plots:
    """Pictures of one capture set: Axes of matplotlib, or a Chart of altair where only that is installed.

    by: what has a line of its own: topic, client, server (or broker), api, group, connection; the LINES with most
    requests are drawn. every: the length of an interval, as `10s`; without it, so long that INTERVALS are enough.
    Raises UsageError for what means nothing, MissingLibraryError where neither library is installed.
    """

    def __init__(self, tables: Callable[..., Mapping[str, pa.Table]]) -> None:
        """tables: gives record tables by their names."""
        self._tables = tables

    def latency(self, by: By = "api", every: str | None = None, of: Literal["p50", "p99", "max"] = "p99") -> Any:
        """The median, 99th percentile or largest duration of requests, in milliseconds; long polls are left out."""
        _refuse("of", of, ("p50", "p99", "max"))
        rows, _ = self._top(by, every)
        return draw(_lines(rows, lambda row: row[f"{of}_ns"], _MS), y=f"{of} (ms)", by=by, lines=True)

    def requests(self, by: By = "api", every: str | None = None) -> Any:
        """Requests per second."""
        rows, every_us = self._top(by, every)
        return draw(_lines(rows, lambda row: row["count"], every_us / 1e6), y="requests per second", by=by, lines=True)

    def errors(self, by: By = "api", every: str | None = None) -> Any:
        """Requests that failed or were not answered, in each interval."""
        rows, _ = self._top(by, every)
        return draw(_lines(rows, lambda row: row["errors"] + row["unanswered"], 1), y="failed", by=by, lines=True)

    def lag(
        self, group: str | None = None, every: str | None = None, of: Literal["messages", "age"] = "messages"
    ) -> Any:
        """How far groups are behind: in messages, or in the age (seconds) of the message that they read next."""
        _refuse("of", of, ("messages", "age"))
        tables = self._tables(*RECORDS)
        rows = query(
            tables, f"select * from ({LAG.query(DuckDB(), Ask(bucket_us=self._interval(every)))}) order by bucket"
        )
        if group is not None:
            _refuse("group", group, sorted({row["group"] for row in rows}))
        named = [
            {**row, "time": row["bucket"], "key": f"{row['group']}: {row['topic']} {_part(row['partition'])}".rstrip()}
            for row in rows
            if group in (None, row["group"])
        ]
        column, scale, y = ("messages", 1.0, "messages behind") if of == "messages" else ("lag_ns", _SECOND, "age (s)")
        series = _lines(named, lambda row: row[column], scale, lambda row: row["messages"] or 0)
        return draw(series, y=y, by="group and partition", lines=True)

    def _top(self, by: str, every: str | None) -> tuple[list[dict[str, Any]], int]:
        """Rows of `top` along time, and the length of an interval in µs."""
        _refuse("by", by, [name for name in top_answers.KEYS if name != "partition"])
        every_us = self._interval(every)
        return top_answers.top(self._tables(*top_answers.TABLES), by, "count", every_us), every_us

    def _interval(self, every: str | None) -> int:
        """The length of an interval in µs."""
        if every is not None:
            ns = units.nanoseconds(every)
            if ns is None or ns < 1000:
                raise UsageError(f"every: {every!r} is not a time such as 500ms, 10s, 1min")
            return ns // 1000
        tables = self._tables("exchanges")
        (row,) = query(tables, "select epoch_us(max(time)) - epoch_us(min(time)) as span from exchanges")
        return next((width for width in WIDTHS_US if width * INTERVALS >= (row["span"] or 0)), WIDTHS_US[-1])


def _lines(
    rows: Iterable[Mapping[str, Any]], value: Any, scale: float, weight: Any = lambda row: row["count"]
) -> dict[str, Sequence[tuple[Any, float]]]:
    """Points of each key, in order of time; of the LINES keys that weigh most."""
    series: dict[str, list[tuple[Any, float]]] = {}
    weights: dict[str, float] = {}
    for row in rows:
        if row["time"] is not None and value(row) is not None:
            series.setdefault(row["key"], []).append((row["time"], value(row) / scale))
            weights[row["key"]] = weights.get(row["key"], 0) + weight(row)
    return {key: series[key] for key in sorted(series, key=lambda key: (-weights[key], key))[:LINES]}


def _part(partition: int | None) -> str:
    return "" if partition is None else f"[{partition}]"


def _refuse(name: str, value: str, known: Sequence[str]) -> None:
    """Raise UsageError for a value that is not among the known ones."""
    if value not in known:
        raise UsageError(f"{name}: no {value!r}; {did_you_mean(value, known)}")
