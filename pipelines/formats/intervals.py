"""Intervals, which queries may give: months, days and nanoseconds."""

from __future__ import annotations

import pyarrow as pa

DURATION = pa.duration("us")
_DAY_NS = 86_400_000_000_000


def is_interval(kind: pa.DataType) -> bool:
    """Whether a column's values are spans of the calendar: months, days and nanoseconds."""
    return bool(kind == pa.month_day_nano_interval())


def interval_ns(value: pa.MonthDayNano) -> int | None:
    """The length of an interval, days of 24 hours; None for one of months, which have no length."""
    return None if value.months else value.days * _DAY_NS + value.nanoseconds


def durations(column: pa.Array) -> pa.Array:
    """Intervals as durations in µs. Raises ValueError for one of months."""
    lengths = [None if value is None else interval_ns(value) for value in column.to_pylist()]
    if lengths.count(None) > column.null_count:
        raise ValueError("an interval of months has no length that Parquet holds: cast it to varchar")
    return pa.array([None if ns is None else ns // 1000 for ns in lengths], DURATION)
