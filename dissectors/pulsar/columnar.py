"""Protobuf messages of some types, many at once: what the protobuf library finds in each, by column.

A message is a row of fields, each a tag (field number << 3 | wire type), then a varint, or a length and so many bytes.
Every message has a cursor, and a step reads one field of all of them, of whatever type, with some numpy operations:
its tag, what the schema says of that tag in a message of this type, its number or length. The messages within
messages are then read in the same way, all together.

Fields that the schema does not have are passed over: those of newer versions, and of very old ones.

A message is not `ok` where the library might find more in it than is found here: a number that its type does not hold,
an unknown value of an enumeration, a required field that is missing, one that comes twice, many fields. The library
reads these one by one. For the others, the columns hold what the library would have found.

Source: protobuf encoding, "Message Structure"; the schema in proto/pulsar/PulsarApi.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from dissectors.arrow import Bools, Ints, Octets
from dissectors.pulsar import api
from dissectors.wire import varint

_STEPS = 48  # fields of one message; the library is quicker with more
_DEPTH = 4  # messages in messages
_TAGS = 512  # tags of two bytes end far beyond; the last of these is no field's
_FIELDS = 62  # of one type: a bit each
_VARINT, _BYTES = 0, 2  # wire types
_FIXED = {1: 8, 5: 4}  # the same of values that have so many bytes
_ODD = 0  # the number of a field that no message may have


class FieldPlan(NamedTuple):
    """How the values of a field are read and checked."""

    name: str
    bit: int  # of what is noted of a message: that it has this field
    column: int  # of its values: a number, or where bytes start; their size is in the next column
    repeated: bool
    low: int = 0  # of a number: the least and the greatest that its type holds
    high: int = 0
    sized: bool = False  # a length and so many bytes
    message: str = ""  # the type of these bytes, where they are a message
    fixed: int = 0  # of sized ones: so many bytes, without a length


class MessagePlan(NamedTuple):
    """The fields of a message type, by tag and by name."""

    fields: dict[int, FieldPlan]
    names: dict[str, FieldPlan]
    columns: int  # the last two are of fields that the schema does not have
    required: int  # the bits of those that must be there


class Messages:
    """Messages of one type. Fields of numbers have a value in each message; fields of bytes a start and a size."""

    def __init__(self, plan: MessagePlan, ok: Bools, seen: Ints, values: Ints) -> None:
        """seen: the bits of the fields that each message has; values: int64[columns, messages], 0 where absent."""
        self.ok = ok
        self.nested: dict[str, Nested] = {}
        self._fields = plan.names
        self._seen = seen
        self._values = values

    def has(self, name: str) -> Bools:
        """Whether the field is present."""
        field = self._fields.get(name)
        return np.zeros(len(self.ok), bool) if field is None else (self._seen & field.bit) != 0

    def number(self, name: str, default: int = 0) -> Ints:
        """The field's value; 64-bit numbers as signed ones."""
        field = self._fields.get(name)
        if field is None:
            return np.full(len(self.ok), default)
        values: Ints = self._values[field.column]
        return np.where(self.has(name), values, default) if default else values

    def size(self, name: str) -> Ints:
        """Bytes in a field; 0 where it is absent."""
        sizes: Ints = self._values[self._fields[name].column + 1]
        return sizes

    def texts(self, name: str, buf: bytes, rows: Ints) -> list[bytes | None]:
        """The bytes of a field in some messages; None where it is absent."""
        start = self.number(name)[rows]
        columns = (self.has(name)[rows].tolist(), start.tolist(), (start + self.size(name)[rows]).tolist())
        return [buf[at:end] if there else None for there, at, end in zip(*columns, strict=True)]


class Nested(NamedTuple):
    """Messages inside messages: `parent` is the index of the message that each is in."""

    parent: Ints
    messages: Messages


_RANGES = {  # of the schema's types
    "TYPE_BOOL": (0, 1),
    "TYPE_INT32": (-(1 << 31), (1 << 31) - 1),
    "TYPE_UINT32": (0, (1 << 32) - 1),
    "TYPE_INT64": (-(1 << 63), (1 << 63) - 1),
    "TYPE_UINT64": (-(1 << 63), (1 << 63) - 1),
}
_TYPES = {getattr(FieldDescriptor, name): name for name in (*_RANGES, "TYPE_STRING", "TYPE_BYTES")}


