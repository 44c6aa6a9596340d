"""Parts of a path that say when captures were made, not where: `dt=2026-11-26`, `2026/11/26`, `20261126T07`, `hour=07`.

A part is a date if all of it is one: a whole date, with a time or without, a year and month, a span of two dates, or a
`key=value` of a table's partitions whose key or value says so. Numbers alone are dates only where those before them
are: the month behind a year, the day behind a month, the two digits of an hour behind a day. So `9092`, `07` and `2001`
are names. A whole date at the beginning or end of a name (`node7-2026-11-26`) is no part of that name either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

_NAMES = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_YEAR, _MONTH, _DAY = r"(?:19|20)\d\d", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_HOUR, _SIXTY = r"(?:[01]\d|2[0-3])", r"[0-5]\d"
_ZONE = rf"(?:z|utc|[+-]{_HOUR}:?{_SIXTY})"
_TIME = rf"{_HOUR}(?:[-:_.h]?{_SIXTY}(?:[-:_.m]?{_SIXTY}s?(?:[.,]\d{{1,9}})?)?)?h?{_ZONE}?"
_DATE = (
    rf"(?:{_YEAR}{_MONTH}{_DAY}|{_YEAR}[-_.]{_MONTH}[-_.]{_DAY}|{_DAY}[-_.]{_MONTH}[-_.]{_YEAR}|{_MONTH}[-_.]{_DAY}[-_.]{_YEAR}"
    rf"|{_YEAR}[-_.]?(?:{_NAMES})[-_.]?{_DAY}|{_DAY}[-_.]?(?:{_NAMES})[-_.]?{_YEAR}|{_YEAR}-?w[0-5]\d(?:-?[1-7])?)"
)
_MOMENT = rf"{_DATE}(?:[-t_ .]?{_TIME})?"
_LONG_KEY = r"(?:year|month|week|day|date|hour|minute|time|timestamp|datetime|dt)"
_KEY_NUMBER = rf"{_LONG_KEY}[-_]?\d{{1,2}}"  # hour07
_KEY = rf"(?:(?:\w+[-_])?{_LONG_KEY}|y|yy|yyyy|mon|m|mm|d|dd|ds|h|hr|hh|min|mi|ts|w|q|quarter)"
_WHOLE = (
    rf"{_MOMENT}(?:(?:--?|_|\.\.|_?to_?)(?:{_MOMENT}|{_TIME}))?"  # a moment, or a span from one to another
    rf"|[\w-]+=(?:{_MOMENT})"
    rf"|{_KEY}=[\dtz:+_. -]{{1,40}}"
    rf"|{_KEY_NUMBER}"
)
_YEAR_MONTH = rf"{_YEAR}[-_.](?:{_MONTH}|{_NAMES})"
_AROUND = rf"(?:^{_MOMENT}[-_.@ ]+(?=[a-z]))|(?:(?<=\w)[-_.@ ]+{_MOMENT}$)"
"""A date before a name, or behind one."""

_FEWEST_DIGITS = 4  # of what says a year
_AT_MONTH, _AT_DAY = 2, 3
_COUNTED = (
    _YEAR,
    rf"(?:0?[1-9]|1[0-2]|(?:{_NAMES})[a-z]*)",
    r"(?:0?[1-9]|[12]\d|3[01])",
    rf"{_HOUR}(?:h|{_SIXTY})?",
    _SIXTY,
)
"""What numbers alone mean behind each other: year, month, day, hour, minute."""


def undated(parts: Sequence[str]) -> list[str]:
    """The parts of a path that do not say when."""
    left: list[str] = []
    at = 0  # how much of a date the parts before this one are: as indices of _COUNTED
    for number, part in enumerate(parts):
        text = unquote(part).lower()
        if not at and not _may_say_when(text):
            left.append(part)
        elif _matches(_WHOLE, text):
            at = _AT_DAY
        elif _matches(_YEAR_MONTH, text):
            at = _AT_MONTH
        elif at < len(_COUNTED) and _matches(_COUNTED[at], text) and (at or _is_month(parts[number + 1 : number + 2])):
            at += 1
        else:
            at = 0
            left.append(_without_date(part))
    return left


def _may_say_when(text: str) -> bool:
    """Whether a name is worth comparing with the patterns of dates: to compile these takes long."""
    digits = sum(map(str.isdigit, text))
    return digits >= _FEWEST_DIGITS or "=" in text or (digits > 0 and _matches(_KEY_NUMBER, text))


def _matches(pattern: str, text: str) -> bool:
    """Whether all of a text is as a pattern says."""
    return re.fullmatch(pattern, text) is not None


def _is_month(parts: Sequence[str]) -> bool:
    return bool(parts) and _matches(_COUNTED[1], parts[0].lower())


def _without_date(name: str) -> str:
    """A name without a date before or behind it."""
    found = re.search(_AROUND, name.lower()) if len(name.lower()) == len(name) else None
    return name if found is None else name[: found.start()] + name[found.end() :]
