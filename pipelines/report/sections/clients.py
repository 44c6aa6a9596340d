"""Who uses what."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html | None]:
    yield page.aggregate("clients")


SECTION = Section(
    "clients",
    "Clients",
    "Who uses which API, in which versions, with what software.",
    _build,
)
