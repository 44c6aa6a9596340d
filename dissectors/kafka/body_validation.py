"""Whether bytes are a sensible message of some API and version: its plan walked, every value checked, nothing kept.

Sensible: nothing lies beyond the end, tagged fields are those of the schema, error codes exist, times are such as
brokers give, text can be shown. To explain an answer whose request was not captured, it is tried as the answer to every
version of every API, and nearly all of these tries end within a few fields. So a failure is a value, not an exception;
and steps become functions, one for all steps that check alike, so that messages which begin alike are tried together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Generic, TypeVar

from dissectors.kafka.errors import is_known
from dissectors.kafka.plan import NOTES, Op, Step, plan
from dissectors.kafka.writer import LONGEST
from dissectors.wire.varint import VarintError, unsigned

Check = Callable[[bytes, int, int], int]
"""(data, index of a value, end of the message) -> the index after the value, NO or SHORT."""

Elements = Callable[[bytes, int, int, int], int]
"""The same for the elements of an array: (data, index of the first, end of the message, how many)."""

Length = Callable[[bytes, int, int], tuple[int, int]]
"""As Check: (a length, negative for null; the index after it, NO or SHORT)."""

NO = -1  # it makes no sense
SHORT = -2  # the bytes end before it does
_LONGEST_THROTTLE = 3_600_000  # ms
_ARRAYS = (Op.ARRAY, Op.PARTITIONS)
T = TypeVar("T")
K = TypeVar("K")


def is_sensible(name: str, version: int, data: bytes, start: int, end: int) -> bool:
    """Whether data[start:end] is a message. Where `data` ends before, whether it is the beginning of one."""
    after = _message(name, version)(data, start, end)
    return after == end or (after == SHORT and len(data) < end)


class Candidates(Generic[T]):
    """Messages that are tried at once: what some of them begin with is checked once.

    Nearly all of them differ in their arrays only. So a length is read once for all arrays, where it is 0 they are one
    from there on, and the first value of an element decides for all whose elements begin with such a value. What
    follows a step is made when a message first comes so far.
    """

    __slots__ = ("_arrays", "_ends", "_longest", "_messages", "_values")

    def __init__(self, messages: Iterable[tuple[Sequence[Step], T]]) -> None:
        """messages: the steps of each, and what it stands for."""
        self._ends: list[T] = []
        self._messages: list[tuple[Sequence[Step], T]] = []
        for steps, stands_for in messages:
            if steps:
                self._messages.append((steps, stands_for))
            else:
                self._ends.append(stands_for)
        self._longest = max((_longest(steps) for steps, _ in self._messages), default=0)
        self._values: list[tuple[Check, Candidates[T]]] = []
        self._arrays: list[tuple[Length, Candidates[T], list[tuple[Check, list[tuple[Elements, Candidates[T]]]]]]] = []

    def fitting(self, data: bytes, at: int) -> list[T]:
        """What the messages stand for that data[at:] may be."""
        end = len(data)
        found: list[T] = []
        ways = [(self, at)]
        while ways:
            here, at = ways.pop()
            if at == end:
                found += here._ends
            if here._messages:
                here._grow()
            for check, following in here._values:
                after = check(data, at, end)
                if 0 <= after >= end - following._longest:
                    ways.append((following, after))
            for length, empty, filled in here._arrays:
                n, start = length(data, at, end)
                if n <= 0 <= start >= end - empty._longest:
                    ways.append((empty, start))
                if n <= 0 or start < 0 or n > end - start:
                    continue
                for first, alike in filled:
                    if first(data, start, end) < 0:
                        continue
                    for elements, following in alike:
                        after = elements(data, start, end, n)
                        if 0 <= after >= end - following._longest:
                            ways.append((following, after))
        return found

    def _grow(self) -> None:
        """Make what follows the first step of each message; of a single one, all its steps."""
        if len(self._messages) == 1:
            ((steps, stands_for),) = self._messages
            self._values = [(_one_by_one(_checks(steps)), Candidates([((), stands_for)]))]
            self._messages = []
            return
        values = _Groups[Check, T]()
        empty = _Groups[Length, T]()
        filled: dict[Length, dict[Check, _Groups[Elements, T]]] = {}
        for (step, *rest), stands_for in self._messages:
            left = rest, stands_for
            if step.op not in _ARRAYS:
                values.add(_check(step), left)
                continue
            length, (first, elements) = _length(step.compact, step.wide), _elements(step)
            empty.add(length, left)
            filled.setdefault(length, {}).setdefault(first, _Groups()).add(elements, left)
        self._messages = []
        self._values = values.candidates()
        self._arrays = [
            (length, following, [(first, alike.candidates()) for first, alike in filled[length].items()])
            for length, following in empty.candidates()
        ]


class _Groups(dict[K, list[tuple[Sequence[Step], T]]]):
    """Messages by what they have in common."""

    def add(self, key: K, message: tuple[Sequence[Step], T]) -> None:
        self.setdefault(key, []).append(message)

    def candidates(self) -> list[tuple[K, Candidates[T]]]:
        return [(key, Candidates(messages)) for key, messages in self.items()]


_FIXED_SIZE = frozenset({Op.SKIP, Op.ERROR, Op.THROTTLE, Op.PARTITION, Op.PAIR_VALUE, Op.VALUE, Op.ID})


def _longest(steps: Sequence[Step]) -> float:
    """Bytes that these steps move over at most."""
    size = 0
    for step in steps:
        if step.op in _FIXED_SIZE:
            size += step.size
        elif step.op is Op.TAGS and not step.tags:
            size += LONGEST
        else:
            return math.inf
    return size


def steps_of(name: str, version: int) -> Sequence[Step]:
    """The steps over a message that move over something."""
    return _moving(plan(name, version).steps)


@cache
def _message(name: str, version: int) -> Check:
    return _one_by_one(_checks(plan(name, version).steps))


def _moving(steps: Sequence[Step]) -> list[Step]:
    """The steps that move over something."""
    return [step for step in steps if step.op not in NOTES]


def _checks(steps: Sequence[Step]) -> tuple[Check, ...]:
    return tuple(map(_check, _moving(steps)))


@cache
def _check(step: Step) -> Check:
    if step.op is Op.STRUCT:
        return _one_by_one(_checks(step.inner))
    if step.op is Op.OPTIONAL:
        return _optional(_one_by_one(_checks(step.inner)))
    if step.op is Op.TAGS:
        return _tags(tuple((tag.number, _one_by_one(_checks(tag.inner))) for tag in step.tags))
    if step.op in _ARRAYS:
        return _array(_length(step.compact, step.wide), _elements(step)[1])
    if not step.size:
        return _sized(_length(step.compact, step.wide), step.printable)
    if step.op is Op.ERROR:
        return _number(step.size, is_known)
    return _number(step.size, _is_throttle) if step.op is Op.THROTTLE else _skip(step.size)


def _elements(step: Step) -> tuple[Check, Elements]:
    """The check of the first value in an element of an array, and of all elements."""
    if step.size:
        return _skip(step.size), _of_size(step.size)
    checks = _checks(step.inner)
    return checks[0], _each(_one_by_one(checks))


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
        after = at + size
        if after > len(d) or after > end:
            return 0, _behind(d, after, end)
        n = int.from_bytes(d[at:after], "big", signed=True)
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
        if printable and n > 0 and not d[at:after].decode("utf-8", "ignore").isprintable():
            return NO
        return after

    return check


@cache
def _array(length: Length, elements: Elements) -> Check:
    def check(d: bytes, at: int, end: int) -> int:
        n, at = length(d, at, end)
        if at < 0:
            return at
        return elements(d, at, end, max(n, 0)) if n <= end - at else NO

    return check


@cache
def _of_size(size: int) -> Elements:
    def elements(d: bytes, at: int, end: int, n: int) -> int:
        return _behind(d, at + n * size, end)

    return elements


@cache
def _each(element: Check) -> Elements:
    def elements(d: bytes, at: int, end: int, n: int) -> int:
        for _ in range(n):
            at = element(d, at, end)
            if at < 0:
                return at
        return at

    return elements


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
