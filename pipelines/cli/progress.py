"""A progress bar on stderr, only on a terminal and only for work that takes a while."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from pipelines.cli import exits
from pipelines.formats import units

_PATIENCE = 0.5  # seconds before a bar appears
_STEP = 0.2


class Bar:
    """Bytes read of the captures, with the time that is left. `with bar:` shows it.

    `update` and `stage` may be called at any time; after a stage in which nothing is read, the bar only moves.
    """

    def __init__(self, *, quiet: bool, what: str = "reading") -> None:
        self.total: Sequence[str] = ()  # the files
        self._what = what
        self._done = 0
        self._finished = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._wanted = not quiet and sys.stderr is not None and sys.stderr.isatty()  # None where it was closed

    def update(self, done: int) -> None:
        """Bytes read so far."""
        self._done = done

    def stage(self, what: str) -> None:
        """Name the step that begins."""
        self._what = what
        self._done = 0

    def __enter__(self) -> Bar:
        if self._wanted:
            self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end()
        if kind is not None and not issubclass(kind, Exception) and self._done:  # the command is being stopped
            exits.reached(self._how_far())

    def _how_far(self) -> str:
        """How much was read, in words."""
        size = total_size(self.total)
        of_all = "" if size is None else f" of {units.size(size)}"
        return f"after reading {units.size(self._done)}{of_all}"

    def end(self) -> None:
        """Take the bar away."""
        self._finished.set()
        if self._wanted:
            self._watcher.join(timeout=2)

    def _watch(self) -> None:
        if self._finished.wait(_PATIENCE):
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.progress import TransferSpeedColumn as SpeedColumn

        columns = (
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), SpeedColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        # what is printed to stdout meanwhile stays there
        with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
            shown, task = self._what, progress.add_task(self._what, total=None)
            size = total_size(self.total)
            while not self._finished.wait(_STEP):
                if shown != self._what:
                    progress.remove_task(task)
                    shown, task = self._what, progress.add_task(self._what, total=None)
                if self._done:
                    progress.update(task, completed=self._done, total=size)


def total_size(files: Sequence[str]) -> int | None:
    """Bytes of all files; None where one has no size, as a pipe or a URL."""
    total = 0
    for file in files:
        size = None
        with contextlib.suppress(OSError):
            size = Path(file).stat().st_size
        if size is None:
            return None
        total += size
    return total or None
