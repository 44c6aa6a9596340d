"""From produce to consume."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html | None]:
    yield page.aggregate("delivery")


SECTION = Section(
    "delivery",
    "Delivery",
    "From the first byte of a produced batch to the first byte of the same batch on its way to a consumer.",
    _build,
)
