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
from pipelines.sql.words import CLIENT, EXCUSED, HELD, SERVER, SERVICE_NS
from pipelines.tables.dialect import DuckDB
from pipelines.tables.throughput import BATCH, KNOWN, SENDS

BINS = 30  # of a histogram, in a decade of the duration
SHORTEST_NS = 1_000  # shorter durations, which captures of microseconds cannot show, are in the lowest bin

MEASURES = {
    "n": "count(*) filter (answered and not poll)",
    "polls": "count(*) filter (answered and poll)",
    "errors": "count(*) filter (failed)",
    "unanswered": "count(*) filter (not answered)",
    "total_ns": "sum(total_ns) filter (not poll)",
    "service_ns": f"sum({SERVICE_NS}) filter (not poll)",
    "longest_ns": "max(total_ns) filter (not poll)",
    "timed": "count(*) filter (answered and not poll and wait_ns > 0)",
}
"""Of requests: column -> its value over records. What is counted or summed is added up; what is the largest stays the
largest."""

DATA_MEASURES = {
    "batches": "count(*)",
    "messages": "sum(case when counts then records else 0 end)",
    "refused": "sum(case when refused then records else 0 end)",
    "stored_bytes": "sum(case when counts then stored_bytes else 0 end)",
    "uncompressed_bytes": "sum(case when counts then uncompressed_bytes end)",
    "sized_bytes": "sum(case when counts and uncompressed_bytes is not null then stored_bytes end)",
}
"""Of batches, as the table `throughput` counts them."""

_FRESH = ("messages", "stored_bytes", "uncompressed_bytes", "sized_bytes")  # without what was sent again
_SENT_AGAIN = f"""
    with sends as (
        select *, {DuckDB().identity(*SENDS)} as send from carried where {KNOWN} and counts
    ), again as (
        select * from sends where send in (select send from sends group by send having count(*) > 1)
        qualify row_number() over (
            partition by send
            order by outcome is distinct from 'ok', coalesce(epoch_us(time), 0), {DuckDB().identity(*BATCH)}
        ) > 1
    )
    select key, bucket, {", ".join(f"-{DATA_MEASURES[name]} as {name}" for name in _FRESH)} from again group by all"""
_ANSWER = DuckDB().identity("site", "exchange_id")
_NOT_RECEIVED = f"""
    with carriers as (
        select {_ANSWER} as answer, key, bucket, sum(records) as messages
        from carried where role = 'consume' and counts and exchange_id is not null group by all
    ), received as (
        select {_ANSWER} as answer, max(records) as received
        from all_exchanges where kind = 'call' and payload_bytes > 0 and exchange_id is not null group by all
    ), short as (
        select answer, 1 - any_value(received) / sum(messages) as lacking
        from carriers join received using (answer) group by answer having any_value(received) < sum(messages)
    )
    select key, bucket, -round(sum(messages * lacking))::bigint as messages
    from carriers join short using (answer) group by all"""
"""Of what answers carry, what the application does not receive: their topics share it by what they carry."""

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
               kind = 'call' as answered, {HELD} as poll, status = 'error' as failed,
               floor(log10(greatest(case when not poll then total_ns end, {SHORTEST_NS})) * {BINS})::smallint as bin
        from exchanges""")
    records.run(f"""
        create temp table request_cells as
        select key, bucket, bin, {_measured(MEASURES)} from calls where asked group by all""")
    # errors are few: they are counted with all others, and those that were expected are taken away again
    records.run(f"""
        create temp table expected as
        select key, bucket, bin, asked from calls semi join ({EXCUSED}) using (site, exchange_id) where failed""")
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
        create temp view carried as
        select *, {_key(_DATA)} as key, epoch_us(time) // {bucket_us} as bucket,
               coalesce(outcome = 'error', false) as refused,
               not coalesce(control, false) and coalesce(outcome != 'error', true) as counts
        from batches""")
    records.run(f"""
        create temp table data_cells as
        select key, bucket, {_measured(DATA_MEASURES)} from carried group by all""")
    # what was sent again, or not received, is little: it is counted with all others, and taken away again
    records.run(f"insert into data_cells by name {_SENT_AGAIN}")
    records.run(f"insert into data_cells by name {_NOT_RECEIVED}")
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
