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
from dissectors.iggy.field_types import CONSUMERS, FAILED, STRATEGIES, MalformedBodyError, Misfit
from dissectors.redaction import REDACTED
from dissectors.rows.layout import ABSENT
from dissectors.wire.arrays import Grid, grid
from dissectors.wire.reader import WireReader, reader

U8, U16, U32, U64, I32, BOOL, PACKED, OPAQUE, OPAQUE16, OPAQUE32 = range(10)
STR8, STR32, SECRET8, SECRET, IDENTIFIER, CONSUMER, CONSUMER_ID, PARTITIONING, STRATEGY, FLAGGED32 = range(10, 20)
KIND_NAMES = (
    *("u8", "u16", "u32", "u64", "i32", "bool", "packed", "opaque", "opaque16", "opaque32"),
    *("str8", "str32", "secret8", "secret", "identifier", "consumer", "consumer_id"),
    *("partitioning", "strategy", "flagged32"),
)
"""What proto/iggy/layouts.txt calls these types, by their numbers."""
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

    misfit: why the bytes are no such fields
    told: who is told (plan, index, start, end) of each field, those in groups and lists before what holds them
    """

    plan: FieldPlan
    misfit: Misfit
    told: Callable[[FieldPlan, int, int, int], None] | None = None
    reached: cython.Py_ssize_t = 0
    notes: Grid
    objects: list[Any]
    _r: WireReader
    _buf: bytes  # what is read, up to `_end`
    _end: cython.Py_ssize_t = 0
    _kind: cython.longlong = 0  # of an identifier or a partitioning
    _size: cython.longlong = 0  # of what follows it
    _inner: Fields | None = None  # for groups, lists and optional fields, once there was one

    def __init__(self, misfit: Misfit | None = None) -> None:
        self.plan = NO_FIELDS
        self.misfit = Misfit() if misfit is None else misfit
        self.notes = grid(_FIRST, NOTES)
        self.objects = []
        self._r = reader()
        self._buf = b""

    @compiled
    def read(self, plan: FieldPlan, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Note the fields of buf[pos:end]; the position after the last one.

        FAILED where the bytes are no such fields, as `misfit` says; those before are noted.
        """
        r: WireReader = reader()
        i: cython.Py_ssize_t
        kind: cython.longlong
        start: cython.Py_ssize_t
        self.plan = plan
        self.reached = 0
        self.misfit.found = False
        self._r, self._buf, self._end = r, buf, end
        if plan.count > self.notes.shape[0]:
            self.notes = grid(plan.count, NOTES)
        self.objects = [None] * plan.count
        r.open(buf, pos, len(buf))
        for i in range(plan.count):
            if plan.rows[i, LEFT] and pos >= end:
                self.notes[i, FORM_NOTE] = MISSING
                self.reached = i + 1
                continue
            self.notes[i, FORM_NOTE] = 0
            kind = plan.rows[i, KIND]
            start = r.pos = pos
            if kind <= BOOL:
                if plan.rows[i, SIZE] and self.misfit.room(pos, plan.rows[i, SIZE], end, plan.labels[i]) < 0:
                    return FAILED
                self.notes[i, NUMBER_NOTE] = _number(r, kind)
                pos = r.pos
            elif kind == IDENTIFIER:
                pos = self._identifier(i, pos)
            elif kind >= GROUP:
                pos = self._composed(i, kind, pos)
                r.open(buf, start, len(buf))  # what reads the inner uses it, too
            else:
                pos = self._sized(i, kind, pos)
            if pos < 0:
                return FAILED
            if plan.rows[i, ONLY] >= 0 and self.notes[i, NUMBER_NOTE] != plan.rows[i, ONLY]:
                return self.misfit.refuse(start, "{} where {} stands", self.notes[i, NUMBER_NOTE], plan.rows[i, ONLY])
            self.reached = i + 1
            if self.told is not None:
                self.told(plan, i, start, pos)
        return pos

    @compiled
    def _sized(self, i: cython.Py_ssize_t, kind: cython.longlong, pos: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Note a field that is more than a number; the position after it, or FAILED."""
        r: WireReader = self._r
        start: cython.Py_ssize_t
        size: cython.longlong
        what: str
        if kind in (STR8, SECRET8, STR32, OPAQUE16, OPAQUE32):
            width: cython.int = 1 if kind in (STR8, SECRET8) else 2 if kind == OPAQUE16 else 4
            what = "string" if kind in (STR8, STR32) else "secret" if kind == SECRET8 else "bytes"
            start = self.misfit.room(pos, width, self._end, what if width == 1 else "length" if width == 2 else "u32")
            if start < 0:
                return FAILED
            size = r.u8() if width == 1 else r.u16le() if width == 2 else r.u32le()
            if kind in (OPAQUE16, OPAQUE32):
                self.notes[i, NUMBER_NOTE] = size
            pos = self.misfit.room(start, size, self._end, what)
            return self._text(i, start, pos) if pos >= 0 and kind in (STR8, STR32) else pos
        if kind == OPAQUE:
            self.notes[i, NUMBER_NOTE] = self._end - pos
            return self._end
        if kind == SECRET:
            return self.misfit.room(pos, self.plan.rows[i, SIZE], self._end, "secret")
        if kind == PACKED:
            start = self.misfit.room(pos, 4, self._end, "u32")
            if start >= 0:
                self.notes[i, NUMBER_NOTE] = r.u32le()
            return start
        if kind == FLAGGED32:
            start = self.misfit.room(pos, 5, self._end, "optional u32")
            if start < 0:
                return FAILED
            self.notes[i, FORM_NOTE] = r.u8()
            if self.notes[i, FORM_NOTE] > 1:
                return self.misfit.refuse(pos, "flag {}, neither 0 nor 1", self.notes[i, FORM_NOTE])
            self.notes[i, NUMBER_NOTE] = r.u32le()
            if not self.notes[i, FORM_NOTE]:
                self.notes[i, NUMBER_NOTE] = ABSENT
            return start
        if kind == PARTITIONING:
            return self._partitioning(i, pos)
        return self._formed(i, kind, pos)

    @compiled
    def _text(self, i: cython.Py_ssize_t, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Note bytes as UTF-8 without NUL, which no Iggy name holds; the position after it, or FAILED."""
        try:
            value = self._buf[start:end].decode()
        except UnicodeDecodeError:
            return self.misfit.refuse(start, "text that is not UTF-8")
        if "\0" in value:
            return self.misfit.refuse(start, "text with a NUL")
        self.objects[i] = value
        return end

    @compiled
    def _formed(self, i: cython.Py_ssize_t, kind: cython.longlong, pos: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Note a consumer or a polling strategy, which begins with its kind; the position after it, or FAILED."""
        r: WireReader = self._r
        what: str = "polling strategy" if kind == STRATEGY else "consumer"
        after: cython.Py_ssize_t = self.misfit.room(pos, 1, self._end, what)
        if after < 0:
            return FAILED
        form: cython.longlong = r.u8()
        if form not in (STRATEGIES if kind == STRATEGY else CONSUMERS):
            return self.misfit.refuse(pos, what + " of kind {}", form)
        if kind == CONSUMER:
            after = self._identifier(i, pos + 1)
        elif kind == STRATEGY:
            after = self.misfit.room(pos, 9, self._end, what)
            if after >= 0:
                self.notes[i, NUMBER_NOTE] = r.i64le()
        else:
            after = self.misfit.room(pos + 1, 4, self._end, "u32")
            if after >= 0:
                self.notes[i, NUMBER_NOTE] = r.u32le()
        self.notes[i, FORM_NOTE] = form
        return after

    @compiled
    def _sized_kind(self, pos: cython.Py_ssize_t, what: str) -> cython.Py_ssize_t:
        """Read u8 kind | u8 length of what follows: where that ends, or FAILED."""
        start: cython.Py_ssize_t = self.misfit.room(pos, 2, self._end, what)
        if start < 0:
            return FAILED
        self._kind = self._r.u8()
        self._size = self._r.u8()
        return self.misfit.room(start, self._size, self._end, what)

    @compiled
    def _identifier(self, i: cython.Py_ssize_t, pos: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """u8 kind (1 number, 2 name) | u8 length | value."""
        after: cython.Py_ssize_t = self._sized_kind(pos, "identifier")
        if after < 0:
            return FAILED
        if self._kind == NAMED and self._size:
            return self._text(i, pos + 2, after)
        if self._kind != NUMBERED or self._size != 4:
            return self.misfit.refuse(pos, "identifier of kind {}, length {}", self._kind, self._size)
        self.notes[i, NUMBER_NOTE] = self._r.u32le()
        return after

    @compiled
    def _partitioning(self, i: cython.Py_ssize_t, pos: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """u8 kind (1 balanced, 2 partition id, 3 key) | u8 length | value."""
        after: cython.Py_ssize_t = self._sized_kind(pos, "partitioning")
        if after < 0:
            return FAILED
        if self._kind == PARTITION and self._size == 4:
            self.notes[i, NUMBER_NOTE] = self._r.u32le()
        elif self._kind == KEY and self._size:
            self.objects[i] = self._buf[pos + 2 : after]
        elif not (self._kind == BALANCED and self._size == 0):
            return self.misfit.refuse(pos, "partitioning of kind {}, length {}", self._kind, self._size)
        self.notes[i, FORM_NOTE] = self._kind
        return after

    @compiled
    def _composed(self, i: cython.Py_ssize_t, kind: cython.longlong, pos: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Note a group, a list, an optional field, or one of a rare type; the position after it, or FAILED."""
        after: cython.Py_ssize_t
        plan: FieldPlan = self.plan
        if kind == OTHER:
            try:
                self.objects[i], after = plan.parts[i](self._buf, pos, self._end)
            except MalformedBodyError as error:
                return self.misfit.take(error)
            return after
        part: FieldPlan = plan.parts[i]
        if self._inner is None:
            self._inner = Fields(self.misfit)
        inner: Fields = self._inner
        inner.told = self.told
        if kind == MANY:
            return self._many(i, part, inner, pos)
        after = pos
        if kind == MAYBE:
            after = self.misfit.room(pos, 1, self._end, "flag of " + plan.names[i])
            if after < 0 or not self._buf[pos]:
                return after
            if self._buf[pos] > 1:
                return self.misfit.refuse(pos, "flag {} before " + plan.names[i], self._buf[pos])
        after = inner.read(part, self._buf, after, self._end)
        if after >= 0:
            self.objects[i] = inner.whole()
        return after

    @compiled
    def _many(self, i: cython.Py_ssize_t, part: FieldPlan, inner: Fields, pos: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Note a list: as many as a field says, or as many as there are; the position after it, or FAILED."""
        after: cython.Py_ssize_t
        found: list[Any] = []
        self.objects[i] = found
        self.reached = i + 1
        wanted: cython.longlong = self.plan.rows[i, COUNT_AT]
        if wanted >= 0:
            wanted = max(0, self.number(wanted))
        while pos < self._end if wanted < 0 else len(found) < wanted:
            after = inner.read(part, self._buf, pos, self._end)
            if after < 0:
                return FAILED
            if after == pos:
                return self.misfit.refuse(pos, self.plan.names[i] + " without bytes")
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
