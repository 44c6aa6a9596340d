"""Who led each partition, from when to when.

told     what answers say of leaders
ordered  with its turn in order of time: one answer may name a partition more than once
newest   without what an answer says with an epoch below one that was known already: that is old
runs     answers in a row that say the same leader and epoch
behind   how far replicas were behind: their fetch positions against the end of the partition, as it was known then
"""

from __future__ import annotations

from pipelines.tables.dialect import Dialect
from pipelines.tables.table import Ask, Table, TableColumn

_PLACE = "protocol, topic, part"


def _leaders(d: Dialect, ask: Ask) -> str:
    part = "coalesce(partition, -1) as part"
    so_far = "rows between unbounded preceding and current row"
    within = f"partition by {_PLACE} order by turn"
    ended = d.latest("case when what = 'end' then value end", f"partition by {_PLACE} order by at_us, what, value")
    spans = f"""
            select *, lead(since_us) over (partition by {_PLACE} order by run) as until_us from runs
        """
    return f"""
        with told as (
            select protocol, topic, {part}, leader, coalesce(leader_epoch, -1) as epoch, {d.micros("time")} as at_us,
                isr as in_sync, {d.length("isr")} as replicas,
                coalesce(file, '') as file, coalesce(packet, 0) as packet
            from positions
            where what = 'leader' and (topic is not null or protocol = 'iggy') and time is not null
        ), ordered as (
            select *, row_number() over (partition by {_PLACE} order by at_us, file, packet, epoch, leader) as turn
            from told
        ), newest as (
            select * from (select *, max(epoch) over ({within} {so_far}) as highest from ordered)
            where epoch = highest
        ), compared as (
            select *, case when lag(packet) over ({within}) is null
                    or leader is distinct from lag(leader) over ({within})
                    or epoch <> lag(epoch) over ({within}) then 1 else 0 end as begins,
                lag(in_sync) over ({within}) as in_sync_before
            from newest
        ), numbered as (
            select *, sum(begins) over ({within} {so_far}) as run,
                case when begins = 0 and in_sync is distinct from in_sync_before then 1 else 0 end as changes
            from compared
        ), runs as (
            select {_PLACE}, run, max(leader) as leader, max(epoch) as epoch, min(at_us) as since_us,
                max(at_us) as seen_us, count(*) as times, {d.first("in_sync", "-at_us", "file", "packet")} as in_sync,
                min(replicas) as in_sync_least, sum(changes) as changes,
                {d.first("file", "at_us", "file", "packet")} as file,
                {d.first("packet", "at_us", "file", "packet")} as packet
            from numbered group by {_PLACE}, run
        ), {d.once("spans", spans)}, marks as (
            select protocol, topic, {part}, 'end' as what, value, {d.micros("time")} as at_us,
                cast(null as bigint) as answered
            from positions where what = 'high_watermark' and protocol = 'kafka' and topic is not null
            union all
            select protocol, topic, {part}, 'end' as what, last_offset + 1 as value, {d.micros("time")} as at_us,
                cast(null as bigint) as answered
            from batches where protocol = 'kafka' and last_offset is not null and topic is not null
                and coalesce(outcome, '') <> 'error'
            union all
            select f.protocol, f.topic, coalesce(f.partition, -1) as part, 'fetch' as what, f.value,
                {d.micros("f.time")} as at_us, a.value as answered
            from positions f left join (
                select site, exchange_id, topic, partition, max(value) as value from positions
                where what = 'high_watermark' group by site, exchange_id, topic, partition
            ) a on f.site = a.site and f.exchange_id = a.exchange_id and f.topic = a.topic
                and f.partition is not distinct from a.partition
            where f.what = 'fetch' and f.replica is not null and f.topic is not null
        ), followed as (
            select *, greatest({ended}, answered) as end_value from marks
        ), behind as (
            select s.protocol, s.topic, s.part, s.run,
                max(case when end_value is not null then greatest(end_value - value, 0) end) as most
            from followed f join spans s on f.protocol = s.protocol and f.topic = s.topic and f.part = s.part
            where f.what = 'fetch' and f.at_us >= s.since_us and (s.until_us is null or f.at_us < s.until_us)
            group by s.protocol, s.topic, s.part, s.run
        )
        select s.protocol, s.topic, case when s.part >= 0 then s.part end as partition, leader,
            case when epoch >= 0 then epoch end as leader_epoch, {d.timestamp("since_us")} as since,
            {d.timestamp("coalesce(until_us, seen_us)")} as until, times, in_sync as isr,
            in_sync_least as isr_least, cast(changes as bigint) as isr_changes,
            most as replica_lag, nullif(file, '') as file, nullif(packet, 0) as packet
        from spans s left join behind b
            on s.protocol = b.protocol and s.topic = b.topic and s.part = b.part and s.run = b.run
    """


LEADERS = Table(
    "leaders",
    "Who led each partition of Kafka, owned each topic of Pulsar, or was the primary of each partition and of the "
    "metadata of a cluster of Iggy, from when to when, as brokers told clients and replicas each other. What is said "
    "with an older epoch than one seen before is left out: brokers learn of a change one by one. Of Pulsar, "
    "owners are known of topics that clients looked up, or that a broker handed over to another while a client was "
    "connected; brokers do not tell clients of bundles.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("topic", "topic name; null for the metadata of a cluster (iggy)"),
        TableColumn("partition", "partition number; null for a topic without", "code"),
        TableColumn(
            "leader",
            "broker id (kafka), URL of the broker (pulsar), number of the replica, or address of the node as a client "
            "was told (iggy); null where the partition had none",
        ),
        TableColumn("leader_epoch", "its epoch (kafka), the view (iggy)", "code"),
        TableColumn("since", "when this was told first", "time"),
        TableColumn("until", "when another one was told; else when this was told last", "time"),
        TableColumn("times", "how often it was told", "count"),
        TableColumn("isr", "replicas in sync with the leader, as told last (kafka)", "list"),
        TableColumn("isr_least", "how many there were, at least", "count"),
        TableColumn("isr_changes", "how often they changed meanwhile", "count"),
        TableColumn("replica_lag", "messages that a replica had yet to fetch, at most (kafka)", "count"),
        TableColumn("file", "where it was told first"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
    ),
    _leaders,
    headline=(
        "protocol", "topic", "partition", "leader", "leader_epoch", "since", "until", "isr", "isr_least", "replica_lag",
    ),
    order=("protocol", "topic", "partition", "since"),
)  # fmt: skip
