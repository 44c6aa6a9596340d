"""Whether bytes are a sensible message of some API and version: its plan walked, every value checked, nothing kept.

Sensible: nothing lies beyond the end, tagged fields are those of the schema, error codes exist, times are such as
brokers give, text can be shown. To explain an answer whose request was not captured, it is tried as the answer to every
version of every API, and nearly all of these tries end within a few fields. So a failure is a value, not an exception;
and steps become functions, one for all steps that check alike, so that messages which begin alike are tried together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Generic, TypeVar

from dissectors.kafka.errors import is_known
from dissectors.kafka.plan import NOTES, Op, Step, plan
from dissectors.kafka.writer import LONGEST
from dissectors.wire.varint import VarintError, unsigned

Check = Callable[[bytes, int, int], int]
"""(data, index of a value, end of the message) -> the index after the value, NO or SHORT."""

NO = -1  # it makes no sense
SHORT = -2  # the bytes end before it does
_LONGEST_THROTTLE = 3_600_000  # ms
_ARRAYS = (Op.ARRAY, Op.PARTITIONS)
T = TypeVar("T")


def is_sensible(name: str, version: int, data: bytes, start: int, end: int) -> bool:
    """Whether data[start:end] is a message. Where `data` ends before, whether it is the beginning of one."""
    after = _message(name, version)(data, start, end)
    return after == end or (after == SHORT and len(data) < end)


class Candidates(Generic[T]):
    """Many messages, tried at once: the steps with which some of them begin alike are made once."""

    def __init__(self) -> None:
        self._next: dict[Check, Candidates[T]] = {}
        self._ends: list[T] = []

    def add(self, name: str, version: int, stands_for: T) -> None:
        """One more message, and what it stands for."""
        here = self
        for check in _checks(plan(name, version).steps):
            here = here._next.setdefault(check, Candidates())
        here._ends.append(stands_for)

    def fitting(self, data: bytes, at: int) -> list[T]:
        """What the messages stand for that data[at:] may be."""
        end = len(data)
        found: list[T] = []
        ways = [(self, at)]
        while ways:
            here, at = ways.pop()
            if at == end:
                found += here._ends
            for check, following in here._next.items():
                after = check(data, at, end)
                if after >= 0:
                    ways.append((following, after))
        return found


@cache
def _message(name: str, version: int) -> Check:
    return _one_by_one(_checks(plan(name, version).steps))


def _checks(steps: Sequence[Step]) -> tuple[Check, ...]:
    return tuple(_check(step) for step in steps if step.op not in NOTES)


@cache
def _check(step: Step) -> Check:
    inner = _one_by_one(_checks(step.inner))
    if step.op is Op.STRUCT:
        return inner
    if step.op is Op.OPTIONAL:
        return _optional(inner)
    if step.op is Op.TAGS:
        return _tags(tuple((tag.number, _one_by_one(_checks(tag.inner))) for tag in step.tags))
    if step.op in _ARRAYS:
        return _array(_length(step.compact, step.wide), step.size, inner)
    if not step.size:
        return _sized(_length(step.compact, step.wide), step.printable)
    if step.op is Op.ERROR:
        return _number(step.size, is_known)
    return _number(step.size, _is_throttle) if step.op is Op.THROTTLE else _skip(step.size)


# --- the functions: each maker gives the same one for the same arguments ---------------------------------------------


@cache
def _one_by_one(checks: tuple[Check, ...]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check(d: bytes, at: int, end: int) -> int:
        for each in checks:
            at = each(d, at, end)
            if at < 0:
                return at
        return at

    return check


def _behind(d: bytes, after: int, end: int) -> int:
    """The index after a value that reaches so far."""
    if after > end:
        return NO
    return after if after <= len(d) else SHORT


def _is_throttle(ms: int) -> bool:
    return 0 <= ms <= _LONGEST_THROTTLE


@cache
def _skip(size: int) -> Check:
    def check(d: bytes, at: int, end: int) -> int:
        after = at + size
        return after if after <= len(d) and after <= end else _behind(d, after, end)

    return check


@cache
def _number(size: int, makes_sense: Callable[[int], bool]) -> Check:
    def check(d: bytes, at: int, end: int) -> int:
        after = at + size
        if after > len(d) or after > end:
            return _behind(d, after, end)
        return after if makes_sense(int.from_bytes(d[at:after], "big", signed=True)) else NO

    return check


@cache
def _optional(inner: Check) -> Check:
    def check(d: bytes, at: int, end: int) -> int:
        if at >= len(d):
            return SHORT
        return at + 1 if d[at] > 127 else inner(d, at + 1, end)

    return check


def _varint(d: bytes, at: int) -> tuple[int, int]:
    """(an unsigned varint, the index after it, NO or SHORT)."""
    if at < len(d) and d[at] < 128:
        return d[at], at + 1
    try:
        return unsigned(d, at, LONGEST)
    except VarintError:
        return 0, NO
    except IndexError:
        return 0, SHORT


Length = Callable[[bytes, int, int], tuple[int, int]]
"""As Check: (a length, negative for null; the index after it, NO or SHORT)."""


def _compact(d: bytes, at: int, end: int) -> tuple[int, int]:
    if at < len(d) and d[at] < 128:
        return d[at] - 1, at + 1
    n, after = _varint(d, at)
    return n - 1, after


@cache
def _length(compact: bool, wide: bool) -> Length:
    if compact:
        return _compact
    size = 4 if wide else 2

    def length(d: bytes, at: int, end: int) -> tuple[int, int]:
        after = _behind(d, at + size, end)
        n = int.from_bytes(d[at:after], "big", signed=True) if after >= 0 else 0
        return n, (NO if n < -1 else after)

    return length


@cache
def _sized(length: Length, printable: bool) -> Check:
    def check(d: bytes, at: int, end: int) -> int:
        n, at = length(d, at, end)
        if at < 0:
            return at
        after = at + n if n > 0 else at
        if after > len(d) or after > end:
            return _behind(d, after, end)
        if printable and n > 0 and not d[at:after].decode("utf-8", "backslashreplace").isprintable():
            return NO
        return after

    return check


@cache
def _array(length: Length, size: int, element: Check) -> Check:
    """size: of each element, where all have one; else `element` checks each of them."""

    def check(d: bytes, at: int, end: int) -> int:
        n, at = length(d, at, end)
        if at < 0:
            return at
        if n > end - at:
            return NO
        if size:
            return _behind(d, at + max(n, 0) * size, end)
        for _ in range(n):
            at = element(d, at, end)
            if at < 0:
                return at
        return at

    return check


@cache
def _tags(fields: tuple[tuple[int, Check], ...]) -> Check:
    known = dict(fields)

    def check(d: bytes, at: int, end: int) -> int:
        if at < len(d) and not d[at]:
            return at + 1
        count, at = _varint(d, at)
        for _ in range(count):
            number, at = _varint(d, at) if at >= 0 else (0, at)
            size, at = _varint(d, at) if at >= 0 else (0, at)
            if at < 0:
                return at
            if number not in known or size > end - at:
                return NO
            after = known[number](d, at, at + size)
            if after != at + size:
                return SHORT if after == SHORT else NO
            at = after
        return at

    return check
