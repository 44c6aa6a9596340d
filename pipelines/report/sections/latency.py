"""The table of durations."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.payload import ENOUGH_TEXT
from pipelines.report.section import Builder, Section, heading
from pipelines.tables.registry import TABLES


def _build(page: Builder) -> Iterator[Html | None]:
    rows = page.analysis["latency"]
    headline = [name for name in TABLES["latency"].headline if name != "long_poll"]
    if any(row["timed"] not in (None, row["count"]) for row in rows):
        headline.insert(headline.index("count") + 1, "timed")
    yield page.aggregate("latency", [row for row in rows if not row["long_poll"]], headline=headline)
    names = ("protocol", "api", "count", "errors", "total_p50_ns", "total_p99_ns", "total_max_ns")
    polls = page.aggregate("latency", [row for row in rows if row["long_poll"]], under="polls", headline=names)
    yield heading("Long polls: the broker was allowed to wait, and did", polls)


SECTION = Section(
    "latency",
    "Latency",
    "How long requests took. Total: from the first byte of the request to the last byte of the "
    "answer; wait: from the last byte of the request to the first byte of the answer. "
    "Long polls have a table of their own. Errors include those that are part of normal work. " + ENOUGH_TEXT,
    _build,
)
