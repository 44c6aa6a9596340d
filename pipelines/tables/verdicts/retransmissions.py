"""What retransmissions cost requests."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.causes import PARTS
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import LOSSY, RESENT_WAIT_NS
from pipelines.tables.verdicts.verdict import Ruling

_PARTS = ", ".join(f"coalesce(p.{part.name}_ns, 0)" for part in PARTS)
_NEEDED = "not coalesce(spurious, false)"  # of stalls: what was sent again had been lost, as far as is known
_TIMEOUTS = f"kind = 'resend_timeout' and {_NEEDED}"
_RESENDS = f"kind in ('resend_timeout', 'fast_retransmit') and {_NEEDED}"
# where packets are lost so often that a sender waited for its timer, whatever requests it met: most of what was sent
# again was missing (what was not may still stand for an acknowledgement that was lost)
_LOSSY = f"""(
    select sum(retransmissions) >= {LOSSY} * sum(client_packets::hugeint + server_packets)
        and sum(coalesce(spurious, 0)) * 2 <= sum(retransmissions)
    from connections) and exists (from stalls where {_TIMEOUTS})"""
# requests of whose time the largest part went to bytes that were lost and sent again; needless resending is none.
# Of an answer that was lost behind the capture point the exchange seemed to be over, and its client waited on
_DELAYED = f"""
    with answers as (
        select c.site, c.exchange_id,
            max(epoch_us(s.time) + s.duration_ns // 1000 - epoch_us(c.until)) * 1000 as longer_ns
        from (from stalls where direction = 'server' and {_RESENDS}) s asof join (from v_calls where kind = 'call') c
            on s.site = c.site and s.connection = c.connection and s.incarnation = c.incarnation and s.time >= c.time
        where epoch_us(s.time) <= epoch_us(c.until) + 1 group by all
    )
    select c.* replace (
        greatest(coalesce(p.resent_ns, 0), coalesce(a.longer_ns, 0)) as cost_ns,
        c.total_ns + greatest(coalesce(a.longer_ns, 0), 0) as total_ns)
    from v_calls c left join v_causes p on p.site = c.site and p.exchange_id = c.exchange_id
        left join answers a on a.site = c.site and a.exchange_id = c.exchange_id
    where kind = 'call' and coalesce(throttle_ms, 0) = 0 and (a.longer_ns >= {RESENT_WAIT_NS}
        or p.resent_ns >= {RESENT_WAIT_NS} and p.resent_ns >= greatest({_PARTS}) or p.resent_ns > 0 and {_LOSSY})"""


@needs(SomeRows("stalls", _RESENDS))
def retransmissions(capture: Capture) -> Iterator[Ruling]:
    """Slow requests of which bytes were retransmitted; nothing where there is none."""
    if not capture.keep("v_delayed", _DELAYED):
        return
    delayed = "select * from v_delayed"
    capture.explain(delayed)
    for row in capture.timed(delayed, ["protocol"], "max(total_ns) as longest_ns"):
        (tcp,) = capture.rows("""
            select saturated(sum(retransmissions)) as resent,
                saturated(sum(client_packets::hugeint + server_packets)) as packets
            from connections""")
        resent = tcp["resent"]  # saturated: 0 where none is known
        yield Ruling(
            "retransmissions",
            f"{say.counted(row['count'], 'request')} of {say.clients(row)} took "
            f"{say.most(row['count'], row['longest_ns'])}, {say.span(row['cost_ns'])} of it in all for bytes that "
            "were lost and sent again.",
            row,
            f"{say.counted(resent, 'segment')} in {say.counted(tcp['packets'], 'packet')} "
            f"{'was' if resent == 1 else 'were'} retransmitted, {say.share(resent, tcp['packets'])}."
            f"{' ' + row['largest_part'] if row['largest_part'] else ''}",
        )
