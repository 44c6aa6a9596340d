"""Requests, durations and errors along time."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _build(page: Builder) -> Iterator[Html]:
    if page.has("requests_time"):
        yield page.view("axis")
        yield page.view("requests_time")
        yield page.view("durations_time")
        yield page.view("errors_time")


SECTION = Section("time", "Along time", "Along time", "", _build)
