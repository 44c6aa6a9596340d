"""What a job asks of whoever runs its tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs tasks: this machine's processes (`local`), or Spark (`pipelines.spark.executor`)."""

    @property
    def cores(self) -> int:
        """Tasks that run at once."""

    @property
    def split_bytes(self) -> int | None:
        """Bytes of captures that a task shall read, about; None where the user has no wish."""

    @property
    def parts(self) -> int | None:
        """Parts that connections shall be shared out to; None where the user has no wish."""

    def check(self, staging: str) -> None:
        """Raise BrokerscopeError where tasks cannot run, or write into a folder where this process cannot read."""

    def map(
        self, task: Callable[[Item], Result], items: Sequence[Item], described_as: str, size: int = 0
    ) -> list[Result]:
        """What a task makes of each item, in their order.

        The task, its items and its results are pickled. A task that fails may be run again elsewhere, and one that is
        slow a second time, so what it writes must have a name of its own each time. described_as: what users see of
        the job. size: bytes that the tasks read in all, about.
        """


def in_groups(
    executor: Executor,
    task: Callable[[Sequence[Item]], Sequence[Result]],
    items: Sequence[Item],
    most: int,
    described_as: str,
    size: int = 0,
) -> list[Result]:
    """What a task makes of each item, in their order; it is given up to `most` of them and gives a result for each."""
    groups = [items[n : n + most] for n in range(0, len(items), most)]
    return [result for results in executor.map(task, groups, described_as, size) for result in results]


def grouped(
    items: Iterable[Item], size_of: Callable[[Item], int], most: int, most_items: int = sys.maxsize
) -> list[list[Item]]:
    """Items, in their order, as groups for tasks: each of a size up to `most` in all, or of one item that is larger."""
    groups: list[list[Item]] = []
    held = 0
    for item in items:
        size = size_of(item)
        if not groups or held + size > most or len(groups[-1]) >= most_items:
            groups.append([])
            held = 0
        groups[-1].append(item)
        held += size
    return groups
