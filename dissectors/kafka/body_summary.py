"""One frame by its plan: what the record tables need of a body, and nothing else.

For each message and version a function is written from the plan: straight-line Python, without a branch for what the
version does not have. A body that ends too early yields what was found before its end (`whole` is False then).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from dissectors.kafka import code_cache
from dissectors.kafka.plan import GROUP, KEY_TYPE, Plan, Step, plan
from dissectors.kafka.writer import SCOPE, TEXT, SourceWriter, show_source, unpackers

Topic = str | bytes
"""A topic's name, or its id (16 bytes)."""


class RecordSet(NamedTuple):
    """Where a partition's records lie."""

    topic: Topic
    partition: int
    start: int  # index into the buffer
    size: int


class Fault(NamedTuple):
    """One error code."""

    code: int
    scope: str  # what it is about: request, topic, partition, group …
    topic: Topic | None
    partition: int | None
    message: str | None


class BodySummary(NamedTuple):
    """What one body says."""

    whole: bool
    topics: Sequence[Topic]
    partitions: int  # how many partitions it names
    sets: Sequence[RecordSet]
    faults: Sequence[Fault]
    names: Sequence[tuple[bytes, str]]  # (topic id, name), where both are given
    throttle_ms: int | None
    pairs: Sequence[tuple[Any, ...]]  # (topic, partition, numbers …), for the messages in plan.PAIRED
    forgotten: Sequence[tuple[Topic, int]]  # what leaves a fetch session
    values: Mapping[str, Any]  # the fields in plan.VALUES


Summariser = Callable[[bytes, int, int], BodySummary]
"""(data, start, end) -> BodySummary. Never raises on bad bytes."""

_LISTS = ("topics", "sets", "faults", "names", "pairs", "forgotten")


@cache
def summariser(name: str, version: int) -> Summariser:
    """The function for one message in one version."""
    code = code_cache.find(name, version)
    if code is None:
        return written(name, version)
    show_source(code.co_filename, lambda: SummaryWriter(name, version).text())
    return revived(code)


def written(name: str, version: int) -> FunctionType:
    """The same, made now."""
    return SummaryWriter(name, version).function()


@cache
def revived(code: CodeType) -> FunctionType:
    """The same, from the code of one that was made before."""
    _REVIVED.update(unpackers(code.co_names))
    return FunctionType(code, _REVIVED)


_SCOPE: dict[str, Any] = {  # what the functions refer to
    "BodySummary": BodySummary,
    "RecordSet": RecordSet,
    "Fault": Fault,
    "new": tuple.__new__,
    "ENDED": (struct.error, IndexError, ValueError),
    "NO_ID": bytes(16),
    "unpack_from": struct.unpack_from,
}
_REVIVED = {**SCOPE, **_SCOPE}


class _Known:
    """The variables that hold what was read, in a struct and in those around it."""

    def __init__(self, around: _Known | None = None) -> None:
        self.topic: str = around.topic if around else "None"
        self.partition: str = around.partition if around else "None"
        self.name: str | None = None  # of a topic
        self.id: str | None = None
        self.values: dict[str, str] = {}  # of errors, their texts, the numbers of a pair


