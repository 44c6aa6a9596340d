"""Two capture sets side by side: what became slower, what fails more, what is new and what is gone.

Durations and sizes are compared by ranks (Mann-Whitney, normal approximation with ties): one slow request changes
nothing, a shift of many does. Errors, throttled answers and slow outliers are compared as shares. How often something
is called is compared by ranks, too, of its calls in each slot of time, so that a burst counts once, however the
lengths of the captures differ. A difference counts where both sides have at least FEWEST values, where it is large
enough for a person, and where chance would give one in all that is compared less than once in 20 times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.answers.records import Relations, Row, database_of, query
from pipelines.sql import database
from pipelines.sql.words import HELD, SERVER

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLES = ("exchanges", "errors", "findings", "connections")
FEWEST = 20
CERTAIN = 3.0  # standard deviations, at least; more where much is compared
CHANCE = 0.05  # that anything at all is said of two samples of one system
SLIGHT = 0.1  # a median that moved by less is the same to a person
MUCH = 1.5  # factor by which rates, sizes and outliers differ from hour to hour
SLOTS, MOST_SLOTS = 50, 5000  # of the shorter capture, and of the longer

Values = npt.NDArray[np.int64]
_NONE: Values = np.empty(0, np.int64)


class _Key(NamedTuple):
    """What is compared: the calls of an API, or those of them to a topic, to a server or of a client."""

    protocol: str
    api: str
    part: str  # topic, server or client; empty for all calls
    name: str


_SPAN = """SELECT coalesce(min(epoch_us(start_time)), 0) AS first, coalesce(max(epoch_us(end_time)), 0) AS last
           FROM connections"""
_CALLS = f"""
WITH calls AS (
    SELECT protocol, api, topics, {SERVER} AS server, client_id AS client, status = 'error' AS failed,
           coalesce(throttle_ms, 0) > 0 AS throttled, CASE WHEN NOT {HELD} THEN total_ns END AS ns,
           coalesce(request_bytes, 0) + coalesce(response_bytes, 0) AS bytes,
           (epoch_us(time) - {{first}}) // {{width}} AS slot
    FROM exchanges WHERE api IS NOT NULL
), parts AS (
    SELECT '' AS part, '' AS name, * FROM calls
    UNION ALL SELECT 'topic', unnest(list_distinct(topics)), * FROM calls
    UNION ALL SELECT 'server', server, * FROM calls
    UNION ALL SELECT 'client', client, * FROM calls
)
SELECT protocol, api, part, name, count(*) AS count, count(*) FILTER (failed) AS errors,
       count(*) FILTER (throttled) AS throttled, list(bytes) AS sizes, list(slot) AS slots,
       coalesce(list(ns) FILTER (ns IS NOT NULL), []) AS times,
       coalesce(list(slot) FILTER (ns IS NOT NULL), []) AS slots_timed
