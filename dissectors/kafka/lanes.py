"""One message and version in many frames at once: what a skimmer finds, by column.

The frames are lanes: each has a cursor, and a step moves the cursors of all lanes over the same field with a few numpy
operations. Arrays are walked in rounds, with the lanes that have so many elements. A lane leaves (`ok` is False) where
its bytes are not plain: a length beyond the end, a tagged field, an error, a long varint, many elements; the skimmer
or the conversation looks at it then. For the lanes that stay, the columns hold what the skimmer would have found.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dissectors.kafka import schema
from dissectors.kafka.schema import Field
from dissectors.kafka.skim import FORGOTTEN, SkimWriter
from dissectors.kafka.writer import SIZES
from dissectors.stretch import Bools, Ints, Octets, integers

KEPT = frozenset({"acks", "clientSoftwareName", "clientSoftwareVersion"})  # single values that are wanted here
_STRIDES = 1024  # elements of one array that are stepped over at once
_ROUNDS = 8  # elements of one array; beyond it a loop over frames is as quick
_ID = 16  # bytes of a topic id
_DEEP = 6  # structs in structs


class Step(NamedTuple):
    """One movement of the cursors."""

    what: str
    size: int = 0  # of a value, of an element; bytes to step over
    stride: int = 0  # of an element that ends with its tagged fields, where it has none
    compact: bool = False  # the length is a varint
    wide: bool = False  # … or else has four bytes
    name: str = ""
    counted: bool = False  # the elements are partitions
    inner: tuple[Step, ...] = ()


class Topics(NamedTuple):
    """Where topics stand, one for each of some lanes; ids have 16 bytes and no name."""

    lane: Ints
    start: Ints
    size: Ints
    is_id: Bools


class Names(NamedTuple):
    """Where a topic's id and its name stand."""

    lane: Ints
    id_at: Ints
    start: Ints
    size: Ints


class Found(NamedTuple):
    """What is in the lanes."""

    ok: Bools
    topics: list[Topics]  # in wire order
    names: list[Names]
    partitions: Ints
    sets: list[tuple[Ints, Ints, Ints]]  # lane, start, size of record sets
    values: dict[str, Ints]  # a number
    texts: dict[str, tuple[Ints, Ints]]  # start, size; -1 for null
    throttle: Ints | None


@cache
def steps(name: str, version: int) -> tuple[Step, ...] | None:
    """The movements over a message, up to the last that finds something; None where lanes are no use."""
    want = SkimWriter(schema.message(name), version)
    try:
        return tuple(_merged(_struct(want, want.message.fields, "", 0)))
    except NotImplementedError:
        return None


def _struct(want: SkimWriter, fields: tuple[Field, ...], array: str, depth: int) -> list[Step]:
    if depth > _DEEP:
        raise NotImplementedError
    single = not array
    plain = want.plain(fields)
    if not depth and not any(want.wants(f, single) for f in want.tagged(fields)):
        while plain and not want.wants(plain[-1], single):
            plain.pop()
    out = []
    identity = [f for f in plain if not f.array and want.is_topic(f)]
    for field in plain:
        if field in identity:
            out.append(_sized(want, field, "id" if field.type == "uuid" else "name"))
            if field is identity[-1]:
                out.append(Step("topic"))
        else:
            out.append(_field(want, field, single, depth))
    if want.flexible and (depth or any(want.wants(f, single) for f in want.tagged(fields))):
        out.append(Step("tags"))
    return out


