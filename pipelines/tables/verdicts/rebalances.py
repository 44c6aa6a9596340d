"""Groups that rebalanced: how often, for how long, and why."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.thresholds import LINKS, REBALANCE_NS, REBALANCES
from pipelines.tables.verdicts.verdict import Link, Ruling, together

_WHY = {
    "first seen": "first seen",
    "joined": "a member joins",
    "left": "a member leaves",
    "joined and left": "members join and leave",
    "lost": "a member is gone without a word",
    "rejoined": "the same members join again",
}


@needs(
    SomeRows("v_calls", "api = 'JoinGroup' and status = 'ok'"),
    SomeRows("findings", "kind = 'member_epoch'"),
)
def rebalances(capture: Capture) -> Iterator[Ruling]:
    """Of each group. The first that a capture shows is how a group starts, unless it took long."""
    for group in capture.rows("""
        select "group", count(*) as n, count(*) filter (cause <> 'first seen') as later,
            saturated(sum(duration_ns)) as spent_ns, max(duration_ns) as longest_ns
        from v_rebalances group by 1 having later > 0 or longest_ns >= 1000000000 order by 1"""):
        name = say.literal(group["group"])
        steps = f"""
            select c.* from v_calls c
            where api in ('JoinGroup', 'SyncGroup', 'ConsumerGroupHeartbeat') and "group" = {name} and exists (
                    select 1 from v_rebalances r where r."group" = c."group" and c.until >= r.time
                        and c.time <= r.time + to_microseconds(r.duration_ns // 1000))"""
        for row in capture.rows(together(steps, ["protocol"])):
            restless = group["longest_ns"] >= REBALANCE_NS or group["later"] >= REBALANCES
            yield Ruling(
                "rebalances",
                f"Group {group['group']} rebalanced {say.times(group['n'])}; the longest took "
                f"{say.span(group['longest_ns'])}, {say.span(group['spent_ns'])} in all.",
                row | {"cost_ns": group["spent_ns"]},
                severity=WARNING if restless else NOTE,
                chain=[
                    Link(
                        one["time"],
                        f"{_WHY[one['cause']]}: {say.counted(one['members_after'], 'member')}"
                        + (f" after {say.span(one['duration_ns'])}" if one["duration_ns"] else ""),
                        one["file"],
                        one["packet"],
                    )
                    for one in capture.rows(f"""
                        select * from v_rebalances where "group" = {name} order by time limit {LINKS}""")
                ],
            )
