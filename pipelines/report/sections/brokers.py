"""Each broker: how much it answered, and how fast."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.payload import ENOUGH_TEXT
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html]:
    if page.requests:
        yield page.view("brokers")


SECTION = Section(
    "brokers",
    "Brokers",
    "Who answered, and how fast. Service time is the wait for the answer, less the time behind other requests of the "
    f"same connection. {ENOUGH_TEXT}",
    _build,
)
