"""Many frames of one message and version by its plan: what walk.py would note, by column.

Each frame is a row with a cursor, and a step moves the cursors of all rows over the same field with a few numpy
operations. Arrays are walked in rounds, with the rows that have so many elements. A row is given up (`ok` is False)
where its bytes are not plain: a length beyond the end, an error, a long varint, many elements; it is then walked
alone. For the rows that stay, the columns hold what its notes would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dissectors.arrow import Bools, Ints, Octets
from dissectors.frame_columns import NONE, integers
from dissectors.kafka.coded import CodedTexts
from dissectors.kafka.plan import GROUP, KEY_TYPE, Op, Step, Tag

_STRIDES = 1024  # elements of one array that are stepped over at once
_ROUNDS = 8  # elements of one array; beyond it a loop over frames is as quick
_ID = 16  # bytes of a topic id


class Topics(NamedTuple):
    """Topics of some rows, as numbers of `CodedTexts`."""

    row: Ints
    code: Ints

    def at(self, which: Ints | Bools) -> Topics:
        return Topics(self.row[which], self.code[which])


class NamePairs(NamedTuple):
    """Where a topic's id and its name stand."""

    row: Ints
    id_at: Ints
    start: Ints
    size: Ints


class RecordSets(NamedTuple):
    """Where record sets lie, and whose they are."""

    topic: Topics  # row by row
    partition: Ints
    start: Ints
    size: Ints


class Pairs(NamedTuple):
    """Topics and partitions, with the numbers that plan.PAIRED names."""

    topic: Topics
    partition: Ints
    numbers: tuple[Ints, ...]


class ColumnNotes:
    """What is in the rows, in wire order."""

    def __init__(self, rows: int) -> None:
        self.ok = np.ones(rows, bool)
        self.topics: list[Topics] = []
        self.names: list[NamePairs] = []
        self.partitions = np.zeros(rows, np.int64)
        self.sets: list[RecordSets] = []
        self.pairs: list[Pairs] = []
        self.forgotten: list[Pairs] = []  # what leaves a fetch session
        self.beyond = np.zeros(rows, bool)  # an array has elements of which nothing is noted
        self.values: dict[str, Ints] = {}  # numbers; NONE where a row has no such field
        self.texts: dict[str, tuple[Ints, Ints]] = {}  # start, size; -1 for null
        self.throttle: Ints | None = None


def walk(steps: Sequence[Step], octets: Octets, texts: CodedTexts, at: Ints, end: Ints) -> ColumnNotes:
    """Read the frames whose bodies begin at `at`. PADDING octets must follow the last of them."""
    walk = _Walk(octets, texts, end)
    after = walk.run(steps, _Rows(np.arange(len(at)), at))
    walk.found.ok &= after <= end
    if KEY_TYPE in walk.found.values and GROUP in walk.found.texts:
        walk.found.texts[GROUP][1][walk.found.values[KEY_TYPE] != 0] = -1
    return walk.found


class _Rows:
    """Some rows on their way over a struct: their cursors, and what was read of it and of those around it."""

    def __init__(self, rows: Ints, at: Ints, around: _Rows | None = None, which: Ints | Bools | None = None) -> None:
        self.rows = rows
        self.at = at
        self.topic: Topics | None = None
        self.partition: Ints | None = None
        self.name: tuple[Ints, Ints] | None = None  # of a topic: start, size
        self.id_at: Ints | None = None
        self.numbers: dict[str, Ints] = {}
        if around is not None and around.topic is not None:
            self.topic = around.topic.at(which) if which is not None else around.topic
        if around is not None and around.partition is not None:
            self.partition = around.partition[which] if which is not None else around.partition

    def some(self, which: Ints | Bools) -> _Rows:
        """Some of them, at the head of a struct within this one."""
        return _Rows(self.rows[which], self.at[which], self, which)