def _field(want: SkimWriter, field: Field, single: bool, depth: int) -> Step:
    if field.array:
        if field.name == FORGOTTEN:
            raise NotImplementedError  # it names topics that are not asked for
        counted = want.is_partitions(field)
        wanted = want.wants(field, single)
        if field.struct:
            inner = tuple(_merged(_struct(want, field.fields, field.name, depth + 1)))
            size = stride = 0
            if not any(_finds(step) for step in inner):
                size = want.fixed_size(field)
                stride = want.bare_size(field) + 1 if want.bare_size(field) else 0
            return _sized(want, field, "array", size=size, stride=stride, counted=counted and wanted, inner=inner)
        if field.type == "string" and field.entity == "topicName":
            element = (_sized(want, field.element, "name"), Step("topic"))
            return _sized(want, field, "array", inner=element)
        size = SIZES.get(field.type, 0)
        inner = () if size else (_sized(want, field.element, "text"),)
        return _sized(want, field, "array", size=size, counted=counted and wanted, inner=inner)
    if field.struct:
        inner = tuple(_merged(_struct(want, field.fields, "" if single else "array", depth + 1)))
        return Step("maybe" if want.nullable(field) else "always", inner=inner)
    if want.is_error(field):
        return Step("zero", 2)
    if single and want.is_throttle(field) and not depth:
        return Step("throttle", 4)
    if single and field.name in KEPT and field.name in want.values:
        if field.type in SIZES:
            return Step("value", SIZES[field.type], name=field.name)
        return _sized(want, field, "kept", name=field.name)
    if field.type == "records":
        return _sized(want, field, "records")
    if field.type in SIZES:
        return Step("skip", SIZES[field.type])
    return _sized(want, field, "text")


def _sized(want: SkimWriter, field: Field, what: str, **more: object) -> Step:
    """A step over something that begins with its length."""
    wide = field.array or field.type in ("bytes", "records")
    return Step(what, compact=want.is_flexible(field), wide=wide)._replace(**more)  # type: ignore[arg-type]


def _finds(step: Step) -> bool:
    return (
        step.what in ("name", "id", "zero", "records", "throttle", "value", "kept")
        or step.counted
        or any(_finds(inner) for inner in step.inner)
    )


def _merged(found: list[Step]) -> list[Step]:
    """Steps over fixed sizes, one after the other, are one."""
    out: list[Step] = []
    for step in found:
        if step.what == "always":
            out += step.inner
        elif step.what == "skip" and out and out[-1].what == "skip":
            out[-1] = Step("skip", out[-1].size + step.size)
        else:
            out.append(step)
    return out


def walk(plan: tuple[Step, ...], octets: Octets, at: Ints, end: Ints) -> Found:
    """Find what is in the frames whose bodies begin at `at`."""
    lanes = _Lanes(octets, at, end)
    after = lanes.run(plan, np.arange(len(at)), at)
    lanes.ok &= after <= end
    return Found(
        lanes.ok, lanes.topics, lanes.names, lanes.partitions, lanes.sets, lanes.values, lanes.texts, lanes.throttle
    )