@cache
def plan(name: str) -> MessagePlan:
    """How messages of a type are read."""
    fields: dict[int, FieldPlan] = {}
    column = required = 0
    for index, field in enumerate(api.DESCRIPTOR.message_types_by_name[name].fields):
        bit = 1 << min(index, _FIELDS)
        read = _field_plan(field, bit, column) if index < _FIELDS else None
        if read is not None:
            fields[field.number << 3 | (_BYTES if read.sized else _VARINT)] = read
            column += 1 + read.sized
        if field.is_required:
            required |= bit
    return MessagePlan(fields, {field.name: field for field in fields.values()}, column + 2, required)


def _field_plan(field: Any, bit: int, column: int) -> FieldPlan | None:
    """How a field is read; None for types that are left to the library."""
    repeated = field.is_repeated
    if field.message_type is not None:
        return FieldPlan(field.name, bit, column, repeated, sized=True, message=field.message_type.name)
    if field.enum_type is not None:
        numbers = sorted(value.number for value in field.enum_type.values)
        if numbers != list(range(numbers[0], numbers[-1] + 1)):
            return None
        return FieldPlan(field.name, bit, column, repeated, numbers[0], numbers[-1])
    kind = _TYPES.get(field.type)
    if kind is None:
        return None
    if kind in _RANGES:
        return FieldPlan(field.name, bit, column, repeated, *_RANGES[kind])
    return FieldPlan(field.name, bit, column, repeated, sized=True)


def _passed_over(column: int) -> dict[int, FieldPlan]:
    """How fields are read that the schema does not have, by wire type. column: of values that nobody wants."""
    return {
        _VARINT: FieldPlan("", 0, column, True, *_RANGES["TYPE_INT64"]),
        _BYTES: FieldPlan("", 0, column, True, sized=True),
        **{wire_type: FieldPlan("", 0, column, True, sized=True, fixed=size) for wire_type, size in _FIXED.items()},
    }


