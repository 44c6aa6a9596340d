"""Bodies of commands: the rows of proto/iggy/layouts.txt, compiled to decoders.

A row is valid for a range of releases; a field may be of a type that has versions of its own. Both are expanded release
by release, and releases whose expansions are equal share one BodyLayout. That is a list of steps: a run of fixed fields
is one precompiled Struct, everything else a reader of field_types.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize
from typing import Any, NamedTuple

from dissectors.iggy import tables
from dissectors.iggy.field_types import READERS, MalformedBodyError, Reader, need, secret
from dissectors.wire.proto import proto

REQUEST, RESPONSE = "request", "response"
ERROR = "ERROR"  # in place of a command: the answer with a status that is not 0

Step = Callable[[bytes, int, int, dict[str, Any]], int]
"""(buf, pos, end, values so far) -> position after; adds its values."""

_FIXED = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "f32": "f", "bool": "?"}
_FIELD = re.compile(
    r"(?P<name>\w+):(?P<maybe>\??)(?P<type>[A-Za-z_0-9]+)(?::(?P<size>\d+))?(?:=(?P<only>\d+))?"
    r"(?:\[(?P<count>\w+|\*)\])?(?P<left>~?)"
)
_GROUP = re.compile(r"(?P<name>\w+):(?P<maybe>\??)\((?P<fields>.*)\)(?:\[(?P<count>\w+|\*)\])?(?P<left>~?)")
_RUN = "messages:messages_"


class BodyLayout:
    """One version of a body."""

    __slots__ = ("fields", "name", "releases", "run", "steps", "text")

    def __init__(self, name: str, fields: tuple[str, ...], releases: int) -> None:
        self.name = name
        self.releases = releases
        self.text = " ".join(fields)  # as layouts.txt has them
        self.run = fields[-1].removeprefix(_RUN) if fields and fields[-1].startswith(_RUN) else ""
        self.fields = tuple(map(parse, fields[:-1] if self.run else fields))
        self.steps = _compile(self.fields)

    def read(self, buf: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        """Fill `values` from buf[pos:end]; the position after the last field. Messages, if any, follow there."""
        for step in self.steps:
            pos = step(buf, pos, end, values)
        return pos


# --- steps -----------------------------------------------------------------------------------------------------------


def _fixed(names: list[str], codes: str) -> Step:
    struct, keys = Struct("<" + codes), tuple(names)

    def step(buf: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        after = need(pos, struct.size, end, keys[0])
        values.update(zip(keys, struct.unpack_from(buf, pos), strict=True))
        return after

    return step


def _one(name: str, read: Reader) -> Step:
    def step(buf: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        values[name], pos = read(buf, pos, end)
        return pos

    return step


def _maybe(name: str, read: Reader) -> Step:
    """Behind a flag."""

    def step(buf: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        after = need(pos, 1, end, f"flag of {name}")
        if buf[pos] > 1:
            raise MalformedBodyError(f"flag {buf[pos]} before {name}", pos)
        values[name], after = read(buf, after, end) if buf[pos] else (None, after)
        return after

    return step


def _left(step: Step) -> Step:
    """Only where bytes are left."""

    def maybe(buf: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        return step(buf, pos, end, values) if pos < end else pos

    return maybe


def _many(name: str, read: Reader, count: str) -> Step:
    def step(buf: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        found: list[Any] = []
        values[name] = found
        wanted = -1 if count == "*" else values.get(count, 0)
        while pos < end if wanted < 0 else len(found) < wanted:
            value, after = read(buf, pos, end)
            if after == pos:
                raise MalformedBodyError(f"{name} without bytes", pos)
            found.append(value)
            pos = after
        return pos

    return step


def _number(code: str, order: str = "<") -> Reader:
    struct = Struct(order + code)

    def read(buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        after = need(pos, struct.size, end, "number")
        return struct.unpack_from(buf, pos)[0], after

    return read


def _real(buf: bytes, pos: int, end: int) -> tuple[float | str, int]:
    """A float as JSON can hold it."""
    value, after = _number("f")(buf, pos, end)
    return value if math.isfinite(value) else str(value), after


def _group(fields: tuple[BodyField, ...]) -> Reader:
    steps = _compile(fields)

    def read(buf: bytes, pos: int, end: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        for step in steps:
            pos = step(buf, pos, end, values)
        return values, pos

    return read


def _only(read: Reader, value: int) -> Reader:
    """A number that distinguishes one row from another."""

    def exactly(buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        found, after = read(buf, pos, end)
        if found != value:
            raise MalformedBodyError(f"{found} where {value} stands", pos)
        return found, after

    return exactly


def _reader(kind: str, size: int) -> Reader:
    if kind == "secret":
        return secret(size)
    if kind == "f32":
        return _real
    if kind == "u64be":
        return _number("Q", ">")
    return _number(_FIXED[kind]) if kind in _FIXED else READERS[kind]


class BodyField(NamedTuple):
    """A field of a row: `name:type`, or `name:(field field …)` for a type of several fields."""

    name: str
    type: str  # empty for several fields
    fields: tuple[BodyField, ...] = ()
    size: int = 0  # bytes of a secret
    only: int | None = None  # the value that it must have
    maybe: bool = False  # behind a flag
    repeat: str = ""  # how many: `*`, or the field that says it; empty for one
    left: bool = False  # only where bytes are left

    @property
    def fixed(self) -> int:
        """Bytes of a number that is always there, 0 for any other field."""
        plain = not (self.maybe or self.repeat or self.left or self.only is not None)
        return calcsize("<" + _FIXED[self.type]) if plain and self.type in _FIXED else 0


@cache
def parse(text: str) -> BodyField:
    """A field as layouts.txt writes it; the head of the file lists what may stand around a type."""
    group = _GROUP.fullmatch(text)
    match = group or _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"layouts.txt: {text!r} is no field")
    around = bool(match["maybe"]), match["count"] or "", bool(match["left"])
    if group:
        return BodyField(group["name"], "", tuple(map(parse, _split(group["fields"]))), 0, None, *around)
    only = None if match["only"] is None else int(match["only"])
    return BodyField(match["name"], match["type"], (), int(match["size"] or 0), only, *around)


def _compile(fields: tuple[BodyField, ...]) -> list[Step]:
    steps: list[Step] = []
    names: list[str] = []
    codes = ""
    for field in fields:
        if field.fixed and field.type != "f32":
            names.append(field.name)
            codes += _FIXED[field.type]
            continue
        if names:
            steps.append(_fixed(names, codes))
            names, codes = [], ""
        read = _group(field.fields) if field.fields else _reader(field.type, field.size)
        if field.only is not None:
            read = _only(read, field.only)
        if field.repeat:
            step = _many(field.name, read, field.repeat)
        else:
            step = (_maybe if field.maybe else _one)(field.name, read)
        steps.append(_left(step) if field.left else step)
    if names:
        steps.append(_fixed(names, codes))
    return steps


def _split(text: str) -> tuple[str, ...]:
    """Fields of a row; a group in brackets is one."""
    return tuple(re.findall(r"\S*\([^()]*(?:\([^()]*\)[^()]*)*\)\S*|\S+", text))


# --- the file --------------------------------------------------------------------------------------------------------


@cache
def _file() -> dict[tuple[str, str], list[tuple[int, str]]]:
    """(request | response | type, name) -> its rows: releases and fields."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for line in proto("iggy", "layouts.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            side, name, reach, *fields = line.split(None, 3)
            since, _, until = reach.partition("..")
            found.setdefault((side, name), []).append((tables.span(since, until), fields[0] if fields else ""))
    return found


