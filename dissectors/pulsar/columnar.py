"""Protobuf messages of one type, many at once: what the protobuf library finds in each, by column.

A message is a row of fields, each a tag (field number << 3 | wire type), then a varint, or a length and so many bytes.
Every message has a cursor. A step reads the next tag of all messages, and then, for each field that begins at a cursor,
the values of that field with a few numpy operations. Which fields a message has comes from the schema.

A message is not `ok` where the library might find more in it than is found here: an unknown field, a number that its
type does not hold, an unknown value of an enumeration, a required field that is missing, one that comes twice, many
fields. The library reads these one by one. For the others, the columns hold what the library would have found.

Source: protobuf encoding, "Message Structure"; the schema in proto/pulsar/PulsarApi.proto.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from dissectors.frame_columns import Bools, Ints, Octets
from dissectors.pulsar import api

_STEPS = 48  # fields of one message; the library is quicker with more
_DEPTH = 4  # messages in messages
_VARINT, _BYTES = 0, 2  # wire types


class FieldPlan(NamedTuple):
    """How the values of a field are read and checked."""

    name: str
    repeated: bool
    low: int = 0  # of a number: the least and the greatest that its type holds
    high: int = 0
    sized: bool = False  # a length and so many bytes
    message: str = ""  # the type of these bytes, where they are a message


class MessagePlan(NamedTuple):
    """The fields of a message type by tag, and those that must be there."""

    fields: dict[int, FieldPlan]
    required: tuple[str, ...]


class Messages:
    """Messages of one type. Fields of numbers have a value in each message; fields of bytes a start and a size."""

    def __init__(self, count: int) -> None:
        self.ok: Bools = np.ones(count, bool)
        self.nested: dict[str, Nested] = {}
        self._present: dict[str, Bools] = {}
        self._values: dict[str, Ints] = {}  # of a number; where bytes start
        self._sizes: dict[str, Ints] = {}
        self._zeros: Ints = np.zeros(count, np.int64)

    def has(self, name: str) -> Bools:
        """Whether the field is present."""
        present = self._present.get(name)
        return self._zeros != 0 if present is None else present

    def number(self, name: str, default: int = 0) -> Ints:
        """The field's value; 64-bit numbers as signed ones."""
        values = self._values.get(name, self._zeros)
        return np.where(self.has(name), values, default) if default else values

    def size(self, name: str) -> Ints:
        """Bytes in a field; 0 where it is absent."""
        return self._sizes.get(name, self._zeros)

    def texts(self, name: str, buf: bytes, rows: Ints) -> list[bytes | None]:
        """The bytes of a field in some messages; None where it is absent."""
        columns = (self.has(name)[rows].tolist(), self.number(name)[rows].tolist(), self.size(name)[rows].tolist())
        return [buf[at : at + size] if there else None for there, at, size in zip(*columns, strict=True)]

    def put(self, name: str, rows: Ints, values: Ints) -> Bools:
        """Keep a field's values in some messages; where they are there already."""
        if name not in self._values:
            self._values[name] = self._zeros.copy()
            self._present[name] = np.zeros(len(self.ok), bool)
        present = self._present[name]
        again = present[rows]
        present[rows] = True
        self._values[name][rows] = values
        return again

    def put_sizes(self, name: str, rows: Ints, sizes: Ints) -> None:
        self._sizes.setdefault(name, self._zeros.copy())[rows] = sizes


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
    message = api.DESCRIPTOR.message_types_by_name[name]
    fields = {}
    for field in message.fields:
        read = _field_plan(field)
        if read is not None:
            fields[field.number << 3 | (_BYTES if read.sized else _VARINT)] = read
    return MessagePlan(fields, tuple(field.name for field in message.fields if field.is_required))


def _field_plan(field: Any) -> FieldPlan | None:
    """How a field is read; None for types that are left to the library."""
    if field.message_type is not None:
        return FieldPlan(field.name, field.is_repeated, sized=True, message=field.message_type.name)
    if field.enum_type is not None:
        numbers = sorted(value.number for value in field.enum_type.values)
        if numbers != list(range(numbers[0], numbers[-1] + 1)):
            return None
        return FieldPlan(field.name, field.is_repeated, numbers[0], numbers[-1])
    kind = _TYPES.get(field.type)
    if kind is None:
        return None
    if kind in _RANGES:
        return FieldPlan(field.name, field.is_repeated, *_RANGES[kind])
    return FieldPlan(field.name, field.is_repeated, sized=True)


def varints(octets: Octets, at: Ints) -> tuple[Ints, Ints, Bools]:
    """The varints at some indices as signed 64-bit numbers, the indices after them, and which are malformed."""
    value = octets[at].astype(np.int64)
    after = at + 1
    malformed = np.zeros(len(at), bool)
    long = np.flatnonzero(value > 0x7F)
    value[long] &= 0x7F
    shift = 7
    while len(long):
        byte = octets[after[long]].astype(np.int64)
        value[long] |= (byte & 0x7F) << shift
        after[long] += 1
        if shift == 63:
            malformed[long[byte > 1]] = True
            break
        long = long[byte > 0x7F]
        shift += 7
    return value, after, malformed


def read(name: str, octets: Octets, start: Ints, end: Ints, depth: int = 0) -> Messages:
    """The messages of a type that lie at [start, end) each. Behind the last one there must be some bytes more."""
    fields, required = plan(name)
    found = Messages(len(start))
    at = start.copy()
    pieces: dict[FieldPlan, list[tuple[Ints, Ints, Ints]]] = {}
    active = np.flatnonzero(at < end)
    for _ in range(_STEPS):
        if not len(active):
            break
        tag, p, malformed = varints(octets, at[active])
        found.ok[active[malformed]] = False
        for value in [int(tag[0])] if (tag == tag[0]).all() else np.unique(tag).tolist():
            which = tag == value
            rows = active[which]
            field = fields.get(value)
            if field is None:
                found.ok[rows] = False
                continue
            number, after, bad = varints(octets, p[which])
            if field.sized:
                bad |= (number < 0) | (number > end[rows] - after)
                number[bad] = 0
                if field.message:
                    pieces.setdefault(field, []).append((rows, after, number))
                if not field.repeated:
                    bad |= found.put(field.name, rows, after)
                    found.put_sizes(field.name, rows, number)
                else:
                    found.put(field.name, rows, after)
                after = after + number
            else:
                bad |= (number < field.low) | (number > field.high)
                again = found.put(field.name, rows, number)
                if not field.repeated:
                    bad |= again
            found.ok[rows[bad]] = False
            p[which] = after
        at[active] = p
        active = active[found.ok[active] & (p < end[active])]
    found.ok &= at == end
    for name_ in required:
        found.ok &= found.has(name_)
    for field, parts in pieces.items():
        parent, begin, size = (np.concatenate(column) for column in zip(*parts, strict=True))
        if depth == _DEPTH:
            found.ok[parent] = False
            continue
        inner = read(field.message, octets, begin, begin + size, depth + 1)
        found.ok[parent[~inner.ok]] = False
        found.nested[field.name] = Nested(parent, inner)
    return found
