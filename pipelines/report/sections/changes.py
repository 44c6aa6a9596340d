"""Who created, deleted or altered what."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section
from pipelines.tables.changes import CHANGES


def _build(page: Builder) -> Iterator[Html | None]:
    yield page.aggregate(CHANGES.name)


SECTION = Section(
    "changes",
    "Changes",
    "Who created, deleted or altered topics, configurations, rights, users, offsets and the like, and how the broker "
    "answered.",
    _build,
)
