"""What brokers refused."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.session.protocols import error_meaning
from pipelines.report.elements import Html
from pipelines.report.load import Analysis, Row
from pipelines.report.section import Builder, Section
from pipelines.tables.registry import TABLES
from pipelines.tables.table import TableColumn


def with_expected(analysis: Analysis) -> list[Row]:
    """Rows of the table, each with whether it is part of normal work; tables of older versions do not say."""
    return [{**row, "expected": bool(row.get("expected"))} for row in analysis["errors"]]


_MEANING = TableColumn("meaning", "what the error says, in one line")


def _build(page: Builder) -> Iterator[Html | None]:
    rows = [
        {**row, "meaning": error_meaning(row["protocol"], row["code"], row["name"])}
        for row in with_expected(page.analysis)
    ]
    page.payload.meanings(rows)
    headline = [name for name in TABLES["errors"].headline if name != "expected"]
    headline.insert(headline.index("name") + 1, _MEANING.name)
    yield page.aggregate("errors", rows, headline=headline, added=[_MEANING], grey="expected")


SECTION = Section(
    "errors",
    "Errors",
    "Error codes in answers, most frequent first; each with what it says and the packet of the first one. Grey ones "
    "are part of normal work, as MEMBER_ID_REQUIRED at a first join.",
    _build,
)
