"""APIs by the time that brokers spent on them."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html]:
    if page.requests:
        yield page.view("cost")


SECTION = Section(
    "cost",
    "What costs most",
    "Time that requests waited for their own answer: the wait, less the time that a request stood behind others on its "
    "connection. No long polls, JoinGroup or SyncGroup, which wait on purpose; errors of normal work do not count.",
    _build,
)
