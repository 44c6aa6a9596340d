"""Messages that consumers gave up on: dead letter topics and retry topics.

Pulsar's clients send a message that was redelivered too often to TOPIC-SUBSCRIPTION-DLQ, or to a topic of another name
by a producer whose name ends so; those to be tried again later go to TOPIC-SUBSCRIPTION-RETRY. Frameworks over Kafka
name such topics .DLT (Spring), .DLQ or -dlq.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.verdict import Ruling, together

_KEPT = "role = 'produce' and outcome is distinct from 'error' and not coalesce(control, false)"
_KIND = r"""
    case when regexp_matches(topic, '[-._](DLQ|DLT|dlq|dlt|dead[-_]?letters?)$')
            or (protocol = 'pulsar' and producer like '%-DLQ') then 'dead'
        when protocol = 'pulsar' and topic like '%-RETRY' then 'retry' end"""


@needs(SomeRows("batches", f"{_KEPT} and {_KIND} is not null"))
def dead_lettered(capture: Capture) -> Iterator[Ruling]:
    """By topic that got them."""
    rows = f"select * from (select *, {_KIND} as letters from v_batches where {_KEPT}) where letters is not null"
    messages = "saturated(sum(records)) as messages"
    for row in capture.rows(together(rows, ["protocol", "topic", "letters"], messages)):
        what = say.counted(row["messages"], "message", "was", "were")
        topic = say.topic(row["topic"])
        if row["letters"] == "dead":
            text = f"{what} given up and sent to dead letter topic {topic}."
        else:
            text = f"{what} sent to {topic} to be tried again later."
        yield Ruling("dead_lettered", text, row, severity=WARNING if row["letters"] == "dead" else NOTE)
