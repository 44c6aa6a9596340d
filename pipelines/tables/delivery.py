"""From produced to consumed: how long a batch takes through the broker, and where that time goes.

produce      from the first byte of the request that carried it to the last byte of its answer
replication  from its first byte to the first answer that says that consumers may read it (high watermark)
waiting      from its first byte until the consumer asked for it; 0 where a fetch was waiting for it already
fetch        from then to its first byte on the way to the consumer: with `waiting`, this is the delay
commit       from then until that consumer committed an offset behind it

A batch is known again by its position. Iggy tells producers none: there a send and a poll are the same that begin with
the same message, by topic and the time at which its client made it, in us. A poll that begins in the middle of a send
is left out.
"""

from __future__ import annotations

from pipelines.sql.words import CLIENT
from pipelines.tables.dialect import Dialect
from pipelines.tables.table import Ask, Table, TableColumn, alike, count_if, quantile_columns, quantiles

_PLACE = ("site", "protocol", "topic", "partition", "position")
_STAGES = ("produce", "replication", "waiting", "fetch", "commit")
_PARTITION = "site, protocol, topic, partition"
_SO_FAR = "order by number desc, stated rows between unbounded preceding and current row"


def _delivery(d: Dialect, ask: Ask) -> str:
    key, place = ("protocol", "topic"), ", ".join(_PLACE)
    position = f"case when protocol = 'iggy' then cast({d.micros('origin_timestamp')} as string) else position end"
    partition = "case when protocol = 'iggy' then -1 else partition end"  # which the server chooses, if it is to
    columns = f"""site, protocol, topic, {partition} as partition, {position} as position, {d.micros("time")} as seen,
        coalesce(checksum_stored, '') as checksum, coalesce(exchange_id, '') as exchange_id, last_offset,
        {CLIENT} as who"""
    moved = f"topic is not null and {position} is not null and time is not null"
    # Positions come again when a topic is made anew: the latest production before a consumption is its own. Only for
    # these places are all sightings put in order.
    order = f"partition by {place} order by seen, produced desc, checksum, exchange_id"
    latest = [
        f"{d.latest(f'case when produced = 1 then {value} end', order)} as {name}"
        for value, name in (("seen", "origin"), ("checksum", "made"), ("exchange_id", "made_by"))
    ]
    known = f"{place}, seen, checksum, exchange_id, last_offset, who, origin, made, made_by"
    nothing = ", ".join(f"cast(null as {kind}) as {name}" for name, kind in _OF_DELIVERIES.items())
    produced_there = alike(_PLACE, "s", "p")
    consumed = f"""
            select s.*, times, origin, made, made_by
            from (select {columns} from batches where {moved} and role = 'consume') s
                join places p on {produced_there}
            where seen >= origin
        """
    deliveries = f"""
            select {known} from consumed where times = 1
            union all
            select {known} from (
                select {place}, seen, checksum, exchange_id, last_offset, who, produced, {", ".join(latest)} from (
                    select s.*, 1 as produced from produced s join places p on {produced_there} where times > 1
                    union all
                    select {place}, seen, checksum, exchange_id, last_offset, who, 0 as produced
                    from consumed where times > 1
                )
            ) where produced = 0
        """
    timed = f"""
            select t.protocol, t.topic, (seen - origin) * 1000 as delay_ns, m.total_ns as produce_ns,
                case when readable >= origin then (readable - origin) * 1000 end as replication_ns,
                case when f.asked <= seen then greatest(f.asked - origin, 0) * 1000 end as waiting_ns,
                case when f.asked <= seen then (seen - greatest(f.asked, origin)) * 1000 end as fetch_ns,
                case when committed >= seen then (committed - seen) * 1000 end as commit_ns
            from (
                select protocol, topic, site, {", ".join(_OF_DELIVERIES)}, readable, committed
                from reached where stated = 1
                union all
                select protocol, topic, site, {", ".join(_OF_DELIVERIES)}, cast(null as bigint) as readable,
                    cast(null as bigint) as committed
                from deliveries where last_offset is null
            ) t left join asked m on t.site = m.site and t.made_by = m.exchange_id
                left join asked f on t.site = f.site and t.exchange_id = f.exchange_id
        """
    return f"""
        with produced as (
            select {columns} from all_batches
            where {moved} and role = 'produce' and coalesce(outcome, '') <> 'error'
        ), places as (
            select {place}, count(*) as times, min(seen) as origin, max(checksum) as made, max(exchange_id) as made_by
            from produced group by {place}
        ), {d.once("consumed", consumed)}, {d.once("deliveries", deliveries)}, stated as (
            select {_PARTITION}, {CLIENT} as who, what, value as number, {d.micros("time")} as at_us from all_positions
            where protocol = 'kafka' and what in ('high_watermark', 'committed') and value is not null
                and time is not null
        ), reached as (
            select *, min(case when what = 'high_watermark' then at_us end) over (
                    partition by {_PARTITION} {_SO_FAR}) as readable,
                min(case when what = 'committed' then at_us end) over (
                    partition by {_PARTITION}, who {_SO_FAR}) as committed
            from (
                select {_PARTITION}, who, what, number, at_us, 0 as stated, {nothing} from stated
                union all
                select {_PARTITION}, who, '' as what, {d.plus("last_offset", "1")} as number,
                    cast(null as bigint) as at_us, 1 as stated, {", ".join(_OF_DELIVERIES)}
                from deliveries where last_offset is not null
            )
        ), asked as (
            select site, exchange_id, min({d.micros("time")}) as asked, max(total_ns) as total_ns from all_exchanges
            where kind = 'call' and exchange_id is not null group by site, exchange_id
        ), {d.once("timed", timed)}, measured as (
            select protocol, topic, count(*) as deliveries, count(distinct {d.row(*_PLACE)}) as batches,
                {count_if("checksum = made and made <> ''")} as same_checksum,
                {count_if("checksum <> made and checksum <> '' and made <> ''")} as other_checksum,
                max((seen - origin) * 1000) as delay_max_ns
            from deliveries group by protocol, topic
        ), spread as (
            {d.percentiles("timed", key, {name: f"{name}_ns" for name in ("delay", *_STAGES)})}
        )
        select m.protocol, m.topic, deliveries, batches, same_checksum, other_checksum, {quantiles("delay")},
            delay_max_ns, {", ".join(map(quantiles, _STAGES))}
        from measured m left join spread s on {alike(key, "m", "s")}
    """


