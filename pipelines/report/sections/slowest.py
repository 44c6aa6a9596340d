"""The slowest requests, each with the way back to its packet."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats.statuses import MARKED
from pipelines.report.elements import Html
from pipelines.report.load import Row
from pipelines.report.payload import LIST
from pipelines.report.section import Builder, Section
from pipelines.sql.words import CLIENT, HELD, SERVER
from pipelines.tables.table import TableColumn

CARRIED = 500  # requests that the page carries, so that a selection has its slowest too

_COLUMNS = (
    TableColumn("protocol", "kafka, pulsar or iggy"),
    TableColumn("api", "the protocol's own name"),
    TableColumn("total_ns", "first byte of the request to last byte of the answer", "ns"),
    TableColumn("waiting", "share of it from the last byte of the request to the first byte of the answer", "share"),
    TableColumn("queued", "share of it spent behind other requests on the same connection", "share"),
    TableColumn("client", "client address and the name it gives itself"),
    TableColumn("broker", "server address and port"),
    TableColumn("topics", "topics that the request names", "list"),
    TableColumn("status", "ok, or the first error; whether a byte of it was retransmitted"),
    TableColumn("time", "first byte of the request", "time"),
    TableColumn("file", "where the request's first byte is"),
    TableColumn("packet", "its number in that file, from 1", "code"),
)
_SLOW = f"kind = 'call' and not {HELD} and total_ns > 0"
_ORDER = "total_ns desc, time, connection, request_packet, api, correlation_id, exchange_id"
# what is computed of a request is computed of those that stay only
_SLOWEST = f"""
    select epoch_us(time) as time, protocol, coalesce(api, '?') as api, total_ns, wait_ns / total_ns as waiting,
           queued_ns / total_ns as queued, {CLIENT} as client, {SERVER} as broker, topics[:{LIST}] as topics,
           len(topics) as topics_total, "group",
           {MARKED} as status, retransmitted,
           request_file as file, request_packet as packet, row_number() over (order by {_ORDER}) as place
    from (select * from exchanges where {_SLOW} order by {_ORDER} limit {CARRIED})"""


def slowest(page: Builder) -> list[Row]:
    """The slowest requests, the longest first."""
    page.keep("slowest", _SLOWEST)
    return page.rows("select * exclude place from slowest order by place")


def _build(page: Builder) -> Iterator[Html | None]:
    total = sum(row["n"] for row in page.rows(f"select count(*) as n from exchanges where {_SLOW}"))
    yield page.table("slowest", _COLUMNS, slowest(page), total=total, more="records/exchanges")


SECTION = Section(
    "slowest",
    "The slowest requests",
    "Slowest",
    "Single requests, longest first; long polls are not among them. A small share of waiting means that the time "
    "went into sending or receiving. The sign beside a packet gives the commands that show it.",
    _build,
)
