"""What became of whose work: each piece of it, as the head of the page and the lane `harm` of the band tell it."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section
from pipelines.tables.verdicts import IMPACTS


def _build(page: Builder) -> Iterator[Html | None]:
    yield page.aggregate(IMPACTS.name, headline=[*IMPACTS.headline, "healed"])


SECTION = Section(
    "impacts",
    "What became of work",
    "Batches, commits, positions and waiting, each for itself: lost, refused, skipped, doubled, stopped, unreachable, "
    "behind or late. The verdict of the kind `cause` says why.",
    _build,
)
