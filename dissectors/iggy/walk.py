"""The one reader of bodies: walks the fields of a layout, and notes numbers, texts and what else they hold.

A FieldPlan is a layout as the walk follows it, compiled by layouts.py; Fields are the notes of one body:

    kind                                  NUMBER_NOTE                  FORM_NOTE           objects
    U8 to BOOL, OPAQUE …, PACKED          the number, or the size
    STR8, STR32                                                                           the text
    SECRET8, SECRET                       nothing: no later code may hold it
    IDENTIFIER                            the number                                      the name, else None
    CONSUMER, CONSUMER_ID                 the same                     1 consumer, 2 …     the same
    PARTITIONING                          the partition                1 balanced, 2, 3    the key
    STRATEGY                              offset or time               1 offset, 2 …
    FLAGGED32                             the number, or ABSENT        1; 0 for none
    GROUP, MANY, MAYBE, OTHER                                                              the value, as JSON has it

A field that is there only where bytes are left (`LEFT`) has the form MISSING where none are. Numbers of 64 bits are
unsigned on the wire: those from 2^63 on are negative in the notes. Python values are made of notes when asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy.field_types import CONSUMERS, STRATEGIES, MalformedBodyError, need, text
from dissectors.redaction import REDACTED
from dissectors.rows.layout import ABSENT
from dissectors.wire.arrays import Grid, grid
from dissectors.wire.reader import WireReader, reader

U8, U16, U32, U64, I32, BOOL, PACKED, OPAQUE, OPAQUE16, OPAQUE32 = range(10)
STR8, STR32, SECRET8, SECRET, IDENTIFIER, CONSUMER, CONSUMER_ID, PARTITIONING, STRATEGY, FLAGGED32 = range(10, 20)
GROUP, MANY, MAYBE, OTHER = range(20, 24)
KIND, LEFT, SIZE, ONLY, COUNT_AT, PLAN_COLUMNS = range(6)
NUMBER_NOTE, FORM_NOTE, NOTES = range(3)
MISSING = -1
MASK64 = (1 << 64) - 1
NUMBERED, NAMED = 1, 2
BALANCED, PARTITION, KEY = 1, 2, 3

_FIRST = 24  # fields


@final
@compiled
class FieldPlan:
    """The fields of a body or of a group in it, one after the other.

    names: of the fields
    single: whether it is one field without a name
    labels: how an error names a field
    parts: plans of groups and of repeated or optional fields; functions that read OTHER
    rows: int64[fields, PLAN_COLUMNS]
        KIND
        LEFT       whether it is there only where bytes are left
        SIZE       bytes of a secret; of numbers in a row, in that of the first: of all of them
        ONLY       the value that it must have, else -1
        COUNT_AT   which field says how many there are, of MANY; -1: as many as there are
    """

    count: cython.Py_ssize_t
    names: list[str]
    single: cython.bint
    labels: list[str]
    parts: list[Any]
    rows: Grid

    def __init__(self, names: list[str], labels: list[str], parts: list[Any], rows: list[list[int]]) -> None:
        self.count = len(names)
        self.names = names
        self.single = names == [""]
        self.labels = labels
        self.parts = parts
        self.rows = grid(max(1, len(names)), PLAN_COLUMNS)
        for i, row in enumerate(rows):
            for k, number in enumerate(row):
                self.rows[i, k] = number

    @compiled
    def place(self, name: str) -> cython.Py_ssize_t:
        """Index of a field; -1 where there is none of that name."""
        return self.names.index(name) if name in self.names else -1


@final
@compiled
class Fields:
    """Notes of the fields of one body, up to the field `reached`.

    told: who is told (plan, index, start, end) of each field, those in groups and lists before what holds them
    """

    plan: FieldPlan
    told: Callable[[FieldPlan, int, int, int], None] | None = None
    reached: cython.Py_ssize_t = 0
    notes: Grid
    objects: list[Any]

    def __init__(self) -> None:
        self.plan = NO_FIELDS
        self.notes = grid(_FIRST, NOTES)
        self.objects = [None] * _FIRST

    @compiled
    def read(self, plan: FieldPlan, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Note the fields of buf[pos:end]; the position after the last one.

        Raises MalformedBodyError where the bytes are no such fields; those before are noted.
        """
        r: WireReader = reader()
        i: cython.Py_ssize_t
        kind: cython.longlong
        start: cython.Py_ssize_t
        self.plan = plan
        self.reached = 0
        if plan.count > self.notes.shape[0]:
            self.notes = grid(plan.count, NOTES)
        self.objects = [None] * plan.count
        for i in range(plan.count):
            if plan.rows[i, LEFT] and pos >= end:
                self.notes[i, FORM_NOTE] = MISSING
                self.reached = i + 1
                continue
            self.notes[i, FORM_NOTE] = 0
            kind = plan.rows[i, KIND]
            start = pos
            r.open(buf, pos, len(buf))
            if kind <= BOOL:
                if plan.rows[i, SIZE]:
                    need(pos, plan.rows[i, SIZE], end, plan.labels[i])
                self.notes[i, NUMBER_NOTE] = _number(r, kind)
                pos = r.pos
            elif kind == IDENTIFIER:
                pos = self._identifier(i, r, buf, pos, end)
            elif kind >= GROUP:
                pos = self._composed(i, kind, buf, pos, end)
            else:
                pos = self._sized(i, kind, r, buf, pos, end)
            if plan.rows[i, ONLY] >= 0 and self.notes[i, NUMBER_NOTE] != plan.rows[i, ONLY]:
                raise MalformedBodyError(f"{self.notes[i, NUMBER_NOTE]} where {plan.rows[i, ONLY]} stands", start)
            self.reached = i + 1
            if self.told is not None:
                self.told(plan, i, start, pos)
        return pos

    @compiled
    def _sized(
        self,
        i: cython.Py_ssize_t,
        kind: cython.longlong,
        r: WireReader,
        buf: bytes,
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Note a field that is more than a number; the position after it."""
        after: cython.Py_ssize_t
        if kind in (STR8, SECRET8):
            what: str = "string" if kind == STR8 else "secret"
            pos = need(pos, 1, end, what)
            after = need(pos, r.u8(), end, what)
            if kind == STR8:
                self.objects[i] = text(buf, pos, after)
            return after
        if kind in (STR32, OPAQUE32):
            need(pos, 4, end, "u32")
            pos += 4
            self.notes[i, NUMBER_NOTE] = r.u32le()
            after = need(pos, self.notes[i, NUMBER_NOTE], end, "string" if kind == STR32 else "bytes")
            if kind == STR32:
                self.objects[i] = text(buf, pos, after)
            return after
        if kind == OPAQUE16:
            pos = need(pos, 2, end, "length")
            self.notes[i, NUMBER_NOTE] = r.u16le()
            return need(pos, self.notes[i, NUMBER_NOTE], end, "bytes")
        if kind == OPAQUE:
            self.notes[i, NUMBER_NOTE] = end - pos
            return end
        if kind == SECRET:
            return need(pos, self.plan.rows[i, SIZE], end, "secret")
        if kind == PACKED:
            after = need(pos, 4, end, "u32")
            self.notes[i, NUMBER_NOTE] = r.u32le()
            return after
        return self._formed(i, kind, r, buf, pos, end)

    @compiled
    def _formed(
        self,
        i: cython.Py_ssize_t,
        kind: cython.longlong,
        r: WireReader,
        buf: bytes,
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Note a field that begins with the form that it has; the position after it."""
        after: cython.Py_ssize_t
        if kind == PARTITIONING:
            return self._partitioning(i, r, buf, pos, end)
        if kind == FLAGGED32:
            after = need(pos, 5, end, "optional u32")
            self.notes[i, FORM_NOTE] = r.u8()
            if self.notes[i, FORM_NOTE] > 1:
                raise MalformedBodyError(f"flag {self.notes[i, FORM_NOTE]}, neither 0 nor 1", pos)
            self.notes[i, NUMBER_NOTE] = r.u32le()
            if not self.notes[i, FORM_NOTE]:
                self.notes[i, NUMBER_NOTE] = ABSENT
            return after
        what: str = "polling strategy" if kind == STRATEGY else "consumer"
        need(pos, 1, end, what)
        form: cython.longlong = r.u8()
        if form not in (STRATEGIES if kind == STRATEGY else CONSUMERS):
            raise MalformedBodyError(f"{what} of kind {form}", pos)
        if kind == STRATEGY:
            after = need(pos, 9, end, what)
            self.notes[i, NUMBER_NOTE] = r.i64le()
        elif kind == CONSUMER:
            after = self._identifier(i, r, buf, pos + 1, end)
        else:
            after = need(pos + 1, 4, end, "u32")
            self.notes[i, NUMBER_NOTE] = r.u32le()
        self.notes[i, FORM_NOTE] = form
        return after

    @compiled
    def _identifier(
        self, i: cython.Py_ssize_t, r: WireReader, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """u8 kind (1 number, 2 name) | u8 length | value."""
        start: cython.Py_ssize_t = need(pos, 2, end, "identifier")
        kind: cython.longlong = r.u8()
        size: cython.longlong = r.u8()
        after: cython.Py_ssize_t = need(start, size, end, "identifier")
        if kind == NAMED and size:
            self.objects[i] = text(buf, start, after)
        elif kind == NUMBERED and size == 4:
            self.notes[i, NUMBER_NOTE] = r.u32le()
        else:
            raise MalformedBodyError(f"identifier of kind {kind}, length {size}", pos)
        return after

    @compiled
    def _partitioning(
        self, i: cython.Py_ssize_t, r: WireReader, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """u8 kind (1 balanced, 2 partition id, 3 key) | u8 length | value."""
        start: cython.Py_ssize_t = need(pos, 2, end, "partitioning")
        form: cython.longlong = r.u8()
        size: cython.longlong = r.u8()
        after: cython.Py_ssize_t = need(start, size, end, "partitioning")
        if form == PARTITION and size == 4:
            self.notes[i, NUMBER_NOTE] = r.u32le()
        elif form == KEY and size:
            self.objects[i] = buf[start:after]
        elif not (form == BALANCED and size == 0):
            raise MalformedBodyError(f"partitioning of kind {form}, length {size}", pos)
        self.notes[i, FORM_NOTE] = form
        return after

    @compiled
    def _composed(
        self, i: cython.Py_ssize_t, kind: cython.longlong, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Note a group, a list, an optional field, or one of a rare type; the position after it."""
        after: cython.Py_ssize_t
        plan: FieldPlan = self.plan
        name: str = plan.names[i]
        if kind == OTHER:
            self.objects[i], after = plan.parts[i](buf, pos, end)
            return after
        part: FieldPlan = plan.parts[i]
        inner = Fields()
        inner.told = self.told
        if kind == GROUP:
            after = inner.read(part, buf, pos, end)
            self.objects[i] = inner.whole()
            return after
        if kind == MAYBE:
            after = need(pos, 1, end, f"flag of {name}")
            if buf[pos] > 1:
                raise MalformedBodyError(f"flag {buf[pos]} before {name}", pos)
            if buf[pos]:
                after = inner.read(part, buf, after, end)
                self.objects[i] = inner.whole()
            return after
        found: list[Any] = []
        self.objects[i] = found
        self.reached = i + 1
        wanted: cython.longlong = plan.rows[i, COUNT_AT]
        if wanted >= 0:
            wanted = max(0, self.number(wanted))
        while pos < end if wanted < 0 else len(found) < wanted:
            after = inner.read(part, buf, pos, end)
            if after == pos:
                raise MalformedBodyError(f"{name} without bytes", pos)
            found.append(inner.whole())
            pos = after
        return pos

    # --- what was noted ---

    @compiled
    def number(self, i: cython.Py_ssize_t) -> cython.longlong:
        """The number of a field, by its index; ABSENT where it was not read, or is missing."""
        if i < 0 or i >= self.reached or self.notes[i, FORM_NOTE] == MISSING:
            return ABSENT
        number: cython.longlong = self.notes[i, NUMBER_NOTE]
        return number

    @compiled
    def form(self, i: cython.Py_ssize_t) -> cython.longlong:
        """The form of a field, by its index; MISSING where it was not read, or is missing."""
        form: cython.longlong = MISSING if i < 0 or i >= self.reached else self.notes[i, FORM_NOTE]
        return form

    @compiled
    def key(self, i: cython.Py_ssize_t) -> bytes | None:
        """The key in a field of partitioning, by its index; None where messages are not placed by a key."""
        key: bytes | None = self.objects[i] if self.form(i) == KEY else None
        return key

    @compiled
    def identity(self, i: cython.Py_ssize_t) -> int | str | None:
        """The number or name in a field, by its index; None where it was not read."""
        if i < 0 or i >= self.reached:
            return None
        number: int | str = self.notes[i, NUMBER_NOTE] if self.objects[i] is None else self.objects[i]
        return number

    @compiled
    def values(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        return {self.plan.names[i]: self.value(i) for i in range(self.reached) if self.notes[i, FORM_NOTE] != MISSING}

    @compiled
    def whole(self) -> Any:
        """The values of all fields of the body, as `--full` writes them to JSON."""
        return self.value(0) if self.plan.single else self.values()

    @compiled
    def value(self, i: cython.Py_ssize_t) -> Any:
        """A field that was read, as JSON has it."""
        kind, number, form = self.plan.rows[i, KIND], self.notes[i, NUMBER_NOTE], self.notes[i, FORM_NOTE]
        if kind in (STR8, STR32, GROUP, MANY, MAYBE, OTHER):
            return self.objects[i]
        if kind in (SECRET8, SECRET):
            return REDACTED
        if kind == IDENTIFIER:
            return self.identity(i)
        if kind in (CONSUMER, CONSUMER_ID):
            return {"kind": CONSUMERS[form], "id": self.identity(i)}
        if kind == STRATEGY:
            return {"kind": STRATEGIES[form], "value": number & MASK64}
        if kind == PARTITIONING:
            return self._partitioning_value(i)
        if kind == FLAGGED32:
            return number if form else None
        if kind == BOOL:
            return bool(number)
        if kind == PACKED:
            return f"{number >> 20}.{number >> 10 & 1023}.{number & 1023}"
        return number & MASK64 if kind == U64 else number

    def _partitioning_value(self, i: int) -> dict[str, Any]:
        form = self.notes[i, FORM_NOTE]
        if form == BALANCED:
            return {"kind": "balanced"}
        if form == PARTITION:
            return {"kind": "partition_id", "value": self.notes[i, NUMBER_NOTE]}
        return {"kind": "messages_key", "value": base64.b64encode(self.objects[i]).decode()}


@compiled
def _number(r: WireReader, kind: cython.longlong) -> cython.longlong:
    """A number of a kind up to BOOL."""
    if kind == U32:
        return r.u32le()
    if kind == U64:
        return r.i64le()
    if kind == U16:
        return r.u16le()
    if kind == I32:
        value: cython.longlong = r.u32le()
        return value - 0x100000000 if value & 0x80000000 else value
    return r.u8()


NO_FIELDS = FieldPlan([], [], [], [])
