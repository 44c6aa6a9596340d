"""A run over captures with a progress bar, which is gone before the answer is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dissectors.engine import Batches
from dissectors.options import Options
from dissectors.run import Run
from pipelines.cli.progress import Bar

if TYPE_CHECKING:
    from pipelines.storage.record_cache import RowKeeper


class WatchedRun(Run):
    """A run whose bar ends with its records, or earlier where rows go to the same terminal."""

    def __init__(self, captures: Sequence[str], options: Options, bar: Bar) -> None:
        super().__init__(captures, options, bar.update)
        self.bar = bar
        self.keeper: RowKeeper | None = None  # keeps the rows for the next command

    @property
    def cut(self) -> int:
        """Packets that the captures' snap length had cut short."""
        return sum(reader.census.cut for reader in self.readers)

    def records(self) -> Batches:
        """Batches of rows with their tables, which are also kept for the next command where there is a keeper."""
        rows = super().records()
        yield from rows if self.keeper is None else self.keeper.of(rows)
        if self.keeper is not None:
            self.keeper.finish(self.problems, self.cut)
        self.bar.end()
