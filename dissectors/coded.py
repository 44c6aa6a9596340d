"""What stands at many places of a buffer, as numbers: each distinct value is read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from dissectors.arrow import Ints, Octets
from dissectors.frame_columns import PADDING

_FEW = 64  # fewer places are as quick one by one
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(29)
Value = TypeVar("Value")


class CodedValues(Generic[Value]):
    """Distinct values, each with a number; columns hold the numbers. `read` gives the value that bytes stand for."""

    def __init__(self, buf: bytes, octets: Octets, read: Callable[[bytes], Value]) -> None:
        self.values: list[Value] = []
        self._buf = buf
        self._octets = octets
        self._read = read
        self._codes: dict[Value, int] = {}
        self._of_bytes: dict[bytes, int] = {}

    def code(self, value: Value) -> int:
        """The number of a value."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def at(self, start: Ints, size: Ints) -> Ints:
        """The numbers of the values at some places; 0 where a size is negative."""
        return self._numbers(start, size, self._code_of)

    def _code_of(self, raw: bytes) -> int:
        code = self._of_bytes.get(raw)
        if code is None:
            code = self._of_bytes[raw] = self.code(self._read(raw))
        return code

    def _numbers(self, start: Ints, size: Ints, number: Callable[[bytes], int]) -> Ints:
        """The numbers that `number` gives to the bytes at some places."""
        first = which = np.arange(len(start))
        if len(start) >= _FEW and size.max() <= PADDING:
            first, which = self._distinct(start, size)
        each = zip(start[first].tolist(), (start + size)[first].tolist(), strict=True)
        return np.array([number(self._buf[a:b]) if a <= b else 0 for a, b in each], np.int64)[which]

    def _distinct(self, start: Ints, size: Ints) -> tuple[Ints, Ints]:
        """The first of the places with each of the distinct bytes; by place: which of these it is."""
        width = -(-max(int(size.max()), 1) // 8) * 8
        every = np.ndarray((len(self._octets) - width + 1, width), np.uint8, self._octets, 0, (1, 1))
        octets = every[np.minimum(start, len(every) - 1)]  # the cursors of rows that are given up may be anywhere
        octets[np.arange(width) >= size[:, None]] = 0
        words = octets.view(np.uint64)
        if (size == size[0]).all() and (words == words[0]).all():  # as most often: nothing need be sorted
            return np.zeros(1, np.int64), np.zeros(len(start), np.int64)
        mixed = size.astype(np.uint64)
        for word in words.T:
            mixed = (mixed ^ word) * _FACTOR
            mixed ^= mixed >> _SPREAD
        _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
        same = first[which]
        if (words != words[same]).any() or (size != size[same]).any():
            first = which = np.arange(len(start))  # two that differ were mixed to the same
        return first, which
