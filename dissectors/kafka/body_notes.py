"""Notes that the walk over a body (walk.py) takes: places and numbers, in arrays that grow and are used again.

    array         one row for each    its columns
    named         topic               NAME_AT, NAME_SIZE, ID_AT (-1: no id), LISTED among the topics of the message
    record_sets   record set          SET_TOPIC, SET_PARTITION, SET_AT, SET_SIZE
    errors        error               CODE, FAULT_TOPIC, FAULT_PARTITION, SCOPE, MESSAGE_AT, MESSAGE_SIZE
    placed        partition           PAIR_TOPIC, PAIR_PARTITION, NUMBER, PAIR_KIND (BARE, NUMBERED, FORGOTTEN)
    kept          value, by place     a number and 0, or where a text is and its size; the place is that in words.VALUES

…_AT is an index into `data`, …_TOPIC a row of `named` or -1. ABSENT stands for what the body does not say.
Noting makes no Python object. The properties make the values that rows are written from, when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cython

from dissectors.kafka.plan import GROUP, KEY_TYPE
from dissectors.kafka.words import NO_MESSAGE, VALUES, MessageWords
from dissectors.wire.arrays import Numbers, grid

if not cython.compiled:
    from dissectors.kafka.words import FORGOTTEN, NUMBERED, VALUE_COUNT
    from dissectors.rows.layout import ABSENT

    NAME_AT, NAME_SIZE, ID_AT, LISTED = 0, 1, 2, 3
    SET_TOPIC, SET_PARTITION, SET_AT, SET_SIZE = 0, 1, 2, 3
    CODE, FAULT_TOPIC, FAULT_PARTITION, SCOPE, MESSAGE_AT, MESSAGE_SIZE = 0, 1, 2, 3, 4, 5
    PAIR_TOPIC, PAIR_PARTITION, NUMBER, PAIR_KIND = 0, 1, 2, 3

Topic = str | bytes
"""A topic's name, or its id (16 bytes)."""

_FIRST_ROWS, _MOST_ROWS = 16, 1 << 14
"""Rows of a new grid, and beyond how many it does not outlive its body."""


class RecordSet(NamedTuple):
    """Where a partition's records lie."""

    topic: Topic | None
    partition: int
    start: int  # index into the buffer
    size: int


class Fault(NamedTuple):
    """One error code."""

    code: int
    scope: str  # what it is about: request, topic, partition, group …
    topic: Topic | None
    partition: int | None
    message: str | None


