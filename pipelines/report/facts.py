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

Each has a limit. Names beyond NAMES, and combinations beyond COMBINATIONS, are added up under no name (but the
protocol's and the API's): totals stay right, and the page says how many names it carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.report.records import Records
from pipelines.tables.table import CLIENT, SERVER

NAMES = 1_000  # names of a dimension that the page carries
COMBINATIONS = 1_500  # rows of a fact by all dimensions
CELLS = 15_000  # rows of a fact along time
BINS = 10  # of a histogram, in a decade of the duration
SHORTEST_NS = 1_000  # shorter durations, which captures of microseconds cannot show, are in the lowest bin
BUCKETS = 240  # time buckets with anything in them, at most
WIDEN = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400)  # what a bucket may be multiplied by

DIMENSIONS = ("protocol", "broker", "topic", "client", "group")
FEW = ("protocol", "api", "role")  # dimensions that have few names: every row has them

SERVICE = "case when wait_ns is not null then greatest(wait_ns - coalesce(queued_ns, 0), 0) end"
EXPECTED = "(select exchange_id from errors where exchange_id is not null group by 1 having bool_and(expected))"

_MEASURES = """
    sum(n)::bigint as n, sum(polls)::bigint as polls, sum(errors)::bigint as errors,
    sum(unanswered)::bigint as unanswered, sum(total_ns)::double as total_ns, sum(service_ns)::double as service_ns,
    max(longest_ns) as longest_ns"""
_DATA_MEASURES = """
    sum(batches)::bigint as batches, sum(messages)::bigint as messages, sum(refused)::bigint as refused,
    sum(stored_bytes)::double as stored_bytes, sum(uncompressed_bytes)::double as uncompressed_bytes,
    sum(sized_bytes)::double as sized_bytes"""


@dataclass
class Fact:
    """Counts by dimensions. A name is its place in `Facts.names`; None where the row has none that is carried."""

    dimensions: tuple[str, ...]
    rows: list[dict[str, Any]]
    total: int = 0
    """Rows that there would be without limits."""


@dataclass
class Facts:
    """All facts of an analysis."""

    names: dict[str, list[str]] = field(default_factory=dict)  # dimension -> names, the busiest first
    totals: dict[str, int] = field(default_factory=dict)  # dimension -> how many names there are
    bucket_us: int = 1_000_000
    tables: dict[str, Fact] = field(default_factory=dict)


