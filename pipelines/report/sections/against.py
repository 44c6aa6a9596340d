"""What changed from an earlier OUT: `report OUT --against OUT2`."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html, join, tag
from pipelines.report.section import Builder, Section
from pipelines.tables.table import TableColumn

NAMED = 12  # names of a kind that are listed before they are counted
COLUMNS = (
    TableColumn("protocol", "kafka, pulsar or iggy"),
    TableColumn("api", "API"),
    TableColumn("verdict", "what changed, as `brokerscope diff` says it"),
    TableColumn("also", "what else changed", "list"),
    TableColumn("before_count", "exchanges before", "count"),
    TableColumn("after_count", "exchanges here", "count"),
    TableColumn("before_p50_ns", "median of the total time before", "ns"),
    TableColumn("after_p50_ns", "median here", "ns"),
    TableColumn("before_p99_ns", "99th percentile before", "ns"),
    TableColumn("after_p99_ns", "99th percentile here", "ns"),
    TableColumn("before_errors", "errors before", "count"),
    TableColumn("after_errors", "errors here", "count"),
)
PART_COLUMNS = (TableColumn("part", "topic, server or client"), TableColumn("name", "its name"), *COLUMNS)


def _build(page: Builder) -> Iterator[Html | None]:
    found = page.analysis.against
    if found is None:
        return
    yield tag("p", f"Compared with {found.name}.")
    yield page.table("against", COLUMNS, found.apis)
    if found.parts:
        yield tag("p", "Topics, servers and clients that changed where others did not:")
        yield page.table("against_parts", PART_COLUMNS, found.parts)
    for title, names in (("New", found.new), ("Gone", found.gone)):
        for kind, every in names.items():
            if every:
                more = f" and {len(every) - NAMED:,} more" if len(every) > NAMED else ""
                yield join([tag("p", f"{title} {kind}s: {', '.join(every[:NAMED])}{more}")])


SECTION = Section(
    "against",
    "Changed",
    "What became slower, what fails more, what is new and what is gone, beyond chance; long polls are left out.",
    _build,
)
