"""Sections whose content is tables of OUT/tables, or one picture that the script draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dissectors.session.protocols import error_meaning
from pipelines.report.elements import Html
from pipelines.report.load import Row
from pipelines.report.section import Build, Builder, columns_of, heading
from pipelines.tables.integrity import VERDICTS
from pipelines.tables.registry import TABLES
from pipelines.tables.table import TableColumn


def table(name: str, *more: str, rows: Callable[[list[Row]], list[Row]] | None = None, picture: str = "") -> Build:
    """One of OUT/tables. more: columns behind its headline; rows: which of its rows; picture: what is drawn above."""

    def build(page: Builder) -> Iterator[Html | None]:
        chosen = None if rows is None else rows(page.analysis[name])
        made = page.aggregate(name, chosen, headline=[*TABLES[name].headline, *more])
        if made and picture:
            yield page.view(picture)
        yield made

    return build


def picture(name: str, **options: str) -> Build:
    """What the script draws of requests and batches; a picture that has nothing to show disappears."""

    def build(page: Builder) -> Iterator[Html | None]:
        if page.requests:
            yield page.view(name, **options)

    return build


# --- how far groups are behind the end of their partitions ---

LINES = 48  # partitions of groups that are drawn, those farthest behind
POINTS = 200  # of each: more of them are thinned out to the worst of some buckets that lie beside each other

_OWNER = 'protocol, "group", topic, partition'
_LINES = f"""
    with steps as (
        select {_OWNER}, epoch_us(bucket) as bucket, messages, lag_ns, ntile({POINTS}) over (
            partition by {_OWNER} order by bucket) as place
        from lag
    ), points as (
        select {_OWNER}, max(bucket) as bucket, max(messages) as messages, max(lag_ns) as lag_ns
        from steps group by {_OWNER}, place
    )
    select * exclude (nth) from (
        select *, dense_rank() over (order by most desc nulls last, {_OWNER}) as nth
        from (select *, max(messages) over (partition by {_OWNER}) as most from points)
    ) where nth <= {LINES} order by {_OWNER}, bucket"""


def lag(page: Builder) -> Iterator[Html | None]:
    """Lines of those farthest behind, and the table."""
    table = page.aggregate("lag")
    if table:
        columns = columns_of("lag", ("protocol", "group", "topic", "partition", "bucket", "messages", "lag_ns"))
        page.table("lag_lines", columns, page.tables(_LINES), limit=LINES * POINTS)
        yield page.view("lag")
    yield table


# --- what brokers refused ---

_MEANING = TableColumn("meaning", "what the error says, in one line")


def errors(page: Builder) -> Iterator[Html | None]:
    """Each error with what it says; whether it is part of normal work, tables of older versions do not say."""
    rows = [
        {
            **row, "expected": bool(row.get("expected")),
            "meaning": error_meaning(row["protocol"], row["code"], row["name"]),
        }
        for row in page.analysis["errors"]
    ]  # fmt: skip
    page.payload.meanings(rows)
    headline = [name for name in TABLES["errors"].headline if name != "expected"]
    headline.insert(headline.index("name") + 1, _MEANING.name)
    yield page.aggregate("errors", rows, headline=headline, added=[_MEANING], grey="expected")


# --- durations ---


def latency(page: Builder) -> Iterator[Html | None]:
    """Requests, and apart from them long polls."""
    rows = page.analysis["latency"]
    headline = [name for name in TABLES["latency"].headline if name != "long_poll"]
    if any(row["timed"] not in (None, row["count"]) for row in rows):
        headline.insert(headline.index("count") + 1, "timed")
    yield page.aggregate("latency", [row for row in rows if not row["long_poll"]], headline=headline)
    names = ("protocol", "api", "count", "errors", "total_p50_ns", "total_p99_ns", "total_max_ns")
    polls = page.aggregate("latency", [row for row in rows if row["long_poll"]], under="polls", headline=names)
    yield heading("Long polls: the broker was allowed to wait, and did", polls)


# --- verdicts on checksums: by protocol as bars, by topic as a table ---

_VERDICTS = f"""
    select coalesce(protocol, '?') as protocol, coalesce(checksum_kind, 'none') as checksum_kind,
        {", ".join(f"sum({verdict})::bigint as {verdict}" for verdict in VERDICTS)}
    from integrity group by all order by protocol, checksum_kind"""


def integrity(page: Builder) -> Iterator[Any]:
    """Sums by protocol, the bad ones, and all by topic, client and hour."""
    rows = page.analysis["integrity"]
    totals = page.tables(_VERDICTS)
    if totals:
        page.payload.table("verdicts", columns_of("integrity", totals[0]), totals)
        yield page.view("checksums")
    yield heading("Checksums that do not hold", page.aggregate("corrupt"))
    worst = sorted(rows, key=lambda r: (-r["bad"], -r["unverifiable"], -r["batches"]))
    yield heading("By topic, client and hour", page.aggregate("integrity", worst))
