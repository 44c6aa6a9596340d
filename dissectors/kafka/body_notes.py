"""Notes that the walk over a body (walk.py) takes: places and numbers, in arrays that grow and are used again.

    array         one row for each    its columns
    named         topic               NAME_AT, NAME_SIZE, ID_AT (-1: no id), LISTED among the topics of the message
    record_sets   record set          SET_TOPIC, SET_PARTITION, SET_AT, SET_SIZE
    errors        error               CODE, FAULT_TOPIC, FAULT_PARTITION, SCOPE, MESSAGE_AT, MESSAGE_SIZE
    placed        partition           PAIR_TOPIC, PAIR_PARTITION, NUMBER, PAIR_KIND (BARE, NUMBERED, FORGOTTEN)
    positions     position            AT_TOPIC, AT_PARTITION, WHAT (position_fields.py), STATED: the number, or where an
                                      array or a text lies, and ELEMENTS: how many it has
    kept          value, by place     a number and 0, or where a text is and its size; the place is that in words.VALUES

…_AT is an index into `data`, …_TOPIC a row of `named` or -1. ABSENT stands for what the body does not say.
Noting makes no Python object. Methods make the values that rows are written from, when they are asked for.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka.position_fields import HIGH_WATERMARK, LAST_STABLE
from dissectors.kafka.record_batch import RecordBatch
from dissectors.kafka.words import (
    FORGOTTEN,
    GROUP_NAME,
    GROUP_PLACE,
    KEY_TYPE_PLACE,
    NO_MESSAGE,
    NUMBERED,
    VALUE_COUNT,
    VALUES,
    MessageWords,
)
from dissectors.rows.layout import ABSENT
from dissectors.wire.arrays import Grid, grid
from dissectors.wire.memory import is_at, part

NAME_AT, NAME_SIZE, ID_AT, LISTED = 0, 1, 2, 3
SET_TOPIC, SET_PARTITION, SET_AT, SET_SIZE = 0, 1, 2, 3
CODE, FAULT_TOPIC, FAULT_PARTITION, SCOPE, MESSAGE_AT, MESSAGE_SIZE = 0, 1, 2, 3, 4, 5
PAIR_TOPIC, PAIR_PARTITION, NUMBER, PAIR_KIND = 0, 1, 2, 3
AT_TOPIC, AT_PARTITION, WHAT, STATED, ELEMENTS = 0, 1, 2, 3, 4

Topic = str | bytes
"""A topic's name, or its id (16 bytes)."""

FEW = 8
"""Partitions among which one is looked for without a dictionary."""

_FIRST_ROWS, _MOST_ROWS = 16, 1 << 14
"""Rows of a new grid, and beyond how many it does not outlive its body."""

_LONGEST_KEPT, _MOST_KEPT = 255, 4096
"""Bytes of a text that is kept for the next body that has it, and how many are."""


@final
@carried
@compiled(freelist=64)
class RecordSet:
    """Where a partition's records lie: `size` bytes from an index of the buffer on.

    batches: those in it, once it was looked at
    malformed: something in it is no batch
    """

    topic: str | bytes | None
    partition: cython.longlong
    start: cython.Py_ssize_t
    size: cython.longlong
    batches: list[RecordBatch]
    malformed: cython.bint = False


class Fault(NamedTuple):
    """One error code."""

    code: int
    scope: str  # what it is about: request, topic, partition, group …
    topic: Topic | None
    partition: int | None
    message: str | None


@final
@compiled
class NoteRows:
    """Rows of int64 that are noted one after the other."""

    width: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    cells: Grid

    def __init__(self, width: int) -> None:
        self.width = width
        self.cells = grid(_FIRST_ROWS, width)

    @compiled
    def add(self) -> cython.Py_ssize_t:
        """A new row: its index. Its cells hold what was there before."""
        i: cython.Py_ssize_t = self.count
        if i == self.cells.shape[0]:
            self._grow()
        self.count = i + 1
        return i

    @compiled
    def clear(self) -> None:
        """Forget all rows."""
        self.count = 0
        if self.cells.shape[0] > _MOST_ROWS:
            self.cells = grid(_FIRST_ROWS, self.width)

    @compiled
    def _grow(self) -> None:
        """Double the room."""
        old: Grid = self.cells
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        self.cells = grid(2 * old.shape[0], self.width)
        for i in range(self.count):
            for k in range(self.width):
                self.cells[i, k] = old[i, k]


