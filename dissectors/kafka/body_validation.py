"""Whether bytes are a sensible message of some API and version: its plan walked, every value checked, nothing kept.

Sensible: nothing lies beyond the end, tagged fields are those of the schema, error codes exist, times are such as
brokers give, text can be shown. To explain an answer whose request was not captured, it is tried as the answer to every
version of every API. Nearly all of these tries end within a few fields, so nothing is compiled for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from dissectors.kafka.errors import is_known
from dissectors.kafka.plan import NOTES, Op, Step, plan
from dissectors.kafka.writer import LONGEST, bad
from dissectors.wire.varint import unsigned

_LONGEST_THROTTLE = 3_600_000  # ms
T = TypeVar("T")
_FAILURES = (IndexError, ValueError)


def is_sensible(name: str, version: int, data: bytes, start: int, end: int) -> bool:
    """Whether data[start:end] is a message. Where `data` ends before, whether it is the beginning of one."""
    try:
        return _walk(plan(name, version).steps, data, start, end) == end
    except IndexError:
        return len(data) < end
    except ValueError:
        return False


class Candidates(Generic[T]):
    """Many messages, tried at once: the steps with which some of them begin alike are made once."""

    def __init__(self) -> None:
        self._next: dict[Step, Candidates[T]] = {}
        self._ends: list[T] = []

    def add(self, name: str, version: int, stands_for: T) -> None:
        """One more message, and what it stands for."""
        here = self
        for step in plan(name, version).steps:
            if step.op not in NOTES:
                here = here._next.setdefault(step, Candidates())
        here._ends.append(stands_for)

    def fitting(self, data: bytes, at: int) -> Iterator[T]:
        """What the messages stand for that data[at:] may be."""
        if at == len(data):
            yield from self._ends
        for step, after in self._next.items():
            try:
                behind = _one(step, data, at, len(data))
            except _FAILURES:
                continue
            yield from after.fitting(data, behind)


def _walk(steps: Sequence[Step], d: bytes, at: int, end: int) -> int:
    """The index after the steps. Raises ValueError where d makes no sense, IndexError where it ends too early."""
    for step in steps:
        at = _one(step, d, at, end)
    return at


def _one(step: Step, d: bytes, at: int, end: int) -> int:
    op = step.op
    if op in NOTES:
        return at
    if op is Op.STRUCT:
        return _walk(step.inner, d, at, end)
    if op is Op.OPTIONAL:
        return at + 1 if d[at] > 127 else _walk(step.inner, d, at + 1, end)
    if op is Op.TAGS:
        return _tags(step, d, at, end)
    if step.size and op not in (Op.ARRAY, Op.PARTITIONS):
        after = _behind(d, at, step.size, end)
        if op is Op.ERROR and not is_known(_signed(d, at, after)):
            bad("no such error")
        if op is Op.THROTTLE and not 0 <= _signed(d, at, after) <= _LONGEST_THROTTLE:
            bad("a strange throttle time")
        return after
    n, at = _length(step, d, at, end)
    if op in (Op.ARRAY, Op.PARTITIONS):
        return _array(step, n, d, at, end)
    after = _behind(d, at, max(n, 0), end)
    if step.printable and not d[at:after].decode("utf-8", "backslashreplace").isprintable():
        bad("text that cannot be shown")
    return after


def _array(step: Step, n: int, d: bytes, at: int, end: int) -> int:
    if n > end - at:
        bad("a count beyond the end")
    if step.size:
        return _behind(d, at, max(n, 0) * step.size, end)
    for _ in range(n):
        at = _walk(step.inner, d, at, end)
    return at


def _tags(step: Step, d: bytes, at: int, end: int) -> int:
    count, at = unsigned(d, at, LONGEST)
    known = {tag.number: tag.inner for tag in step.tags}
    for _ in range(count):
        number, at = unsigned(d, at, LONGEST)
        size, at = unsigned(d, at, LONGEST)
        if number not in known or size > end - at or _walk(known[number], d, at, at + size) != at + size:
            bad("an unknown tagged field, or one of another size")
        at += size
    return at


def _length(step: Step, d: bytes, at: int, end: int) -> tuple[int, int]:
    if step.compact:
        n, at = unsigned(d, at, LONGEST)
        return n - 1, at
    after = _behind(d, at, 4 if step.wide else 2, end)
    n = _signed(d, at, after)
    if n < -1:
        bad("a negative length")
    return n, after


def _behind(d: bytes, at: int, size: int, end: int) -> int:
    """The index after `size` bytes."""
    after = at + size
    if after > end:
        bad("a value beyond the end")
    if after > len(d):
        raise IndexError("the bytes end before the message")
    return after


def _signed(d: bytes, at: int, after: int) -> int:
    return int.from_bytes(d[at:after], "big", signed=True)
