"""What retransmissions cost requests."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import RESENT_WAIT_NS
from pipelines.tables.verdicts.verdict import Ruling

_RESENT = """
    kind = 'call' and not held and retransmitted and coalesce(throttle_ms, 0) = 0
        and coalesce(queued_ns, 0) < total_ns / 2"""
# requests of which a byte was retransmitted, and that took far longer than others of their API do
_DELAYED = f"""
    with usual as (
        select protocol, api, quantile_disc(total_ns, 0.5) filter (not coalesce(retransmitted, false)) as others_ns
        from v_calls where kind = 'call' and not held and total_ns is not null group by all
    )
    select c.* replace (total_ns - coalesce(others_ns, 0) as cost_ns), others_ns
    from v_calls c join usual using (protocol, api)
    where {_RESENT} and total_ns - coalesce(others_ns, 0) >= {RESENT_WAIT_NS}"""


@needs(SomeRows("v_calls", _RESENT))
def retransmissions(capture: Capture) -> Iterator[Ruling]:
    """Slow requests of which bytes were retransmitted; nothing where there is none."""
    medians = "quantile_disc(total_ns, 0.5) as median_ns, max(total_ns) as longest_ns"
    if not capture.keep("v_delayed", _DELAYED):
        return
    delayed = "select * from v_delayed"
    capture.explain(delayed)
    for row in capture.timed(delayed, ["protocol"], medians):
        (tcp,) = capture.rows("""
            select saturated(sum(retransmissions)) as resent,
                saturated(sum(client_packets::hugeint + server_packets)) as packets
            from connections""")
        resent = tcp["resent"]  # saturated: 0 where none is known
        yield Ruling(
            "retransmissions",
            f"{say.counted(row['count'], 'request')} of {say.clients(row['clients'])} took "
            f"{say.most(row['count'], row['longest_ns'])}, with bytes that TCP retransmitted.",
            row,
            f"{say.counted(resent, 'segment')} in {say.counted(tcp['packets'], 'packet')} "
            f"{'was' if resent == 1 else 'were'} retransmitted, {say.share(resent, tcp['packets'])}."
            f"{' ' + row['largest_part'] if row['largest_part'] else ''}",
        )
