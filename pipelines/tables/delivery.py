"""From produced to consumed: how long a batch takes through the broker."""

from __future__ import annotations

from pipelines.tables.dialect import Dialect
from pipelines.tables.table import Ask, Table, TableColumn, count_if, quantile_columns, quantiles

_PLACE = ("site", "protocol", "topic", "partition", "position")


def _delivery(d: Dialect, ask: Ask) -> str:
    place = d.identity(*_PLACE)

    moved = "topic is not null and position is not null and time is not null"
    # Positions come again when a topic is made anew: the latest production before a consumption is its own. Only for
    # these places are all sightings put in order.
    return f"""
        with produced as (
            select {place} as place, {d.micros("time")} as seen, checksum_stored
            from all_batches where {moved} and role = 'produce' and coalesce(outcome, '') <> 'error'
        ), consumed as (
            select protocol, topic, {place} as place, {d.micros("time")} as seen, checksum_stored
            from batches where {moved} and role = 'consume'
        ), places as (
            select place as made_at, count(*) as times, min(seen) as origin, max(checksum_stored) as made
            from produced group by place
        ), rounds as (
            select *, sum(produced) over (
                partition by place order by seen, produced desc rows between unbounded preceding and current row
            ) as round
            from (
                select null as protocol, null as topic, place, seen, checksum_stored, 1 as produced
                from produced join places on place = made_at where times > 1
                union all
                select protocol, topic, place, seen, checksum_stored, 0 as produced
                from consumed join places on place = made_at where times > 1
            )
        ), deliveries as (
            select protocol, topic, place, seen, checksum_stored, origin, made
            from consumed join places on place = made_at where times = 1 and seen >= origin
            union all
            select protocol, topic, place, seen, checksum_stored, origin, made from (
                select *, max(case when produced = 1 then seen end) over (partition by place, round) as origin,
                    max(case when produced = 1 then checksum_stored end) over (partition by place, round) as made
                from rounds where round > 0
            ) where produced = 0
        ), measured as (
            select protocol, topic, count(*) as deliveries, count(distinct place) as batches,
                {count_if("checksum_stored = made")} as same_checksum,
                {count_if("checksum_stored <> made")} as other_checksum,
                max((seen - origin) * 1000) as delay_max_ns,
                {d.spread("(seen - origin) * 1000")} as delay_spread
            from deliveries group by protocol, topic
        )
        select protocol, topic, deliveries, batches, same_checksum, other_checksum,
            {quantiles(d, "delay_spread", "delay_")}, delay_max_ns
        from measured
    """


DELIVERY = Table(
    "delivery",
    "From produce to consume: the time from the first byte of a produced batch to the first byte of the same batch on "
    "its way to a consumer, joined on topic, partition and position within one capture point. Where a protocol does "
    "not tell producers the position (Iggy), or the batch was produced before the capture, there is no row.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("topic", "topic name"),
        TableColumn("deliveries", "batches seen on their way to a consumer; each consumer counts", "count"),
        TableColumn("batches", "different batches among them", "count"),
        TableColumn("same_checksum", "deliveries that carry the checksum with which the batch was produced", "count"),
        TableColumn("other_checksum", "deliveries that carry another one: the broker wrote the batch anew", "count"),
        *quantile_columns("delay_", "delay"),
        TableColumn("delay_max_ns", "delay, longest", "ns"),
    ),
    _delivery,
    headline=(
        "protocol", "topic", "deliveries", "batches", "same_checksum", "other_checksum", "delay_p50_ns",
        "delay_p90_ns", "delay_p99_ns", "delay_max_ns",
    ),
    order=("deliveries desc", "protocol", "topic"),
)  # fmt: skip
