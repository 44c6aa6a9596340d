"""A change of a lake by something other than an update: prepared beside it, committed in one step or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dissectors.errors import UsageError
from pipelines.storage import filesystem, lake_files
from pipelines.storage.lake_files import Commit, Manifest, Staged


@dataclass
class Change:
    """What a lake holds, and where its next commit is prepared."""

    before: Commit
    after: Manifest  # to be changed
    files: Staged
    _lake: str
    _staging: str  # the name of its folder, below the lake

    def commit(self) -> None:
        """Make the lake what `after` says."""
        lake_files.commit(self._lake, self._staging, self.before, self.after)


@contextmanager
def changing(lake: str) -> Iterator[Change]:
    """Lock a lake while the block prepares a change of it. Without a call of `commit` the lake stays as it was.

    Raises UsageError where there is no lake, BrokerscopeError where another run changes it or it is damaged.
    """
    lake = filesystem.absolute(lake)
    if lake_files.last(lake) is None:
        raise UsageError(f"{lake}: is no store that `brokerscope analyze --update` keeps")
    with lake_files.locked(lake):
        before = lake_files.last(lake)
        assert before is not None
        if not before.manifest.is_flat:
            raise UsageError(f"{lake}: was written by an earlier release; run `brokerscope analyze --update` first")
        lake_files.clean(lake, before)
        before.manifest.format = lake_files.FORMAT
        with lake_files.staging(lake) as name:
            yield Change(before, before.manifest, Staged(before, filesystem.join(lake, name)), lake, name)
