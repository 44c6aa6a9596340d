"""How much message data moves, per topic and time."""

from __future__ import annotations

from pipelines.tables.dialect import LARGEST_DOUBLE, Dialect, double
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, bucket

# The same batch of a producer, sent again, counts where it was sent first; a batch that was refused is none of these.
SENDS = ("protocol", "topic", "partition", "producer", "producer_epoch", "base_sequence", "checksum_stored",
    "stored_bytes", "refused")  # fmt: skip
KNOWN = "role = 'produce' and producer is not null and base_sequence >= 0"
_GROUP = ("protocol", "topic", "role", "bucket")
BATCH = ("file", "packet", "stream_offset", "position")  # what tells batches apart


def _throughput(d: Dialect, ask: Ask) -> str:
    keys, group = ", ".join(_GROUP), d.identity(*_GROUP)
    seconds = double(ask.bucket_us / 1_000_000)
    # pushes have no correlation id, but each batch of theirs is a frame of its own
    carrier = d.identity(*CONNECTION, "producer", "coalesce(correlation_id, -1 - stream_offset)")
    exchange = f"case when exchange_id is null then {carrier} else {d.identity('site', 'exchange_id')} end"
    sums = {
        "refused": "case when refused then records end",
        "resent": "case when again and not refused then records end",
        "stored_bytes": "case when fresh then stored_bytes end",
        "uncompressed_bytes": "case when fresh then uncompressed_bytes end",
        "sized_bytes": "case when fresh and uncompressed_bytes is not null then stored_bytes end",
    }
    # An answer may carry more than the application receives: its topics share what it does receive by what they carry.
    messages = "coalesce(carried, 0e0) - coalesce(carried_short, 0e0) + coalesce(received_short, 0e0)"
    # Groups with keys of text are dear: exchanges, sends and batches, of which there are many, are numbers. So are
    # groups that look for their first row: only sends that come again do.
    sends = "role = 'produce' and send is not null"
    return f"""
        with {d.anew("sent")} (
            select {keys}, {exchange} as exchange, case when {KNOWN} then {d.identity(*SENDS)} end as send,
                {d.identity(*BATCH)} as batch, case outcome when 'ok' then 0 else 1 end as doubt,
                coalesce({d.micros("time")}, 0) as seen, refused, not refused and not coalesce(control, false) as taken,
                records, stored_bytes, uncompressed_bytes
            from (
                select *, {bucket(d, "time", ask.bucket_us)} as bucket, coalesce(outcome = 'error', false) as refused
                from batches
            )
        ), repeated as (
            select send as known from sent where {sends} group by send having count(*) > 1
        ), firsts as (
            select known, {d.first("batch", "doubt", "seen", "batch")} as first_batch
            from sent join repeated on send = known where {sends} group by known
        ), {d.once("moved")} (
            select {keys}, exchange, refused, records, stored_bytes, uncompressed_bytes,
                coalesce(batch <> first_batch, false) as again, taken and coalesce(batch = first_batch, true) as fresh
            from sent left join firsts on send = known
        ), sums as (
            select {keys}, count(*) as batches, sum(case when fresh then cast(records as double) end) as carried,
                {", ".join(f"{d.total(value)} as {name}" for name, value in sums.items())}
            from moved group by {keys}
        ), carriers as (
            select {group} as part, role = 'consume' as consumed, exchange,
                sum(case when fresh then cast(records as double) end) as messages
            from moved group by {group}, role = 'consume', exchange
        ), answers as (
            select exchange as answer, sum(messages) as in_all from carriers where consumed group by exchange
        ), short as (
            select answer, max(received) as received, max(in_all) as in_all
            from answers join (
                select {d.identity("site", "exchange_id")} as own, records as received from all_exchanges
                where kind = 'call' and payload_bytes > 0 and exchange_id is not null
            ) on own = answer
            where received < in_all group by answer
        ), counts as (
            select part as counted, count(*) as exchanges,
                sum(case when answer is not null then messages end) as carried_short,
                sum(messages * cast(received as double) / in_all) as received_short
            from carriers left join short on consumed and exchange = answer group by part
        ), measured as (
            select {keys}, exchanges, batches, refused, resent, stored_bytes, uncompressed_bytes, sized_bytes,
                cast(floor(least({messages} + 0.5e0, {LARGEST_DOUBLE})) as bigint) as messages
            from (select *, {group} as part from sums) join counts on counted = part
        )
        select {keys}, {seconds} as bucket_s, exchanges, batches, messages,
            coalesce(refused, 0) as refused, coalesce(resent, 0) as resent, coalesce(stored_bytes, 0) as stored_bytes,
            uncompressed_bytes, messages / {seconds} as message_rate,
            coalesce(stored_bytes, 0) / {seconds} as byte_rate,
            uncompressed_bytes / nullif(sized_bytes, 0) as compression_ratio
        from measured
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
