"""Consumers that let the broker wait for permits (Pulsar): too slow for their topic, or standing still.

A consumer grants permits with FLOW; a broker without permits sends nothing. A finding says for how long that was so.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.thresholds import STOOD_STILL_US
from pipelines.tables.verdicts.verdict import Ruling, together

# consumers that ran out of permits; `stuck`: no FLOW of theirs follows the last message that they got
_DRY = f"""
    select f.*, whole(f.evidence->>'without_permits_ns') as dry_ns,
        coalesce(epoch_us(ended) - epoch_us(last_message) >= {STOOD_STILL_US}
            and epoch_us(coalesce(last_flow, f.time)) <= epoch_us(last_message), false) as stuck
    from v_findings f left join (
        select site, connection, incarnation, "group", topics[1] as topic,
            max(time) filter (api = 'FLOW') as last_flow, max(time) filter (api = 'MESSAGE') as last_message
        from exchanges where protocol = 'pulsar' and api in ('FLOW', 'MESSAGE') group by all
    ) seen using (site, connection, incarnation, "group", topic)
    left join (
        select site, connection, incarnation, end_time as ended from connections
    ) using (site, connection, incarnation)
    where kind = 'slow_consumer'"""


def without_permits(capture: Capture) -> Iterator[Ruling]:
    """By topic, subscription and whether the consumer ever granted permits again."""
    longest = "max(dry_ns) as longest_ns"
    for row in capture.rows(together(_DRY, ["protocol", "topic", '"group"', "stuck"], longest)):
        whose = f"{say.counted(row['count'], 'consumer')} of subscription {row['group']}"
        who, topic = say.clients(row["clients"]), say.topic(row["topic"] or "a topic")
        spent = say.span(row["longest_ns"])
        row |= {"cost_ns": row["longest_ns"]}
        if row["stuck"]:
            text = f"{whose} ({who}) sent no FLOW after the last messages of {topic}, so none came for {spent}."
            yield Ruling("permits_exhausted", text, row)
        else:
            text = f"{whose} ({who}) left the broker without permits for up to {spent}: slower than topic {topic}."
            yield Ruling("slow_consumer", text, row)
