"""From produced to consumed: how long a batch takes through the broker."""

from __future__ import annotations

from pipelines.tables.dialect import Dialect
from pipelines.tables.table import Ask, Table, TableColumn, alike, count_if, quantile_columns, quantiles

_PLACE = ("site", "protocol", "topic", "partition", "position")


def _delivery(d: Dialect, ask: Ask) -> str:
    key, place = ("protocol", "topic"), ", ".join(_PLACE)
    columns = f"{place}, {d.micros('time')} as seen, coalesce(checksum_stored, '') as checksum"
    moved = "topic is not null and position is not null and time is not null"
    # Positions come again when a topic is made anew: the latest production before a consumption is its own. Only for
    # these places are all sightings put in order.
    order = f"partition by {place} order by seen, produced desc, checksum"
    latest = [
        f"{d.latest(f'case when produced = 1 then {value} end', order)} as {name}"
        for value, name in (("seen", "origin"), ("checksum", "made"))
    ]
    produced_there = alike(_PLACE, "s", "p")
    return f"""
        with produced as (
            select {columns} from all_batches
            where {moved} and role = 'produce' and coalesce(outcome, '') <> 'error'
        ), places as (
            select {place}, count(*) as times, min(seen) as origin, max(checksum) as made
            from produced group by {place}
        ), {d.once("consumed")} (
            select s.*, times, origin, made
            from (select {columns} from batches where {moved} and role = 'consume') s
                join places p on {produced_there}
            where seen >= origin
        ), {d.once("deliveries")} (
            select {place}, seen, checksum, origin, made from consumed where times = 1
            union all
            select {place}, seen, checksum, origin, made from (
                select {place}, seen, checksum, produced, {", ".join(latest)} from (
                    select s.*, 1 as produced from produced s join places p on {produced_there} where times > 1
                    union all
                    select {place}, seen, checksum, 0 as produced from consumed where times > 1
                )
            ) where produced = 0
        ), measured as (
            select protocol, topic, count(*) as deliveries, count(distinct {d.row(*_PLACE)}) as batches,
                {count_if("checksum = made and made <> ''")} as same_checksum,
                {count_if("checksum <> made and checksum <> '' and made <> ''")} as other_checksum,
                max((seen - origin) * 1000) as delay_max_ns
            from deliveries group by protocol, topic
        ), spread as (
            {d.percentiles("deliveries", key, {"delay": "(seen - origin) * 1000"})}
        )
        select m.protocol, m.topic, deliveries, batches, same_checksum, other_checksum, {quantiles("delay")},
            delay_max_ns
        from measured m left join spread s on {alike(key, "m", "s")}
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
        TableColumn("other_checksum", "deliveries that carry another one: the broker rewrote the batch", "count"),
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
