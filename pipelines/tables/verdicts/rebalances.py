"""Groups that rebalanced: how often, for how long, and why."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.sql.database import Row
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.thresholds import EPOCH_NS, LINKS, OUTAGE_NS, REBALANCE_NS, REBALANCES, SECOND, STOPPED
from pipelines.tables.verdicts.told import said
from pipelines.tables.verdicts.verdict import Link, Ruling, together

_WHY = {
    "first seen": "first seen",
    "joined": "a member joins",
    "left": "a member leaves",
    "joined and left": "members join and leave",
    "lost": "a member is gone without a word",
    "rejoined": "the same members join again",
}
_MEMBERS = "{members_after:member}{duration_ns: after ~ns~}"

_ADVICE = (  # of members that went without a word, and of those that said why
    "See why it ended: others get the partitions of a consumer that closes at once, not after session.timeout.ms.",
    "See what the member did then: one that takes longer over messages than max.poll.interval.ms leaves its group.",
)
_AGAIN = (
    "See what its members say when they join again, though all are there: what they subscribe to, or the partitions of "
    "their topics, changes; their plans do not agree; or, of Connect, its configuration does not reach all workers."
)
_FAILED = "time|fail|error|exception"  # in the reasons that clients give when they leave: not because they are closed

# members that a group lost, with how long it took until others had their partitions: those that went without a word,
# since they were heard last, and those that told of a failure when they left
_GONE = f"""
    with each as (
        select *, time + to_microseconds(duration_ns // 1000) as over,
            list_filter(lag(clients) over (partition by "group" order by time), lambda one: one not in clients)
                as missing
        from v_rebalances
    ), silent as (
        select "group", time, over, unnest(missing) as client, null as text from each where cause = 'lost'
    ), departed as (
        select s."group", s.client, s.text, s.over, c.time as since
        from silent s asof join (from v_calls semi join silent using (client)) c
            on c.client = s.client and c.time < s.time
        union all
        select l."group", l.client, l.text, r.over, l.time
        from (from v_events where kind = 'left' and regexp_matches(text, '{_FAILED}')) l
            asof left join each r on r."group" = l."group" and r.over > l.time
    )
    select "group" as name, client, text, count(*) as n,
        coalesce(max(epoch_us(over) - epoch_us(since)), 0) * 1000 as unread_ns
    from departed group by all order by unread_ns desc, n desc, client, text"""
# groups that rebalanced after their start, or for long; `uneasy`: where nobody came or left in order; `links`: the
# first rebalances of each
_GROUPS = f"""
    select "group" as name, count(*) as n, count(*) filter (cause <> 'first seen') as later,
        count(*) filter (cause in ('lost', 'rejoined')) as uneasy, count(*) filter (cause = 'lost') as lost,
        saturated(sum(duration_ns)) as spent_ns, max(duration_ns) as longest_ns,
        (epoch_us(max(time)) - epoch_us(min(time))) * 1000 as within_ns,
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
    where api in ('JoinGroup', 'SyncGroup', 'ConsumerGroupHeartbeat', 'ShareGroupHeartbeat', 'StreamsGroupHeartbeat')"""
_REBALANCED = f"""
    select * from ({together(_STEPS, ["protocol", '"group"'], "names_of(api) as apis")})
        join ({_GROUPS}) on "group" = name"""


def _how_long(row: Row) -> str:
    """How often a group rebalanced, and for how long."""
    if row["n"] == 1:
        return f"once, for {say.span(row['longest_ns'])}"
    return f"{say.times(row['n'])}; the longest took {say.span(row['longest_ns'])}, {say.span(row['spent_ns'])} in all"


def _who_left(gone: Row) -> str:
    """Which member left, why, and what of it."""
    how = " without a word" if gone["text"] is None else ""
    often = f" {say.times(gone['n'])}" if gone["n"] > 1 else ""
    why = f" ({gone['text'].rstrip('.')})" if gone["text"] else ""
    text = f"; {say.client(gone['client'])} left{how}{often}{why}"
    if gone["unread_ns"] >= OUTAGE_NS:
        text += f"; nobody read its partitions for {say.span(gone['unread_ns'])}"
    return text


@needs(
    SomeRows("v_calls", "api = 'JoinGroup' and status = 'ok'"),
    SomeRows("events", "kind = 'epoch'"),
)
def rebalances(capture: Capture) -> Iterator[Ruling]:
    """One for each group that rebalanced after it had started, or whose start took long."""
    if not capture.rows(_RESTLESS):
        return
    gone = capture.rows(_GONE)
    for row in capture.rows(_REBALANCED):
        left = [one for one in gone if one["name"] == row["name"]]
        if "ShareGroupHeartbeat" in row["apis"]:  # the others read what the one that went had not
            left = [one | {"unread_ns": 0} for one in left]
        died = f"; members went without a word {say.times(row['lost'])}" if row["lost"] and not left else ""
        stops = "JoinGroup" in row["apis"]  # members that hear of epochs read on meanwhile
        restless = (
            row["longest_ns"] >= (REBALANCE_NS if stops else EPOCH_NS)
            or any(one["text"] or one["unread_ns"] >= REBALANCE_NS for one in left)
            or row["uneasy"] >= REBALANCES
            or (stops and row["later"] >= REBALANCES and row["spent_ns"] >= STOPPED * row["within_ns"])
        )
        if not (restless or row["lost"] or {"JoinGroup", "ConsumerGroupHeartbeat"} & {*row["apis"]}):
            continue  # share and streams groups get a new epoch whenever anything about them changes
        again = row["uneasy"] >= REBALANCES and row["uneasy"] == row["later"] and not row["lost"]
        advice = _ADVICE[bool(left) and left[0]["text"] is not None] if left or died else _AGAIN if again else None
        yield Ruling(
            "rebalances",
            f"Group {row['name']} rebalanced {_how_long(row)}{died or ''.join(map(_who_left, left[:1]))}.",
            row | {"cost_ns": row["spent_ns"] + sum(one["unread_ns"] for one in left)},
            severity=WARNING if restless else NOTE,
            advice=advice,
            chain=[Link.of(one, f"{_WHY[one['cause']]}: {said(_MEMBERS, one)}") for one in row["links"]],
        )
