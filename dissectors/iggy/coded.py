"""Identifiers of many bodies as numbers: each distinct one is read once."""

from __future__ import annotations

import numpy as np

from dissectors.arrow import Ints, Octets
from dissectors.frame_columns import PADDING
from dissectors.iggy.field_types import identifier
from dissectors.iggy.names import Identifier

_WORDS = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(29)


class IdentifierCodes:
    """Distinct identifiers as texts, and pairs of them as they are, each with a number."""

    def __init__(self, buf: bytes, octets: Octets) -> None:
        self.values: list[str] = []
        self.pair_values: list[tuple[Identifier, Identifier]] = []
        self._buf = buf
        self._octets = octets
        self._codes: dict[str, int] = {}
        self._pair_codes: dict[tuple[Identifier, Identifier], int] = {}

    def identifiers(self, at: Ints, size: Ints) -> Ints:
        """The numbers of identifiers: of their names, or their numbers in decimals."""
        codes, ranges = self._distinct(at, size)
        return np.array([self.code(str(identifier(self._buf, a, b)[0])) for a, b in ranges], np.int64)[codes]

    def numbers(self, numbers: Ints) -> Ints:
        """The numbers of identifiers that are numbers themselves."""
        values, codes = np.unique(numbers, return_inverse=True)
        return np.array([self.code(str(value)) for value in values.tolist()], np.int64)[codes]

    def pairs(self, at: Ints, size: Ints) -> Ints:
        """The numbers of two identifiers, one behind the other."""
        codes, ranges = self._distinct(at, size)
        numbers = []
        for a, b in ranges:
            first, middle = identifier(self._buf, a, b)
            pair = first, identifier(self._buf, middle, b)[0]
            number = self._pair_codes.setdefault(pair, len(self._pair_codes))
            if number == len(self.pair_values):
                self.pair_values.append(pair)
            numbers.append(number)
        return np.array(numbers, np.int64)[codes]

    def code(self, text: str) -> int:
        """The number of a text."""
        code = self._codes.setdefault(text, len(self._codes))
        if code == len(self.values):
            self.values.append(text)
        return code

    def _distinct(self, at: Ints, size: Ints) -> tuple[Ints, list[tuple[int, int]]]:
        """Which of the distinct ranges of bytes each is, and where these begin and end."""
        if not len(at):
            return at, []
        if size.max() > PADDING:
            return self._distinct_one_by_one(at, size)
        width = -(-int(size.max()) // 8) * 8
        every = np.ndarray((len(self._octets) - width + 1, width), np.uint8, self._octets, 0, (1, 1))
        octets = every[at]
        octets[np.arange(width) >= size[:, None]] = 0
        words = octets.view(np.uint64)
        mixed = size.astype(np.uint64)
        for word in words.T:
            mixed = (mixed ^ word) * _WORDS
            mixed ^= mixed >> _SPREAD
        _, first, codes = np.unique(mixed, return_index=True, return_inverse=True)
        if (words != words[first[codes]]).any() or (size != size[first[codes]]).any():
            return self._distinct_one_by_one(at, size)  # two that differ were mixed to the same
        return codes, list(zip(at[first].tolist(), (at + size)[first].tolist(), strict=True))

    def _distinct_one_by_one(self, at: Ints, size: Ints) -> tuple[Ints, list[tuple[int, int]]]:
        found: dict[bytes, int] = {}
        ranges: list[tuple[int, int]] = []
        codes: list[int] = []
        for a, b in zip(at.tolist(), (at + size).tolist(), strict=True):
            code = found.setdefault(self._buf[a:b], len(found))
            if code == len(ranges):
                ranges.append((a, b))
            codes.append(code)
        return np.array(codes, np.int64), ranges
