"""How producers spread what they send, and whether they go on."""

from __future__ import annotations

from pipelines.tables.verdicts.capture import PLACE, Capture
from pipelines.tables.verdicts.check import SomeRows
from pipelines.tables.verdicts.kinds import REFUSED, STOPPED, UNREACHABLE
from pipelines.tables.verdicts.thresholds import (
    ENOUGH,
    HOT,
    HOT_BYTES,
    ITS_SHARE,
    MANY_PARTITIONS,
    PACED,
    PACED_US,
    SILENT_PAUSES,
    SILENT_US,
)
from pipelines.tables.verdicts.told import Told
from pipelines.tables.verdicts.verdict import sql_list

_STORED = "role = 'produce' and outcome is distinct from 'error' and topic is not null"
_INTERNAL = r"regexp_matches(topic, '^__|/__|(-changelog|\.internal|connect-offsets)$')"
_SPREAD = f"{_STORED} and partition is not null and not {_INTERNAL}"

# what was sent to partitions that take far more than their share; a partition that nobody uses is known by its leader,
# if that one leads others that are used: of brokers that were not captured it is not known what they got
_HOT = f"""
    with each as (
        select site, protocol, topic, partition, sum(stored_bytes)::double as bytes, count(*) as batches
        from v_batches where {_SPREAD} group by all
    ), used as (
        select site, protocol, topic, partition from each
        union all select site, protocol, topic, partition from positions where what = 'fetch' and replica is null
    ), known as (
        select site, protocol, topic, count(distinct partition) as partitions from (
            from used union all select site, protocol, topic, partition from positions
            where (site, protocol, leader) in (
                select (site, protocol, leader) from positions semi join used using (site, protocol, topic, partition))
        ) group by all having partitions >= {MANY_PARTITIONS}
    ), shares as (
        select *, bytes / sum(bytes) over topics as share, sum(bytes) over topics as whole
        from each join known using (site, protocol, topic)
        window topics as (partition by site, protocol, topic)
        qualify sum(batches) over topics >= {ENOUGH} and whole >= {HOT_BYTES}
    )
    select b.*, share, whole, partitions from (from v_batches where {_SPREAD}) b
        join shares using (site, protocol, topic, partition)
    where share >= {HOT} and share * partitions >= {ITS_SHARE}"""

HOT_PARTITION = Told(
    SomeRows("batches", _SPREAD, least=ENOUGH), "hot_partition",
    "Partition {partition} of topic {topic:topic} took {share:share} of the {whole:bytes} that were seen going "
    "to its {partitions} partitions, {factor} times an even share.",
    _HOT,
    by=("site", "protocol", "topic", "partition"),
    more="any_value(share) as share, any_value(whole)::bigint as whole, any_value(partitions) as partitions, "
    "format('{:.1f}', any_value(share * partitions)) as factor",
)  # fmt: skip
"""Partitions that take most of what is sent to their topic."""

_SENDER = "site, protocol, client, topic"
# the last batches of producers that sent at an even pace, and then nothing for far longer than they ever paused, with
# their connection open: only where no fewer go on
_SILENT = f"""
    with ends as (  -- where several captures lie together, one may end before the others
        select {PLACE}, max(end_time) over (partition by site, file) as ended from connections
    ), senders as (
        select {_SENDER}, max(ended) as ended, min(time) as since, max(time) as last, count() as n, sum(records) as sent
        from v_batches join ends using ({PLACE}) where role = 'produce' and topic is not null group by all
    ), stopped as (  -- of a client that sends to another topic from then on, none has
        select * from senders
        qualify n >= {ENOUGH} and last - since >= to_microseconds({SILENT_US // 2})
            and min(ended - last) over (partition by site, protocol, client) >= to_microseconds({SILENT_US})
    ), pauses as (
        select {_SENDER}, epoch_us(time) - lag(epoch_us(time)) over (partition by {_SENDER} order by time) as pause_us
        from (select distinct {_SENDER}, time from v_batches semi join stopped using ({_SENDER})
            where role = 'produce')
    ), paced as (
        select {_SENDER}, quantile_disc(pause_us, 0.5) as usual_us from pauses join stopped using ({_SENDER})
        group by {_SENDER}
        having usual_us >= {PACED_US} and quantile_disc(pause_us, 0.9) <= {PACED} * usual_us
            and any_value(epoch_us(ended) - epoch_us(last)) >= {SILENT_PAUSES} * max(pause_us)
    ), going_on as (
        select site, protocol, count(distinct client) as others from senders
        where n >= {ENOUGH} and ended - last < to_microseconds({SILENT_US}) group by all
    )
    select b.*, sent, since, ended from (from v_batches where role = 'produce' and outcome = 'ok') b
        join stopped s using ({_SENDER}) join paced using ({_SENDER}) join going_on using (site, protocol)
        semi join (from connections where closed = 'open' and closed_by is null) using ({PLACE})
        semi join exchanges x on x.site = b.site and x.exchange_id = b.exchange_id  -- it does not send on an answer
            and x.total_ns <= usual_us * 500
        anti join (from events where kind = 'closed_by_broker' and protocol = 'pulsar') e  -- another one took its place
            on e.site = b.site and e.client_id = b.client_id and e.topic = b.topic and e.time >= s.last
    where b.time = s.last and client not in {{harmed}}
    qualify count(distinct client) over (partition by site, protocol) <= others"""


def _silent(capture: Capture) -> str:
    """But for clients of which another verdict says what kept them from their work."""
    by = [one for one in capture.told if one.harm in (STOPPED, REFUSED, UNREACHABLE)]
    harmed = {client for one in by for client in one.rows["clients"]}
    return _SILENT.format(harmed=sql_list(sorted(harmed) or [""]))


PRODUCER_STOPPED = Told(
    SomeRows("batches", "role = 'produce'", least=ENOUGH), "producer_stopped",
    "{who} sent{rate: ~message~ a minute}{for_topics} until {first_time:clock}, then nothing for {silent_ns:ns}, to "
    "the end of the capture; its connection stays open.",
    _silent,
    by=("site", "protocol", "client", "topic"),
    more="any_value(sent * 60000000 // (epoch_us(time) - epoch_us(since)))::bigint as rate, "
    "any_value(epoch_us(ended) - epoch_us(time)) * 1000 as silent_ns",
)  # fmt: skip
"""Producers that sent steadily and stopped, though they are connected and others go on."""
