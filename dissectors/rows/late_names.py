"""Names that a connection does not know: tokens in their place, and what is put in for them.

A Kafka topic id or an Iggy stream number may be named on another connection, or later. A decoder writes a token where
such a name belongs and reports to the sink every name that it meets. What a token becomes depends on capture time only:

    the name last reported at or before the time of the row, anywhere in the capture set
    else the first one reported within `Limits.name_wait_ns` after it
    else the same of names that were reported as likely
    else the fallback that stands in the token: the id

Of names reported at one time, the smallest counts. Every connection may report every name again, so of each name only
the first report of a minute counts (of a Kafka topic id, which never becomes another topic's, of all time). Which these
are does not depend on who saw what: parts of a capture set that are brought together say what the whole would.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import groupby, takewhile
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dissectors import arrow
from dissectors.arrow import Bools, Ints
from dissectors.limits import Limits
from dissectors.records import NAMED_COLUMNS

MARK = "\0"
LIKELY = "?"  # behind a key: its names are likely only
FOREVER = 1 << 63  # later than any packet
_TOKEN = re.compile(f"{MARK}([^{MARK}]*){MARK}([^{MARK}]*){MARK}")


class Name(NamedTuple):
    """`key` was called `name` at `time` (ns)."""

    key: str
    time: int
    name: str


_Report = tuple[int, str]  # time (ns), name
_TIME = itemgetter(0)
_MINUTE = 60_000_000_000
_LASTING = "kafka/"  # how keys begin that have one name for good


def unresolved(key: str, fallback: str) -> str:
    """A token for a name not known here: `key` is looked up later, `fallback` is shown if nobody reports it."""
    return f"{MARK}{key}{MARK}{fallback}{MARK}"


class Names:
    """Names reported anywhere in a capture set.

    Iterating gives the reports that count, of which the same names follow.
    """

    def __init__(
        self, reported: Iterable[Name] = (), *, wait_ns: int = Limits().name_wait_ns, most: int | None = None
    ) -> None:
        """most: keys that are remembered, of as many as there are by default."""
        self.wait_ns = wait_ns
        self.refused = 0  # reports of keys beyond the limit
        self._most = most
        self._reports: dict[str, list[_Report]] = {}  # in order
        self._runs: dict[str, list[_Report]] = {}  # of keys that were asked for: where their names change
        self.update(reported)

    def __contains__(self, key: str) -> bool:
        return key in self._reports

    def __len__(self) -> int:
        return len(self._reports)

    def __iter__(self) -> Iterator[Name]:
        for key, reports in self._reports.items():
            for time, name in reports:
                yield Name(key, time, name)

    def update(self, reported: Iterable[Name]) -> None:
        """Take reports, in any order."""
        for report in set(reported):
            self.add(report)

    def add(self, report: Name) -> None:
        """Take a report."""
        key, time, name = report
        known = self._reports.get(key)
        if known is None:
            if self._most is not None and len(self._reports) >= self._most:
                self.refused += 1
            else:
                self._reports[key] = [(time, name)]
            return
        first, last = span(key, time)
        start, end = bisect_left(known, first, key=_TIME), bisect_left(known, last, key=_TIME)
        for at in range(start, end):
            if known[at][1] == name:
                if known[at][0] <= time:
                    return
                del known[at]
                break
        insort(known, (time, name))
        self._runs.pop(key, None)

    def since(self, time: int) -> Names:
        """The names without those that others had replaced before a time, ns."""
        out = Names(wait_ns=self.wait_ns)
        for key, reports in self._reports.items():
            at = bisect_right(reports, time, key=_TIME) - 1
            first = span(key, reports[max(0, at)][0])[0]  # and what tells which reports of that minute count
            out._reports[key] = reports[bisect_left(reports, first, key=_TIME) :]
        return out

    def news(self, before: Names) -> dict[str, int]:
        """Keys that are called otherwise than before, and the earliest time (ns) of a row in which they are."""
        found = {}
        for key in self._reports:
            now, then = self._changes(key), before._changes(key)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(now, then, strict=False)))
            other = min(now[same:][:1] + then[same:][:1], default=None)
            if other is not None:
                found[key] = other[0] - (0 if same else self.wait_ns)
        return found

    def _changes(self, key: str) -> list[_Report]:
        """When a key was called otherwise than before, and how."""
        runs = self._runs.get(key)
        if runs is None:
            runs = []
            for time, reports in groupby(self._reports.get(key, ()), _TIME):
                name = next(reports)[1]
                if not runs or runs[-1][1] != name:
                    runs.append((time, name))
            if runs:
                self._runs[key] = runs
        return runs

    def get(self, key: str, time: int) -> str | None:
        """What `key` is called for certain in a row of that time (ns)."""
        runs = self._changes(key)
        if not runs:
            return None
        at = bisect_right(runs, time, key=_TIME) - 1
        if at >= 0:
            return runs[at][1]
        return runs[0][1] if runs[0][0] <= time + self.wait_ns else None

    def text(self, text: str, time: int) -> str:
        """`text` with its tokens replaced."""
        return _TOKEN.sub(lambda m: self.get(m[1], time) or self.get(m[1] + LIKELY, time) or m[2], text)

    def changes(self, text: str) -> set[int]:
        """When (ns) a token in `text` may begin to become something else."""
        runs = [self._changes(key) for token, _ in _TOKEN.findall(text) for key in (token, token + LIKELY)]
        first = {max(-FOREVER, run[0][0] - self.wait_ns) for run in runs if run}
        return first.union(time for run in runs for time, _ in run[1:])

    def missing(self, text: str, time: int) -> set[str]:
        """The keys of the tokens in `text` that have no name."""
        return {key for key, _ in _TOKEN.findall(text) if self.get(key, time) is None}


def span(key: str, time: int) -> tuple[int, int]:
    """From when to when (ns) only the first report of a name counts."""
    if key.startswith(_LASTING):
        return -FOREVER, FOREVER
    first = time // _MINUTE * _MINUTE
    return first, first + _MINUTE


def open_rows(batch: pa.RecordBatch) -> Bools:
    """Whether a name of each row is still a token."""
    out = np.zeros(batch.num_rows, bool)
    for at in _named(batch):
        out |= _marked(batch.column(at))
    return out


def open_keys(batch: pa.RecordBatch) -> set[str]:
    """The keys under which names of a batch may have been reported that are still tokens."""
    keys: set[str] = set()
    for at in _named(batch):
        column = batch.column(at)
        texts = arrow.flat(column) if pa.types.is_list(column.type) else arrow.plain(column)
        for text in set(arrow.take(texts, np.flatnonzero(arrow.containing(texts, MARK))).to_pylist()):
            keys.update(key for key, _ in _TOKEN.findall(text))
    return keys | {key + LIKELY for key in keys}


def resolve(batch: pa.RecordBatch, names: Names) -> pa.RecordBatch:
    """The batch with every token replaced by the name reported for it, or by its fallback."""
    for at in _named(batch):
        rows = np.flatnonzero(_marked(batch.column(at)))
        if len(rows):
            column = _resolved(batch.column(at), rows, row_times(batch)[rows], names)
            batch = batch.set_column(at, batch.schema.field(at), column)
    return batch


def waiting(batch: pa.RecordBatch, names: Names, clock: int) -> tuple[Bools, set[str]]:
    """(whether each row still waits for a name when the capture has come to `clock`, the keys that it waits for)."""
    waits = np.zeros(batch.num_rows, bool)
    keys: set[str] = set()
    for at in _named(batch):
        marked = _marked(batch.column(at))
        if not marked.any():
            continue
        times = row_times(batch)
        rows = np.flatnonzero(marked & (times + names.wait_ns > clock))
        for texts, which in _by_value(batch.column(at), rows):
            first, last = int(times[which].min()), int(times[which].max())
            missing = set().union(*(names.missing(text, first) for text in texts))
            if not missing:
                continue  # nor later
            if missing == set().union(*(names.missing(text, last) for text in texts)):
                waits[which] = True
                keys |= missing
                continue
            for row, time in zip(which.tolist(), times[which].tolist(), strict=True):
                if missing := set().union(*(names.missing(text, time) for text in texts)):
                    waits[row] = True
                    keys |= missing
    return waits, keys


def row_times(batch: pa.RecordBatch) -> Ints:
    """The end of the microsecond of each row, int64 ns: a name reported in it counts; 0 where a row has no time."""
    column = batch.column("time" if "time" in batch.schema.names else "start_time")
    return arrow.as_numbers(column, 0) * 1000 + 999


def _named(batch: pa.RecordBatch) -> list[int]:
    """The columns in which a token may stand."""
    return [at for name in NAMED_COLUMNS if (at := batch.schema.get_field_index(name)) >= 0]


def _marked(column: pa.Array) -> Bools:
    """Whether a token stands in each row."""
    rows = np.zeros(len(column), bool)
    listed = pa.types.is_list(column.type)
    coded = isinstance(column, pa.DictionaryArray)
    data = (column.values if listed else column.dictionary if coded else column).buffers()[-1]
    if data is None or np.frombuffer(data, np.uint8).all():  # none in all the bytes: the common case
        return rows
    where = np.flatnonzero(arrow.containing(arrow.flat(column) if listed else arrow.plain(column), MARK))
    rows[arrow.parents(column)[where] if listed else where] = True
    return rows


def _by_value(column: pa.Array, rows: Ints) -> Iterator[tuple[tuple[str, ...], Ints]]:
    """(texts, rows) for each value that some rows of a column have; the column is of texts or of lists of them."""
    if not len(rows):
        return
    some = arrow.take(column, rows)
    values: list[tuple[str, ...]]
    if pa.types.is_list(column.type):
        found: dict[tuple[str, ...], int] = {}
        numbers = np.array([found.setdefault(tuple(value), len(found)) for value in some.to_pylist()])
        values = list(found)
    else:
        coded = arrow.numbered(arrow.plain(some))
        numbers = coded.indices.to_numpy()
        values = [(text,) for text in coded.dictionary.to_pylist()]
    grouped = rows[np.argsort(numbers, kind="stable")]
    yield from zip(values, np.split(grouped, np.cumsum(np.bincount(numbers))[:-1]), strict=True)


def _resolved(column: pa.Array, rows: Ints, times: Ints, names: Names) -> pa.Array:
    """The column with the tokens of some rows replaced. times: of these rows."""
    index = np.arange(len(column))
    time_of = np.zeros(len(column), np.int64)
    time_of[rows] = times
    replaced: list[str | list[str]] = []
    for texts, which in _by_value(column, rows):
        changes = sorted(set().union(*(names.changes(text) for text in texts)))
        spans = np.searchsorted(np.array(changes, np.int64), time_of[which], "right")
        _, first, number = np.unique(spans, return_index=True, return_inverse=True)
        index[which] = len(column) + len(replaced) + number
        replaced += [_named_texts(column.type, texts, time, names) for time in time_of[which[first]].tolist()]
    plain = arrow.plain(column)
    named = arrow.take(pa.concat_arrays([plain, pa.array(replaced, plain.type)]), index)
    return named if plain is column else arrow.numbered(named)


def _named_texts(type: pa.DataType, texts: tuple[str, ...], time: int, names: Names) -> str | list[str]:
    """What stands in a row of that time in the place of `texts`."""
    named = list(dict.fromkeys(names.text(text, time) for text in texts))
    return named if pa.types.is_list(type) else named[0]
