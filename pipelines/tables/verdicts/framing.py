"""Requests that are shorter or longer than they announce, and consumers that get only the beginning of a message."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeFinding, needs
from pipelines.tables.verdicts.verdict import Link, Row, Ruling, first_of, together

# each request with a wrong length, and how its connection ended
_LOST = """
    select c.*, whole(f.evidence->>'announced') as announced, whole(f.evidence->>'actual') as actual,
        case when n.closed <> 'open' then n.closed_by end as closed_by, n.end_time,
        (
            select count(*) from exchanges x
            where x.site = c.site and x.connection = c.connection and x.incarnation = c.incarnation
                and x.kind = 'unanswered' and x.time >= c.time and x.exchange_id <> c.exchange_id
        ) as behind
    from findings f join v_calls c on f.site = c.site and f.connection = c.connection and f.incarnation = c.incarnation
            and c.exchange_id like '%-c' || f.stream_offset
        join connections n on f.site = n.site and f.connection = n.connection and f.incarnation = n.incarnation
    where f.kind = 'framing_lost'"""
_FIRST = first_of("api", "version", "announced", "actual", "closed_by", "end_time", "behind", "time", "file", "packet")

# fetches that brought only the beginning of a batch, of partitions of which decoding saw it again and again
_STUCK = """
    select c.*, f.name, f.partition, f.position from v_calls c join (
        select site, connection, incarnation, topic as name, whole(evidence->>'partition') as partition,
            whole(evidence->>'position') as position
        from v_findings where kind = 'stuck_consumer') f using (site, connection, incarnation)
    where c.api = 'Fetch' and c.payload_bytes > 0 and coalesce(c.records, 0) = 0
        and list_contains(coalesce(c.topics, []), f.name)"""


@needs(SomeFinding("framing_lost"))
def framing_lost(capture: Capture) -> Iterator[Ruling]:
    """By API: who sent such requests to whom, the first with both sizes, and how its connection ended."""
    for row in capture.rows(together(_LOST, ["protocol", "api"], _FIRST)):
        first = row["first"]
        sizes = f"announces {say.number(first['announced'])} bytes and has {say.number(first['actual'])}"
        whom = f"{say.clients(row['clients'])} sent {say.listed(row['servers'], 'broker')}"
        text = f"{whom} a {_request(first)} that {sizes}: the broker takes what follows at the wrong place."
        if row["count"] > 1:
            text = f"{whom} {say.counted(row['count'], 'request')} {row['api']} of a wrong length; the first {sizes}."
        yield Ruling("framing_lost", text, row, _detail(first), chain=_chain(first))


@needs(SomeFinding("stuck_consumer"))
def stuck_consumer(capture: Capture) -> Iterator[Ruling]:
    """By partition and offset."""
    for row in capture.rows(together(_STUCK, ["protocol", "name", "partition", "position"])):
        yield Ruling(
            "stuck_consumer",
            f"{say.clients(row['clients'])} fetched offset {row['position']} of {row['name']}-{row['partition']} "
            f"{say.times(row['count'])} and got only the beginning of a message: it is larger than the fetch allows.",
            row,
        )


def _request(first: Row) -> str:
    """`Produce request (version 7)`."""
    version = "" if first["version"] is None else f" (version {first['version']})"
    return f"{first['api']} request{version}"


def _detail(first: Row) -> str:
    """Where the first is, and what the broker makes of it."""
    where = f"The first is {say.place(first['file'], first['packet'])}"
    more = first["announced"] - first["actual"]
    if more > 0:
        return f"{where}: the broker takes the first {units.counted(more, 'byte')} of the next request for its end."
    return f"{where}: {units.counted(-more, 'byte')} lie between its announced end and the next request."


def _chain(first: Row) -> list[Link]:
    """The request, those behind it without an answer, and the end of the connection."""
    sizes = f"announces {say.number(first['announced'])} bytes and has {say.number(first['actual'])}"
    links = [Link(first["time"], f"{_request(first)} {sizes}", first["file"], first["packet"])]
    if first["behind"]:
        what = say.counted(first["behind"], "request", "has", "have")
        links.append(Link(first["time"], f"{what} no answer behind it"))
    if first["closed_by"] is not None:
        who = "the broker" if first["closed_by"] == "server" else "the client"
        who = "both sides" if first["closed_by"] == "both" else who
        links.append(Link(first["end_time"], f"{who} closed the connection"))
    return links
