"""Names that a person asks for and that do not occur: each with the nearest that does.

The values of the columns that options compare with are collected while rows go by, before a condition drops any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from dissectors.wording import nearest
from pipelines.sql.conditions import WILD, names_in
from pipelines.sql.older_names import todays_name

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.sql.selection import Selection

_MOST = 10_000  # different values of an option's columns that are kept
_COLUMNS: Mapping[str, Sequence[str]] = {
    "api": ("api",),
    "topic": ("topics", "topic"),
    "group": ("group",),
    "client": ("client_id", "client_ip"),
    "server": ("server_ip", "server_port"),
    "protocol": ("protocol",),
}
"""Option -> the columns of records that it compares with."""


class NamesSeen:
    """What occurs, in the columns that a selection asks about."""

    def __init__(self, selection: Selection) -> None:
        self._wanted = {option: text for option in _COLUMNS if (text := getattr(selection, option)) is not None}
        self._seen: dict[str, set[str]] = {option: set() for option in self._wanted}
        self._timed = selection.since is not None or selection.until is not None
        self._first: datetime | None = None
        self._last: datetime | None = None

    def of(self, rows: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows, of each of which note is taken before it goes on."""
        for table, batch in rows:
            self.add(batch)
            yield table, batch

    def add(self, batch: pa.RecordBatch) -> None:
        """Take note of the values in some rows of any record table."""
        if self._timed:
            self._note_times(batch)
        for option, seen in self._seen.items():
            for name in _COLUMNS[option]:
                if name in batch.schema.names and len(seen) < _MOST:
                    seen.update(_distinct(batch.column(name)))

    def _note_times(self, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        for name in ("time", "start_time", "end_time"):
            if name not in batch.schema.names:
                continue
            first, last = pc.min_max(batch.column(name)).as_py().values()
            if first is not None:
                self._first = first if self._first is None else min(self._first, first)
                self._last = last if self._last is None else max(self._last, last)

    def span(self) -> str | None:
        """From when to when there are rows, as a sentence, where a time was asked for."""
        if not self._timed or self._first is None or self._last is None:
            return None
        return f"these captures are of {self._first:%Y-%m-%d %H:%M:%S} to {self._last:%Y-%m-%d %H:%M:%S} UTC"

    def missing(self) -> Iterator[str]:
        """A sentence for each name that was asked for and does not occur. Names with wildcards are not judged."""
        return (sentence for _, _, sentence in self.unknown())

    def unknown(self) -> Iterator[tuple[str, str, str]]:
        """Each name that was asked for and does not occur: (option, the name as it is called today, a sentence)."""
        for option, text in self._wanted.items():
            seen = {value.lower(): value for value in self._seen[option]}
            if len(seen) >= _MOST:
                continue
            for name in names_in(text):
                todays = todays_name(name) if option == "api" else name
                if (
                    todays.lower() in seen
                    or WILD.search(name)
                    or (option in ("client", "server") and _is_endpoint(name))
                ):
                    continue
                called = "" if todays == name else f" (today {todays})"
                yield option, todays, f"no {option} {name!r}{called} in these captures{_nearest(todays, seen)}"


def _distinct(column: pa.Array) -> list[str]:
    values = column.flatten() if hasattr(column, "flatten") and str(column.type).startswith("list") else column
    return [str(value) for value in values.unique().to_pylist() if value is not None]


def _is_endpoint(name: str) -> bool:
    """Whether it is an address with a port, which no column holds alone."""
    return bool(re.search(r":\d+$", name))


def _nearest(name: str, seen: Mapping[str, str]) -> str:
    """`; did you mean …?`; of few values, all of them."""
    near = nearest(name, seen.values())
    if near is not None:
        return f"; did you mean {near}?"
    return f"; there are {', '.join(sorted(seen.values()))}" if 0 < len(seen) <= 5 else ""
