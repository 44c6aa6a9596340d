"""How far groups are behind the end of their partitions."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section, columns_of

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


def _build(page: Builder) -> Iterator[Html | None]:
    table = page.aggregate("lag")
    if table:
        columns = columns_of("lag", ("protocol", "group", "topic", "partition", "bucket", "messages", "lag_ns"))
        page.table("lag_lines", columns, page.tables(_LINES), limit=LINES * POINTS)
        yield page.view("lag")
    yield table


SECTION = Section(
    "lag", "Lag of groups", "Messages that a group has yet to read, and how old the next one is, along time.", _build
)
