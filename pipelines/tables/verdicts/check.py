"""A check, and the rows without which it has nothing to say.

Most captures have nothing of what most checks look for. Whether they do is asked of all checks by one query
that counts, which costs less than a single check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.verdict import Ruling


class SomeRows(NamedTuple):
    """A minimum number of rows that fulfil a condition."""

    view: str  # a record table, or a view of `capture.py`
    where: str  # a condition on its rows
    least: int = 1


class Check(NamedTuple):
    """Makes verdicts of a capture that has some of these rows; of every capture where none are named."""

    verdicts: Callable[[Capture], Iterator[Ruling]]
    any_of: Sequence[SomeRows] = ()


def needs(*any_of: SomeRows) -> Callable[[Callable[[Capture], Iterator[Ruling]]], Check]:
    """Make a function a check: without rows of one of these kinds it is not called.

    Each condition must hold for every row that the function may make a verdict of.
    """
    return lambda verdicts: Check(verdicts, any_of)


def worth_asking(capture: Capture, checks: Sequence[Check]) -> list[Check]:
    """The checks for which there are rows, in their order."""
    columns = {rows: f"has_{number}" for number, rows in enumerate({rows for check in checks for rows in check.any_of})}
    counts: dict[str, list[str]] = {}
    for rows, name in columns.items():
        counts.setdefault(rows.view, []).append(f"count(*) filter ({rows.where}) >= {rows.least} as {name}")
    if not counts:
        return list(checks)
    views = ", ".join(f"(select {', '.join(counted)} from {view})" for view, counted in counts.items())
    (has,) = capture.rows(f"select * from {views}")
    return [check for check in checks if not check.any_of or any(has[columns[rows]] for rows in check.any_of)]
