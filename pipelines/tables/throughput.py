"""How much message data moves, per topic and time."""

from __future__ import annotations

from pipelines.sql.words import UNPACKED_BYTES
from pipelines.tables.dialect import LARGEST_DOUBLE, Dialect, double
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, alike, bucket, equal

# A producer sends a batch again with the same values of SENDS: it counts where it was sent first. A batch that the
# broker refused is another send.
SENDS = ("protocol", "topic", "partition", "producer", "producer_epoch", "base_sequence", "checksum_stored",
    "stored_bytes", "refused")  # fmt: skip
KNOWN = "role = 'produce' and producer is not null and base_sequence >= 0"
BATCH = ("role", "file", "packet", "stream_offset", "position")  # what tells batches apart
ANSWER = (*CONNECTION, "exchange_id")  # what tells the exchanges apart that carried batches
_GROUP = ("protocol", "topic", "role", "bucket")


def sent_first(d: Dialect) -> str:
    """Order of the batches of one send: those that the broker took come first, then the earliest."""
    place = (f"{column} nulls first" for column in BATCH)
    return f"case outcome when 'ok' then 0 else 1 end, coalesce({d.micros('time')}, 0), {', '.join(place)}"


def _throughput(d: Dialect, ask: Ask) -> str:
    keys, sends, answer = (", ".join(columns) for columns in (_GROUP, SENDS, ANSWER))
    of_carrier = ", ".join(f"c.{key}" for key in _GROUP)
    seconds = double(ask.bucket_us / 1_000_000)
    # pushes have no exchange and no correlation id, but each batch of theirs is a frame of its own
    sender = "case when s.exchange_id is null then s.producer end"
    frame = "case when s.exchange_id is null then coalesce(s.correlation_id, -1 - s.stream_offset) end"
    sums = {
        "refused": "case when refused then records end",
        "resent": "case when again and not refused then records end",
        "stored_bytes": "case when fresh then stored_bytes end",
        "uncompressed_bytes": "case when fresh then uncompressed_bytes end",
        "sized_bytes": "case when fresh and uncompressed_bytes is not null then stored_bytes end",
    }
    # An answer may carry more than the application receives: its topics share what it does receive by what they carry.
    received = "case when in_all is null then carried else carried * cast(received as double) / in_all end"
    # Only batches of sends that come again are put in order: all others are the first of theirs.
    later = f"""
            select {", ".join(BATCH)}, true as again from (
                select s.*, row_number() over (
                    partition by {", ".join(f"s.{column}" for column in SENDS)} order by {sent_first(d)}
                ) as sighting
                from (select * from sent where {KNOWN}) s join repeated r on {alike(SENDS, "s", "r")}
            ) where sighting > 1
        """
    moved = f"""
            select {", ".join(f"s.{column}" for column in (*_GROUP, *ANSWER))}, {sender} as sender, {frame} as frame,
                refused, records, stored_bytes, {UNPACKED_BYTES} as uncompressed_bytes, coalesce(again, false) as again,
                not coalesce(again, false) and not refused and not coalesce(control, false) as fresh
            from sent s left join later l on {alike(BATCH, "s", "l")}
        """
    carriers = f"""
            select {keys}, {answer}, sum(case when fresh then cast(records as double) end) as carried
            from moved group by {keys}, {answer}, sender, frame
        """
    return f"""
        with {d.anew("sent")} (
            select *, {bucket(d, "time", ask.bucket_us)} as bucket, coalesce(outcome = 'error', false) as refused
            from batches
        ), repeated as (
            select {sends} from sent where {KNOWN} group by {sends} having count(*) > 1
        ), {d.once("later", later)}, {d.once("moved", moved)}, sums as (
            select {keys}, count(*) as batches,
                {", ".join(f"{d.total(value)} as {name}" for name, value in sums.items())}
            from moved group by {keys}
        ), {d.once("carriers", carriers)}, short as (
            select {", ".join(f"a.{column}" for column in ANSWER)}, in_all, max(records) as received
            from (
                select {answer}, sum(carried) as in_all from carriers where role = 'consume' group by {answer}
            ) a join all_exchanges e on {equal(ANSWER, "a", "e")}
            where kind = 'call' and payload_bytes > 0 and records < in_all
            group by {", ".join(f"a.{column}" for column in ANSWER)}, in_all
        ), counts as (
            select {of_carrier}, count(*) as exchanges, coalesce(sum({received}), 0e0) as messages
            from carriers c left join short s on c.role = 'consume' and {equal(ANSWER, "c", "s")}
            group by {of_carrier}
        ), measured as (
            select {of_carrier}, exchanges, batches, {", ".join(sums)},
                cast(floor(least(messages + 0.5e0, {LARGEST_DOUBLE})) as bigint) as messages
            from counts c join sums s on {alike(_GROUP, "c", "s")}
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
    "Message data sent and received: one row per topic, role and time bucket. `messages` and the bytes leave out "
    "control batches, what brokers refused and what producers sent a second time. Of what is consumed, `messages` are "
    "those that the application receives: not those of aborted transactions, nor those before the offset that it asked "
    "for; where one answer carries several topics, they share what is left out.",
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
        TableColumn("uncompressed_bytes", "size without compression; null where that is not known", "bytes"),
        TableColumn("message_rate", "messages per second", "1/s"),
        TableColumn("byte_rate", "stored bytes per second", "bytes/s"),
        TableColumn("compression_ratio", "uncompressed to stored bytes: 1 where nothing is compressed", "ratio"),
    ),
    _throughput,
    headline=(
        "protocol", "topic", "role", "bucket", "exchanges", "messages", "resent", "stored_bytes", "message_rate",
        "byte_rate", "compression_ratio",
    ),
    order=("stored_bytes desc", "protocol", "topic", "role", "bucket"),
)  # fmt: skip
