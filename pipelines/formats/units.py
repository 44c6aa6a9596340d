"""Numbers as people read them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from dissectors.wording import plural

_DURATIONS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))  # ns
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))  # bytes
_COUNTS = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))


def duration(ns: float | None) -> str:
    """1234567 -> `1.23 ms`."""
    if ns is None:
        return ""
    if ns < 0:
        return f"-{duration(-ns)}"
    if ns >= 120_000_000_000:
        minutes, seconds = divmod(round(ns / 1e9), 60)
        hours, minutes = divmod(minutes, 60)
        if hours >= 48:
            return f"{hours // 24} d {hours % 24:02} h"
        return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
    for size, name in _DURATIONS:
        if ns >= size:
            return f"{_three(ns / size)} {name}"
    return f"{ns:.0f} ns"


def interval(months: int, days: int, ns: int) -> str:
    """A span of the calendar, as SQL writes it: `1 year 2 months 3 days 04:05:06.5`."""
    years, months = int(months / 12), int(math.fmod(months, 12))  # both with the sign of the whole
    parts = [
        f"{number} {plural(abs(number), noun)}"
        for number, noun in ((years, "year"), (months, "month"), (days, "day"))
        if number
    ]
    if ns or not parts:
        seconds, micros = divmod(abs(ns) // 1000, 1_000_000)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        part = f".{micros:06}".rstrip("0") if micros else ""
        parts.append(f"{'-' if ns < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}{part}")
    return " ".join(parts)


def size(count: float | None) -> str:
    """1536 -> `1.50 KiB`."""
    return _scaled(count, _SIZES, " B")


def count(number: float | None) -> str:
    """Thousands apart: `12,345`."""
    return "" if number is None else f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """`1 connection`, `12 connections`."""
    return f"{count(number)} {plural(number, noun)}"


def short_count(number: float | None) -> str:
    """12345 -> `12.3k`."""
    for limit, name in _COUNTS:
        if number is not None and abs(number) >= limit:
            return f"{_three(number / (limit if name != 'k' else 1000))}{name}"
    return "" if number is None else f"{number:.0f}" if float(number).is_integer() else _three(number)


def share(part: float | None) -> str:
    """0.0123 -> `1.23 %`; never a rounded 0 or 100 for what is not."""
    if part is None:
        return ""
    percent = part * 100
    if 0 < percent < 0.01:
        return "<0.01 %"
    if 99.99 < percent < 100:
        return ">99.99 %"
    if 99.5 <= percent < 100:
        return f"{percent:.2f} %"
    return f"{_three(percent)} %" if percent % 1 else f"{percent:.0f} %"


def _scaled(number: float | None, scale: tuple[tuple[int, str], ...], unit: str) -> str:
    if number is None:
        return ""
    for limit, name in scale:
        if abs(number) >= limit:
            return f"{_three(number / limit)} {name}"
    return f"{number:.0f}{unit}"


def _three(number: float) -> str:
    """Three digits that count."""
    digits = 2 if abs(number) < 10 else 1 if abs(number) < 100 else 0
    return f"{number:.{digits}f}"


_TIMES = {
    "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "min": 60_000_000_000,
    "h": 3_600_000_000_000, "d": 86_400_000_000_000,
}  # fmt: skip
_BYTES = {"b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_MEASURE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-zµ]+)")


def nanoseconds(text: str) -> int | None:
    """`5ms` -> 5000000; None for what is no duration with a unit."""
    return _parsed(text, _TIMES)


def utc_time(text: str) -> datetime:
    """`2026-01-31T08:00` or any other ISO time; of UTC where it names no zone. Raises ValueError."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def size_bytes(text: str) -> int | None:
    """`128MB` -> 128000000; None for what is no size with a unit."""
    return _parsed(text, _BYTES)


def parsed(text: str) -> int | None:
    """A duration in ns or a size in bytes: `5ms`, `1MiB`; None for what is neither."""
    return _parsed(text, {**_TIMES, **_BYTES})


def _parsed(text: str, factors: dict[str, int]) -> int | None:
    measure = _MEASURE.fullmatch(text.strip().lower())
    if measure is None or measure[2] not in factors:
        return None
    return round(float(measure[1]) * factors[measure[2]])