class _Lanes:
    """The walk, and what it found so far."""

    def __init__(self, octets: Octets, at: Ints, end: Ints) -> None:
        self.octets = octets
        self.last = len(octets) - 8  # nothing is read behind it
        self.end = end
        self.ok = np.ones(len(at), bool)
        self.topics: list[Topics] = []
        self.names: list[Names] = []
        self.partitions = np.zeros(len(at), np.int64)
        self.sets: list[tuple[Ints, Ints, Ints]] = []
        self.values: dict[str, Ints] = {}
        self.texts: dict[str, tuple[Ints, Ints]] = {}
        self.throttle: Ints | None = None

    def run(self, plan: tuple[Step, ...], rows: Ints, p: Ints) -> Ints:
        """Move the cursors `p` of the lanes `rows`; where they are then."""
        name: tuple[Ints, Ints] | None = None
        id_at: Ints | None = None
        for step in plan:
            what = step.what
            if what == "skip":
                p = p + step.size
            elif what == "zero":
                self.ok[rows] &= self.number(p, 2) == 0
                p = p + 2
            elif what == "tags":
                self.ok[rows] &= self.octets[np.minimum(p, self.last)] == 0
                p = p + 1
            elif what == "id":
                id_at, p = p, p + _ID
            elif what == "topic":
                self.topic(rows, name, id_at)
            elif what == "throttle":
                self.throttle, p = self.number(p, 4), p + 4
            elif what == "value":
                self.values[step.name], p = self.number(p, step.size), p + step.size
            elif what == "maybe":
                there = self.number(p, 1) >= 0
                p = p + 1
                if np.count_nonzero(there):
                    p[there] = self.run(step.inner, rows[there], p[there])
            elif what == "array":
                p = self.array(step, rows, p)
            else:
                n, p = self.length(step, rows, p)
                if what == "name":
                    name = p, n
                elif what == "kept":
                    self.texts[step.name] = p, n
                elif what == "records":
                    some = n > 0
                    self.sets.append((rows[some], p[some], n[some]))
                p = p + np.maximum(n, 0)
        return p

    def number(self, p: Ints, size: int) -> Ints:
        """The signed integers at p, of up to four bytes."""
        return integers(self.octets, np.minimum(p, self.last), size)

    def length(self, step: Step, rows: Ints, p: Ints) -> tuple[Ints, Ints]:
        """Lengths at p, and the cursors behind them; 0 for lanes that leave."""
        if step.compact:
            n = self.octets[np.minimum(p, self.last)].astype(np.int64)
            p = p + 1
            if np.count_nonzero(n > 127):
                n, p = self.varint(n, rows, p)
            n -= 1
        else:
            size = 4 if step.wide else 2
            n, p = self.number(p, size), p + size
        bad = n > self.end[rows] - p
        if np.count_nonzero(bad):
            self.ok[rows[bad]] = False
            n = np.where(bad, 0, n)
        return n, p

    def varint(self, n: Ints, rows: Ints, p: Ints) -> tuple[Ints, Ints]:
        """Varints of two bytes; longer ones leave."""
        long = n > 127
        second = self.octets[np.minimum(p, self.last)].astype(np.int64)
        bad = long & (second > 127)
        self.ok[rows[bad]] = False
        return np.where(bad, 0, np.where(long, n & 0x7F | second << 7, n)), p + long

    def array(self, step: Step, rows: Ints, p: Ints) -> Ints:
        n, p = self.length(step, rows, p)
        n = np.maximum(n, 0)
        if step.counted:
            self.partitions[rows] += n
        if step.size:
            return p + n * step.size
        if step.stride:
            return self.stride(step.stride, rows, p, n)
        many = n > _ROUNDS
        if np.count_nonzero(many):
            self.ok[rows[many]] = False
            n = np.where(many, 0, n)
        for turn in range(int(n.max(initial=0))):
            more = n > turn
            p[more] = self.run(step.inner, rows[more], p[more])
        return p

    def stride(self, size: int, rows: Ints, p: Ints, n: Ints) -> Ints:
        """Step over `n` structs of one size, if none of them has tagged fields."""
        bad = (n > _STRIDES) | (n * size > self.end[rows] - p)
        n = np.where(bad, 0, n)
        lane = np.repeat(np.arange(len(n)), n)
        turn = np.arange(len(lane)) - np.repeat(np.cumsum(n) - n, n)
        bad[lane[self.octets[p[lane] + (turn + 1) * size - 1] != 0]] = True
        self.ok[rows[bad]] = False
        return p + n * size

    def topic(self, rows: Ints, name: tuple[Ints, Ints] | None, id_at: Ints | None) -> None:
        """A topic was read: its name, its id or both."""
        if name is not None:
            named = name[1] > 0
            self.topics.append(
                Topics(rows[named], name[0][named], name[1][named], np.zeros(np.count_nonzero(named), bool))
            )
        else:
            named = np.zeros(len(rows), bool)
        if id_at is None:
            return
        where = np.minimum(id_at, self.last - _ID)
        there = self.octets[where[:, None] + np.arange(_ID)].any(axis=1)
        both = named & there
        if name is not None and np.count_nonzero(both):
            self.names.append(Names(rows[both], id_at[both], name[0][both], name[1][both]))
        alone = there & ~named
        if np.count_nonzero(alone):
            size = np.full(np.count_nonzero(alone), _ID)
            self.topics.append(Topics(rows[alone], id_at[alone], size, np.ones(len(size), bool)))
