"""How much message data moves, per topic and time."""

from __future__ import annotations

from pipelines.tables.dialect import LARGEST_DOUBLE, Dialect, double
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, bucket

# The same batch of a producer, sent again, counts where it was sent first; a batch that was refused is none of these.
_SENDS = ("protocol", "topic", "partition", "producer", "producer_epoch", "base_sequence", "checksum_stored",
    "stored_bytes", "refused")  # fmt: skip
_KNOWN = "role = 'produce' and producer is not null and base_sequence >= 0"
# An answer may carry more than the application receives: its topics share what it does receive by what they carry.
_RECEIVED = """
    case when received is not null then messages * cast(received as double) / in_all
        else coalesce(cast(messages as double), 0e0) end"""


def _throughput(d: Dialect, ask: Ask) -> str:
    seconds = double(ask.bucket_us / 1_000_000)
    # pushes have no correlation id, but each batch of theirs is a frame of its own
    carrier = d.identity(*CONNECTION, "producer", "coalesce(correlation_id, -1 - stream_offset)")
    exchange = f"case when exchange_id is null then {carrier} else {d.identity('site', 'exchange_id')} end"
    sums = ("batches", "refused", "resent", "stored_bytes", "uncompressed_bytes", "sized_bytes")
    received = f"cast(floor(least(sum({_RECEIVED}) + 0.5e0, {LARGEST_DOUBLE})) as bigint)"
    # windows are dear: only batches that were sent more than once pass through one
    return f"""
        with marked as (
            select *, {bucket(d, "time", ask.bucket_us)} as bucket, {exchange} as exchange,
                case when {_KNOWN} then {d.identity(*_SENDS)} end as send
            from (select *, coalesce(outcome = 'error', false) as refused from batches)
        ), twice as (
            select send as sent from marked where send is not null group by send having count(*) > 1
        ), attempts as (
            select *, row_number() over (
                partition by {", ".join(_SENDS)} order by case outcome when 'ok' then 0 else 1 end, time, file, packet
            ) as attempt
            from marked where send in (select sent from twice)
            union all
            select *, 1 as attempt
            from marked where not exists (select 1 from twice where sent = send)
        ), data as (
            select *, attempt = 1 and not refused and not coalesce(control, false) as fresh from attempts
        ), carried as (
            select protocol, topic, role, bucket, exchange, count(*) as batches,
                {d.total("case when fresh then records end")} as messages,
                {d.total("case when refused then records end")} as refused,
                {d.total("case when attempt > 1 and not refused then records end")} as resent,
                {d.total("case when fresh then stored_bytes end")} as stored_bytes,
                {d.total("case when fresh then uncompressed_bytes end")} as uncompressed_bytes,
                {d.total("case when fresh and uncompressed_bytes is not null then stored_bytes end")} as sized_bytes
            from data group by protocol, topic, role, bucket, exchange
        ), answers as (
            select {d.identity("site", "exchange_id")} as answer, max(records) as received
            from all_exchanges where kind = 'call' and payload_bytes > 0 and exchange_id is not null
            group by {d.identity("site", "exchange_id")}
        ), short as (
            select answer, max(received) as received, sum(cast(messages as double)) as in_all
            from carried join answers on exchange = answer
            where role = 'consume' group by answer having max(received) < sum(cast(messages as double))
        ), sums as (
            select protocol, topic, role, bucket, count(*) as exchanges, {received} as messages,
                {", ".join(f"{d.total(name)} as {name}" for name in sums)}
            from carried left join short on role = 'consume' and exchange = answer
            group by protocol, topic, role, bucket
        )
        select protocol, topic, role, bucket, {seconds} as bucket_s, exchanges, batches, messages,
            coalesce(refused, 0) as refused, coalesce(resent, 0) as resent, coalesce(stored_bytes, 0) as stored_bytes,
            uncompressed_bytes, messages / {seconds} as message_rate,
            coalesce(stored_bytes, 0) / {seconds} as byte_rate,
            uncompressed_bytes / nullif(sized_bytes, 0) as compression_ratio
        from sums
    """


THROUGHPUT = Table(
    "throughput",
    "Message data on the move: one row per topic, role and time bucket. Control batches, what brokers refused and what "
    "producers sent again are not among `messages` and the bytes. Of what is consumed, `messages` are those that the "
    "application receives: not those of aborted transactions, nor those before the offset that it asked for; where one "
    "answer carries several topics, they share what is left out.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("topic", "topic name"),
        TableColumn("role", "produce, consume or replicate"),
        TableColumn("bucket", "start of the time bucket", "time"),
        TableColumn("bucket_s", "its width in seconds", "ratio"),
        TableColumn("exchanges", "exchanges that carried it", "count"),
        TableColumn("batches", "checksummed units on the wire", "count"),
        TableColumn("messages", "messages as the application counts them", "count"),
        TableColumn("refused", "messages that the broker did not take", "count"),
        TableColumn("resent", "messages that a producer sent again: same producer, epoch and sequence", "count"),
        TableColumn("stored_bytes", "size on the wire", "bytes"),
        TableColumn("uncompressed_bytes", "size once decompressed; null where nothing was decompressed", "bytes"),
        TableColumn("message_rate", "messages per second", "1/s"),
        TableColumn("byte_rate", "stored bytes per second", "bytes/s"),
        TableColumn("compression_ratio", "uncompressed to stored bytes", "ratio"),
    ),
    _throughput,
    headline=(
        "protocol", "topic", "role", "bucket", "exchanges", "messages", "resent", "stored_bytes", "message_rate",
        "byte_rate", "compression_ratio",
    ),
    order=("stored_bytes desc", "protocol", "topic", "role", "bucket"),
)  # fmt: skip
