"""Requests and batches, counted once: what facts are sums of, so that none of them reads the records again.

A key is all that requests, or batches, have in common: who asked whom for what. A cell counts those of one key in one
time bucket and one bin of durations.

    request_keys   key, site, protocol, api, broker, client, group, topics
    topic_keys     the same with `topic`: a row for each topic that requests of the key name
    request_cells  key, bucket, bin, counts
    request_bins   key, bin, counts: of all time
    expected       key, bucket, bin, asked: failures that are part of normal work; asked: whether a cell counts it
    data_keys      key, protocol, role, broker, topic, client, group
    data_cells     key, bucket, counts

Keys also have `answered`, by which names are ranked, and `weight`, by which combinations of names are.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.report.records import Records
from pipelines.tables.dialect import DuckDB
from pipelines.tables.table import CLIENT, SERVER

BINS = 30  # of a histogram, in a decade of the duration
SHORTEST_NS = 1_000  # shorter durations, which captures of microseconds cannot show, are in the lowest bin

_EXPECTED = "(select exchange_id from errors where exchange_id is not null group by 1 having bool_and(expected))"
"""Exchanges whose errors are all part of normal work."""

_SERVICE = "greatest(wait_ns - coalesce(queued_ns, 0), 0)"
MEASURES = {
    "n": "count(*) filter (answered and not poll)",
    "polls": "count(*) filter (answered and poll)",
    "errors": "count(*) filter (failed)",
    "unanswered": "count(*) filter (not answered)",
    "total_ns": "sum(total_ns) filter (not poll)",
    "service_ns": f"sum({_SERVICE}) filter (not poll and wait_ns is not null)",
    "longest_ns": "max(total_ns) filter (not poll)",
    "timed": "count(*) filter (answered and not poll and wait_ns > 0)",
}
"""Of requests: column -> its value over records. What is counted or summed is added up; what is the largest stays the
largest."""

DATA_MEASURES = {
    "batches": "count(*)",
    "messages": "sum(case when counts then records else 0 end)",
    "refused": "sum(case when turned_away then records else 0 end)",
    "stored_bytes": "sum(case when counts then stored_bytes else 0 end)",
    "uncompressed_bytes": "sum(case when counts then uncompressed_bytes end)",
    "sized_bytes": "sum(case when counts and uncompressed_bytes is not null then stored_bytes end)",
}
"""Of batches, as the table `throughput` counts them."""

_WHO = ("protocol", "client_ip", "client_id", "server_ip", "server_port", '"group"')
_REQUEST = ("site", "api", "topics", *_WHO)
_DATA = ("role", "topic", *_WHO)
_NAMES = f'protocol, {SERVER} as broker, {CLIENT} as client, "group"'
_ASKED = "kind in ('call', 'unanswered')"


def count(records: Records, bucket_us: int) -> None:
    """Make the tables. bucket_us: width of a time bucket."""
    _requests(records, bucket_us)
    _data(records, bucket_us)


def added(measures: dict[str, str], times: str = "") -> str:
    """Sums of what cells count, for a SELECT list. times: how often a cell counts, once by default."""

    def sum_of(name: str, value: str) -> str:
        if value.startswith("max("):
            return f"max({name})"
        total = f"sum({name}{times and f' * {times}'})"
        return f"{total}::bigint" if value.startswith("count(") else total  # sums of 128 bits are dear to add up

    return ", ".join(f"{sum_of(name, value)} as {name}" for name, value in measures.items())


def _requests(records: Records, bucket_us: int) -> None:
    records.run(f"""
        create temp view calls as
        select *, {_key(_REQUEST)} as key, epoch_us(time) // {bucket_us} as bucket, {_ASKED} as asked,
               kind = 'call' as answered, coalesce(long_poll, false) as poll, status = 'error' as failed,
               floor(log10(greatest(case when not poll then total_ns end, {SHORTEST_NS})) * {BINS})::smallint as bin
        from exchanges""")
    records.run(f"""
        create temp table request_cells as
        select key, bucket, bin, {_measured(MEASURES)} from calls where asked group by all""")
    # errors are few: they are counted with all others, and those that were expected are taken away again
    records.run(f"""
        create temp table expected as
        select key, bucket, bin, asked from calls where failed and exchange_id in {_EXPECTED}""")
    records.run("""
        insert into request_cells by name
        select key, bucket, bin, -count(*) as errors from expected where asked group by all""")
    records.run(f"create temp table request_bins as select key, bin, {added(MEASURES)} from request_cells group by all")
    records.run(f"""
        create temp table request_keys as
        select key, site, coalesce(api, '?') as api, {_NAMES}, topics, answered, weight
        from ({_keys("exchanges", _REQUEST, _ASKED)}) join (
            select key, sum(n + polls) as answered, sum(n + polls + unanswered) as weight from request_bins group by key
        ) using (key)""")
    records.run("""
        create temp table topic_keys as
        select * exclude topics, unnest(case when len(topics) > 1 then list_distinct(topics) else topics end) as topic
        from request_keys""")


def _data(records: Records, bucket_us: int) -> None:
    records.run(f"""
        create temp table data_cells as
        with carried as (
            select *, {_key(_DATA)} as key, coalesce(outcome = 'error', false) as turned_away,
                   not coalesce(control, false) and coalesce(outcome != 'error', true) as counts
            from batches)
        select key, epoch_us(time) // {bucket_us} as bucket, {_measured(DATA_MEASURES)} from carried group by all""")
    records.run(f"""
        create temp table data_keys as
        select key, role, topic, {_NAMES}, weight as answered, weight
        from ({_keys("batches", _DATA)}) join (
            select key, sum(batches) as weight from data_cells group by key
        ) using (key)""")


def _key(columns: Sequence[str]) -> str:
    return DuckDB().identity(*columns)


def _keys(table: str, columns: Sequence[str], condition: str = "true") -> str:
    """Each key with the values that it stands for."""
    values = ", ".join(f"any_value({column}) as {column}" for column in columns)
    return f"select {_key(columns)} as key, {values} from {table} where {condition} group by key"


def _measured(measures: dict[str, str]) -> str:
    return ", ".join(f"{value} as {name}" for name, value in measures.items())
