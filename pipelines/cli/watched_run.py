"""A run over captures with a progress bar, which is gone before the answer is written."""

from __future__ import annotations

from collections.abc import Sequence

from dissectors.engine import Batches
from dissectors.options import Options
from dissectors.run import Run
from pipelines.cli.progress import Bar


class WatchedRun(Run):
    """A run whose bar ends with its records, or earlier where rows go to the same terminal."""

    def __init__(self, captures: Sequence[str], options: Options, bar: Bar) -> None:
        super().__init__(captures, options, bar.update)
        self.bar = bar

    def records(self) -> Batches:
        """As Run.records."""
        yield from super().records()
        self.bar.end()
