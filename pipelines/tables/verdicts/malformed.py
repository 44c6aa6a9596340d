"""Batches that are not what their head says, though their checksum holds."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Ruling, together

_KINDS = """
    kind in ('batch_mismatch', 'decompress_failed') or (kind = 'malformed_frame' and message like 'Records are not%')"""
_PLACE = "site, connection, incarnation"
# each with the topic of the batch that it is about, or else the only one of its exchange, and with the broker's answer
_ODD = f"""
    with odd as (select * exclude (topics) from v_findings where {_KINDS}
    ), carried as (
        select {_PLACE}, 'client' as direction, request_file as file, request_packet as packet, topics, error_name
        from exchanges where ({_PLACE}) in (select ({_PLACE}) from odd)
        union all
        select {_PLACE}, 'server', response_file, response_packet, topics, null
        from exchanges where ({_PLACE}) in (select ({_PLACE}) from odd)
    ), told as (
        select f.*, (
                select max(topic) from batches b where b.site = f.site and b.file = f.file and b.packet = f.packet
                    and b.stream_offset = f.stream_offset) as of_batch,
            (
                select {{'topic': max(case when len(topics) = 1 then topics[1] end), 'error': max(error_name)}}
                from carried x
                where x.site = f.site and x.connection = f.connection and x.incarnation = f.incarnation
                    and x.direction = f.direction and x.file = f.file and x.packet = f.packet) as x
        from odd f
    )
    select * exclude (of_batch, x), coalesce(of_batch, x.topic) as topic, x.error as error_name,
        case when coalesce(of_batch, x.topic) is null then [] else [coalesce(of_batch, x.topic)] end as topics
    from told"""


@needs(SomeRows("findings", _KINDS))
def malformed_batches(capture: Capture) -> Iterator[Ruling]:
    """By topic: what is odd of the first, and what the broker said to it."""
    first = "arg_min(message, row(time, file, packet)) as message, max(error_name) as answer"
    for row in capture.rows(together(_ODD, ["protocol", "topic"], first)):
        answer = f" The broker answered {row['answer']}." if row["answer"] else ""
        topic = f" in topic {say.topic(row['topic'])}" if row["topic"] else ""
        yield Ruling(
            "malformed_batches",
            f"{say.counted(row['count'], 'batch')} of {say.clients(row)}{topic} "
            f"{'is' if row['count'] == 1 else 'are'} malformed.",
            row,
            f"The first: {row['message']}.{answer}",
        )
