"""What brokers refused."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.load import Analysis, Row
from pipelines.report.section import Builder, Section
from pipelines.tables import TABLES


def with_expected(analysis: Analysis) -> list[Row]:
    """Rows of the table, each with whether it is part of normal work; tables of older versions do not say."""
    return [{**row, "expected": bool(row.get("expected"))} for row in analysis["errors"]]


def _build(page: Builder) -> Iterator[Html | None]:
    headline = [name for name in TABLES["errors"].headline if name != "expected"]
    yield page.aggregate("errors", with_expected(page.analysis), headline=headline, grey="expected")


SECTION = Section(
    "errors",
    "Errors",
    "Error codes in answers, most frequent first; each with the packet of the first one. Grey ones are part of normal "
    "work, as MEMBER_ID_REQUIRED at a first join.",
    _build,
)
