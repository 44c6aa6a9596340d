"""Groups that rebalanced: how often, for how long, and why."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.sql.database import Row
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.thresholds import LINKS, REBALANCE_NS, REBALANCES, SECOND
from pipelines.tables.verdicts.verdict import Link, Ruling, together

_WHY = {
    "first seen": "first seen",
    "joined": "a member joins",
    "left": "a member leaves",
    "joined and left": "members join and leave",
    "lost": "a member is gone without a word",
    "rejoined": "the same members join again",
}


# groups that rebalanced after their start, or for long; `links`: the first rebalances of each
_GROUPS = f"""
    select "group" as name, count(*) as n, count(*) filter (cause <> 'first seen') as later,
        saturated(sum(duration_ns)) as spent_ns, max(duration_ns) as longest_ns,
        list({{'time': time, 'cause': cause, 'members_after': members_after, 'duration_ns': duration_ns, 'file': file,
            'packet': packet}} order by time)[:{LINKS}] as links
    from v_rebalances group by 1 having later > 0 or longest_ns >= {SECOND}"""
# whether a group may be one of _GROUPS, by requests and epochs alone: a member came when another had joined, an epoch
# came after another, or what belongs to the start of the group took long
_RESTLESS = f"""
    select 1 from (
        select "group", api, epoch_us(time) as begin_us, epoch_us(time) + total_ns // 1000 as end_us, 0 as epoch
        from exchanges where kind = 'call' and status = 'ok' and api in ('JoinGroup', 'SyncGroup')
        union all
        select "group", 'JoinGroup', epoch_us(time), null, number from events where kind = 'epoch'
    ) group by "group"
    having max(begin_us) filter (api = 'JoinGroup') > min(end_us) filter (api = 'JoinGroup')
        or max(epoch) > min(epoch)
        or greatest(max(end_us), max(begin_us)) - min(begin_us) >= {SECOND // 1000}
    limit 1"""
# requests that were part of a rebalance of their group
_STEPS = """
    select c.* from v_calls c semi join v_rebalances r on c."group" = r."group"
        and c.until >= r.time and c.time <= r.time + to_microseconds(r.duration_ns // 1000)
    where api in ('JoinGroup', 'SyncGroup', 'ConsumerGroupHeartbeat')"""
_REBALANCED = f"""
    select * from ({together(_STEPS, ["protocol", '"group"'])}) join ({_GROUPS}) on "group" = name"""


def _how_long(row: Row) -> str:
    """How often a group rebalanced, and for how long."""
    if row["n"] == 1:
        return f"once, for {say.span(row['longest_ns'])}"
    return f"{say.times(row['n'])}; the longest took {say.span(row['longest_ns'])}, {say.span(row['spent_ns'])} in all"


@needs(
    SomeRows("v_calls", "api = 'JoinGroup' and status = 'ok'"),
    SomeRows("events", "kind = 'epoch'"),
)
def rebalances(capture: Capture) -> Iterator[Ruling]:
    """One for each group that rebalanced after it had started, or whose start took long."""
    if not capture.rows(_RESTLESS):
        return
    for row in capture.rows(_REBALANCED):
        restless = row["longest_ns"] >= REBALANCE_NS or row["later"] >= REBALANCES
        yield Ruling(
            "rebalances",
            f"Group {row['name']} rebalanced {_how_long(row)}.",
            row | {"cost_ns": row["spent_ns"]},
            severity=WARNING if restless else NOTE,
            chain=[
                Link(
                    one["time"],
                    f"{_WHY[one['cause']]}: {say.counted(one['members_after'], 'member')}"
                    + (f" after {say.span(one['duration_ns'])}" if one["duration_ns"] else ""),
                    one["file"],
                    one["packet"],
                )
                for one in row["links"]
            ],
        )
