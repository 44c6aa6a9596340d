"""What stops working with brokers of a later release."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.load import ROWS
from pipelines.report.section import Builder, Section
from pipelines.tables.upgrades import UPGRADES


def _build(page: Builder) -> Iterator[Html | None]:
    given, _ = page.analysis.first(UPGRADES.name, ROWS)
    yield page.aggregate(UPGRADES.name, [row for row in given if row["breaks_at"] is not None])


SECTION = Section(
    "upgrades",
    "Upgrades",
    "What clients send that brokers of a later release no longer understand.",
    _build,
)
