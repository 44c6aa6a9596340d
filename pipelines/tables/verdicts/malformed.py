"""Batches that are not what their head says, though their checksum holds."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Ruling, together

_KINDS = """
    kind in ('batch_mismatch', 'decompress_failed') or (kind = 'malformed_frame' and message like 'Records are not%')"""
_ODD = f"""
    select f.*, (
            select max(error_name) from exchanges x
            where f.site = x.site and f.connection = x.connection and f.incarnation = x.incarnation
                and f.direction = 'client' and f.packet = x.request_packet and f.file = x.request_file) as error_name
    from v_findings f
    where {_KINDS}"""


@needs(SomeRows("findings", _KINDS))
def malformed_batches(capture: Capture) -> Iterator[Ruling]:
    """By topic: what is odd of the first, and what the broker said to it."""
    first = "arg_min(message, row(time, file, packet)) as message, max(error_name) as answer"
    for row in capture.rows(together(_ODD, ["protocol", "topic"], first)):
        answer = f" The broker answered {row['answer']}." if row["answer"] else ""
        topic = f" in topic {say.topic(row['topic'])}" if row["topic"] else ""
        yield Ruling(
            "malformed_batches",
            f"{say.counted(row['count'], 'batch')} of {say.clients(row['clients'])}{topic} "
            f"{'is' if row['count'] == 1 else 'are'} malformed.",
            row,
            f"The first: {row['message']}.{answer}",
        )
