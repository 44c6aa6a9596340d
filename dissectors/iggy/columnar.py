"""Bodies of one layout, many at once: where the fields of each are, by column.

Every body has a cursor. A step reads a field of all bodies with a few numpy operations and moves the cursors behind it,
as the readers of field_types.py do for one. A body is `ok` where its layout reads it to its last byte. It is `unsure`
where only those readers can tell: a text that is not plain ASCII, options. Lists are not read by column, except of
numbers and of structs that have one size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from dissectors.arrow import Bools, Ints, Octets
from dissectors.iggy.field_types import CONSUMERS, STRATEGIES
from dissectors.iggy.layouts import BodyField, BodyLayout

_FLAGGED_BYTES = 5  # flagged32: a flag and a number that is there even if it means none
_STRATEGY_BYTES = 9
_WIDEST = 4096  # bytes of a text that is looked at by column

_KEPT = frozenset({"metadata_length", "partition_id", "group_id"})  # numbers that are looked at, besides counts

NUMBER, NAME = 1, 2  # kinds of identifiers


def numbers(octets: Octets, at: Ints, size: int) -> Ints:
    """The little-endian integers of 1, 2, 4 or 8 bytes at each index: unsigned, those of 8 bytes signed."""
    every: np.ndarray[tuple[int], np.dtype[np.integer]] = np.ndarray(
        (len(octets) - size + 1,), "<i8" if size == 8 else f"<u{size}", octets, 0, (1,)
    )
    return every[at].astype(np.int64, copy=False)


class Place(NamedTuple):
    """Where a field is in each body; it ends where it begins where it is absent."""

    at: Ints
    end: Ints


class BodyColumns:
    """What is in the bodies, a row each. The columns say nothing of rows that are not `ok`.

    No step asks whether its field fits: the cursors only ever move on, so a body that is too short shows at the end.
    """

    def __init__(self, octets: Octets, at: Ints, end: Ints) -> None:
        self.octets = octets
        self.last = len(octets) - 8  # nothing is read behind it
        self.end = end
        self.at = at  # the cursors
        self.ok: Bools = np.ones(len(at), bool)
        self.unsure: Bools = np.zeros(len(at), bool)
        self.places: dict[str, Place] = {}
        self.numbers: dict[str, Ints] = {}
        self.present: dict[str, Bools] = {}  # of fields that may be absent
        self.texts: list[tuple[Ints, Ints]] = []  # where texts begin, and how long they are

    def read(self, fields: tuple[BodyField, ...]) -> None:
        for field in fields:
            start = self.at
            if field.maybe:
                self._maybe(field)
            elif field.repeat:
                self.at = start + np.maximum(self.numbers[field.repeat], 0) * _size(field)
            elif field.fields:
                self.read(field.fields)
            elif size := _size(field):
                self._number(field, size)
            else:
                _READERS[field.type](self, field)
            self.places[field.name] = Place(start, self.at)

    def peek(self, at: Ints, size: int) -> Ints:
        """Numbers at some indices, which may be anywhere in rows that are given up."""
        return numbers(self.octets, np.minimum(at, self.last), size)

    def look_at_texts(self) -> None:
        """A text that is not plain ASCII, or very long, is left to its reader."""
        for start, size in self.texts:
            some = np.flatnonzero(self.ok & (size > 0))
            long = size[some] > _WIDEST
            self.unsure[some[long]] = True
            some = some[~long]
            of, at = spread(start[some], size[some])
            odd = (self.octets[at] - 1) > 126  # 0 becomes 255
            self.unsure[some[of[odd]]] = True
        self.texts.clear()

    # --- steps: each moves the cursors, and gives up the rows in which it does not fit ---

    def _skip(self, size: Ints | int) -> None:
        self.at = self.at + size

    def _number(self, field: BodyField, size: int) -> None:
        if field.only is not None or field.name in _KEPT or field.name.endswith("_count"):
            self.numbers[field.name] = self.peek(self.at, size)
        if field.only is not None:
            self.ok &= self.numbers[field.name] == field.only
        self._skip(size)

    def _maybe(self, field: BodyField) -> None:
        flag = self.peek(self.at, 1)
        self.ok &= flag <= 1
        before = self.at + 1
        rest = BodyColumns(self.octets, before, self.end)
        rest.read((field._replace(maybe=False),))
        there = flag == 1
        self.ok &= rest.ok | ~there
        self.unsure |= rest.unsure & there
        self.texts += ((start, np.where(there, size, 0)) for start, size in rest.texts)
        self.at = np.where(there, rest.at, before)
        self.present[field.name] = there

    def _secret(self, field: BodyField) -> None:
        self._skip(field.size)

    def _kind_and_size(self) -> tuple[Ints, Ints]:
        """Two bytes with which a value begins; the cursors move behind it."""
        both = self.peek(self.at, 2)
        size = both >> 8
        self._skip(2 + size)
        return both & 0xFF, size

    def _identifier(self, field: BodyField) -> None:
        start = self.at + 2
        kind, size = self._kind_and_size()
        named = (kind == NAME) & (size > 0)
        self.ok &= named | ((kind == NUMBER) & (size == 4))
        self.texts.append((start, np.where(named, size, 0)))

    def _consumer(self, field: BodyField) -> None:
        self._kind(field, len(CONSUMERS))
        self._identifier(field)

    def _consumer_id(self, field: BodyField) -> None:
        self._kind(field, len(CONSUMERS))
        self.numbers[field.name] = self.peek(self.at, 4)
        self._skip(4)

    def _kind(self, field: BodyField, most: int) -> None:
        kind = self.numbers[f"{field.name}.kind"] = self.peek(self.at, 1)
        self.ok &= (kind >= 1) & (kind <= most)
        self._skip(1)

    def _partitioning(self, field: BodyField) -> None:
        start = self.at + 2
        kind, size = self._kind_and_size()
        self.ok &= ((kind == 1) & (size == 0)) | ((kind == 2) & (size == 4)) | ((kind == 3) & (size > 0))
        self.numbers[field.name] = self.peek(start, 4)
        self.present[field.name] = kind == 2

    def _strategy(self, field: BodyField) -> None:
        kind = self.peek(self.at, 1)
        self.ok &= (kind >= 1) & (kind <= len(STRATEGIES))
        self._skip(_STRATEGY_BYTES)

    def _flagged(self, field: BodyField) -> None:
        flag = self.peek(self.at, 1)
        self.ok &= flag <= 1
        self.numbers[field.name] = self.peek(self.at + 1, 4)
        self.present[field.name] = flag == 1
        self._skip(_FLAGGED_BYTES)

    def _short_text(self, field: BodyField) -> None:
        self._sized_text(1)

    def _long_text(self, field: BodyField) -> None:
        self._sized_text(4)

    def _sized_text(self, width: int) -> None:
        size, start = self.peek(self.at, width), self.at + width
        self.at = start + size
        self.texts.append((start, size))

    def _short_secret(self, field: BodyField) -> None:
        self._skip(1 + self.peek(self.at, 1))

    def _sized(self, field: BodyField) -> None:
        width = 2 if field.type == "opaque16" else 4
        self._skip(width + self.peek(self.at, width))

    def _rest(self, field: BodyField) -> None:
        self.at = np.maximum(self.at, self.end)

    def _options(self, field: BodyField) -> None:
        if field.type == "options32":
            size = self.peek(self.at, 4)
            self.unsure |= size > 0
            self._skip(4 + size)
        else:
            self.unsure |= self.at < self.end
            self._rest(field)


def spread(start: Ints, size: Ints) -> tuple[Ints, Ints]:
    """(row, index) of every element of some ranges."""
    row = np.repeat(np.arange(len(size)), size)
    return row, np.arange(len(row)) + np.repeat(start - (np.cumsum(size) - size), size)


def read(layout: BodyLayout, octets: Octets, at: Ints, end: Ints) -> BodyColumns:
    """The bodies at `at`, as far as `layout` has fields; a run of messages follows at the cursors.

    PADDING octets must follow the last of them. The layout must be `walkable`.
    """
    found = BodyColumns(octets, at, end)
    found.read(layout.fields)
    found.ok &= found.at <= end if layout.run else found.at == end
    length = found.numbers.get("metadata_length")
    if length is not None:  # see layouts.metadata_fits
        found.ok &= found.at - at == 4 + length
    found.look_at_texts()
    found.unsure &= found.ok
    return found


@cache
def walkable(layout: BodyLayout) -> bool:
    """Whether bodies of this layout can be read by column."""
    return all(_walkable(field) for field in layout.fields)


def _walkable(field: BodyField) -> bool:
    if field.left:
        return False
    if field.repeat:
        return field.repeat != "*" and not field.maybe and _size(field) > 0
    if field.fields:
        return not field.maybe and all(map(_walkable, field.fields))
    return bool(field.fixed or field.only is not None or (field.maybe and _size(field)) or field.type in _READERS)


@cache
def _size(field: BodyField) -> int:
    """Bytes of one value where all have the same; else 0."""
    if field.fields:
        sizes = [_size(inner) if not (inner.maybe or inner.repeat or inner.left) else 0 for inner in field.fields]
        return sum(sizes) if all(sizes) else 0
    return field._replace(maybe=False, repeat="", left=False, only=None).fixed


_READERS: dict[str, Callable[[BodyColumns, BodyField], None]] = {
    "bytes32": BodyColumns._sized,
    "consumer": BodyColumns._consumer,
    "consumer_id": BodyColumns._consumer_id,
    "flagged32": BodyColumns._flagged,
    "identifier": BodyColumns._identifier,
    "opaque": BodyColumns._rest,
    "opaque16": BodyColumns._sized,
    "opaque32": BodyColumns._sized,
    "options": BodyColumns._options,
    "options32": BodyColumns._options,
    "packed": lambda body, field: body._skip(4),
    "partitioning": BodyColumns._partitioning,
    "secret": BodyColumns._secret,
    "secret8": BodyColumns._short_secret,
    "str32": BodyColumns._long_text,
    "str8": BodyColumns._short_text,
    "strategy": BodyColumns._strategy,
    "u128": lambda body, field: body._skip(16),
    "u64be": lambda body, field: body._skip(8),
}
"""The types of field_types.py that are read by column."""
