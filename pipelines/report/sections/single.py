"""Sections whose content is one of OUT/tables, or one picture that the script draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipelines.report.elements import Html
from pipelines.report.load import Row
from pipelines.report.section import Build, Builder
from pipelines.tables.registry import TABLES


def table(name: str, *more: str, rows: Callable[[list[Row]], list[Row]] | None = None, picture: str = "") -> Build:
    """One of OUT/tables. more: columns behind its headline; rows: which of its rows; picture: what is drawn above."""

    def build(page: Builder) -> Iterator[Html | None]:
        chosen = None if rows is None else rows(page.analysis[name])
        made = page.aggregate(name, chosen, headline=[*TABLES[name].headline, *more])
        if made and picture:
            yield page.view(picture)
        yield made

    return build


def picture(name: str, **options: str) -> Build:
    """What the script draws of requests and batches; a picture that has nothing to show disappears."""

    def build(page: Builder) -> Iterator[Html | None]:
        if page.requests:
            yield page.view(name, **options)

    return build
