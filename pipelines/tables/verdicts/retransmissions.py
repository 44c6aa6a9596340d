"""What retransmissions cost requests."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.causes import PARTS
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import LOSSY, RESENT_WAIT_NS
from pipelines.tables.verdicts.verdict import Ruling

_RESENT = "kind = 'call' and retransmitted and coalesce(throttle_ms, 0) = 0"
_PARTS = ", ".join(f"coalesce(p.{part.name}_ns, 0)" for part in PARTS)
# where packets are lost so often that a sender waited for its timer, whatever requests it met
_LOSSY = f"""(
    select sum(retransmissions - coalesce(spurious, 0)) >= {LOSSY} * sum(client_packets::hugeint + server_packets)
    from connections) and exists (from stalls where kind = 'resend_timeout' and not coalesce(spurious, false))"""
# requests of whose time the largest part went to bytes that were lost and sent again; needless resending is none
_DELAYED = f"""
    select c.* replace (p.resent_ns as cost_ns)
    from v_calls c join v_causes p on p.site = c.site and p.exchange_id = c.exchange_id
    where {_RESENT} and (p.resent_ns >= {RESENT_WAIT_NS} and p.resent_ns >= greatest({_PARTS})
        or p.resent_ns > 0 and {_LOSSY})"""


@needs(SomeRows("v_calls", _RESENT))
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
