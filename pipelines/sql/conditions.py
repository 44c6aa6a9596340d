"""Which rows a person asks for: the options of `dissect` as one SQL condition."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from dissectors import records
from pipelines.formats import units
from pipelines.sql.database import literal
from pipelines.sql.older_names import todays_name, with_todays_names

_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")
_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?)(Z|[+-]\d{2}:?\d{2})?")
_DAY_US = 86_400_000_000
WILD = re.compile(r"[*?\[]")
"""A sign in a name that stands for any text."""
_SINCE, _UNTIL = ("--since", ">="), ("--until", "<")  # options, and how a time compares with what they say

# what counts as an error in a table
_ERRORS = {
    "exchanges": "status = 'error'",
    "batches": "(verdict = 'bad' OR outcome = 'error')",
    "errors": "expected IS NOT TRUE",
    "findings": "severity = 'error'",
}


class InvalidFilterError(ValueError):
    """What an option says means nothing."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(why)
        self.option = option


def condition(
    table: str,
    *,
    where: str | None = None,
    since: str | None = None,
    until: str | None = None,
    site: str | None = None,
    protocol: str | None = None,
    topic: str | None = None,
    client: str | None = None,
    server: str | None = None,
    api: str | None = None,
    group: str | None = None,
    errors: bool = False,
    slower_than: str | None = None,
    clock: str | None = None,
    columns: Sequence[str] | None = None,
) -> str | None:
    """The condition, None for all rows. clock: the column that --since and --until mean, by default the row's time.

    columns: of a table that is no record table.

    Raises InvalidFilterError for what means nothing, or nothing for this table.
    """
    have = [column.name for column in records.columns(table)] if columns is None else columns
    clock = clock or ("start_time" if table == "connections" else "time")
    span = "duration_ns" if table in ("connections", "stalls") else "total_ns"
    parts = [f"({with_todays_names(where)})"] if where is not None else []
    parts += _during(clock, since, until)
    options: tuple[tuple[str, str | None, Sequence[str], Callable[[str, Sequence[str]], str]], ...] = (
        ("--site", site, ("site",), _any_of),
        ("--protocol", protocol, ("protocol",), _any_of),
        ("--topic", topic, ("topics", "topic"), _any_of),
        ("--client", client, ("client_id", "client_ip", "connection"), _client),
        ("--server", server, ("server_ip", "server_port"), _server),
        ("--api", api, ("api",), lambda names, columns: _any_of(names, columns, todays_name)),
        ("--group", group, ("group",), _any_of),
        ("--slower-than", slower_than, (span,), lambda v, c: f"{c[0]} > {_duration('--slower-than', v)}"),
    )
    for option, value, columns, made in options:
        if value is not None:
            present = [column for column in columns if column in have]
            if not present:
                raise InvalidFilterError(option, f"cannot be used with the table {table}")
            parts.append(made(value, present))
    if errors:
        if table not in _ERRORS:
            raise InvalidFilterError("--errors", f"cannot be used with the table {table}")
        parts.append(_ERRORS[table])
    return " AND ".join(parts) or None


def open_during(since: str | None, until: str | None) -> str | None:
    """That a connection was open in some part of a span of time, as `condition` reads it; None for any time."""
    first, last = _of_day(since), _of_day(until)
    parts = [_moment("start_time", *_UNTIL, until)] if until is not None and last is None else []
    parts += [_moment("end_time", *_SINCE, since)] if since is not None and first is None else []
    if first is not None or last is not None:
        first, last = first or 0, _DAY_US if last is None else last
        last += _DAY_US if last < first else 0
        # of the days' spans, the first that ends after the connection began
        day = f"(floor((epoch_us(start_time) - {last}) / {_DAY_US}e0) + 1) * {_DAY_US}"
        parts.append(f"epoch_us(end_time) >= {day} + {first}")
    return " AND ".join(parts) or None


