"""Connections that were closed because a PING had no answer (Pulsar)."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import KEEP_ALIVE_NS
from pipelines.tables.verdicts.verdict import Ruling, together

_UNHEARD = "protocol = 'pulsar' and api = 'PING' and kind = 'unanswered'"
# PINGs without an answer on whole connections, and how long that was until these were closed
_PINGS = f"""
    select * from (
        select x.* replace ((epoch_us(n.end_time) - epoch_us(x.time)) * 1000 as cost_ns), n.closed_by
        from v_calls x semi join v_whole using (site, connection, incarnation)
            join connections n using (site, connection, incarnation)
        where x.api = 'PING' and x.kind = 'unanswered' and x.protocol = 'pulsar' and n.closed <> 'open'
    ) where cost_ns >= {KEEP_ALIVE_NS}"""
_CLOSED_BY = {"client": "the client", "server": "the broker", "both": "both sides"}


@needs(SomeRows("exchanges", _UNHEARD))
def keepalive_timeout(capture: Capture) -> Iterator[Ruling]:
    """By who asked: the other side was silent until the connection was closed."""
    more = "max(cost_ns) as longest_ns, names_of(closed_by) as closers"
    for row in capture.rows(together(_PINGS, ["protocol", "initiator"], more)):
        clients, brokers = say.clients(row), say.listed(row["servers"], "broker")
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
