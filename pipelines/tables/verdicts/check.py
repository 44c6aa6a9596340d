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
    one: str = "true"  # a condition that one of these rows at least fulfils, too


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
    needed = dict.fromkeys(need for check in checks for need in check.any_of)
    columns = {rows: f"has_{n}" for n, rows in enumerate(needed) if capture.may_have(rows.view)}
    counts: dict[str, list[str]] = {}
    for rows, name in columns.items():
        enough = f"count(*) filter ({rows.where}) >= {rows.least}"
        if rows.one != "true":
            enough += f" and count(*) filter ({rows.where} and {rows.one}) > 0"
        counts.setdefault(rows.view, []).append(f"{enough} as {name}")
    views = [f"(select {', '.join(counted)} from {view})" for view, counted in counts.items()]
    # of one row each, joined so that no order of joins is planned
    has = capture.rows(f"select * from {' positional join '.join(views)}")[0] if views else {}
    met = {rows for rows, name in columns.items() if has[name]}
    return [check for check in checks if not check.any_of or not met.isdisjoint(check.any_of)]