_OF_DELIVERIES = {"exchange_id": "string", "made_by": "string", "seen": "bigint", "origin": "bigint"}


DELIVERY = Table(
    "delivery",
    "From produce to consume: the time from the first byte of a produced batch to the first byte of the same batch on "
    "its way to a consumer, joined on topic, partition and position within one capture point. A batch that was "
    "produced before the capture has no row. Iggy does not tell producers the position: there a send and a poll are "
    "joined that begin with the same message, by topic and the time at which its client made it (from 0.5 on); polls "
    "that begin in the middle of a send are left out. Where the time went: `produce`, from the first byte of the "
    "request to the last byte of its answer; `replication`, until an answer first says that consumers may read the "
    "batch (high watermark); `waiting`, until the consumer asked for it, 0 where its fetch was there already; `fetch`, "
    "from then to the batch: these two are the delay; `commit`, until that consumer committed an offset behind it. "
    "Null where the capture does not show it: Pulsar pushes messages, so nobody asks for one; its acknowledgements, "
    "and offsets that Iggy's clients store, are not told apart here.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("topic", "topic name"),
        TableColumn("deliveries", "batches seen on their way to a consumer; each consumer counts", "count"),
        TableColumn("batches", "different batches among them", "count"),
        TableColumn("same_checksum", "deliveries that carry the checksum with which the batch was produced", "count"),
        TableColumn("other_checksum", "deliveries that carry another one: the broker rewrote the batch", "count"),
        *quantile_columns("delay_", "delay"),
        TableColumn("delay_max_ns", "delay, longest", "ns"),
        *(column for name in _STAGES for column in quantile_columns(f"{name}_", name)),
    ),
    _delivery,
    headline=(
        "protocol", "topic", "deliveries", "batches", "same_checksum", "other_checksum", "delay_p50_ns",
        "delay_p90_ns", "delay_p99_ns", "delay_max_ns", "produce_p50_ns", "replication_p50_ns", "waiting_p50_ns",
        "fetch_p50_ns", "commit_p50_ns",
    ),
    order=("deliveries desc", "protocol", "topic"),
)  # fmt: skip
