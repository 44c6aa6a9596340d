"""Walks over large captures, begun in this process while Spark starts on this machine: that is idle time else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from dissectors.limits import Limits
from pipelines.jobs.cutting import Survey, survey


class Surveys:
    """What is known of captures, or will be."""

    def __init__(self, split_bytes: int, walks: dict[str, Future[Survey]]) -> None:
        """split_bytes: of the parts that they are cut into."""
        self.split_bytes = split_bytes
        self._walks = walks

    def take(self, path: str) -> Survey | None:
        """The survey of a capture; None where its walk has not begun, and will not."""
        walk = self._walks.get(path)
        return None if walk is None or walk.cancel() else walk.result()


@contextmanager
def begun(paths: Sequence[str], split_bytes: int, limits: Limits) -> Iterator[Surveys]:
    """Walks over these captures, one after the other, as far as they come before the end of `with`."""
    over = Event()

    def go_on() -> None:
        if over.is_set():
            raise CancelledError

    pool = ThreadPoolExecutor(1)
    try:
        yield Surveys(split_bytes, {path: pool.submit(survey, path, split_bytes, limits, go_on) for path in paths})
    finally:
        over.set()
        pool.shutdown(wait=False, cancel_futures=True)