class _Schema:
    """All fields of all types, as tables. The first field is none of any type, and holds no number."""

    def __init__(self) -> None:
        types = list(api.DESCRIPTOR.message_types_by_name)
        self.types = {name: number for number, name in enumerate(types)}
        self.fields = [FieldPlan("", 0, 0, True, 1, 0)]
        by_tag = np.full((len(types), _TAGS // 8, 8), _ODD)  # of each type: number and wire type
        for tags, name in zip(by_tag, types, strict=True):
            columns = plan(name).columns
            for wire_type, field in _passed_over(columns - 2).items():
                tags[1:, wire_type] = len(self.fields)
                self.fields.append(field)
            tags[[f.number for f in api.DESCRIPTOR.message_types_by_name[name].fields if f.number < _TAGS // 8]] = _ODD
            for tag, field in plan(name).fields.items():
                if tag < _TAGS:
                    tags[tag >> 3, tag & 7] = len(self.fields)
                    self.fields.append(field)
        self.by_tag = by_tag.ravel()
        rows = [
            (f.bit, 0 if f.repeated else f.bit, f.column, f.low, f.high, f.sized, bool(f.message), f.fixed)
            for f in self.fields
        ]
        self.rows = np.array(rows, np.int64)  # of each field; of this width they are taken quickly
        self.required = np.array([plan(name).required for name in types])
        self.columns = np.array([plan(name).columns for name in types])


_schema = cache(_Schema)


def read(
    types: Sequence[str], counts: Sequence[int], octets: Octets, start: Ints, end: Ints, depth: int = 0
) -> list[Messages]:
    """The messages that lie at [start, end) each: first so many of the first type, then those of the next.

    Behind the last one there must be some bytes more.
    """
    schema, count = _schema(), np.array(counts, np.int64)
    type_ = np.array([schema.types[name] for name in types], np.int64)
    first = np.cumsum(count) - count
    cells = schema.columns[type_] * count
    begin = np.cumsum(cells) - cells
    group = np.repeat(np.arange(len(types)), count)
    index = np.arange(len(start))
    cell = np.repeat(begin - first * schema.columns[type_], count) + index * np.repeat(schema.columns[type_], count)
    values, seen, reached = np.zeros(cells.sum(), np.int64), np.zeros(len(start), np.int64), start.copy()
    state = np.stack((index, np.repeat(type_ * _TAGS, count), cell, end), axis=1)
    inner = _read_fields(octets, start, state, values, seen, reached)
    required = np.repeat(schema.required[type_], count)
    ok = (reached == end) & ((seen & required) == required)
    found = []
    for name, n, i, k in zip(types, counts, first.tolist(), begin.tolist(), strict=True):
        of_type = plan(name)
        columns = values[k : k + of_type.columns * n].reshape(n, of_type.columns).T
        found.append(Messages(of_type, ok[i : i + n], seen[i : i + n], columns))
    if inner:
        _read_nested(found, group, index - first[group], inner, octets, depth)
    return found


def _read_fields(
    octets: Octets, at: Ints, state: Ints, values: Ints, seen: Ints, reached: Ints
) -> list[tuple[Ints, ...]]:
    """Read the messages that begin at some indices: fill values, bits seen, and how far each was `reached`.

    state: int64[n, 4]: of each message its index, the tags of its type, its first cell in values, its end.
    Returns the messages within, (index of the message around it, field, start, size) as columns, for each step.
    """
    schema = _schema()
    inner: list[tuple[Ints, ...]] = []
    going, bits = at < state[:, 3], seen
    for _ in range(_STEPS):
        if not going.all():
            keep = np.flatnonzero(going)
            state, at, bits = (column.take(keep, axis=0) for column in (state, at, bits))
        if not len(at):
            break
        tag, p, malformed = varint.many(octets, at)
        field = schema.by_tag.take(state[:, 1] + np.minimum(tag.view(np.uint64), np.uint64(_TAGS - 1)).view(np.int64))
        field[malformed] = _ODD
        at = p
        number, p, malformed = varint.many(octets, at)
        field[malformed] = _ODD
        rows = schema.rows.take(field, axis=0)
        bit, once, column, low, high, sized, message, fixed = rows.T
        if fixed.any():
            number, p = np.where(fixed, fixed, number), np.where(fixed, at, p)
        with_bytes = sized != 0
        good = (number >= low) & (number <= np.where(with_bytes, state[:, 3] - p, high)) & ((bits & once) == 0)
        if not good.all():  # the cursors of the others stay where they are, short of their ends
            keep = np.flatnonzero(good)
            state, bits, field, number, p, rows, with_bytes = (
                each.take(keep, axis=0) for each in (state, bits, field, number, p, rows, with_bytes)
            )
            bit, once, column, low, high, sized, message, _ = rows.T
        which, _, cell, stop = state.T
        bits = bits | bit
        where = cell + column
        values[where] = np.where(with_bytes, p, number)
        some = np.flatnonzero(with_bytes)
        if len(some):
            values[where.take(some) + 1] = number.take(some)
            nested = np.flatnonzero(message)
            if len(nested):
                inner.append(tuple(each.take(nested) for each in (which, field, p, number)))
            p += number * sized
        going = p < stop
        done = np.flatnonzero(~going)
        reached[which[done]], seen[which[done]] = p[done], bits[done]
        at = p
    return inner


def _read_nested(
    found: list[Messages], group: Ints, row: Ints, inner: list[tuple[Ints, ...]], octets: Octets, depth: int
) -> None:
    """The messages within messages, as `_read_fields` gives them."""
    schema = _schema()
    within, field, start, size = (np.concatenate(column) for column in zip(*inner, strict=True))
    key = group[within] * len(schema.fields) + field
    turn = np.argsort(key, kind="stable")
    key, start, size, parent = key[turn], start[turn], size[turn], row[within[turn]]
    keys, counts = np.unique(key, return_counts=True)
    fields = [schema.fields[number] for number in (keys % len(schema.fields)).tolist()]
    of = [found[number] for number in (keys // len(schema.fields)).tolist()]
    parents = np.split(parent, np.cumsum(counts)[:-1])
    if depth == _DEPTH:
        for messages, some in zip(of, parents, strict=True):
            messages.ok[some] = False
        return
    each = read([plan.message for plan in fields], counts.tolist(), octets, start, start + size, depth + 1)
    for messages, plan_, some, found_ in zip(of, fields, parents, each, strict=True):
        messages.ok[some[~found_.ok]] = False
        messages.nested[plan_.name] = Nested(some, found_)