def facts(records: Records, bucket_us: int) -> Facts:
    """Count the records. bucket_us: width of the tables' time buckets; those of facts are as wide or wider."""
    made = Facts(bucket_us=_bucket(records, bucket_us))
    _count_requests(records, made.bucket_us)
    _count_data(records, made.bucket_us)
    for dimension in dict.fromkeys((*DIMENSIONS, *FEW)):
        _name(records, dimension, made)
    buckets = records.one("select count(distinct bucket) as n from (from requests union all by name from data)")["n"]
    cells = max(50, CELLS // max(1, buckets))
    who = ("protocol", "broker", "client", "group")
    all_but_time = ("protocol", "broker", "topic", "client", "group")
    for dimension in ("api", "broker", "group"):
        made.tables[dimension] = _by_one(records, "requests", dimension)
    made.tables["topic"] = _by_one(records, "topic_requests", "topic")
    made.tables["topic_role"] = _fact(records, "data", ("protocol", "topic", "role"), NAMES * 3)
    made.tables["requests"] = _fact(records, "requests", ("api", *who), COMBINATIONS)
    made.tables["topic_requests"] = _fact(records, "topic_requests", ("api", *all_but_time), COMBINATIONS)
    made.tables["requests_time"] = _fact(records, "requests", who, cells, along_time=True)
    made.tables["topic_requests_time"] = _fact(records, "topic_requests", all_but_time, cells, along_time=True)
    made.tables["data_time"] = _fact(records, "data", ("role", *all_but_time), cells, along_time=True)
    return made


def _bucket(records: Records, width_us: int) -> int:
    """The width, or a multiple of it, so that those with a request in them are at most BUCKETS."""
    counts = ", ".join(f"approx_count_distinct(epoch_us(time) // {width_us * by}) as x{by}" for by in WIDEN)
    found = records.one(f"select {counts} from exchanges")
    return width_us * next((by for by in WIDEN if found[f"x{by}"] <= BUCKETS), WIDEN[-1])


def _count_requests(records: Records, bucket_us: int) -> None:
    """Tables `requests` and `topic_requests`: one row per everything that a fact may ask for."""
    records.run(f"""
        create view calls as
        select protocol, coalesce(api, '?') as api, {SERVER} as broker, {CLIENT} as client, "group", topics,
               epoch_us(time) // {bucket_us} as bucket, kind = 'call' as answered, coalesce(long_poll, false) as poll,
               status = 'error' and coalesce(exchange_id not in {EXPECTED}, true) as failed,
               case when not coalesce(long_poll, false) then total_ns end as total_ns,
               case when not coalesce(long_poll, false) then {SERVICE} end as service_ns
        from exchanges where kind in ('call', 'unanswered')""")
    for name, source, topic in (
        ("requests", "calls", ""),
        ("topic_requests", "(select * exclude topics, unnest(list_distinct(topics)) as topic from calls)", "topic,"),
    ):
        records.run(f"""
            create temp table {name} as
            select protocol, api, broker, client, "group", {topic} bucket,
                   floor(log10(greatest(total_ns, {SHORTEST_NS})) * {BINS})::smallint as bin,
                   count(*) filter (answered and not poll) as n, count(*) filter (answered and poll) as polls,
                   count(*) filter (failed) as errors, count(*) filter (not answered) as unanswered,
                   sum(total_ns) as total_ns, sum(service_ns) as service_ns, max(total_ns) as longest_ns
            from {source} group by all""")


def _count_data(records: Records, bucket_us: int) -> None:
    """Table `data`: what the batches carried, as the table `throughput` counts it."""
    records.run(f"""
        create temp table data as
        with carried as (
            select *, coalesce(outcome = 'error', false) as turned_away,
                   not coalesce(control, false) and coalesce(outcome != 'error', true) as counts from batches)
        select protocol, role, {SERVER} as broker, topic, {CLIENT} as client, "group",
               epoch_us(time) // {bucket_us} as bucket, count(*) as batches,
               sum(case when counts then records else 0 end) as messages,
               sum(case when turned_away then records else 0 end) as refused,
               sum(case when counts then stored_bytes else 0 end) as stored_bytes,
               sum(case when counts then uncompressed_bytes end) as uncompressed_bytes,
               sum(case when counts and uncompressed_bytes is not null then stored_bytes end) as sized_bytes
        from carried group by all""")


_NAMED_IN = {
    "topic": "(select topic, n + polls as n from topic_requests union all select topic, batches from data)",
    "role": "(select role, batches as n from data)",
}


def _name(records: Records, dimension: str, made: Facts) -> None:
    """Table `names_<dimension>`: the busiest names and their places."""
    source = _NAMED_IN.get(dimension, f'(select "{dimension}", n + polls as n from requests)')
    records.run(f"""
        create temp table names_{dimension} as
        select "{dimension}" as name, row_number() over (order by sum(n) desc, "{dimension}") - 1 as place
        from {source} where "{dimension}" is not null group by 1""")
    kept = records.rows(f"select name from names_{dimension} where place < {NAMES} order by place")
    made.names[dimension] = [row["name"] for row in kept]
    made.totals[dimension] = records.one(f"select count(*) as n from names_{dimension}")["n"]


def _by_one(records: Records, table: str, dimension: str) -> Fact:
    """By protocol and one dimension; what has none has no row."""
    made = _fact(records, table, ("protocol", dimension), NAMES * len(FEW))
    made.rows = [row for row in made.rows if row[dimension] is not None]
    return made


def _fact(records: Records, table: str, dimensions: Sequence[str], limit: int, *, along_time: bool = False) -> Fact:
    """Sums by dimensions (and time bucket) over the `limit` busiest combinations; the others as one without names."""
    keys = ", ".join(f'"{d}"' for d in dimensions)
    places = ", ".join(
        f'n_{d}.place as "{d}"'
        if d in FEW
        else f'case when n_{d}.place < {NAMES} and r.place < {limit} then n_{d}.place end as "{d}"'
        for d in dimensions
    )
    joins = " ".join(f'left join names_{d} n_{d} on n_{d}.name = x."{d}"' for d in dimensions)
    same = " and ".join(f'r."{d}" is not distinct from x."{d}"' for d in dimensions)
    weight = "batches" if table == "data" else "n + polls + unanswered"
    measures = _DATA_MEASURES if table == "data" else _MEASURES
    time = ", bucket" if along_time else ""
    records.run(f"""
        create or replace temp table ranked as
        select {keys}, row_number() over (order by sum({weight}) desc, {keys}) - 1 as place
        from {table} group by {keys}""")
    numbered = f"""
        (select x.* exclude ({keys}), {places} from {table} x join ranked r on {same} {joins})"""
    order = f"{keys}{time}"
    if table == "data":
        rows = records.rows(f"select {keys}{time}, {measures} from {numbered} group by all order by {order}")
    else:
        rows = records.rows(f"""
            with binned as (select {keys}{time}, bin, {measures} from {numbered} group by all)
            select {keys}{time}, {measures},
                   list(bin order by bin) filter (bin is not null and n > 0) as bins,
                   list(n order by bin) filter (bin is not null and n > 0) as counts
            from binned group by all order by {order}""")
    return Fact(tuple(dimensions), rows, records.one("select count(*) as n from ranked")["n"])
