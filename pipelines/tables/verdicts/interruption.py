"""What an interruption cost: for how long clients got no answer, and what they sent again.

An interruption is a moment at which a broker went or a topic moved. A client was out from its last successful answer of
an API before it had one again, where the pause holds that moment or begins soon after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipelines.formats import units
from pipelines.tables.throughput import KNOWN, SENDS
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.thresholds import AT_ONCE_US, OUT_NS, SOON_US
from pipelines.tables.verdicts.told import said
from pipelines.tables.verdicts.verdict import Link, Row, sql_list

_SENDING = ("Produce", "SEND", "SEND_MESSAGES")


class SentAgain(NamedTuple):
    """Messages that producers sent again."""

    messages: int
    lost: int
    """Of these, those of which no copy was accepted in the capture."""

    @property
    def text(self) -> str:
        """`50 messages were sent again, none lost.`; nothing where none was."""
        if not self.messages:
            return ""
        fate = "none was lost" if not self.lost else f"of {units.count(self.lost)} no copy was accepted"
        return f"{say.counted(self.messages, 'message', 'was', 'were')} sent again; {fate}."


def out_of_service(capture: Capture, at_us: int, servers: Sequence[str]) -> list[Row]:
    """Clients that had used one of these servers and got no answer to what they send: client, api, out_ns.

    The longest first; time, file, packet: of the next answer. at_us: the moment; servers: `ip:port`.
    """
    return capture.rows(f"""
        with users as (
            select distinct client from v_calls
            where server in {sql_list(servers)} and epoch_us(time) <= {at_us} + {AT_ONCE_US}
        ), answered as (
            select client, api, until, response_file as file, response_packet as packet,
                lag(until) over (partition by client, api order by until) as before
            from v_calls semi join users using (client)
            where kind = 'call' and status = 'ok' and api in {sql_list(_SENDING)}
        ), pauses as (
            select *, (epoch_us(until) - epoch_us(before)) * 1000 as out_ns from answered
            where epoch_us(until) >= {at_us} and epoch_us(before) <= {at_us} + {SOON_US}
        ), usual as (
            select client, api, quantile_disc(epoch_us(until) - epoch_us(before), 0.9) * 1000 as usual_ns
            from answered where before is not null group by all
        )
        select client, api, max(out_ns) as out_ns, arg_max(until, out_ns) as time,
            arg_max(file, out_ns) as file, arg_max(packet, out_ns) as packet
        from pauses join usual using (client, api)
        where out_ns >= {OUT_NS} and out_ns / 3 >= usual_ns
        group by client, api order by out_ns desc, client, api limit 20""")


def came_back(out: Sequence[Row]) -> list[Link]:
    """When each client had an answer again."""
    return [Link.of(row, said("{api} of {client:client} is answered again, after {out_ns:ns}", row)) for row in out]


def resent(capture: Capture, which: str, from_us: int, to_us: int) -> SentAgain:
    """Messages of which a producer sent a second copy in this time, with the sequence numbers of the first.

    which: a condition on `batches`.
    """
    key = ", ".join(column for column in SENDS if column != "refused")
    (row,) = capture.rows(f"""
        select saturated(sum(messages)) as messages,
            saturated(sum(messages) filter (not accepted)) as lost
        from (
            select max(records) as messages, bool_or(outcome = 'ok') as accepted
            from batches where role = 'produce' and {KNOWN} and ({which})
            group by {key}
            having count(*) > 1 and epoch_us(max(time)) between {from_us} and {to_us}
        )""")
    return SentAgain(row["messages"], row["lost"])
