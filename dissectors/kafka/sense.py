"""Whether bytes are a sensible message of some API and version: the schema read field by field, nothing built.

To explain an answer whose request was not captured, it is tried as the answer to every version of every API. Nearly
all of these tries end within a few fields, so nothing is compiled for them; a decoder (full.py) would say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Generic, TypeVar

from dissectors.kafka import schema
from dissectors.kafka.errors import is_known
from dissectors.kafka.schema import Field
from dissectors.kafka.writer import SIZES, MalformedError, bad, varint

LONGEST_THROTTLE = 3_600_000  # ms
T = TypeVar("T")
_FAILURES = (IndexError, MalformedError)


@cache
def shape(name: str, version: int) -> Struct:
    """A message in one version."""
    message = schema.message(name)
    return Struct(message.fields, version, version in message.flexible)


class Shapes(Generic[T]):
    """Many messages, tried at once: the fields with which some of them begin alike are read once."""

    def __init__(self) -> None:
        self._next: list[tuple[_Value, Shapes[T]]] = []
        self._ends: list[tuple[Struct, T]] = []

    def add(self, message: Struct, stands_for: T) -> None:
        """One more message, and what to tell where it fits."""
        here = self
        for value in message.values:
            known = next((after for other, after in here._next if other.is_like(value)), None)
            if known is None:
                known = Shapes()
                here._next.append((value, known))
            here = known
        here._ends.append((message, stands_for))

    def fitting(self, data: bytes, at: int) -> Iterator[T]:
        """The messages that data[at:] may be: exactly, with errors that exist, times that make sense, and text."""
        size = len(data)
        for message, stands_for in self._ends:
            with suppress(*_FAILURES):
                if message.tags(data, at, size) == size:
                    yield stands_for
        for value, after in self._next:
            try:
                behind = value.read(data, at, size)
            except _FAILURES:
                continue
            yield from after.fitting(data, behind)


class Struct:
    """The fields of a struct in one version."""

    __slots__ = ("_fields", "_flexible", "_plain", "_tagged", "_version")

    def __init__(self, fields: tuple[Field, ...], version: int, flexible: bool) -> None:
        self._fields = fields
        self._version = version
        self._flexible = flexible
        self._plain: list[_Value] | None = None  # made when first read: most are not
        self._tagged: dict[int, _Value] = {}

    @property
    def values(self) -> list[_Value]:
        """What it holds besides tagged fields."""
        return self._plain or self._make()

    def _make(self) -> list[_Value]:
        there = [f for f in self._fields if self._version in f.versions]
        tagged = [f for f in there if f.tag >= 0 and self._version in f.tagged]
        self._tagged = {f.tag: _Value(f, self._version, self._flexible) for f in tagged}
        self._plain = [_Value(f, self._version, self._flexible) for f in there if f not in tagged]
        return self._plain

    def read(self, d: bytes, at: int, end: int) -> int:
        """The index after the struct at d[at]. Raises where it makes no sense."""
        for value in self.values:
            at = value.read(d, at, end)
        return self.tags(d, at, end)

    def tags(self, d: bytes, at: int, end: int) -> int:
        """The index after the tagged fields that it ends with, if it does."""
        if not self._flexible:
            return at
        count, at = _unsigned(d, at)
        for _ in range(count):
            tag, at = _unsigned(d, at)
            size, at = _unsigned(d, at)
            known = self._tagged.get(tag)
            if known is None or size > end - at or known.read(d, at, at + size) != at + size:
                bad("an unknown tagged field, or one of another size")
            at += size
        return at


class _Value:
    """One field: how it is read, and what its value may be."""

    __slots__ = ("_array", "_compact", "_error", "_nullable", "_printable", "_size", "_struct", "_throttle", "_wide")

    def __init__(self, field: Field, version: int, flexible: bool) -> None:
        self._array = field.array
        self._compact = flexible if field.flexible is None else version in field.flexible
        self._nullable = version in field.nullable
        self._size = SIZES.get(field.type, 0)
        self._struct = Struct(field.fields, version, flexible) if field.struct else None
        self._wide = field.type in ("bytes", "records")
        self._printable = field.type == "string" and not field.name.lower().endswith("message")
        self._error = field.type == "int16" and field.name.lower().endswith("errorcode")
        self._throttle = field.name == "throttleTimeMs"

    def is_like(self, other: _Value) -> bool:
        """Whether both are read in the same way; structs are taken to differ."""
        if self._struct is not None or other._struct is not None:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in _Value.__slots__)

    def read(self, d: bytes, at: int, end: int) -> int:
        """The index after the value at d[at]."""
        if not self._array:
            return self._one(d, at, end, self._nullable)
        n, at = self._length(d, at, True)
        if n > end - at:
            bad("a count beyond the end")
        for _ in range(n):
            at = self._one(d, at, end, False)
        return at

    def _one(self, d: bytes, at: int, end: int, nullable: bool) -> int:
        if self._struct is not None:
            if nullable:
                at += 1
                if d[at - 1] > 127:
                    return at
            return self._struct.read(d, at, end)
        if self._size:
            after = at + self._size
            if after > end:
                bad("a value beyond the end")
            if self._error and not is_known(int.from_bytes(d[at:after], "big", signed=True)):
                bad("no such error")
            if self._throttle and not 0 <= int.from_bytes(d[at:after], "big", signed=True) <= LONGEST_THROTTLE:
                bad("a strange throttle time")
            return after
        n, at = self._length(d, at, self._wide)
        if n > end - at:
            bad("text or bytes beyond the end")
        after = at + max(n, 0)
        if self._printable and not d[at:after].decode("utf-8", "backslashreplace").isprintable():
            bad("text that cannot be shown")
        return after

    def _length(self, d: bytes, at: int, wide: bool) -> tuple[int, int]:
        if self._compact:
            n, at = _unsigned(d, at)
            return n - 1, at
        after = at + (4 if wide else 2)
        n = int.from_bytes(d[at:after], "big", signed=True)
        if n < -1:
            bad("a negative length")
        return n, after


def _unsigned(d: bytes, at: int) -> tuple[int, int]:
    n = d[at]
    return (n, at + 1) if n < 0x80 else varint(d, at + 1, n)
