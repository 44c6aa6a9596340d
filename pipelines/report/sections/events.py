"""What happened, along time: errors, rebalances, resets, closes by brokers, findings.

The band of time shows every event. The table holds the most important ones, at most EVENTS; the others are counted by
kind, protocol and time.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section
from pipelines.report.sections.groups import rebalances
from pipelines.sql.words import CLIENT, SERVER, UNHEARD
from pipelines.tables.rebalances import REBALANCES
from pipelines.tables.table import TableColumn

# what brokers send unasked, and what is not everyday work
PUSHES = ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "ACTIVE_CONSUMER_CHANGE", "TOPIC_MIGRATED", "REACHED_END_OF_TOPIC")

EVENTS = 5_000  # rows of the table that the page carries
BUCKETS = 240  # time buckets in which the same event of the same client is one row

_COLUMNS = (
    TableColumn("time", "first of them", "time"),
    TableColumn("kind", "what kind of event"),
    TableColumn("what", "its name"),
    TableColumn("count", "how often it happened in this time bucket", "count"),
    TableColumn("protocol", "kafka, pulsar or iggy"),
    TableColumn("client", "client address and the name it gives itself"),
    TableColumn("broker", "server address and port"),
    TableColumn("topic", "topic name"),
    TableColumn("group", "consumer group, share group or subscription"),
    TableColumn("file", "where the first one is"),
    TableColumn("packet", "", "code"),
)
_COUNTED = _COLUMNS[:5]  # what the page knows of events that the table leaves out

# rank: what a page that cannot carry all leaves out last
_EVENTS = """
    with seen as (
        select 2 as rank, 'error' as kind, name as what, protocol, {client} as client, {broker} as broker, topic,
               null as "group", epoch_us(time) as at_us, file, packet, coalesce(expected, false) as expected from errors
        union all by name
        select case severity when 'error' then 1 else 3 end as rank, 'finding' as kind, kind as what, protocol,
               client_ip as client, {broker} as broker, epoch_us(time) as at_us, file, packet,
               severity = 'info' as expected
        from findings where severity != 'info' and time is not null
        union all by name
        select 3 as rank, 'reset' as kind, 'connection reset' as what, protocol, client_ip as client,
               {broker} as broker, epoch_us(end_time) as at_us, false as expected
        from connections where closed = 'reset'
        union all by name
        select 2 as rank, 'broker' as kind, api as what, protocol, {client} as client, {broker} as broker,
               topics[1] as topic, "group", epoch_us(time) as at_us, coalesce(request_file, response_file) as file,
               coalesce(request_packet, response_packet) as packet, false as expected
        from exchanges where kind = 'push' and api in ({pushes})
        union all by name
        select 3 as rank, 'throttle' as kind, api as what, protocol, {client} as client, {broker} as broker,
               "group", epoch_us(time) as at_us, request_file as file, request_packet as packet, false as expected
        from exchanges where throttle_ms > 0
        union all by name
        select 4 as rank, 'no answer' as kind, api as what, protocol, {client} as client, {broker} as broker,
               topics[1] as topic, "group", epoch_us(time) as at_us, request_file as file, request_packet as packet,
               false as expected
        from exchanges where kind = 'unanswered' and (site, connection, incarnation) not in ({unheard})
        union all by name
        select 2 as rank, 'rebalance' as kind, "group" as what, protocol, "group", epoch_us(time) as at_us, file,
               packet, false as expected from {rebalances}),
    merged as (
        select rank + case when expected then 5 else 0 end as rank, kind, what, protocol, client, broker, topic,
               "group", expected, count(*) as count, min(at_us) as time,
               arg_min(file, row(at_us, file, packet)) as file, arg_min(packet, row(at_us, file, packet)) as packet,
               at_us // {bucket} as bucket
        from seen group by all)
    select *, row_number() over (order by rank, count desc, time, {order}) as place, count(*) over () as total
    from merged"""
_ORDER = 'what, kind, protocol, client, broker, topic, "group"'  # orders rows of one time
_CARRIED = f"select * from page_events where place <= {EVENTS} order by time, rank, {_ORDER}"
_OTHERS = f"""
    select kind, protocol, expected, min(time) as time, sum(count)::bigint as count
    from page_events where place > {EVENTS} group by kind, protocol, expected, bucket
    order by time, kind, protocol, expected"""


def _build(page: Builder) -> Iterator[Html | None]:
    rebalances(page)
    page.keep(
        "page_events",
        _EVENTS.format(
            client=CLIENT,
            broker=SERVER,
            unheard=UNHEARD,
            rebalances=REBALANCES.known,
            pushes=", ".join(f"'{api}'" for api in PUSHES),
            bucket=max(page.analysis.bucket_us, page.requests.span // BUCKETS if page.requests else 0),
            order=_ORDER,
        ),
    )
    rows, others = page.rows(_CARRIED), page.rows(_OTHERS)
    page.payload.table("other_events", _COUNTED, others, limit=len(others), grey="expected")
    yield page.table("events", _COLUMNS, rows, limit=EVENTS, more="records", grey="expected")


SECTION = Section(
    "events",
    "Timeline of events",
    "Errors, rebalances, resets, what brokers sent without a request, throttling, requests without an answer, and "
    "findings. The same event of the same client in one time bucket is one row.",
    _build,
)