class NoteRows:
    """Rows of int64 that are noted one after the other."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.count = 0
        self.cells: Numbers = grid(_FIRST_ROWS, width)

    def add(self) -> cython.Py_ssize_t:
        """A new row: its index. Its cells hold what was there before."""
        i: cython.Py_ssize_t = self.count
        if i == self.cells.shape[0]:
            self._grow()
        self.count = i + 1
        return i

    def clear(self) -> None:
        """Forget all rows."""
        self.count = 0
        if self.cells.shape[0] > _MOST_ROWS:
            self.cells = grid(_FIRST_ROWS, self.width)

    def _grow(self) -> None:
        """Double the room."""
        old = self.cells
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        self.cells = grid(2 * old.shape[0], self.width)
        for i in range(self.count):
            for k in range(self.width):
                self.cells[i, k] = old[i, k]


class BodyNotes:
    """The notes of one body, valid until the next walk; what the properties gave stays."""

    def __init__(self) -> None:
        self.whole = False  # the body was read to its end
        self.partitions = 0  # how many partitions the body names
        self.throttle = 0  # ms
        self.groups = 0  # names of groups that were read
        self.named = NoteRows(4)
        self.record_sets = NoteRows(4)
        self.errors = NoteRows(6)
        self.placed = NoteRows(4)
        self.kept: Numbers = grid(VALUE_COUNT, 2)
        for place in range(VALUE_COUNT):
            self.kept[place, 1] = ABSENT
        self.data: bytes = b""
        self.message = NO_MESSAGE
        self._topics: list[Topic] | None = None
        self._sets: list[RecordSet] | None = None
        self._faults: list[Fault] | None = None
        self._values: dict[str, Any] | None = None

    def begin(self, data: bytes, message: MessageWords) -> None:
        """Forget the body before; the next one lies in `data`."""
        place: cython.Py_ssize_t
        for place in self.message.values:
            self.kept[place, 1] = ABSENT
        self.data = data
        self.message = message
        self.whole = False
        self.partitions = self.groups = 0
        self.throttle = ABSENT
        self.named.clear()
        self.record_sets.clear()
        self.errors.clear()
        self.placed.clear()
        self._topics = self._sets = self._faults = self._values = None

    @property
    def throttle_ms(self) -> int | None:
        """How long the broker delayed the answer; None where it does not say."""
        return None if self.throttle == ABSENT else self.throttle

    @property
    def topics(self) -> Sequence[Topic]:
        """The topics of the body, as it names them."""
        if self._topics is None:
            listed = [self._topic(i) for i in range(self.named.count) if self.named.cells[i, LISTED]]
            self._topics = [topic for topic in listed if topic is not None]
        return self._topics

    @property
    def names(self) -> Sequence[tuple[bytes, str]]:
        """(topic id, name), where the body gives both."""
        cells = self.named.cells
        both = [i for i in range(self.named.count) if cells[i, ID_AT] >= 0 and cells[i, NAME_SIZE] > 0]
        return [(self._id(i), self._text(cells[i, NAME_AT], cells[i, NAME_SIZE])) for i in both]

    @property
    def sets(self) -> Sequence[RecordSet]:
        """The record sets that are not empty, in wire order."""
        if self._sets is None:
            cells = self.record_sets.cells
            self._sets = [
                RecordSet(
                    self._topic(cells[i, SET_TOPIC]),
                    cells[i, SET_PARTITION],
                    cells[i, SET_AT],
                    cells[i, SET_SIZE],
                )
                for i in range(self.record_sets.count)
            ]
        return self._sets

    @property
    def faults(self) -> Sequence[Fault]:
        """The errors, in wire order."""
        if self._faults is None:
            cells = self.errors.cells
            self._faults = [
                Fault(
                    cells[i, CODE],
                    self.message.scopes[cells[i, SCOPE]],
                    self._topic(cells[i, FAULT_TOPIC]),
                    _present(cells[i, FAULT_PARTITION]),
                    self._text(cells[i, MESSAGE_AT], cells[i, MESSAGE_SIZE]) if cells[i, MESSAGE_SIZE] > 0 else None,
                )
                for i in range(self.errors.count)
            ]
        return self._faults

    @property
    def pairs(self) -> Sequence[tuple[Any, ...]]:
        """(topic, partition), of some messages with a number (plan.PAIRED): the offset to fetch, or of a batch."""
        return self._pairs(forgotten=False)

    @property
    def forgotten(self) -> Sequence[tuple[Any, ...]]:
        """(topic, partition) of what leaves a fetch session."""
        return self._pairs(forgotten=True)

    @property
    def values(self) -> Mapping[str, Any]:
        """Single fields (words.VALUES) that this version has; None where they are null or were not reached.

        The group is there if the body names only one, and names it as a group.
        """
        if self._values is None:
            self._values = {VALUES[place]: self._value(place) for place in self.message.values}
            if self.groups and (not self.whole or self.groups > 1 or self._values.get(KEY_TYPE, 0) != 0):
                self._values[GROUP] = None
        return self._values

    def _value(self, place: cython.Py_ssize_t) -> int | str | None:
        number: cython.longlong = self.kept[place, 0]
        size: cython.longlong = self.kept[place, 1]
        if size == ABSENT:
            return None
        if not self.message.values[place]:
            return number
        return None if size < 0 else self._text(number, size)

    def _pairs(self, forgotten: cython.bint) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for i in range(self.placed.count):
            topic, partition = self._topic(self.placed.cells[i, PAIR_TOPIC]), self.placed.cells[i, PAIR_PARTITION]
            kind = self.placed.cells[i, PAIR_KIND]
            if (kind == FORGOTTEN) == forgotten:
                number = self.placed.cells[i, NUMBER]
                found.append((topic, partition, number) if kind == NUMBERED else (topic, partition))
        return found

    def _topic(self, i: cython.Py_ssize_t) -> Topic | None:
        """The topic in a row of `named`."""
        if i < 0:
            return None
        size = self.named.cells[i, NAME_SIZE]
        return self._text(self.named.cells[i, NAME_AT], size) if size > 0 else self._id(i)

    def _id(self, i: cython.Py_ssize_t) -> bytes:
        at = self.named.cells[i, ID_AT]
        return self.data[at : at + 16]

    def _text(self, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> str:
        return self.data[at : at + size].decode("utf-8", "backslashreplace")


def _present(number: cython.longlong) -> int | None:
    return None if number == ABSENT else number
