"""Consumers that let the broker wait for permits (Pulsar): too slow for their topic, or standing still.

A consumer grants permits with FLOW; a broker without permits sends nothing. From a MESSAGE that leaves none to the next
FLOW that grants some, or to the end of the consumer or of its connection, the broker waits.
"""

from __future__ import annotations

from pipelines.tables.verdicts.check import SomeRows
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.thresholds import DRY_NS, STOOD_STILL_NS
from pipelines.tables.verdicts.told import Told

_NONE_LEFT = "protocol = 'pulsar' and permits_left <= 0"
_OF = ("protocol", "topic", '"group"')
# consumers that ran out of permits; `stuck`: for good, as it seems, and not just as often before; `waiting`: messages
# that came to their topic since, and that nobody of the subscription got
_DRY = f"""
    with steps as (
        select x.site, x.connection, x.incarnation, x.topics[1] as topic,
            coalesce(p.partition, b.partition) as partition, x."group", x.client_id as consumer,
            x.permits_left as permits, x.time as began, x.exchange_id, x.packet
        from v_calls x left join positions p on x.site = p.site and x.exchange_id = p.exchange_id and p.what = 'permits'
            left join batches b on x.site = b.site and x.exchange_id = b.exchange_id
        where x.api in ('FLOW', 'MESSAGE') and (x.site, x.connection, x.incarnation) in (
            select (site, connection, incarnation) from exchanges where {_NONE_LEFT})
        union all
        select site, connection, incarnation, topic, partition, "group", subject, null, time, exchange_id, packet
        from events where kind in ('joined', 'left', 'standby', 'closed_by_broker') and protocol = 'pulsar'
            and "group" is not null
    ), spans as (
        select *, lag(permits) over consumer as before, lead(began) over consumer as next_began
        from steps window consumer as (
            partition by site, connection, incarnation, topic, partition, "group", consumer
            order by began, packet, length(exchange_id), exchange_id)
    ), waits as (
        select s.*, epoch_us(coalesce(next_began, n.end_time)) - epoch_us(began) as dry_us, next_began is null as last
        from spans s join v_ends n using (site, connection, incarnation)
        where permits <= 0
    ), dry as (
        select c.* exclude (topics, "group"), w.topic, w.partition, w."group", w.consumer, [w.topic] as topics,
            w.dry_ns, w.stopped_ns, row_number() over () as id
        from (
            select site, connection, incarnation, topic, partition, "group", consumer,
                saturated(sum(dry_us::hugeint * 1000)) as dry_ns,
                arg_min(exchange_id, row(began, packet)) as first_id,
                case when max(dry_us) filter (last) >= 2 * coalesce(max(dry_us) filter (not last), 0)
                    then saturated(sum(dry_us::hugeint * 1000) filter (last)) end as stopped_ns
            from waits group by site, connection, incarnation, topic, partition, "group", consumer
            having dry_ns >= {DRY_NS}
        ) w join v_calls c on c.site = w.site and c.exchange_id = w.first_id
    ), stopped as (
        select d.id, d.topic, d.partition, d."group", n.end_time,
            n.end_time - to_microseconds(d.stopped_ns // 1000) as since
        from dry d join v_ends n using (site, connection, incarnation) where d.stopped_ns >= {STOOD_STILL_NS}
    ), published as (
        select s.id, saturated(sum(b.records)) as waiting
        from stopped s join batches b on b.protocol = 'pulsar' and b.role in ('produce', 'replicate')
            and b.topic = s.topic and b.partition is not distinct from s.partition
            and b.time between s.since and s.end_time and b.outcome is distinct from 'error'
        anti join batches g on g.role = 'consume' and g."group" = s."group" and g.topic = b.topic
            and g.partition is not distinct from b.partition and g.position = b.position
        group by s.id
    )
    select d.* exclude (id) replace (d.time + to_microseconds(d.dry_ns // 1000) as until),
        d.stopped_ns >= {STOOD_STILL_NS} as stuck, coalesce(p.waiting, 0) as waiting
    from dry d left join published p using (id)"""
_CONSUMERS = """
    coalesce(if(count(*) = 1, 'Consumer ' || min(nullif(consumer, '')), null),
        format('{:,}', count(*)) || if(count(*) = 1, ' consumer', ' consumers')) as consumers,
    coalesce(topic, 'a topic') as read"""

WITHOUT_PERMITS = (
    Told(
        SomeRows("exchanges", _NONE_LEFT), "slow_consumer",
        "{consumers} of subscription {group} ({who}) left the broker without permits for {longest_ns:ns}, slower than "
        "topic {read:topic}.",
        f"select * from ({_DRY}) where stuck is not true",
        by=_OF,
        more=f"max(dry_ns) as longest_ns, {_CONSUMERS}",
        cost_ns="max(dry_ns)",
    ),
    Told(
        SomeRows("exchanges", _NONE_LEFT), "permits_exhausted",
        "{consumers} of subscription {group} ({who}) granted no permits after the last messages of topic {read:topic}: "
        "nothing was delivered for {stopped_ns:ns}{waiting:, while ~message~ more came to it}.",
        f"select * from ({_DRY}) where stuck",
        by=_OF,
        more=f"max(stopped_ns) as stopped_ns, max(waiting) as waiting, {_CONSUMERS}, "
        f"if(max(waiting) = 0, '{NOTE}', null) as severity, "
        "if(max(waiting) = 0, 'The capture does not show whether more messages waited for it.', null) as unseen",
        cost_ns="max(stopped_ns)",
        detail="{unseen}",
    ),
)  # fmt: skip
"""By topic and subscription; those that never granted permits again apart."""
