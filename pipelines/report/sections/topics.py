"""Each topic: latency of the requests that name it, and the bytes that moved."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section

ROLES = ("produce", "consume", "replicate")


def _build(page: Builder) -> Iterator[Html]:
    if page.has("data_time"):
        for role in ROLES:
            yield page.view("data_time", role=role)
    if page.has("topic") or page.has("topic_role"):
        yield page.view("topics")


SECTION = Section(
    "topics",
    "Topics",
    "Topics",
    "Message data on the wire, and how fast requests that name the topic were answered; a request counts for each "
    "topic that it names.",
    _build,
)