FROM parts WHERE name IS NOT NULL GROUP BY 1, 2, 3, 4
"""
# kind of name -> what its names tell of (they are compared where both sides tell of it), the name, and of which rows
_NAMES = {
    "topic": ("''", "unnest(topics)", "exchanges"),
    "client": ("''", "client_id", "exchanges"),
    "server": ("''", SERVER, "exchanges"),
    "error": ("''", "concat_ws(' to ', name, api)", "errors WHERE expected IS NOT TRUE"),
    "finding": ("''", "kind", "findings WHERE severity <> 'info'"),
    "API version": (
        "api", "api || ' v' || version", f"exchanges GROUP BY protocol, api, version HAVING count(*) >= {FEWEST}",
    ),
    "client version": (
        "coalesce(e.client_id, '-')", "nullif(concat_ws(' ', client_software, client_version), '')",
        "connections JOIN exchanges AS e USING (site, connection, incarnation)",
    ),
    "server version": (SERVER, "server_version", "connections"),
}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """What changed."""

    apis: list[Row]  # what changed most first
    new: dict[str, list[str]]  # kind of name -> names that only the later set has
    gone: dict[str, list[str]]  # and only the earlier
    parts: list[Row]  # topics, servers and clients that went another way than others, likewise


class _Calls(NamedTuple):
    """The calls of one API, or of a part of them, in one set. slots: of time, as numbers of their beginnings."""

    number: int = 0
    errors: int = 0
    throttled: int = 0
    sizes: Values = _NONE
    slots: Values = _NONE
    times: Values = _NONE
    slots_timed: Values = _NONE  # the slot of each duration


class _Side:
    """One set of records. seconds: of the slots of time in which anything was called."""

    def __init__(self, tables: Relations, first: int, width: int) -> None:
        with database_of(tables, only_ours=True) as connection:
            made = connection.sql(_CALLS.format(first=first, width=width)).to_arrow_table()
            self.names = {kind: _names(connection, *told) for kind, told in _NAMES.items()}
        columns = [
            [one.values.to_numpy() for one in column] if pa.types.is_list(column.type) else column.to_pylist()
            for column in made.columns
        ]
        self.calls = {_Key(*row[:4]): _Calls(*row[4:]) for row in zip(*columns, strict=True)}
        self.slots = np.unique(np.concatenate([_NONE, *(c.slots for c in self.calls.values())]))
        self.seconds = len(self.slots) * width / 1e6

    def rates(self, calls: _Calls) -> Values:
        """Calls in each slot of time."""
        return np.bincount(np.searchsorted(self.slots, calls.slots), minlength=len(self.slots))


def diff(before: Relations, after: Relations) -> Difference:
    """Compare two sets of records."""
    spans = [query(tables, _SPAN)[0] for tables in (before, after)]
    lengths = [span["last"] - span["first"] for span in spans]
    width = max(min(lengths) // SLOTS, max(lengths) // MOST_SLOTS, 1)
    one, other = (_Side(tables, span["first"], width) for tables, span in zip((before, after), spans, strict=True))
    rows = _compared(one, other)
    return Difference(
        _sorted(row for key, row in rows.items() if not key.part),
        {kind: _only(other.names[kind], one.names[kind]) for kind in _NAMES},
        {kind: _only(one.names[kind], other.names[kind]) for kind in _NAMES},
        _sorted(_telling(rows)),
    )


# verdict -> how much a person wants to see it first
_WEIGHT = {
    "fails more": 9, "throttled": 8, "slower": 7, "slower outliers": 6, "new": 5, "gone": 4, "fewer calls": 3,
    "more calls": 3, "larger": 3, "smaller": 3, "fails less": 2, "throttled less": 2, "faster": 2,
    "faster outliers": 2, "same": 1, "too few to say": 0,
}  # fmt: skip
_TESTS = 6  # of a row
_SIDES = ("before", "after")


def _compared(before: _Side, after: _Side) -> dict[_Key, Row]:
    """Each API, and each part of it, in both sets. The more is compared, the surer a difference must be."""
    found: dict[_Key, Row] = {}
    keys = sorted({*before.calls, *after.calls})
    for of_parts in (False, True):
        some = [key for key in keys if bool(key.part) is of_parts]
        judged = sum(min(len(s.calls.get(key, _Calls()).slots) for s in (before, after)) >= FEWEST for key in some)
        bound = max(CERTAIN, NormalDist().inv_cdf(1 - CHANCE / 2 / _TESTS / max(judged, 1)))
        found |= {key: _row(key, before, after, bound) for key in some}
    return found


def _row(key: _Key, before: _Side, after: _Side, bound: float) -> Row:
    sides = [(side, side.calls.get(key, _Calls())) for side in (before, after)]
    was, now = (calls for _, calls in sides)
    medians, p99s = ([_quantile(calls.times, share) for _, calls in sides] for share in (0.5, 0.99))
    sizes = [_quantile(calls.sizes, 0.5) for _, calls in sides]
    rates = [calls.number / side.seconds if side.seconds else 0.0 for side, calls in sides]
    slower = rank_sum(was.times, now.times)
    often = rank_sum(before.rates(was), after.rates(now)) if max(was.number, now.number) >= FEWEST else None
    # verdict where it grew, where it shrank, standard deviations, whether a person would call it a difference
    tests = (
        ("fails more", "fails less", proportions(was.errors, was.number, now.errors, now.number), True),
        ("throttled", "throttled less", proportions(was.throttled, was.number, now.throttled, now.number), True),
        ("slower", "faster", slower, _moved(medians, 1 + SLIGHT)),
        ("slower outliers", "faster outliers", _outliers(sides, p99s), _moved(p99s, MUCH)),
        ("more calls" if was.number else "new", "fewer calls" if now.number else "gone", often, _moved(rates, MUCH)),
        ("larger", "smaller", rank_sum(was.sizes, now.sizes), _moved(sizes, MUCH)),
    )
    changes = [grew if z > 0 else shrank for grew, shrank, z, large in tests if large and z and abs(z) > bound]
    changes.sort(key=lambda change: -_WEIGHT[change])
    pairs = {
        "count": (was.number, now.number), "p50_ns": medians, "p99_ns": p99s, "errors": (was.errors, now.errors),
        "throttled": (was.throttled, now.throttled), "per_s": rates, "p50_bytes": sizes,
    }  # fmt: skip
    row = key._asdict() | {"verdict": (changes or ["too few to say" if slower is None else "same"])[0]}
    row |= {"also": changes[1:], "z": slower}
    return row | {
        f"{side}_{name}": value for name, pair in pairs.items() for side, value in zip(_SIDES, pair, strict=True)
    }


def _moved(values: list[Any], factor: float) -> bool:
    """Whether one value is more than so many times the other."""
    return None not in values and max(values) > factor * min(values)


def _outliers(sides: Sequence[tuple[_Side, _Calls]], p99s: list[int | None]) -> float | None:
    """By how much the share grew of what lies half-way to the higher p99, or above: of calls, and of slots of time.

    A burst of slow calls is one event, and more calls in a slot make a slow one likelier: so the lesser counts.
    """
    if None in p99s:
        return None
    far = math.sqrt(math.prod(p99 or 0 for p99 in p99s))
    of_calls = [(int((calls.times > far).sum()), len(calls.times)) for _, calls in sides]
    of_slots = [(len(np.unique(calls.slots_timed[calls.times > far])), len(side.slots)) for side, calls in sides]
    found = [proportions(*of[0], *of[1]) for of in (of_calls, of_slots)]
    return None if None in found else min(found, key=lambda z: abs(z or 0))


def _telling(rows: dict[_Key, Row]) -> Iterable[Row]:
    """Parts that changed, where their API did not change so in all of its parts, and that are in both sets."""
    verdicts: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for key, row in rows.items():
        if row["verdict"] != "too few to say":
            verdicts[key.protocol, key.api, key.part].add(row["verdict"])
    known = [{(k.part, k.name) for k, row in rows.items() if row[side]} for side in ("before_count", "after_count")]
    for key, row in rows.items():
        several = len(verdicts[key.protocol, key.api, key.part]) > 1
        if key.part and several and _WEIGHT[row["verdict"]] > 1 and (key.part, key.name) in known[0] & known[1]:
            yield row


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-_WEIGHT[row["verdict"]], -abs(row["z"] or 0), str(row["api"]), row["part"]))


def rank_sum(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64]) -> float | None:
    """How many standard deviations the ranks of `after` lie above chance; None where there are too few values."""
    n, m = len(before), len(after)
    if min(n, m) < FEWEST:
        return None
    _, inverse, counts = np.unique(np.concatenate([before, after]), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[inverse]
    total = n + m
    ties = float(((counts.astype(float) ** 3) - counts).sum()) / (total * (total - 1))
    spread = math.sqrt(n * m / 12 * (total + 1 - ties))
    if not spread:
        return 0.0
    return float(ranks[n:].sum() - m * (total + 1) / 2) / spread


def proportions(hits: int, of: int, later_hits: int, later_of: int) -> float | None:
    """How many standard deviations a share grew by; None where there are too few values."""
    if min(of, later_of) < FEWEST:
        return None
    pooled = (hits + later_hits) / (of + later_of)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / of + 1 / later_of))
    return (later_hits / later_of - hits / of) / spread if spread else 0.0


def _quantile(values: npt.NDArray[np.int64], share: float) -> int | None:
    return int(np.quantile(values, share, method="inverted_cdf")) if len(values) else None


def _names(connection: DuckDBPyConnection, subject: str, name: str, rows: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for row in database.fetched(connection, f"SELECT DISTINCT {subject} AS subject, {name} AS name FROM {rows}"):
        if row["name"]:
            found[row["subject"]].add(row["name"])
    return found


def _only(these: dict[str, set[str]], those: dict[str, set[str]]) -> list[str]:
    """Names that are not among those; of a subject, only where both sides tell of it."""
    told = (names for subject, names in these.items() if not subject or subject in those)
    return sorted(set().union(*told) - set().union(*those.values()))
