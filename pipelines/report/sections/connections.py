"""What TCP did, connection by connection."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section
from pipelines.tables.registry import TABLES


def _build(page: Builder) -> Iterator[Html | None]:
    headline = [*TABLES["health"].headline, "closed", "file", "packet"]
    yield page.aggregate("health", headline=headline)


SECTION = Section(
    "health",
    "Connections",
    "Each connection: what TCP lost or retransmitted, and how much of the stream was decoded. The worst come first.",
    _build,
)
