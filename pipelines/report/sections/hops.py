"""The same exchange at two capture points: what the network between them costs."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html | None]:
    yield page.aggregate("hops")


SECTION = Section(
    "hops",
    "Hops",
    "Exchanges that two capture points saw: how long they took at each, and what the network and the stacks between "
    "the two cost.",
    _build,
)
