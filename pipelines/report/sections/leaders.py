"""Who led each partition, and when that changed."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section
from pipelines.tables.leaders import LEADERS


def _build(page: Builder) -> Iterator[Html | None]:
    table = page.aggregate(LEADERS.name, headline=[*LEADERS.headline, "file", "packet"])
    if table:
        yield page.view("owners")
    yield table


SECTION = Section("leaders", "Owners of partitions", "Which broker led each partition, as answers told it.", _build)
