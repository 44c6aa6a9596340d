"""Connections that were closed because a PING had no answer (Pulsar)."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeFinding, needs
from pipelines.tables.verdicts.verdict import Ruling, together

# the PINGs that a finding is about, each at its packet
_PINGS = """
    select x.* replace (whole(f.evidence->>'waited_ns') as cost_ns), n.closed_by
    from v_findings f join v_calls x
        on f.site = x.site and f.connection = x.connection and f.incarnation = x.incarnation
        and f.file = x.request_file and f.packet = x.request_packet and f.direction = x.initiator
    join (select site, connection, incarnation, closed_by from connections) n
        on f.site = n.site and f.connection = n.connection and f.incarnation = n.incarnation
    where f.kind = 'keepalive_timeout' and x.api = 'PING' and x.kind = 'unanswered'"""
_CLOSED_BY = {"client": "the client", "server": "the broker", "both": "both sides"}


@needs(SomeFinding("keepalive_timeout"))
def keepalive_timeout(capture: Capture) -> Iterator[Ruling]:
    """By who asked: the other side was silent until the connection was closed."""
    more = "max(cost_ns) as longest_ns, list(distinct closed_by) as closers"
    for row in capture.rows(together(_PINGS, ["protocol", "initiator"], more)):
        clients, brokers = say.clients(row["clients"]), say.listed(row["servers"], "broker")
        silent, asked = (clients, brokers) if row["initiator"] == "server" else (brokers, clients)
        closer = _CLOSED_BY.get(row["closers"][0]) if len(row["closers"]) == 1 else None
        yield Ruling(
            "keepalive_timeout",
            f"{say.counted(row['count'], 'PING')} of {asked} had no answer from {silent}; "
            f"{say.counted(row['count'], 'connection', 'was', 'were')} closed {_by(closer)}"
            f"{say.most(row['count'], row['longest_ns'])} later.",
            row,
        )


def _by(closer: str | None) -> str:
    """`by the broker `; nothing where it is not known, or not always the same."""
    return f"by {closer} " if closer else ""
