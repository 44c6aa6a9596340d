"""Partitions whose leader moved to another broker (Kafka): who asked the old one, and which one served then.

    answered   answers that tell a client that the leader of a partition is elsewhere
    served     the first data of that partition that the client exchanged with another broker afterwards; how long it
               waited is known of what it produces, for there may be nothing to consume

Brokers that follow other leaders are not told here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import MOVED, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.thresholds import LINKS, LISTED, MOVE_US, SLOW_NS
from pipelines.tables.verdicts.told import said
from pipelines.tables.verdicts.verdict import Link, Ruling, sql_list

LEADER_ELSEWHERE = ("NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH")
"""Names of errors by which a broker says that it does not lead a partition."""
_ELSEWHERE = f"name in {sql_list(LEADER_ELSEWHERE)} and partition is not null and not among_brokers"
# answers that name the new leader's address themselves (KIP-951), where the capture does not show who served then
_NAMED = f"""
    select v.site, v.exchange_id, v.client, v.topic, v.partition, v.server as was, v.time, v.subject as now,
        null::timestamptz as served_time, false as produced
    from v_noted v where event = 'new_leader' and subject is not null and not exists (
        select 1 from {MOVED} m where m.site = v.site and m.exchange_id = v.exchange_id)"""
_SERVED = f"""
    with answered as (
        select site, exchange_id, client, topic, partition, server as was, time
        from v_errors where {_ELSEWHERE}
    ), served as (
        select client, topic, partition, server, time, role from v_batches
        where protocol = 'kafka' and outcome is distinct from 'error'
            and (topic, partition) in (select (topic, partition) from answered)
    )
    select a.*, arg_min(s.server, s.time) as now, min(s.time) as served_time, bool_or(s.role = 'produce') as produced
    from answered a join served s on a.client = s.client and a.topic = s.topic and a.partition = s.partition
        and s.server <> a.was and s.time > a.time and epoch_us(s.time) <= epoch_us(a.time) + {MOVE_US}
    group by all"""
_ANSWERS = f"""
    select v_calls.* replace (coalesce(waited_ns, 0) as cost_ns), was, now
    from v_calls join (
        select site, exchange_id, was, now,
            max((epoch_us(served_time) - epoch_us(time)) * 1000) filter (produced) as waited_ns
        from {MOVED} group by all
    ) using (site, exchange_id)
    where not {{explained}}"""


@needs(SomeRows("v_errors", _ELSEWHERE))
def leader_moved(capture: Capture) -> Iterator[Ruling]:
    """By old and new broker. Where the old one was lost, that verdict says it."""
    capture.keep(MOVED, _SERVED)
    capture.keep(MOVED, f"select * from {MOVED} union all by name {_NAMED}")
    answers = _ANSWERS.format(explained=capture.explained())
    for row in capture.together(answers, ["protocol", "was", "now"], "max(cost_ns) as longest_ns"):
        partitions = capture.rows(f"""
            select topic, partition, min(served_time) as time from {MOVED}
            where was = {say.literal(row["was"])} and now = {say.literal(row["now"])} group by all order by 3, 1, 2""")
        topics = sorted({one["topic"] for one in partitions})
        asked = f"{say.clients(row)} asked the old one {say.times(row['count'])}"
        later = f", and could produce to the new one {say.span(row['longest_ns'])} later" if row["longest_ns"] else ""
        yield Ruling(
            "leader_moved",
            f"{say.counted(len(partitions), 'partition')} of {say.named(topics, 'topic')} moved from broker "
            f"{row['was']} to {row['now']}; {asked}{later}.",
            row | {"topics": topics[:LISTED]},
            severity=WARNING if row["longest_ns"] >= SLOW_NS else NOTE,
            chain=[
                Link(one["time"], f"{one['topic']} [{one['partition']}] is served by {row['now']}")
                for one in partitions[:LINKS]
            ],
        )


def taken_over(capture: Capture, servers: Sequence[str], from_us: int, to_us: int) -> list[Link]:
    """Brokers that took partitions over to which clients had produced at `servers`, within a time: one link each."""
    rows = capture.rows(f"""
        with served as (
            select *, lag(server) over (partition by client, topic, partition order by time, packet) as was
            from v_batches where protocol = 'kafka' and role = 'produce' and outcome = 'ok'
        ), first as (
            select distinct on (topic, partition) * from served
            where server <> was and was in {sql_list(servers)} and epoch_us(time) between {from_us} and {to_us}
            order by topic, partition, time
        )
        select server, count(*) as partitions, names_of(topic) as topics, min(time) as time,
            arg_min(file, row(time, packet)) as file, arg_min(packet, row(time, packet)) as packet
        from first group by 1 order by time""")
    text = "{partitions:partition/is/are} served by {server} now: {names}"
    return [Link.of(row, said(text, row | {"names": say.named(row["topics"], "topic")})) for row in rows]
