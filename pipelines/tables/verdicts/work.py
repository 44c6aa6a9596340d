"""What became of each batch that was sent, however often it was asked for.

One batch is known by its content: client, partition, times, number and size of its messages; of Pulsar by its producer
and sequence. A retry has the same content, also under another epoch, whose checksum differs. A batch that was refused
for its size is stored where its messages came again in smaller ones, of times within those of the whole.
"""

from __future__ import annotations

from pipelines.tables.verdicts.verdict import sql_list

_CONTENT = """
    site, protocol, client, topic, partition, case when protocol = 'pulsar' then null else first_timestamp end,
    case when protocol = 'pulsar' then null else max_timestamp end, records,
    case when protocol = 'pulsar' then null else uncompressed_bytes end,
    case when protocol = 'pulsar' then producer end, case when protocol = 'pulsar' then base_sequence end,
    case when protocol = 'iggy' then checksum_stored end"""

_NAMELESS = "protocol = 'iggy' and checksum_stored is null and first_timestamp is null"
"""Batches of which only size and count are known: those stored before are other messages, and one that is stored later
may be a retry."""

_NEVER_RETRIED = sql_list((
    "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP", "TOPIC_AUTHORIZATION_FAILED",
))  # fmt: skip
"""Refusals after which no client sends a batch of one message again: the same size and time are another message's."""

SENT = f"""
    with refused as (
        select client, topic from v_batches where role = 'produce' and outcome = 'error'
    ), attempts as (
        select b.*, x.until as answered, (b.site, b.exchange_id, b.topic, b.partition) in (
            select (site, exchange_id, topic, partition) from errors where name in {_NEVER_RETRIED}) as final,
            b.outcome = 'ok' or (b.site, b.exchange_id, b.topic, b.partition) in (  -- or it had been, as it says
            select (site, exchange_id, topic, partition) from errors where name = 'DUPLICATE_SEQUENCE_NUMBER') as stored
        from v_batches b semi join refused r on r.client = b.client and r.topic = b.topic
            join v_calls x on x.site = b.site and x.exchange_id = b.exchange_id
        where b.role = 'produce' and not coalesce(b.control, false) and x.kind <> 'oneway'
    ), batches_sent as (
        select *, case when {_NAMELESS} then min(answered) filter (stored) over later
                else min(answered) filter (stored) over same end as stored_at,
            case when final and records = 1 then 1
                else row_number() over (same order by time desc, packet desc) end as nth_last
        from attempts window same as (partition by {_CONTENT}), later as (
            same order by time, packet rows between current row and unbounded following)
    ), parts as (
        select w.site, w.exchange_id, w.stream_offset, w.file, w.packet, max(p.answered) as split_at
        from batches_sent w join batches_sent p on p.site = w.site and p.client = w.client and p.topic = w.topic
            and p.partition is not distinct from w.partition and p.outcome = 'ok' and p.time > w.time
            and p.first_timestamp >= w.first_timestamp and p.max_timestamp <= w.max_timestamp and p.records < w.records
        where w.stored_at is null and w.records > 1 group by all having sum(p.records) >= w.records
    )
    select s.site, s.exchange_id, s.outcome, s.records, s.nth_last, coalesce(stored_at, split_at) as done_at
    from batches_sent s left join parts p on p.site = s.site and p.exchange_id = s.exchange_id and p.file = s.file
        and p.packet = s.packet and p.stream_offset = s.stream_offset"""
"""v_sent: each attempt to send a batch, of clients and topics of which a broker refused one; `done_at`: when a broker
had stored it, null where none did; `nth_last` is 1 for the last attempt, and for each that no client makes again."""

READ_AGAIN = """
    select f.site, f.exchange_id, f.topic, f.partition, f.value, min(n.time) as read_at,
        arg_min(n.value, n.time) as read_from
    from (
        select p.*,
            e.name in ('OFFSET_OUT_OF_RANGE', 'UNKNOWN_TOPIC_ID', 'INCONSISTENT_TOPIC_ID') as anywhere
        from positions p join errors e on e.site = p.site and e.exchange_id = p.exchange_id
            and e.topic is not distinct from p.topic and e.partition is not distinct from p.partition
        where p.what = 'fetch' and p.replica is null
    ) f left join (
        select p.* from positions p anti join errors e on e.site = p.site and e.exchange_id = p.exchange_id
            and e.topic is not distinct from p.topic and e.partition is not distinct from p.partition
        where p.what = 'fetch' and p.replica is null
    ) n on n.client_ip = f.client_ip and n.client_id is not distinct from f.client_id and n.topic = f.topic
        and n.partition is not distinct from f.partition and n.time > f.time
        and (n.value = f.value or f.anywhere)
    group by all"""
"""v_readagain: fetch positions that were refused, and when and where the same reader read on, null where it never did:
there, or, of one out of range or in a topic that was made anew, anywhere. `messages_skipped` tells what it left out."""