class _Walk:
    """The walk: one method an operation of the plan, each moves the cursors."""

    def __init__(self, octets: Octets, texts: CodedTexts, end: Ints) -> None:
        self.octets = octets
        self.texts = texts
        self.last = len(octets) - 8  # nothing is read behind it
        self.end = end
        self.found = ColumnNotes(len(end))

    def run(self, steps: Sequence[Step], r: _Rows) -> Ints:
        """Move the cursors over a struct; where they are then."""
        for step in steps:
            _METHODS[step.op](self, step, r)
        return r.at

    # --- numbers, lengths ---

    def number(self, step: Step, r: _Rows) -> Ints:
        value = self.peek(r.at, step.size)
        r.at = r.at + step.size
        return value

    def peek(self, at: Ints, size: int) -> Ints:
        """The signed integers of 1, 2, 4 or 8 bytes at each index."""
        return integers(self.octets, np.minimum(at, self.last), size)

    def length(self, step: Step, r: _Rows) -> Ints:
        """Read lengths, negative for null; 0 for rows that are given up."""
        if step.compact:
            n = self.octets[np.minimum(r.at, self.last)].astype(np.int64)
            r.at = r.at + 1
            if np.count_nonzero(n > 127):
                n = self.varint(n, r)
            n -= 1
        else:
            size = 4 if step.wide else 2
            n, r.at = self.peek(r.at, size), r.at + size
        bad = n > self.end[r.rows] - r.at
        if np.count_nonzero(bad):
            self.found.ok[r.rows[bad]] = False
            n = np.where(bad, 0, n)
        return n

    def varint(self, low: Ints, r: _Rows) -> Ints:
        """Varints of up to three bytes; rows with longer ones are given up."""
        n = low & 0x7F
        more = low > 127
        for shift in (7, 14):
            byte = self.octets[np.minimum(r.at, self.last)].astype(np.int64)
            n = np.where(more, n | (byte & 0x7F) << shift, n)
            r.at = r.at + more
            more = more & (byte > 127)
        self.found.ok[r.rows[more]] = False
        return np.where(more, 1, n)

    # --- what is stepped over ---

    def on_skip(self, step: Step, r: _Rows) -> None:
        r.at = r.at + step.size

    def on_sized(self, step: Step, r: _Rows) -> None:
        n = self.length(step, r)
        r.at = r.at + np.maximum(n, 0)

    on_error_text = on_sized

    def on_tags(self, step: Step, r: _Rows) -> None:
        n = self.peek(r.at, 1)
        r.at = r.at + 1
        if np.count_nonzero(n):
            self.tagged(step.tags, r, np.where(n < 0, _ROUNDS + 1, n))

    def tagged(self, tags: Sequence[Tag], r: _Rows, n: Ints) -> None:
        """Tagged fields; rows with long ones are given up."""
        for turn in range(self.rounds(n, r)):
            more = n > turn
            field = r.some(more)
            number, size = self.peek(field.at, 1), self.peek(field.at + 1, 1)
            self.found.ok[field.rows[(number < 0) | (size < 0)]] = False
            field.at = field.at + 2
            r.at[more] = field.at + np.maximum(size, 0)
            for tag in tags:
                mine = number == tag.number
                if tag.noted and np.count_nonzero(mine):
                    self.run(tag.inner, field.some(mine))

    def on_error(self, step: Step, r: _Rows) -> None:
        self.found.ok[r.rows] &= self.number(step, r) == 0

    def on_fault(self, step: Step, r: _Rows) -> None:
        """There is none in the rows that stay."""

    # --- what is kept ---

    def on_partition(self, step: Step, r: _Rows) -> None:
        r.partition = self.number(step, r)

    def on_pair_value(self, step: Step, r: _Rows) -> None:
        r.numbers[step.name] = self.number(step, r)

    def on_throttle(self, step: Step, r: _Rows) -> None:
        self.found.throttle = self.number(step, r)

    def on_value(self, step: Step, r: _Rows) -> None:
        values = self.found.values.setdefault(step.name, np.full(len(self.end), NONE))
        values[r.rows] = self.number(step, r)

    def on_text(self, step: Step, r: _Rows) -> None:
        n = self.length(step, r)
        self.found.texts[step.name] = r.at, n
        r.at = r.at + np.maximum(n, 0)

    def on_group(self, step: Step, r: _Rows) -> None:
        rows, n = len(self.end), self.length(step, r)
        start, size = self.found.texts.setdefault(GROUP, (np.full(rows, NONE), np.full(rows, NONE)))
        first = start[r.rows] < 0
        start[r.rows], size[r.rows] = r.at, np.where(first, n, -1)
        r.at = r.at + np.maximum(n, 0)

    def on_name(self, step: Step, r: _Rows) -> None:
        n = self.length(step, r)
        r.name = r.at, n
        r.at = r.at + np.maximum(n, 0)

    def on_id(self, step: Step, r: _Rows) -> None:
        r.id_at, r.at = r.at, r.at + _ID

    def on_topic(self, step: Step, r: _Rows) -> None:
        if r.name is not None:
            start, size = r.name[0], np.maximum(r.name[1], 0)
        else:
            start = size = np.zeros(len(r.rows), np.int64)
        is_id = np.zeros(len(r.rows), bool)
        if r.id_at is not None:
            id_at = np.minimum(r.id_at, self.last - _ID)
            there = self.octets[id_at[:, None] + np.arange(_ID)].any(axis=1)
            is_id, both = there & (size == 0), there & (size > 0)
            if np.count_nonzero(both):
                self.found.names.append(NamePairs(r.rows[both], id_at[both], start[both], size[both]))
            start, size = np.where(is_id, id_at, start), np.where(is_id, _ID, size)
        r.topic = Topics(r.rows, self.texts.topics(start, size, is_id))
        if step.listed:
            self.found.topics.append(r.topic.at(size > 0))

    def on_pair(self, step: Step, r: _Rows) -> None:
        assert r.partition is not None
        numbers = tuple(r.numbers[name] for name in step.names)
        pairs = self.found.forgotten if step.forgotten else self.found.pairs
        pairs.append(Pairs(r.topic or self.no_topic(r), r.partition, numbers))

    def on_records(self, step: Step, r: _Rows) -> None:
        n = self.length(step, r)
        some = n > 0
        partition = np.full(len(some), -1) if r.partition is None else r.partition
        topic = r.topic or self.no_topic(r)
        self.found.sets.append(RecordSets(topic.at(some), partition[some], r.at[some], n[some]))
        r.at = r.at + np.maximum(n, 0)

    def no_topic(self, r: _Rows) -> Topics:
        return Topics(r.rows, np.full(len(r.rows), self.texts.code(None)))

    # --- structs and arrays ---

    def on_struct(self, step: Step, r: _Rows) -> None:
        r.at = self.run(step.inner, _Rows(r.rows, r.at, r))

    def on_optional(self, step: Step, r: _Rows) -> None:
        there = self.peek(r.at, 1) >= 0
        r.at = r.at + 1
        if np.count_nonzero(there):
            r.at[there] = self.run(step.inner, r.some(there))

    def on_partitions(self, step: Step, r: _Rows) -> None:
        n = self.count(step, r)
        for turn in range(self.rounds(n, r)):
            more = n > turn
            inner = r.some(more)
            inner.partition = self.number(step, inner)
            r.at[more] = inner.at
            self.on_pair(step, inner)

    def on_array(self, step: Step, r: _Rows) -> None:
        n = self.count(step, r)
        if step.size or step.stride:
            self.found.beyond[r.rows[n > 0]] = True
        if step.size:
            r.at = r.at + n * step.size
        elif step.stride:
            self.stride(step.stride, r, n)
        else:
            for turn in range(self.rounds(n, r)):
                more = n > turn
                r.at[more] = self.run(step.inner, r.some(more))

    def count(self, step: Step, r: _Rows) -> Ints:
        n = np.maximum(self.length(step, r), 0)
        if step.counted:
            self.found.partitions[r.rows] += n
        return n

    def rounds(self, n: Ints, r: _Rows) -> int:
        """Rounds over the elements of some arrays; rows with too many are given up."""
        many = n > _ROUNDS
        if np.count_nonzero(many):
            self.found.ok[r.rows[many]] = False
            n[many] = 0
        return int(n.max(initial=0))

    def stride(self, size: int, r: _Rows, n: Ints) -> None:
        """Step over `n` structs of one size, if none of them has tagged fields."""
        bad = (n > _STRIDES) | (n * size > self.end[r.rows] - r.at)
        n = np.where(bad, 0, n)
        row = np.repeat(np.arange(len(n)), n)
        turn = np.arange(len(row)) - np.repeat(np.cumsum(n) - n, n)
        bad[row[self.octets[r.at[row] + (turn + 1) * size - 1] != 0]] = True
        self.found.ok[r.rows[bad]] = False
        r.at = r.at + n * size


_METHODS: dict[Op, Callable[[_Walk, Step, _Rows], None]] = {op: getattr(_Walk, f"on_{op}") for op in Op}
