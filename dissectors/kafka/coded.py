"""Columns that grow while frames are decoded, and columns of texts as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dissectors.arrow import Bools, Ints, Octets
from dissectors.frame_columns import PADDING
from dissectors.kafka.body_summary import Topic

_FEW = 64  # fewer texts are as quick one by one
_SWEEPS = 16  # distinct texts that are looked for among all rows


class CodedTexts:
    """Distinct texts and topic ids, each with a number; columns hold the numbers."""

    def __init__(self, buf: bytes, octets: Octets) -> None:
        self.values: list[Topic | None] = []
        self._buf = buf
        self._octets = octets
        self._codes: dict[Topic | None, int] = {}
        self._of_bytes: dict[bytes, int] = {}

    def code(self, value: Topic | None) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    @property
    def texts(self) -> list[str | None]:
        """The values, without the ids."""
        return [None if isinstance(value, bytes) else value for value in self.values]

    def at(self, start: Ints, size: Ints) -> Ints:
        """The numbers of the texts that stand at some indices; a negative size is null."""
        return self._numbers(start, size, self._text)

    def topics(self, start: Ints, size: Ints, is_id: Bools) -> Ints:
        """The numbers of topics: names, ids, or null where there is neither."""
        codes = np.full(len(start), self.code(None))
        for which, number in ((~is_id & (size > 0), self._text), (is_id, self.code)):
            codes[which] = self._numbers(start[which], size[which], number)
        return codes

    def _numbers(self, start: Ints, size: Ints, number: Callable[[bytes], int]) -> Ints:
        """The numbers that `number` gives to the bytes at some indices."""
        codes = np.zeros(len(start), np.int64)
        rest = np.arange(len(start))
        if len(rest) >= _FEW and size.max() <= PADDING:
            rest = self._sweep(start, size, codes, number)
        ends = (start + size)[rest]
        for i, a, b in zip(rest.tolist(), start[rest].tolist(), ends.tolist(), strict=True):
            codes[i] = self._one(a, b, number)
        return codes

    def _sweep(self, start: Ints, size: Ints, codes: Ints, number: Callable[[bytes], int]) -> Ints:
        """Number the bytes that many rows have: one is compared with all others. The rows that are left."""
        width = -(-max(int(size.max()), 1) // 8) * 8
        every = np.ndarray((len(self._octets) - width + 1, width), np.uint8, self._octets, 0, (1, 1))
        octets = every[np.minimum(start, len(every) - 1)]  # the cursors of rows that are given up may be anywhere
        octets[np.arange(width) >= size[:, None]] = 0
        words = octets.view(np.uint64)
        rest = np.arange(len(start))
        for _ in range(_SWEEPS):
            if len(rest) < _FEW:
                break
            first = rest[0]
            same = size[rest] == size[first]
            for word in words.T:
                same &= word[rest] == word[first]
            codes[rest[same]] = self._one(int(start[first]), int(start[first] + size[first]), number)
            rest = rest[~same]
        return rest

    def _one(self, start: int, end: int, number: Callable[[bytes], int]) -> int:
        return number(self._buf[start:end]) if start <= end else self.code(None)

    def _text(self, raw: bytes) -> int:
        code = self._of_bytes.get(raw)
        if code is None:
            code = self._of_bytes[raw] = self.code(raw.decode("utf-8", "backslashreplace"))
        return code


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
