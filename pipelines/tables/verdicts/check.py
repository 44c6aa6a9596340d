"""A check, and the rows without which it has nothing to say.

Most captures have nothing of what most checks look for. Whether they do is asked of all checks by one query
that counts, which costs less than a single check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipelines.sql.views import SomeRows
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.told import Told
from pipelines.tables.verdicts.verdict import Ruling

__all__ = ["Check", "SomeRows", "needs", "worth_asking"]


class Check(NamedTuple):
    """Makes verdicts of a capture that has some of these rows; of every capture where none are named."""

    verdicts: Callable[[Capture], Iterator[Ruling]]
    any_of: Sequence[SomeRows] = ()


def needs(*any_of: SomeRows) -> Callable[[Callable[[Capture], Iterator[Ruling]]], Check]:
    """Make a function a check: without rows of one of these kinds it is not called.

    Each condition must hold for every row that the function may make a verdict of.
    """
    return lambda verdicts: Check(verdicts, any_of)


def worth_asking(capture: Capture, checks: Sequence[Check | Told]) -> list[Check | Told]:
    """The checks for which there are rows, in their order."""
    met = capture.met([need for check in checks for need in check.any_of])
    return [check for check in checks if not check.any_of or not met.isdisjoint(check.any_of)]