@final
@compiled
class BodyNotes:
    """The notes of one body, valid until the next walk; what its methods gave stays."""

    whole: cython.bint = False  # the body was read to its end
    partitions: cython.longlong = 0  # how many partitions the body names
    throttle: cython.longlong = 0  # ms
    groups: cython.Py_ssize_t = 0  # names of groups that were read
    both: cython.Py_ssize_t = 0  # topics of which the body gives the id and the name
    named: NoteRows
    record_sets: NoteRows
    errors: NoteRows
    placed: NoteRows
    positions: NoteRows
    kept: Grid
    data: bytes
    message: MessageWords
    _texts: dict[bytes, str]  # that were read before, most are met often
    _brokers: dict[bytes, tuple[str, ...]]  # likewise, ids of brokers
    _latest: bytes  # the text that was read last, which is soon read again
    _latest_text: str
    _only: tuple[Topic, ...]  # the topics of the last body that had one
    _sought: cython.Py_ssize_t = 0  # where the partition that is asked for next probably stands
    _places: dict[tuple[Topic | None, int], int] | None = None

    def __init__(self) -> None:
        self.named = NoteRows(4)
        self.record_sets = NoteRows(4)
        self.errors = NoteRows(6)
        self.placed = NoteRows(4)
        self.positions = NoteRows(5)
        self.kept = grid(VALUE_COUNT, 2)
        for place in range(VALUE_COUNT):
            self.kept[place, 1] = ABSENT
        self.data = b""
        self.message = NO_MESSAGE
        self._texts = {}
        self._brokers = {}
        self._latest = b""
        self._latest_text = ""
        self._only = ()

    @compiled
    def begin(self, data: bytes, message: MessageWords) -> None:
        """Forget the body before; the next one lies in `data`."""
        i: cython.Py_ssize_t
        for i in range(len(self.message.places)):
            self.kept[self.message.places[i], 1] = ABSENT
        self.data = data
        self.message = message
        self.whole = False
        self.partitions = self.groups = self.both = self._sought = 0
        self.throttle = ABSENT
        self.named.clear()
        self.record_sets.clear()
        self.errors.clear()
        self.placed.clear()
        self.positions.clear()
        self._places = None

    @property
    def throttle_ms(self) -> int | None:
        """How long the broker delayed the answer; None where it does not say."""
        return None if self.throttle == ABSENT else self.throttle

    @compiled
    def topics(self) -> tuple[Topic, ...]:
        """The topics of the body, in the order in which it names them."""
        topic: Topic | None
        if self.named.count == 0:
            return ()
        if self.named.count > 1:
            listed = [self._topic(i) for i in range(self.named.count) if self.named.cells[i, LISTED]]
            return tuple([topic for topic in listed if topic is not None])
        topic = self._topic(0) if self.named.cells[0, LISTED] else None
        if topic is None:
            return ()
        if not self._only or self._only[0] is not topic:
            self._only = (topic,)
        return self._only

    @compiled
    def names(self) -> list[tuple[bytes, str]]:
        """(topic id, name), where the body gives both."""
        cells = self.named.cells
        both = [i for i in range(self.named.count) if cells[i, ID_AT] >= 0 and cells[i, NAME_SIZE] > 0]
        return [(self._id(i), self._text(cells[i, NAME_AT], cells[i, NAME_SIZE])) for i in both]

    @compiled
    def sets(self) -> list[RecordSet]:
        """The record sets that are not empty, in wire order."""
        found: list[RecordSet] = []
        records: RecordSet
        i: cython.Py_ssize_t
        for i in range(self.record_sets.count):
            records = RecordSet.__new__(RecordSet)
            records.topic = self._topic(self.record_sets.cells[i, SET_TOPIC])
            records.partition = self.record_sets.cells[i, SET_PARTITION]
            records.start = self.record_sets.cells[i, SET_AT]
            records.size = self.record_sets.cells[i, SET_SIZE]
            found.append(records)
        return found

    @compiled
    def readable_until(self, i: cython.Py_ssize_t) -> cython.longlong:
        """The offset before which consumers may read the partition of record set i, asked by rising i; or ABSENT."""
        topic: cython.longlong = self.record_sets.cells[i, SET_TOPIC]
        partition: cython.longlong = self.record_sets.cells[i, SET_PARTITION]
        end: cython.longlong = ABSENT
        met: cython.bint = False
        cells: Grid = self.positions.cells
        while self._sought < self.positions.count:
            if cells[self._sought, AT_TOPIC] == topic and cells[self._sought, AT_PARTITION] == partition:
                met = True
                if cells[self._sought, WHAT] in (HIGH_WATERMARK, LAST_STABLE) and cells[self._sought, STATED] >= 0:
                    end = cells[self._sought, STATED]
            elif met:
                break
            self._sought += 1
        return end

    @compiled
    def faults(self) -> list[Fault]:
        """The errors, in wire order."""
        cells = self.errors.cells
        return [
            Fault(
                cells[i, CODE],
                self.message.scopes[cells[i, SCOPE]],
                self._topic(cells[i, FAULT_TOPIC]),
                _present(cells[i, FAULT_PARTITION]),
                self._text(cells[i, MESSAGE_AT], cells[i, MESSAGE_SIZE]) if cells[i, MESSAGE_SIZE] > 0 else None,
            )
            for i in range(self.errors.count)
        ]

    @compiled
    def pairs(self) -> list[tuple[Any, ...]]:
        """(topic, partition), of some messages with a number (plan.PAIRED): the offset to fetch, or of a batch."""
        return self._pairs(False)

    @compiled
    def forgotten(self) -> list[tuple[Any, ...]]:
        """(topic, partition) of what leaves a fetch session."""
        return self._pairs(True)

    @compiled
    def placed_number(self, topic: Topic | None, partition: cython.longlong) -> cython.longlong:
        """The number that goes with a partition, ABSENT where there is none. The first is soonest found in order."""
        i: cython.Py_ssize_t = self._sought
        if i < self.placed.count and self._is_placed(i, topic, partition):
            self._sought += 1
            return self.placed_offset(i)
        if self.placed.count <= FEW:
            for i in range(self.placed.count):
                if self._is_placed(i, topic, partition):
                    return self.placed_offset(i)
            return ABSENT
        if self._places is None:
            cells = self.placed.cells
            self._places = {
                (self._topic(cells[i, PAIR_TOPIC]), cells[i, PAIR_PARTITION]): i
                for i in range(self.placed.count - 1, -1, -1)
            }
        i = self._places.get((topic, partition), -1)
        return ABSENT if i < 0 else self.placed_offset(i)

    @compiled
    def placed_topic(self, i: cython.Py_ssize_t) -> Topic | None:
        """The topic of partition i of those that the body places."""
        return self._topic(self.placed.cells[i, PAIR_TOPIC])

    @compiled
    def placed_partition(self, i: cython.Py_ssize_t) -> cython.longlong:
        """The number of partition i."""
        partition: cython.longlong = self.placed.cells[i, PAIR_PARTITION]
        return partition

    @compiled
    def placed_offset(self, i: cython.Py_ssize_t) -> cython.longlong:
        """The number that goes with partition i, ABSENT where there is none."""
        number: cython.longlong = self.placed.cells[i, NUMBER]
        return number if self.placed.cells[i, PAIR_KIND] == NUMBERED else ABSENT

    @compiled
    def is_forgotten(self, i: cython.Py_ssize_t) -> cython.bint:
        """Whether partition i leaves a fetch session."""
        kind: cython.longlong = self.placed.cells[i, PAIR_KIND]
        return kind == FORGOTTEN

    @compiled
    def number(self, place: cython.Py_ssize_t) -> cython.longlong:
        """The number at a place of `words.VALUES`; ABSENT where the message does not say it."""
        number: cython.longlong = self.kept[place, 0]
        return ABSENT if self.kept[place, 1] == ABSENT else number

    @compiled
    def text(self, place: cython.Py_ssize_t) -> str | None:
        """The text at a place of `words.VALUES`; None where the message does not say it."""
        size: cython.longlong = self.kept[place, 1]
        return None if size < 0 else self._text(self.kept[place, 0], size)

    @compiled
    def group(self) -> str | None:
        """The group, where the body names one only, and names it as a group."""
        if self.groups and (self.groups > 1 or not self.whole):
            return None
        if self.groups and self.kept[KEY_TYPE_PLACE, 1] != ABSENT and self.kept[KEY_TYPE_PLACE, 0] != 0:
            return None
        return self.text(GROUP_PLACE)

    @compiled
    def values(self) -> dict[str, Any]:
        """Single fields (words.VALUES) that this version has; None where they are null or were not reached."""
        found = {VALUES[place]: self._value(place) for place in self.message.values}
        if GROUP_NAME in found:
            found[GROUP_NAME] = self.group()
        return found

    @compiled
    def _is_placed(self, i: cython.Py_ssize_t, topic: Topic | None, partition: cython.longlong) -> cython.bint:
        return self.placed_partition(i) == partition and self.placed_topic(i) == topic

    @compiled
    def _value(self, place: cython.Py_ssize_t) -> int | str | None:
        if self.message.values[place]:
            return self.text(place)
        return _present(self.number(place))

    @compiled
    def _pairs(self, forgotten: cython.bint) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for i in range(self.placed.count):
            topic, partition = self._topic(self.placed.cells[i, PAIR_TOPIC]), self.placed.cells[i, PAIR_PARTITION]
            kind = self.placed.cells[i, PAIR_KIND]
            if (kind == FORGOTTEN) == forgotten:
                number = self.placed.cells[i, NUMBER]
                found.append((topic, partition, number) if kind == NUMBERED else (topic, partition))
        return found

    @compiled
    def stated_numbers(self, i: cython.Py_ssize_t, size: cython.Py_ssize_t) -> list[int]:
        """The numbers of `size` bytes that position i says, where it is an array."""
        start: cython.Py_ssize_t = self.positions.cells[i, STATED]
        stop: cython.Py_ssize_t = start + size * self.positions.cells[i, ELEMENTS]
        return [int.from_bytes(self.data[at : at + size], "big", signed=True) for at in range(start, stop, size)]

    @compiled
    def stated_brokers(self, i: cython.Py_ssize_t) -> tuple[str, ...]:
        """The ids of brokers that position i says, where it is an array. Few differ: of equal ones it is one object."""
        start: cython.Py_ssize_t = self.positions.cells[i, STATED]
        raw: bytes = part(self.data, start, start + 4 * self.positions.cells[i, ELEMENTS])
        brokers = self._brokers.get(raw)
        if brokers is None:
            brokers = tuple([str(broker) for broker in self.stated_numbers(i, 4)])
            if len(raw) <= _LONGEST_KEPT:
                if len(self._brokers) >= _MOST_KEPT:
                    self._brokers.clear()
                self._brokers[raw] = brokers
        return brokers

    @compiled
    def stated_text(self, i: cython.Py_ssize_t) -> str:
        """The text that position i says, where it is one."""
        return self._text(self.positions.cells[i, STATED], self.positions.cells[i, ELEMENTS])

    @compiled
    def _topic(self, i: cython.Py_ssize_t) -> Topic | None:
        """The topic in a row of `named`."""
        if i < 0:
            return None
        size = self.named.cells[i, NAME_SIZE]
        return self._text(self.named.cells[i, NAME_AT], size) if size > 0 else self._id(i)

    @compiled
    def _id(self, i: cython.Py_ssize_t) -> bytes:
        at: cython.Py_ssize_t = self.named.cells[i, ID_AT]
        return part(self.data, at, at + 16)

    @compiled
    def _text(self, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> str:
        if size == len(self._latest) and is_at(self.data, at, self._latest):
            return self._latest_text
        raw: bytes = part(self.data, at, at + size)
        text = self._texts.get(raw)
        if text is None:
            text = raw.decode("utf-8", "backslashreplace")
            if size <= _LONGEST_KEPT:
                if len(self._texts) >= _MOST_KEPT:
                    self._texts.clear()
                self._texts[raw] = text
        self._latest, self._latest_text = raw, text
        return text


@compiled
def _present(number: cython.longlong) -> int | None:
    return None if number == ABSENT else number
