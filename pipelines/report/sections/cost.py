"""APIs by the time that brokers spent on them."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html]:
    if page.has("api"):
        yield page.view("cost")


SECTION = Section(
    "cost",
    "What costs most",
    "Cost",
    "Time that requests waited for their own answer, summed per API: the wait, less the time that a request stood "
    "behind others on its connection. Long polls, and JoinGroup and SyncGroup, which wait for other members, are not "
    "among them, but their errors are. Errors that are part of normal work are not counted.",
    _build,
)
