"""Requests and message data, counted by whom they concern: what the selector of the page works on.

A fact is a small table: dimensions (names, as places in a list), counts, and a histogram of durations from which any
sum of rows has its percentiles. There are facts by one dimension, for all rows of it that the page carries, and facts
by all dimensions at once, for every selection of them:

    requests by                       for
    api | broker | topic | group      the tables where nothing is selected
    api x broker x client x group     the tables of a selection
    the same x topic                  the tables of a selection of a topic: a request counts for each that it names
    broker x client x group x bucket  the charts along time; the same x topic

    data by                           for
    topic x role                      bytes by topic
    topic x … x group x bucket        bytes along time, and of a selection

Those by all dimensions are there again, as verdict_<name>, of what is the evidence of a verdict, by verdict.

Each has a limit. Names beyond NAMES, and combinations beyond COMBINATIONS, are added up under no name (but the
protocol's and the API's) in rows marked `unnamed`: totals stay right, and the page says what a selection may lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.report import counted_evidence
from pipelines.report.counted import DATA_MEASURES, MEASURES, added, count
from pipelines.report.records import Records

NAMES = 1_000  # names of a dimension that the page carries
COMBINATIONS = 1_500  # rows of a fact by all dimensions
CELLS = 15_000  # rows of a fact along time
BUCKETS = 240  # time buckets with anything in them, at most
WIDEN = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400)  # what a bucket may be multiplied by

DIMENSIONS = ("protocol", "broker", "topic", "client", "group", "verdict")
FEW = ("protocol", "api", "role", "verdict")  # dimensions that have few names: every row has them
_WHO = ("protocol", "broker", "client", "group")
_ALL = ("protocol", "broker", "topic", "client", "group")

# where the names of a dimension stand, and how often
_NAMED_IN = {
    "topic": ("topic_keys", "data_keys"),
    "role": ("data_keys",),
    **dict.fromkeys(("protocol", "broker", "client", "group", "api"), ("request_keys",)),
}


@dataclass
class Fact:
    """Counts by dimensions. A name is its place in `Facts.names`; None where the row has none that is carried."""

    dimensions: tuple[str, ...]
    columns: dict[str, list[Any]] = field(default_factory=dict)
    """Dimensions, `bucket` along time, `unnamed` (1 where a name of the row is not carried), counts, and for requests
    `histogram` of the known durations: bin, count, bin, count …"""
    size: int = 0
    """Rows."""
    total: int = 0
    """Rows that there would be without limits."""


@dataclass
class Facts:
    """All facts of an analysis."""

    names: dict[str, list[str]] = field(default_factory=dict)  # dimension -> names, the busiest first
    totals: dict[str, int] = field(default_factory=dict)  # dimension -> how many names there are
    bucket_us: int = 1_000_000
    tables: dict[str, Fact] = field(default_factory=dict)


def facts(records: Records, bucket_us: int, verdicts: Sequence[Mapping[str, Any]] = ()) -> Facts:
    """Count the records.

    bucket_us: width of the tables' time buckets; those of facts are as wide or wider. verdicts: the rows of the table
    `verdicts` by whose evidence the page can select, the worst first.
    """
    made = Facts(bucket_us=_bucket(records, bucket_us))
    count(records, made.bucket_us)
    counted_evidence.count(records, verdicts)
    _name(records, made)
    buckets = records.one("""
        select count(distinct bucket) as n
        from (select bucket from request_cells union all select bucket from data_cells)""")["n"]
    cells = max(50, CELLS // max(1, buckets))
    made.tables = {
        **{name: _by_one(records, "request", name) for name in ("api", "broker", "group")},
        "topic": _by_one(records, "topic", "topic"),
        "topic_role": _fact(records, "data", ("protocol", "topic", "role"), NAMES * 3),
        **_by_all(records, cells),
        **_by_all(records, cells, "verdict_", ("verdict",)),
    }
    return made


def _by_all(records: Records, cells: int, prefix: str = "", more: Sequence[str] = ()) -> dict[str, Fact]:
    """The facts by all dimensions. cells: combinations along time; prefix: of keys and facts; more: dimensions."""
    return {
        f"{prefix}{name}": _fact(
            records,
            f"{prefix}{keys}",
            (*more, *dimensions),
            cells if along_time else COMBINATIONS,
            along_time=along_time,
        )
        for name, keys, dimensions, along_time in (
            ("requests", "request", ("api", *_WHO), False),
            ("topic_requests", "topic", ("api", *_ALL), False),
            ("requests_time", "request", _WHO, True),
            ("topic_requests_time", "topic", _ALL, True),
            ("data_time", "data", ("role", *_ALL), True),
        )
    }


def _bucket(records: Records, width_us: int) -> int:
    """The width, or a multiple of it, so that those with a request or an event in them are at most BUCKETS."""
    counts = ", ".join(f"count(distinct tick // {by}) as x{by}" for by in WIDEN)
    found = records.one(f"""
        select {counts} from (
            select epoch_us(time) // {width_us} as tick from exchanges
            union select epoch_us(time) // {width_us} from findings where severity != 'info'
            union select epoch_us(end_time) // {width_us} from connections where closed = 'reset')""")
    return width_us * next((by for by in WIDEN if found[f"x{by}"] <= BUCKETS), WIDEN[-1])


def _name(records: Records, made: Facts) -> None:
    """Table `names`: the names of each dimension and their places, the busiest first; verdicts by rank."""
    found = " union all ".join(
        f"select '{dimension}' as dimension, \"{dimension}\" as name, answered from {keys}"
        for dimension, tables in _NAMED_IN.items()
        for keys in tables
    )
    records.run(f"""
        create temp table names as
        select dimension, name,
               row_number() over (partition by dimension order by sum(answered) desc, name) - 1 as place
        from ({found}) where name is not null group by dimension, name
        union all select 'verdict', verdict, rank - 1 from verdict_names""")
    made.names = {dimension: [] for dimension in (*DIMENSIONS, *FEW)}
    for row in records.rows(f"select dimension, name from names where place < {NAMES} order by dimension, place"):
        made.names[row["dimension"]].append(row["name"])
    found_names = records.rows("select dimension, count(*) as n from names group by dimension")
    made.totals = dict.fromkeys(made.names, 0) | {row["dimension"]: row["n"] for row in found_names}


def _by_one(records: Records, keys: str, dimension: str) -> Fact:
    """By protocol and one dimension; what has none has no row."""
    return _fact(records, keys, ("protocol", dimension), NAMES * len(FEW), having=f'"{dimension}" is not null')


def _fact(
    records: Records,
    keys: str,
    dimensions: Sequence[str],
    limit: int,
    *,
    along_time: bool = False,
    having: str = "true",
) -> Fact:
    """Sums by dimensions (and time bucket) over the `limit` busiest combinations; the others as one without names.

    keys: whose: `request`, `topic` or `data`, of verdicts with `verdict_` before it. having: which rows stay.
    """
    names = ", ".join(f'"{d}"' for d in dimensions)
    places = ", ".join(
        f'n_{d}.place as "{d}"'
        if d in FEW
        else f'case when n_{d}.place < {NAMES} and r.place < {limit} then n_{d}.place end as "{d}"'
        for d in dimensions
    )
    joins = " ".join(f"left join names n_{d} on n_{d}.dimension = '{d}' and n_{d}.name = x.\"{d}\"" for d in dimensions)
    cut = " or ".join(f"n_{d}.place >= {NAMES}" for d in dimensions if d not in FEW) or "false"
    same = " and ".join(f'r."{d}" is not distinct from x."{d}"' for d in dimensions)
    time = ", bucket" if along_time else ""
    prefix, data = "verdict_" if keys.startswith("verdict_") else "", keys.endswith("data")
    measures = DATA_MEASURES if data else MEASURES
    cells = f"{prefix}data_cells" if data else f"{prefix}request_cells" if along_time or prefix else "request_bins"
    histogram = "coalesce(flatten(list([bin, n] order by bin) filter (bin is not null and n > 0)), []) as histogram"
    answer = records.columns(f"""
        with ranked as materialized (
            select {names}, row_number() over (order by sum(weight) desc, {names}) - 1 as place
            from {keys}_keys group by {names}),
        placed as (
            select key, {places}, (r.place >= {limit} or coalesce({cut}, false))::tinyint as unnamed, count(*) as times
            from {keys}_keys x join ranked r on {same} {joins} group by all),
        binned as (
            select {names}{time}, unnamed{"" if data else ", bin"}, {added(measures, "times")}
            from {cells} join placed using (key) group by all)
        select {names}{time}, unnamed, {added(measures)}{"" if data else f", {histogram}"},
               (select count(*) from ranked) as total
        from binned where {having} group by all order by {names}{time}, unnamed""")
    totals = answer.pop("total", [])
    return Fact(tuple(dimensions), answer, len(totals), totals[0] if totals else 0)