@cache
def _expand(text: str, bit: int) -> str | None:
    """A row's fields with every type replaced by its version of one release; None where it has none."""
    if text.islower():
        return text  # the names of types have capitals
    out = []
    for field in text.split():
        name, _, kind = field.rpartition(":")
        match = re.fullmatch(r"([*?]?)([A-Z]\w*)(.*)", field if field.startswith("*") else kind)
        if match is None:
            out.append(field)
            continue
        row = next((row for releases, row in _file()["type", match[2]] if releases & bit), None)
        inner = None if row is None else _expand(row, bit)
        if inner is None:
            return None
        out.append(inner if match[1] == "*" else f"{name}:{match[1]}({inner}){match[3]}")
    return " ".join(out)


@cache
def versions(side: str, name: str) -> tuple[BodyLayout, ...]:
    """Every version of a body, newest first; empty where nothing is known of it."""
    expanded: dict[str, int] = {}
    for i in range(len(tables.releases())):
        for releases, text in _file().get((side, name), ()):
            if releases >> i & 1 and (fields := _expand(text, 1 << i)) is not None:
                expanded[fields] = expanded.get(fields, 0) | 1 << i
    layouts = [BodyLayout(name, _split(fields), releases) for fields, releases in expanded.items()]
    return tuple(sorted(layouts, key=lambda layout: -layout.releases))


@cache
def commands_with_options() -> frozenset[str]:
    """The commands whose request or response holds options, in any release."""
    return frozenset(
        name
        for side, name in _file()
        if side != "type" and any(":options" in layout.text for layout in versions(side, name))
    )


def metadata_fits(values: dict[str, Any], start: int, after: int) -> bool:
    """Whether a send's `metadata_length` gives where its identifiers, partitioning and count end."""
    length = values.get("metadata_length")
    return length is None or after - start == 4 + length


REGISTER = 0  # in place of a command code: the login of VSR, with a password or a token
_REGISTER_CODES = (40, 45)


@cache
def _likeliest(allowed: int) -> int:
    """Of some releases, or of all: the one that most use."""
    return max((release.weight, i) for i, release in enumerate(tables.releases()) if not allowed or allowed >> i & 1)[1]


@cache
def candidates(side: str, code: int, allowed: int) -> tuple[BodyLayout, ...]:
    """The versions of a command's body, those that `allowed` releases use first, the likeliest of them before."""
    best = _likeliest(allowed)
    found = [
        layout
        for one in (_REGISTER_CODES if code == REGISTER else (code,))
        for command in tables.commands().get(one, ())
        for layout in versions(side, command.name)
        if layout.releases & command.releases
    ]
    return tuple(sorted(found, key=lambda layout: (not layout.releases >> best & 1, not layout.releases & allowed)))


@cache
def error_texts(allowed: int) -> bool:
    """Whether any of the allowed releases answers an error with a text."""
    return any(layout.steps for layout in versions(RESPONSE, ERROR) if layout.releases & allowed)


@cache
def empty(side: str, code: int) -> int:
    """The releases whose body of a command is empty where others' is not; 0 where all are alike."""
    found = candidates(side, code, 0)
    silent = sum(layout.releases for layout in found if not layout.steps and not layout.run)
    return silent if any(layout.steps for layout in found) else 0


@cache
def delivers(code: int) -> bool:
    """Whether a command is answered with messages."""
    return any(layout.run for layout in candidates(RESPONSE, code, 0))


@cache
def has_payload(code: int, allowed: int) -> bool:
    """Whether any of the allowed releases answers a command with a payload; so it may with an unknown command."""
    found = [layout for layout in candidates(RESPONSE, code, allowed) if layout.releases & allowed]
    return any(layout.steps for layout in found) or not (code == REGISTER or code in tables.commands())
