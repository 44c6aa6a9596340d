"""Requests in the order of time, some at a time, each with the batches that it brought or fetched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLES = ("exchanges", "batches", "connections", "messages")
_AT_ONCE = 50_000  # requests that are held; of one second all are
_FETCHED = 1_000  # of these, as Python's objects
_BATCHES = 64  # of a request, that are followed to their readers

# A batch is known again by where it lies in its partition.
_PLACE = "hash(protocol, topic, partition, coalesce(position, base_offset::varchar))"
_FOLLOWED = f"""
create temp table followed as
select exchange_id, role = 'produce' as is_sent, {_PLACE} as place
from batches
where topic is not null and coalesce(position, base_offset::varchar) is not null and outcome is distinct from 'error'
"""
_TRACES = """
create temp table traces as
select exchange_id, min(trace_id) as trace_id from messages where trace_id is not null group by 1
having min(trace_id) = max(trace_id)
"""
_SECONDS = "select date_trunc('second', time) as second, count(*) from exchanges group by 1 order by 1"
_COLUMNS = (
    "exchange_id, protocol, connection, incarnation, site, client_id, client_ip, client_port, server_ip, server_port, "
    "kind, api, version, epoch_us(time) * 1000 as start_ns, request_ns, wait_ns, queued_ns, response_ns, total_ns, "
    'request_bytes, response_bytes, topics, partitions, records, "group", status, error_name, throttle_ms, long_poll, '
    "retransmitted, answer, coalesce(request_file, response_file) as file, "
    "coalesce(request_packet, response_packet) as packet"
)
_WINDOW = f"""
select {_COLUMNS}, b.sent, b.read, t.trace_id
from exchanges
left join (
  select exchange_id, list(place) filter (is_sent)[:{_BATCHES}] as sent,
    list(place) filter (not is_sent)[:{_BATCHES}] as read
  from followed where exchange_id in (select exchange_id from exchanges where time >= $since and time < $until)
  group by 1
) b using (exchange_id)
left join traces t using (exchange_id)
where time >= $since and time < $until
order by start_ns, packet
"""


class Request(NamedTuple):
    """An exchange, as record tables name its parts. Times and durations in ns, sizes in bytes; None: not known."""

    exchange_id: str
    protocol: str
    connection: str
    incarnation: int
    site: str
    client_id: str | None
    client_ip: str
    client_port: int
    server_ip: str
    server_port: int
    kind: str
    api: str | None
    version: int | None
    start_ns: int
    request_ns: int | None
    wait_ns: int | None
    queued_ns: int | None
    response_ns: int | None
    total_ns: int | None
    request_bytes: int | None
    response_bytes: int | None
    topics: list[str] | None
    partitions: int | None
    records: int | None
    group: str | None
    status: str
    error_name: str | None
    throttle_ms: int | None
    long_poll: bool | None
    retransmitted: bool | None
    answer: str | None
    file: str | None
    packet: int | None
    sent: list[int] | None  # batches that it brought, each by a number that those who read it have, too
    read: list[int] | None
    trace_id: str | None  # the one trace that all of its messages with a trace name

    @property
    def lasted_ns(self) -> int:
        """From its first byte to the last one that was seen of it."""
        return max(self.total_ns or self.request_ns or 0, 0)

    @property
    def name(self) -> str:
        """What is shown of it first."""
        topics = self.topics or []
        more = f" and {len(topics) - 1} more" if len(topics) > 1 else ""
        return f"{self.api or 'unknown API'}{f' {topics[0]}{more}' if topics else ''}"


def digest(text: str, size: int) -> bytes:
    """An id of so many bytes, made of a text by a digest: each export gives it the same id."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def requests(connection: DuckDBPyConnection) -> Iterator[Request]:
    """All of the table `exchanges` in the order in which they began. connection: a database of TABLES."""
    connection.execute(_FOLLOWED)
    connection.execute(_TRACES)
    for since, until in _windows(connection):
        found = connection.execute(_WINDOW, {"since": since, "until": until})
        while rows := found.fetchmany(_FETCHED):
            yield from map(Request._make, rows)


def _windows(connection: DuckDBPyConnection) -> Iterator[tuple[datetime, datetime]]:
    """Spans of time, from the first to the last request, each of which holds about as many as are held at once."""
    seconds: list[tuple[Any, int]] = connection.execute(_SECONDS).fetchall()
    if not seconds:
        return
    since, held = seconds[0][0], 0
    for second, count in seconds:
        if held and held + count > _AT_ONCE:
            yield since, second
            since, held = second, 0
        held += count
    yield since, datetime.max.replace(tzinfo=since.tzinfo)
