"""What TCP did, connection by connection."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section
from pipelines.tables import TABLES
from pipelines.tables.table import CONNECTION

_VERDICTS = (
    f"select {', '.join(CONNECTION)}, list(verdict order by verdict) as verdicts from verdict_touched group by all"
)


def _build(page: Builder) -> Iterator[Html | None]:
    headline = [*TABLES["health"].headline, "closed", "file", "packet"]
    verdicts = {tuple(row[name] for name in CONNECTION): row["verdicts"] for row in page.counted(_VERDICTS)}
    rows = [
        {**row, "verdicts": verdicts.get(tuple(row.get(name) for name in CONNECTION), [])}
        for row in page.analysis["health"]
    ]
    yield page.aggregate("health", rows, headline=headline)


SECTION = Section(
    "health",
    "Connections",
    "Connections",
    "Each connection: what TCP lost or retransmitted, and how much of the stream was decoded. The worst come first.",
    _build,
)
