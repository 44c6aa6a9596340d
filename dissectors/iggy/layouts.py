"""Bodies of commands: the rows of proto/iggy/layouts.txt, compiled to plans.

A row is valid for a range of releases; a field may be of a type that has versions of its own. Both are expanded release
by release, and releases whose expansions are equal share one BodyLayout, with a plan that walk.py follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import takewhile
from struct import calcsize
from typing import Any, NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy import tables
from dissectors.iggy.field_types import READERS
from dissectors.iggy.walk import GROUP, KIND_NAMES, MANY, MAYBE, OTHER, FieldPlan
from dissectors.wire.proto import proto

REQUEST, RESPONSE = "request", "response"
ERROR = "ERROR"  # in place of a command: the answer with a status that is not 0

KINDS = {name: kind for kind, name in enumerate(KIND_NAMES)}
"""Types that the walk knows; field_types.READERS has the others."""

_FIXED = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "bool": "?"}
_FIELD = re.compile(
    r"(?P<name>\w+):(?P<maybe>\??)(?P<type>[A-Za-z_0-9]+)(?::(?P<size>\d+))?(?:=(?P<only>\d+))?"
    r"(?:\[(?P<count>\w+|\*)\])?(?P<left>~?)"
)
_GROUP = re.compile(r"(?P<name>\w+):(?P<maybe>\??)\((?P<fields>.*)\)(?:\[(?P<count>\w+|\*)\])?(?P<left>~?)")
_RUN = "messages:messages_"
_PARTS = frozenset({"sections", "confirmations"})
_REMEMBERED = 4096  # facts of commands
_PLACED = (
    *("auto_commit", "consumer", "count", "current_offset", "group_id", "messages_count", "metadata_length"),
    *("offset", "partition_id", "partitioning", "stored_offset", "stream_id", "topic_id"),
)
_INTRODUCING = frozenset({"version", "sdk_name", "protocol_version"})


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


@final
@compiled
class BodyLayout:
    """One version of a body.

    name: of the command
    releases: that have this version
    text: its fields as layouts.txt has them
    run: the layout of messages behind the fields, "" where there are none
    has_parts: whether rows need what is listed in it
    has_times: whether it says when something was created
    introduces: whether it says which software a client is
    at_…: index of a field that rows need, -1 where there is none
    """

    name: str
    releases: cython.longlong
    text: str
    run: str
    fields: tuple[BodyField, ...]
    plan: FieldPlan
    has_parts: cython.bint
    has_times: cython.bint
    introduces: cython.bint
    at_auto_commit: cython.Py_ssize_t
    at_consumer: cython.Py_ssize_t
    at_count: cython.Py_ssize_t
    at_current_offset: cython.Py_ssize_t
    at_group_id: cython.Py_ssize_t
    at_messages_count: cython.Py_ssize_t
    at_metadata_length: cython.Py_ssize_t
    at_offset: cython.Py_ssize_t
    at_partition_id: cython.Py_ssize_t
    at_partitioning: cython.Py_ssize_t
    at_stored_offset: cython.Py_ssize_t
    at_stream_id: cython.Py_ssize_t
    at_topic_id: cython.Py_ssize_t

    def __init__(self, name: str, fields: tuple[str, ...], releases: int) -> None:
        self.name = name
        self.releases = releases
        self.text = " ".join(fields)
        self.run = fields[-1].removeprefix(_RUN) if fields and fields[-1].startswith(_RUN) else ""
        self.fields = tuple(map(parse, fields[:-1] if self.run else fields))
        self.plan = _compile(self.fields)
        self.has_parts = not _PARTS.isdisjoint(self.plan.names)
        self.has_times = "created_at:" in self.text
        self.introduces = not _INTRODUCING.isdisjoint(self.plan.names)
        for field in _PLACED:
            setattr(self, f"at_{field}", self.plan.place(field))


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


def _compile(fields: tuple[BodyField, ...]) -> FieldPlan:
    """The plan of fields; numbers in a row are checked for room together."""
    names = [field.name for field in fields]
    labels, parts, rows = [], [], []
    before: BodyField | None = None
    for i, field in enumerate(fields):
        size = field.size
        if field.fixed and not (before and before.fixed):
            size = sum(later.fixed for later in takewhile(lambda later: later.fixed, fields[i:]))
        elif field.type in _FIXED and not field.fixed:
            size = calcsize("<" + _FIXED[field.type])
        count_at = names.index(field.repeat) if field.repeat in names[:i] else -1
        labels.append(field.name if field.fixed else "number")
        parts.append(_part(field))
        rows.append([_kind(field), field.left, size, -1 if field.only is None else field.only, count_at])
        before = field
    return FieldPlan(names, labels, parts, rows)


def _kind(field: BodyField) -> int:
    if field.repeat:
        return MANY
    if field.maybe:
        return MAYBE
    return GROUP if field.fields else KINDS.get(field.type, OTHER)


def _part(field: BodyField) -> Any:
    """What reads the inner of a field; None for a plain one."""
    if field.fields:
        return _compile(field.fields)
    if field.repeat or field.maybe:
        return _compile((BodyField("", field.type, (), field.size),))
    return None if field.type in KINDS else READERS[field.type]


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


def texts() -> Iterator[str]:
    """The fields of every row, as the file has them."""
    return (fields for rows in _file().values() for _, fields in rows)


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
    return any(layout.plan.count for layout in versions(RESPONSE, ERROR) if layout.releases & allowed)


@final
@compiled
class CommandFacts:
    """What a command code means to some releases.

    name: COMMAND_ and the number where no release has it, as `known` says
    ambiguous: whether its name depends on the release; then a body that is read to its end tells it
    waits, silent: whether it lets the server wait for data; has no answer
    delivers: whether it is answered with messages
    has_payload: whether it is ever answered with a payload; so may be what no release has
    empty: the releases that answer it with nothing where others do not; 0 where all are alike
    requests, responses: the versions of its bodies: see `candidates`
    """

    name: str
    known: cython.bint
    ambiguous: cython.bint
    waits: cython.bint
    silent: cython.bint
    delivers: cython.bint
    has_payload: cython.bint
    empty: cython.longlong
    requests: tuple[BodyLayout, ...]
    responses: tuple[BodyLayout, ...]

    def __init__(self, code: int, allowed: int, best: int) -> None:
        command = tables.meaning(code, best)
        self.requests, self.responses = candidates(REQUEST, code, allowed), candidates(RESPONSE, code, allowed)
        self.name = f"COMMAND_{code}" if command is None else command.name
        self.known = command is not None
        self.ambiguous = len(tables.commands().get(code, ())) > 1
        self.waits, self.silent = (False, False) if command is None else (command.waits, command.silent)
        self.delivers = any(layout.run for layout in self.responses)
        filled = [layout for layout in self.responses if layout.plan.count]
        self.has_payload = any(layout.releases & allowed for layout in filled) or not (self.known or code == REGISTER)
        silent = sum(layout.releases for layout in self.responses if not layout.plan.count and not layout.run)
        self.empty = silent if filled else 0


@lru_cache(_REMEMBERED)
def facts(code: int, allowed: int, best: int) -> CommandFacts:
    """What a command code means to the releases `allowed`, of which `best` is the likeliest."""
    return CommandFacts(code, allowed, best)
