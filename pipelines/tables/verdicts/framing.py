"""Requests that are shorter or longer than they announce."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Link, Row, Ruling, first_of

# each request with a wrong length, and how its connection ended
_LOST = """
    select c.*, f.length as announced, e.number as actual,
        case when n.closed <> 'open' then n.closed_by end as closed_by, n.end_time,
        (
            select count(*) from exchanges x
            where x.site = c.site and x.connection = c.connection and x.incarnation = c.incarnation
                and x.kind = 'unanswered' and x.time >= c.time and x.exchange_id <> c.exchange_id
        ) as behind
    from events e join v_calls c on e.site = c.site and e.exchange_id = c.exchange_id
        join findings f on f.site = c.site and f.connection = c.connection and f.incarnation = c.incarnation
            and f.kind = 'wrong_length' and c.exchange_id like '%-c' || f.stream_offset
        join connections n on f.site = n.site and f.connection = n.connection and f.incarnation = n.incarnation
    where e.kind = 'misframed'"""
_FIRST = first_of("api", "version", "announced", "actual", "closed_by", "end_time", "behind", "time", "file", "packet")


@needs(SomeRows("events", "kind = 'misframed'"))
def framing_lost(capture: Capture) -> Iterator[Ruling]:
    """By API: who sent such requests to whom, the first with both sizes, and how its connection ended."""
    for row in capture.together(_LOST, ["protocol", "api"], _FIRST):
        first = row["first"]
        sizes = f"announces {say.number(first['announced'])} bytes and has {say.number(first['actual'])}"
        whom = f"{say.clients(row)} sent {say.listed(row['servers'], 'broker')}"
        text = f"{whom} a {_request(first)} that {sizes}: the broker takes what follows at the wrong place."
        if row["count"] > 1:
            text = f"{whom} {say.counted(row['count'], 'request')} {row['api']} of a wrong length; the first {sizes}."
        yield Ruling("framing_lost", text, row, _detail(first), chain=_chain(first))


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
    links = [Link.of(first, f"{_request(first)} {sizes}")]
    if first["behind"]:
        what = say.counted(first["behind"], "request", "has", "have")
        links.append(Link(first["time"], f"{what} no answer behind it"))
    if first["closed_by"] is not None:
        who = "the broker" if first["closed_by"] == "server" else "the client"
        who = "both sides" if first["closed_by"] == "both" else who
        links.append(Link(first["end_time"], f"{who} closed the connection"))
    return links
