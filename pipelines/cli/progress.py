"""A progress bar on stderr, only on a terminal and only for work that takes a while."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

_PATIENCE = 0.5  # seconds before a bar appears
_STEP = 0.2


@contextlib.contextmanager
def shown(state: Callable[[], tuple[int, int]], *, quiet: bool, what: str = "reading") -> Iterator[None]:
    """Show `state()`, (done, total) in bytes, while the body runs."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    finished = threading.Event()
    watcher = threading.Thread(target=_watch, args=(state, finished, what), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join(timeout=2)


def _watch(state: Callable[[], tuple[int, int]], finished: threading.Event, what: str) -> None:
    if finished.wait(_PATIENCE):
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        while not finished.wait(_STEP):
            done, total = state()
            progress.update(task, completed=done, total=total or None)
