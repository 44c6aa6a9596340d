"""Columns that grow while frames are decoded, and columns of texts as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dissectors.arrow import Bools, Ints, Octets
from dissectors.coded import CodedValues
from dissectors.kafka.body_notes import Topic


class CodedTexts(CodedValues[Topic | None]):
    """Texts and topic ids; 0 is the number of null."""

    def __init__(self, buf: bytes, octets: Octets) -> None:
        super().__init__(buf, octets, lambda raw: raw.decode("utf-8", "backslashreplace"))
        self.code(None)

    @property
    def texts(self) -> list[str | None]:
        """The values, without the ids."""
        return [None if isinstance(value, bytes) else value for value in self.values]

    def topics(self, start: Ints, size: Ints, is_id: Bools) -> Ints:
        """The numbers of topics: names, ids, or null where there is neither."""
        codes = np.zeros(len(start), np.int64)
        for which, number in ((~is_id & (size > 0), self._code_of), (is_id, self.code)):
            codes[which] = self._numbers(start[which], size[which], number)
        return codes


class GrowingColumns:
    """Columns that grow, by arrays and by single rows; a frame has all of its rows from one of the two."""

    def __init__(self, width: int) -> None:
        self._arrays: list[list[Ints]] = [[np.zeros(0, np.int64)] for _ in range(width)]
        self._rows: list[tuple[int, ...]] = []

    def extend(self, *columns: Ints) -> None:
        for known, more in zip(self._arrays, columns, strict=True):
            known.append(more)

    def add(self, *row: int) -> None:
        self._rows.append(row)

    def by_frame(self) -> list[Ints]:
        """The columns in the order of the first, which says the frame, and in it as they were added."""
        if self._rows:
            self.extend(*np.array(self._rows, np.int64).T)
            self._rows = []
        columns = [np.concatenate(arrays) for arrays in self._arrays]
        order = np.argsort(columns[0], kind="stable")
        return [column[order] for column in columns]


def runs(*columns: Ints) -> list[Ints]:
    """The rows that are alike in all columns, together: their numbers, ascending."""
    order = np.lexsort(columns[::-1])
    differ = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns])
    return np.split(order, np.flatnonzero(differ) + 1) if len(order) else []


def last_alike(rows: Sequence[Ints], wanted: Sequence[Ints]) -> tuple[Ints, Bools]:
    """By wanted row: the number of the last of `rows`, of which there must be some, that is alike; whether one is."""
    n = len(rows[0])
    columns = [np.concatenate(pair) for pair in zip(rows, wanted, strict=True)]
    order = np.lexsort(columns[::-1])  # stable: of those alike, `rows` in their order, then those wanted
    differ = np.logical_or.reduce([np.diff(column[order], prepend=column[order[:1]] - 1) != 0 for column in columns])
    at = np.arange(len(order))
    newest = np.maximum.accumulate(np.where(order < n, at, -1))  # the last of `rows` so far
    begins = np.maximum.accumulate(np.where(differ, at, 0))
    found, there = np.empty_like(order), np.empty(len(order), bool)
    found[order], there[order] = np.where(newest >= begins, order[newest], 0), newest >= begins
    return found[n:], there[n:]
