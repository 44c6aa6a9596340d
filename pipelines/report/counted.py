"""Requests and batches, counted once: what facts are sums of, so that none of them reads the records again.

A key is all that requests, or batches, have in common: who asked whom for what. A cell counts those of one key in one
time bucket and one bin of durations. The bin is null where no duration is measured: of long polls, of requests without
an answer, and where the capture lacks bytes of the exchange.

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
from pipelines.tables.table import CLIENT, SERVER, alike, equal
from pipelines.tables.throughput import ANSWER, KNOWN, SENDS, sent_first

BINS = 30  # of a histogram, in a decade of the duration
SHORTEST_NS = 1_000  # shorter known durations, which captures of microseconds cannot show, are in the lowest bin

_EXPECTED = """(
    select (site, exchange_id) from errors where exchange_id is not null group by site, exchange_id
    having bool_and(expected is true)
)"""
"""Site and id of the exchanges whose errors are all part of normal work: two capture points share ids."""

_SERVICE = "greatest(wait_ns - coalesce(queued_ns, 0), 0)"
MEASURES = {
    "n": "count(*) filter (answered and not poll)",
    "polls": "count(*) filter (answered and poll)",
    "errors": "count(*) filter (failed)",
    "unanswered": "count(*) filter (not answered)",
    "total_ns": "sum(total_ns) filter (not poll)",
    "service_ns": f"sum({_SERVICE}) filter (not poll and wait_ns is not null)",
    "longest_ns": "max(total_ns) filter (not poll)",
    "waits": "count(*) filter (answered and not poll and wait_ns is not null)",
}
"""Of requests: column -> its value over records. Counts and sums are added up, of maxima the largest is kept. Sums of
durations are over the known ones: `waits` counts those of service_ns, the histogram those of total_ns."""

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
_SEND, _ANSWER = ", ".join(SENDS), ", ".join(ANSWER)
_SENT_AGAIN = f"""
    with sends as (
        select * from carried where {KNOWN} and counts
    ), repeated as (
        select {_SEND} from sends group by {_SEND} having count(*) > 1
    ), again as (
        select s.* from sends s join repeated r on {alike(SENDS, "s", "r")}
        qualify row_number() over (
            partition by {", ".join(f"s.{column}" for column in SENDS)} order by {sent_first(DuckDB())}
        ) > 1
    )
    select key, bucket, {", ".join(f"-{DATA_MEASURES[name]} as {name}" for name in _FRESH)} from again group by all"""
_NOT_RECEIVED = f"""
    with carriers as (
        select {_ANSWER}, key, bucket, sum(records) as messages
        from carried where role = 'consume' and counts and exchange_id is not null group by all
    ), answers as (
        select {_ANSWER}, sum(messages) as carried from carriers group by all
    ), short as (
        select {", ".join(f"a.{column}" for column in ANSWER)}, 1 - max(records) / carried as lacking
        from answers a join all_exchanges e on {equal(ANSWER, "a", "e")}
        where kind = 'call' and payload_bytes > 0
        group by {", ".join(f"a.{column}" for column in ANSWER)}, carried having max(records) < carried
    )
    select key, bucket, -round(sum(messages * lacking))::bigint as messages
    from carriers join short using ({_ANSWER}) group by all"""
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
    records.run(_numbered("request_groups", "exchanges", _REQUEST))
    records.run(f"""
        create temp view calls as
        select e.*, key, epoch_us(time) // {bucket_us} as bucket, {_ASKED} as asked,
               kind = 'call' as answered, coalesce(long_poll, false) as poll, status = 'error' as failed,
               case when answered and not poll and total_ns is not null
                   then floor(log10(greatest(total_ns, {SHORTEST_NS})) * {BINS})::smallint end as bin
        from exchanges e join request_groups g on {alike(_REQUEST, "e", "g")}""")
    records.run(f"""
        create temp table request_cells as
        select key, bucket, bin, {_measured(MEASURES)} from calls where asked group by all""")
    # errors are few: they are counted with all others, and those that were expected are taken away again
    records.run(f"""
        create temp table expected as
        select key, bucket, bin, asked from calls where failed and (site, exchange_id) in {_EXPECTED}""")
    records.run("""
        insert into request_cells by name
        select key, bucket, bin, -count(*) as errors from expected where asked group by all""")
    records.run(f"create temp table request_bins as select key, bin, {added(MEASURES)} from request_cells group by all")
    records.run(f"""
        create temp table request_keys as
        select key, site, coalesce(api, '?') as api, {_NAMES}, topics, answered, weight
        from request_groups join (
            select key, sum(n + polls) as answered, sum(n + polls + unanswered) as weight from request_bins group by key
        ) using (key)""")
    records.run("""
        create temp table topic_keys as
        select * exclude topics, unnest(case when len(topics) > 1 then list_distinct(topics) else topics end) as topic
        from request_keys""")


def _data(records: Records, bucket_us: int) -> None:
    records.run(_numbered("data_groups", "batches", _DATA))
    records.run(f"""
        create temp view carried as
        select b.*, key, epoch_us(time) // {bucket_us} as bucket,
               coalesce(outcome = 'error', false) as refused,
               not coalesce(control, false) and coalesce(outcome != 'error', true) as counts
        from batches b join data_groups g on {alike(_DATA, "b", "g")}""")
    records.run(f"""
        create temp table data_cells as
        select key, bucket, {_measured(DATA_MEASURES)} from carried group by all""")
    # what was sent again, or not received, is little: it is counted with all others, and taken away again
    records.run(f"insert into data_cells by name {_SENT_AGAIN}")
    records.run(f"insert into data_cells by name {_NOT_RECEIVED}")
    records.run(f"""
        create temp table data_keys as
        select key, role, topic, {_NAMES}, weight as answered, weight
        from data_groups join (
            select key, sum(batches) as weight from data_cells group by key
        ) using (key)""")


def _numbered(name: str, table: str, columns: Sequence[str]) -> str:
    """A statement that makes a table of the distinct values of columns, each with a number, `key`."""
    listed = ", ".join(columns)
    return f"""
        create temp table {name} as
        select row_number() over () as key, * from (select distinct {listed} from {table})"""


def _measured(measures: dict[str, str]) -> str:
    return ", ".join(f"{value} as {name}" for name, value in measures.items())
