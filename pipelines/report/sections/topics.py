"""Each topic: latency of the requests that name it, and the data that moved."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html]:
    if page.requests:
        yield page.view("topics")


SECTION = Section(
    "topics",
    "Topics",
    "Message data on the wire, and how fast requests that name the topic were answered; a request counts for each "
    "topic that it names.",
    _build,
)
