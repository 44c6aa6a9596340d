"""What TCP shows of connections in use: answers that were cut, bytes that never arrived, resets."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import UNDELIVERED, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import IDLE_NS, RESETS
from pipelines.tables.verdicts.verdict import Ruling, first_of, together

_CUT = "answer = 'cut'"
_STALLED = "kind = 'undelivered'"


@needs(SomeRows("v_calls", _CUT))
def answer_cut(capture: Capture) -> Iterator[Ruling]:
    """Answers that began and never ended, by API and by who closed."""
    cut = f"""
        select c.*, coalesce(n.closed_by, n.reset_by) as closed_by
        from v_calls c join connections n using (site, connection, incarnation)
        where {_CUT} and not {capture.explained()}"""
    more = f"""
        max(response_bytes) as largest, max(total_ns) as longest_ns,
        {first_of("response_bytes", "file", "packet")}"""
    for row in capture.rows(together(cut, ["protocol", "api", "closed_by"], more)):
        who = say.clients(row)
        closer = {"client": "the client", "server": "the broker"}.get(row["closed_by"] or "", "somebody")
        size = f"{'' if row['count'] == 1 else 'up to '}{units.size(row['largest'])}"
        yield Ruling(
            "answer_cut",
            f"{row['count']:,} {'answer' if row['count'] == 1 else 'answers'} to {row['api'] or 'unknown requests'} of "
            f"{who} began and never ended: {closer} closed the connection in the midst of {size}, after "
            f"{say.most(row['count'], row['longest_ns'] or 0)}.",
            row,
            f"The first: {units.size(row['first']['response_bytes'])}, "
            f"{say.place(row['first']['file'], row['first']['packet'])}. What was cut off did no work, whatever its "
            "error code.",
        )


@needs(SomeRows("stalls", _STALLED))
def path_lost(capture: Capture) -> Iterator[Ruling]:
    """Bytes that TCP sent again and again and never got acknowledged: the path, and what of it."""
    undelivered = f"""
        select n.* replace (s.time as time, s.time + to_microseconds(s.duration_ns // 1000) as until,
                s.duration_ns as cost_ns),
            s.direction, s.segment_bytes, s.delivered_segment_bytes, s.idle_ns,
            case when s.segment_bytes > s.delivered_segment_bytes then 'size'
                when s.idle_ns >= {IDLE_NS} then 'idle' else 'path' end as why,
            case when s.direction = 'client' then n.client_undelivered_bytes else n.server_undelivered_bytes end as lost
        from stalls s join v_connections n using (site, connection, incarnation)
        where s.{_STALLED} and n.protocol is not null"""
    if not capture.keep(UNDELIVERED, undelivered):
        return
    more = """
        min(segment_bytes) as smallest, max(delivered_segment_bytes) as passed, max(idle_ns) as idle_ns,
        saturated(sum(lost)) as lost, names_of(client_ip) as hosts,
        names_of(server_ip) as server_hosts"""
    for row in capture.rows(together(f"select * from {UNDELIVERED}", ["protocol", "direction", "why"], more)):
        clients, brokers = say.clients(row), say.listed(row["servers"], "broker")
        sender, receiver = (clients, brokers) if row["direction"] == "client" else (brokers, clients)
        lost = f"{units.size(row['lost'])} that {sender} sent to {receiver}"
        if row["why"] == "size":
            text = (
                f"{lost} in segments of {row['smallest']:,} bytes and more were sent again and again and TCP never "
                f"acknowledged them; those of up to {row['passed']:,} bytes arrived."
            )
            advice = "Look at the path: an MTU below that of both hosts, and ICMP that is filtered. It is no broker."
        elif row["why"] == "idle":
            text = f"{lost} after {say.span(row['idle_ns'])} of silence were sent again and again and TCP never "
            text += "acknowledged them."
            advice = "Look for a firewall or load balancer that forgets idle connections; keep-alives avoid it."
        else:
            text = f"{lost} were sent again and again and TCP never acknowledged them."
            advice = None
        between = f"Between {say.listed(row['hosts'], 'host')} and {say.listed(row['server_hosts'], 'host')}, on "
        yield Ruling("path_lost", text, row, f"{between}{say.counted(row['count'], 'connection')}.", advice=advice)


@needs(SomeRows("connections", "reset_by is not null and protocol is not null and frames > 0", least=RESETS))
def connections_reset(capture: Capture) -> Iterator[Ruling]:
    """Connections in use that ended by a reset, by who sent it."""
    reset = """
        select * from v_connections where reset_by is not null and protocol is not null and frames > 0
            and closed = 'reset' and (reset_by <> 'client' or (site, connection, incarnation) in (
                select (site, connection, incarnation) from exchanges
                where kind = 'unanswered' or answer in ('cut', 'late')))"""
    more = "names_of(coalesce(reset_by, 'unknown')) as by_whom"
    (known,) = capture.rows("select count(*) as count from connections where protocol is not null and frames > 0")
    for row in capture.rows(together(reset, ["protocol"], more)):
        if row["count"] < RESETS or row["count"] * 4 < known["count"]:
            continue
        span = say.span((say.micros(row["last_time"]) - say.micros(row["first_time"])) * 1000)
        by = row["by_whom"]
        if by == ["client"]:
            whose = "by the clients"
        elif by == ["server"]:
            whose = "by the brokers"
        else:
            whose = "in both directions: something between clients and brokers does it, or both ends at once"
        yield Ruling(
            "connections_reset",
            f"{say.number(row['count'])} of {say.counted(known['count'], 'connection')} of "
            f"{say.clients(row)} to {say.listed(row['servers'], 'broker')} were reset within {span}, "
            f"{whose}.",
            row,
        )
