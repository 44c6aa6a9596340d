"""How far groups are behind the end of their partitions."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html | None]:
    yield page.aggregate("lag")


SECTION = Section("lag", "Lag of groups", "Messages that a group has yet to read, by partition and time.", _build)
