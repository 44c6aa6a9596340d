"""A table of int64 rows: unfinished ones wait at slots, finished ones stand in columns and leave in blocks.

    waiting   int64[slots, fields]     a row that is being written; its slot is its name until it is finished, however
                                       many others come and go
    block     int64[fields, capacity]  finished rows by column: Arrow takes a column as it lies

A field is what `layout` says, or ABSENT. Compiled code writes numbers: `table.waiting[slot, EXCHANGE_TIME] = ns`.
Python code writes values: `table.put(slot, EXCHANGE_TIME, ns)`. Rows leave in the order in which they were finished;
one that waits for long holds back no other, and memory is bounded by what waits and by what was not taken yet.

To look at, a table is the sequence of its finished rows, as NamedTuples of `records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

from dissectors import records
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.records import HALF, HALF_BITS, PAIR
from dissectors.rows.fields import CONN, LIST, LOOSE, NUMBER, TEXT, UNWANTED
from dissectors.rows.layout import ABSENT, Layout
from dissectors.rows.texts import Numbered, Texts
from dissectors.wire.arrays import Bytes, Grid, Numbers, grid, numbers, unset_grid
from dissectors.wire.memory import copy_row, copy_row_to_columns

_FIRST_SLOTS = 16
_EMPTY = 0  # the slot of a row in which all is ABSENT
# Columns of a block lie one behind the other. Were their size a power of two, the cells of a row would compete for few
# lines of the processor's cache, so it is 64 bytes less.
_FIRST_ROWS = 256 - 8
_MOST_ROWS = 16_384 - 8  # 128 KiB a column: large for Arrow, small beside what a run holds anyway


@final
@compiled
class RowTable:
    """Rows of one table of `records`."""

    layout: Layout
    texts: Texts
    lists: Numbered
    conns: Numbered
    loose: list[Any]  # texts and bytes that will hardly come again
    full: list[Numbers]  # blocks
    rows: cython.Py_ssize_t = 0  # of the block
    block: Any
    fields: cython.Py_ssize_t
    capacity: cython.Py_ssize_t = 0  # of the block, rows
    _kinds: Numbers
    waiting: Grid
    _free: Numbers  # a stack of free slots
    _free_count: cython.Py_ssize_t = 0
    _slots: cython.Py_ssize_t  # that were ever used
    _block: Grid

    def __init__(
        self, layout: Layout, texts: Texts, lists: Numbered, conns: Numbered, options: Iterable[str] = ()
    ) -> None:
        """texts, lists, conns: what the numbers in rows stand for. options: "full", "payloads", as `records.Only` has
        them: fields that exist with others only stay ABSENT.
        """
        self.layout = layout
        self.texts = texts
        self.lists = lists
        self.conns = conns
        self.loose = []
        self.full = []
        self.fields = len(layout.fields)
        self._kinds = numbers(self.fields)
        for i, field in enumerate(layout.fields):
            self._kinds[i] = layout.kinds[i] if not field.only or field.only in options else UNWANTED
        self.waiting = grid(_FIRST_SLOTS, self.fields)
        self._free = numbers(_FIRST_SLOTS)
        self._slots = _EMPTY + 1
        for k in range(self.fields):
            self.waiting[_EMPTY, k] = ABSENT
        self.block = grid(1, 1)
        self._block = self.block

    # --- writing ---

    @compiled
    def open(self) -> cython.Py_ssize_t:
        """A new unfinished row, in which all is ABSENT; its slot."""
        slot: cython.Py_ssize_t
        if self._free_count:
            self._free_count -= 1
            slot = self._free[self._free_count]
        else:
            slot = self._slots
            if slot == self.waiting.shape[0]:
                self._grow()
            self._slots += 1
        copy_row(self.waiting, slot, _EMPTY)
        return slot

    @compiled
    def put(self, slot: cython.Py_ssize_t, field: cython.Py_ssize_t, value: Any) -> None:
        """Set a field of an unfinished row to a value as the NamedTuple has it. Numbers beyond int64 become null."""
        kind: cython.longlong = self._kinds[field]
        number: cython.longlong = ABSENT
        if value is None or kind == UNWANTED:
            pass
        elif kind == TEXT:
            number = self.texts.of(value)
        elif kind == NUMBER:
            number = int64(value)
        elif kind == LOOSE and isinstance(value, int) and 0 <= value < PAIR:
            number = value
        elif kind == LOOSE:
            self.loose.append(value if isinstance(value, bytes) else str(value))
            number = -len(self.loose)
        elif kind == LIST:
            number = self.lists.of(tuple(value))
        else:
            number = self.conns.of(value)
        self.waiting[slot, field] = number

    @compiled
    def put_text(self, slot: cython.Py_ssize_t, field: cython.Py_ssize_t, text: str | None) -> None:
        """Set a field of an unfinished row that holds a text, whatever options there are: as `put`, in fewer steps."""
        number: cython.longlong = ABSENT
        if text is not None:
            number = self.texts.of(text)
        self.waiting[slot, field] = number

    @compiled
    def put_octets(
        self,
        slot: cython.Py_ssize_t,
        field: cython.Py_ssize_t,
        data: Bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """Set a field of an unfinished row to the text data[start:end], without making an object of it."""
        self.waiting[slot, field] = self.texts.number(data, start, end - start)

    def put_named(self, slot: int, columns: Mapping[str, Any]) -> None:
        """Set fields by their names. Raises KeyError for a name that the table does not have."""
        for name, value in columns.items():
            self.put(slot, self.layout.places[name], value)

    @compiled
    def finish(self, slot: cython.Py_ssize_t) -> None:
        """Add the row at a slot to the columns, and free the slot."""
        self.add(slot)
        self.drop(slot)

    @compiled
    def add(self, slot: cython.Py_ssize_t) -> None:
        """Add the row at a slot to the columns, and keep the slot: the next row may differ in some fields only."""
        if self.rows == self.capacity:
            self._begin_block()
        copy_row_to_columns(self._block, self.rows, self.waiting, slot)
        self.rows += 1

    @compiled
    def drop(self, slot: cython.Py_ssize_t) -> None:
        """Free a slot without a row."""
        self._free[self._free_count] = slot
        self._free_count += 1

    def reopen(self, row: Iterable[Any]) -> int:
        """A new unfinished row with the values of a NamedTuple; its slot."""
        slot = self.open()
        for field, value in enumerate(row):
            self.put(slot, field, value)
        return slot

    def append(self, row: Iterable[Any]) -> None:
        """Add a finished row, given as its NamedTuple."""
        self.finish(self.reopen(row))

    def extend(self, rows: Iterable[Iterable[Any]]) -> None:
        """Add finished rows."""
        for row in rows:
            self.append(row)

    # --- taking away ---

    def take(self) -> tuple[list[tuple[Numbers, int]], list[Any]]:
        """The finished rows since the last time: blocks with their numbers of rows, and the loose values in them.

        They are the caller's from now on. Loose values of unfinished rows are kept.
        """
        taken = [(block, block.shape[1]) for block in self.full]
        if self.rows:
            taken.append((self.block, self.rows))
        self.full, loose, self.loose = [], self.loose, []
        self.capacity, self.rows = 0, 0
        kept = [field for field, kind in enumerate(self.layout.kinds) if kind == LOOSE]
        for slot in self._open_slots() if loose else ():
            for field in kept:
                if ABSENT < self.waiting[slot, field] < 0:
                    self.put(slot, field, loose[-1 - self.waiting[slot, field]])
        return taken, loose

    def renumber(self, texts: Texts, lists: Numbered, conns: Numbered) -> None:
        """Number texts, lists and connections anew, in these: those of unfinished rows only. All else must be taken."""
        numbered = [field for field, kind in enumerate(self.layout.kinds) if kind in (TEXT, LIST, CONN)]
        slots = self._open_slots()
        values = [[self._value(field, self.waiting[slot, field]) for field in numbered] for slot in slots]
        self.texts, self.lists, self.conns = texts, lists, conns
        for slot, row in zip(slots, values, strict=True):
            for field, value in zip(numbered, row, strict=True):
                self.put(slot, field, value)

    # --- looking at ---

    def values(self, slot: int) -> Any:
        """An unfinished row as its NamedTuple: to be carried on elsewhere, or to look at."""
        return self._named([self.waiting[slot, field] for field in range(self.fields)])

    def __len__(self) -> int:
        return sum([int(block.shape[1]) for block in self.full]) + self.rows

    def __iter__(self) -> Iterator[Any]:
        for block, rows in (*((block, block.shape[1]) for block in self.full), (self.block, self.rows)):
            for row in range(rows):
                yield self._named([block[field, row] for field in range(self.fields)])

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def _named(self, numbers_: list[int]) -> Any:
        values = (self._value(field, number) for field, number in enumerate(numbers_))
        return records.TABLES[self.layout.table](*values)

    def _value(self, field: int, number: int) -> Any:
        """What `put` was given for a number: but a decimal number is its text."""
        kind = self.layout.kinds[field]
        if number == ABSENT:
            return None
        if kind == TEXT:
            return self.texts.text(number)
        if kind == LIST:
            return list(self.lists.values[number])
        if kind == CONN:
            return self.conns.values[number]
        if kind == LOOSE:
            if number < 0:
                return self.loose[-1 - number]
            return decimal(number) if self.layout.fields[field].kind == "decimal" else number
        return bool(number) if self.layout.fields[field].is_flag else number

    # --- room ---

    def _open_slots(self) -> list[int]:
        """The slots of unfinished rows."""
        free = {self._free[i] for i in range(self._free_count)}
        return [slot for slot in range(_EMPTY + 1, self._slots) if slot not in free]

    @compiled
    def _begin_block(self) -> None:
        """A block of four times as many rows as the last one: few rows take little memory."""
        if self.rows:
            self.full.append(self.block)
        rows = min(max(_FIRST_ROWS, 4 * len(self)), _MOST_ROWS)
        self.block = unset_grid(self.fields, rows)
        self._block = self.block
        self.capacity, self.rows = rows, 0

    @compiled
    def _grow(self) -> None:
        """Twice as many slots."""
        slots: cython.Py_ssize_t = self.waiting.shape[0]
        waiting: Grid = grid(2 * slots, self.fields)
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        for i in range(slots):
            for k in range(self.fields):
                waiting[i, k] = self.waiting[i, k]
        self.waiting = waiting
        self._free = numbers(2 * slots)  # none is free, or there would be no need to grow


def decimal(number: int) -> str:
    """The text that a decimal number of a row stands for: see `records.LOOSE_KINDS`."""
    return str(number) if number < PAIR else f"{number >> HALF_BITS & HALF}:{number & HALF}"


@compiled
def int64(value: Any) -> cython.longlong:
    """A number as rows hold it: ABSENT for None, and where it does not fit."""
    if value is None:
        return ABSENT
    if not cython.compiled:
        return value if -(1 << 63) <= value < 1 << 63 else ABSENT
    try:
        number: cython.longlong = value
    except OverflowError:
        return ABSENT
    return number
