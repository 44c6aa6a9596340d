"""Kinds of findings, the worst first."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html | None]:
    # `connection` is the first one's alone: a selection must not go by it
    rows = [{name: value for name, value in row.items() if name != "connection"} for row in page.analysis["findings"]]
    yield page.aggregate("findings", rows)


SECTION = Section(
    "findings",
    "Findings",
    "What a person should look at: each kind with the packet of its first one.",
    _build,
)