def _during(clock: str, since: str | None, until: str | None) -> list[str]:
    """From a time on, and before another. Of times of day, 23:50 to 00:10 is over midnight."""
    parts = [_moment(clock, *_SINCE, since)] if since is not None else []
    parts += [_moment(clock, *_UNTIL, until)] if until is not None else []
    first, last = _of_day(since), _of_day(until)
    over_midnight = first is not None and last is not None and last < first
    return [f"({' OR '.join(parts)})"] if over_midnight else parts


def _of_day(text: str | None) -> int | None:
    """The microseconds since midnight of a time of day; None for what is none."""
    if text is None or not _TIME_OF_DAY.fullmatch(text):
        return None
    with contextlib.suppress(ValueError):  # 25:00
        time = datetime.fromisoformat(f"2000-01-01T{text:0>{len(text) + (text[1] == ':')}}")
        return (time - datetime(2000, 1, 1)) // timedelta(microseconds=1)
    return None


def _moment(column: str, option: str, sign: str, text: str) -> str:
    """A time of day, or a date with or without one; UTC."""
    with contextlib.suppress(ValueError):  # the shape of a time, and yet none: a zone 25 hours away
        if _of_day(text) is not None:
            return f"CAST(CAST({column} AS TIMESTAMP) AS TIME) {sign} TIME {literal(text)}"
        if match := _MOMENT.fullmatch(text):
            moment, zone = datetime.fromisoformat(match[1]), match[2] or ""
            datetime.fromisoformat(f"2000-01-01T00:00{zone}")
            return f"{column} {sign} TIMESTAMPTZ {literal(f'{moment}{zone}')}"
    raise InvalidFilterError(option, f"{text!r} is not a time such as 01:11:18 or 2026-01-31T01:11:18")


def _duration(option: str, text: str) -> int:
    ns = units.nanoseconds(text)
    if ns is None:
        raise InvalidFilterError(option, f"{text!r} is not a duration such as 500us, 50ms or 2s")
    return ns


def names_in(text: str) -> Iterator[str]:
    """The names in what an option says, apart by commas."""
    return filter(None, map(str.strip, text.split(",")))


def _any_of(text: str, columns: Sequence[str], called: Callable[[str], str] = str) -> str:
    """One of several names, apart by commas; * and ? stand for any text. called: name -> the name that rows have."""
    column = f'"{columns[0]}"'
    lists = columns[0] == "topics"
    tests = []
    for name in map(called, names_in(text)):
        if lists:
            tests.append(f"len(list_filter({column}, lambda x: {_like('x', name)})) > 0")
        else:
            tests.append(_like(column, name))
    return f"({' OR '.join(tests) or 'false'})"


def is_named(name: str, wanted: str) -> bool:
    """Whether a name is one of several, as `_any_of` reads them."""
    return any(fnmatchcase(name.lower(), one.strip().lower()) for one in wanted.split(","))


def _like(value: str, name: str) -> str:
    if WILD.search(name):
        return f"lower({value}) GLOB {literal(name.lower())}"
    return f"lower({value}) = {literal(name.lower())}"


def _server(text: str, columns: Sequence[str]) -> str:
    """A server's address, its port, or address and port; of several, apart by commas, any."""
    tests = []
    for name in names_in(text):
        ip, colon, port = name.rpartition(":")
        if not colon and name.isdecimal():
            tests.append(f"server_port = {int(name)}")
        elif colon and port.isdecimal() and not (":" in ip and "[" not in ip):
            tests.append(f"({_like('server_ip', ip.strip('[]'))} AND server_port = {int(port)})")
        else:
            tests.append(_like("server_ip", name.strip("[]")))
    return f"({' OR '.join(tests) or 'false'})"


def _client(text: str, columns: Sequence[str]) -> str:
    """A client's id, its address, or address and port; of several, apart by commas, any."""
    tests = []
    for name in names_in(text):
        tests += [_like(column, name) for column in columns if column != "connection"]
        if "connection" in columns:
            tests.append(f"starts_with(connection, {literal(name + '>')})")
    return f"({' OR '.join(tests) or 'false'})"