class SummaryWriter(SourceWriter):
    """Writes `summarise(d, p, end) -> BodySummary`, one method an operation of the plan."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(f"summary of {name} v{version}")
        self.scope |= _SCOPE
        self._plan: Plan = plan(name, version)
        self._kept: dict[str, str] = {}  # value -> its variable
        self._groups: list[str] = []  # the variable that holds names of groups, where there are some

    def function(self) -> FunctionType:
        self._write()
        return self.compile("summarise", "d, p, end")

    def text(self) -> str:
        self._write()
        return self.source("summarise", "d, p, end")

    def _write(self) -> None:
        if self._plan.noting:
            self.line("whole = False")
            with self.block("try:"):
                self.steps(self._plan.noting, _Known())
                self.line("whole = p <= end")
            with self.block("except ENDED:"):
                pass
        else:
            self.line("whole = True")
        if self._groups:
            kind = self._kept.get(KEY_TYPE)
            is_one = "whole and len(groups) == 1" + (f" and {kind} == 0" if kind else "")
            self.line(f"{self._kept.setdefault(GROUP, f'x_{GROUP}')} = groups[0] if {is_one} else None")
        body = "\n".join(self.lines)
        used = [name for name in _LISTS if f" {name}.append(" in body or f" {name} += " in body]
        self.lines[:0] = [
            f"    {'; '.join([f'{name} = []' for name in used + self._groups] + ['count = 0'])}",
            f"    {' = '.join(['throttle', *self._kept.values()])} = None",
        ]
        lists = {name: name if name in used else "()" for name in _LISTS}
        values = ", ".join(f"{key!r}: {var}" for key, var in self._kept.items())
        parts = ["whole", lists["topics"], "count", lists["sets"], lists["faults"], lists["names"], "throttle"]
        parts += [lists["pairs"], lists["forgotten"], f"{{{values}}}"]
        self.line(f"return new(BodySummary, ({', '.join(parts)}))")

    def steps(self, steps: Sequence[Step], known: _Known) -> None:
        """Write the steps of a struct."""
        for step in steps:
            getattr(self, f"on_{step.op}")(step, known)
        self.flush()

    def note(self, text: str) -> None:
        """A line for when all that was read so far is there."""
        self.after(text)
        self.settle()

    # --- what is stepped over ---

    def on_skip(self, step: Step, known: _Known) -> None:
        self.take(f"{step.size}x")

    def on_sized(self, step: Step, known: _Known) -> None:
        n = self.length(step.wide, step.compact)
        self.line(f"if {n} > 0: p += {n}")

    # --- numbers and texts ---

    def number(self, step: Step, var: str) -> str:
        self.take(step.format, var)
        return var

    def on_partition(self, step: Step, known: _Known) -> None:
        known.partition = self.number(step, self.var("i"))

    def on_pair_value(self, step: Step, known: _Known) -> None:
        known.values[step.name] = self.number(step, self.var("y"))

    def on_error(self, step: Step, known: _Known) -> None:
        known.values[step.name] = self.number(step, self.var("e"))

    def on_throttle(self, step: Step, known: _Known) -> None:
        self.number(step, "throttle")

    def on_value(self, step: Step, known: _Known) -> None:
        self.number(step, self.kept(step))

    def on_text(self, step: Step, known: _Known) -> None:
        var, n = self.kept(step), self.length(step.wide, step.compact)
        self.line(f"{var} = d[p:p + {n}]{TEXT} if 0 <= {n} <= end - p else None")
        self.move_over_text(n)

    def on_group(self, step: Step, known: _Known) -> None:
        self._groups = ["groups"]
        n = self.length(step.wide, step.compact)
        self.line(f"groups.append(d[p:p + {n}]{TEXT} if {n} >= 0 else None)")
        self.line(f"if {n} > 0: p += {n}")

    def kept(self, step: Step) -> str:
        return self._kept.setdefault(step.name, f"x_{step.name}")

    def on_error_text(self, step: Step, known: _Known) -> None:
        n = self.length(step.wide, step.compact)
        var = known.values[step.name] = self.var("m")
        self.line(f"{var} = d[p:p + {n}]{TEXT} if 0 < {n} <= end - p and {known.values[step.names[0]]} else None")
        self.line(f"if {n} > 0: p += {n}")

    # --- topics, partitions, errors, records ---

    def on_id(self, step: Step, known: _Known) -> None:
        known.id = self.number(step, self.var("w"))

    def on_name(self, step: Step, known: _Known) -> None:
        n = self.length(step.wide, step.compact)
        known.name = self.var("w")
        self.line(f"{known.name} = d[p:p + {n}]{TEXT} if {n} > 0 else None")
        self.move_over_text(n)

    def move_over_text(self, n: str) -> None:
        """A text that is not all there says nothing: its beginning is another text."""
        with self.block(f"if {n} > 0:"):
            self.line(f"p += {n}")
            self.line("if p > end: bad('text beyond the end')")

    def on_topic(self, step: Step, known: _Known) -> None:
        topic, name, id_ = self.var("t"), known.name, known.id
        self.after(f"{topic} = {name}" if name else f"{topic} = None if {id_} == NO_ID else {id_}")
        if name and id_:
            self.after(f"if {id_} != NO_ID:")
            self.after(f"    if {name} is None: {topic} = {id_}")
            self.after(f"    else: names.append(({id_}, {name}))")
        if step.listed:
            self.after(f"if {topic} is not None: topics.append({topic})")
        self.settle()
        known.topic = topic

    def on_pair(self, step: Step, known: _Known) -> None:
        numbers = "".join(f", {known.values[name]}" for name in step.names)
        self.note(f"{_pairs(step)}.append(({known.topic}, {known.partition}{numbers}))")

    def on_fault(self, step: Step, known: _Known) -> None:
        code, text = known.values[step.name], known.values.get(step.names[0])
        fault = f"new(Fault, ({code}, {step.scope!r}, {known.topic}, {known.partition}, {text}))"
        self.note(f"if {code}: faults.append({fault})")

    def on_records(self, step: Step, known: _Known) -> None:
        n = self.length(step.wide, step.compact)
        with self.block(f"if {n} > 0:"):
            self.line(f"sets.append(new(RecordSet, ({known.topic}, {known.partition}, p, {n})))")
            self.line(f"p += {n}")

    # --- structs and arrays ---

    def on_struct(self, step: Step, known: _Known) -> None:
        self.steps(step.inner, _Known(known))

    def on_optional(self, step: Step, known: _Known) -> None:
        there = self.var("n")
        self.take("b", there)
        self.flush()
        with self.block(f"if {there} >= 0:"):
            self.steps(step.inner, _Known(known))

    def on_partitions(self, step: Step, known: _Known) -> None:
        n = self.length(step.wide, step.compact)
        with self.block(f"if {n} > 0:"):
            self.guard(n)
            self.count(step, n)
            one = self.var("i")
            self.line(f"{_pairs(step)} += [({known.topic}, {one}) for {one} in unpack_from(f'>{{{n}}}i', d, p)]")
            self.line(f"p += {n} * {step.size}")

    def on_array(self, step: Step, known: _Known) -> None:
        n = self.length(step.wide, step.compact)
        with self.block(f"if {n} > 0:"):
            self.guard(n)
            self.count(step, n)
            if step.size:
                self.line(f"p += {n} * {step.size}")
                return
            if step.stride:  # all at once, if none of them has tagged fields
                at = step.stride - 1
                with self.block(f"if d[p + {at}:p + {n} * {step.stride}:{step.stride}].strip(b'\\0'):"):
                    self.elements(step, n, known)
                self.line(f"else: p += {n} * {step.stride}")
            else:
                self.elements(step, n, known)

    def count(self, step: Step, n: str) -> None:
        if step.counted:
            self.line(f"count += {n}")

    def elements(self, step: Step, n: str, known: _Known) -> None:
        with self.block(f"for _ in range({n}):"):
            self.steps(step.inner, _Known(known))

    def on_tags(self, step: Step, known: _Known) -> None:
        count = self.var("n")
        self.varint(count)
        noted = [tag for tag in step.tags if tag.noted]
        if not noted:
            self.line(f"if {count}: p = skip_tags(d, p, {count})")
            return
        number, size, stop = self.var("n"), self.var("n"), self.var("q")
        with self.block(f"for _ in range({count}):"):
            self.varint(number)
            self.varint(size)
            self.line(f"{stop} = p + {size}")
            for tag in noted:
                with self.block(f"if {number} == {tag.number}:"):
                    self.steps(tag.inner, known)
            self.line(f"p = {stop}")


def _pairs(step: Step) -> str:
    return "forgotten" if step.forgotten else "pairs"
