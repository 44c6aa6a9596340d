"""Consumers that let the broker wait for permits (Pulsar): too slow for their topic, or standing still.

A consumer grants permits with FLOW; a broker without permits sends nothing. A finding says for how long that was so,
and for how long it was so when the connection ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeFinding, needs
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.thresholds import STOOD_STILL_NS
from pipelines.tables.verdicts.verdict import Row, Ruling, together

# consumers that ran out of permits; `stuck`: for good; `waiting`: messages that came to their topic since
_DRY = f"""
    with dry as (
        select f.*, whole(f.evidence->>'without_permits_ns') as dry_ns, f.evidence->>'consumer' as consumer,
            coalesce(whole(f.evidence->>'stopped_ns'), 0) as stopped_ns, whole(f.evidence->>'partition') as partition,
            row_number() over () as id
        from v_findings f where kind = 'slow_consumer'
    ), stopped as (
        select d.id, d.topic, d.partition, n.end_time, n.end_time - to_microseconds(d.stopped_ns // 1000) as since
        from dry d join connections n using (site, connection, incarnation) where d.stopped_ns >= {STOOD_STILL_NS}
    ), published as (
        select s.id, saturated(sum(b.records)) as waiting
        from stopped s join batches b on b.protocol = 'pulsar' and b.role in ('produce', 'replicate')
            and b.topic = s.topic and b.partition is not distinct from s.partition
            and b.time between s.since and s.end_time and b.outcome is distinct from 'error'
        group by s.id
    )
    select d.* exclude (id), d.stopped_ns >= {STOOD_STILL_NS} as stuck, coalesce(p.waiting, 0) as waiting
    from dry d left join published p using (id)"""
_MORE = """
    max(dry_ns) as longest_ns, max(stopped_ns) as stopped_ns, max(waiting) as waiting,
    list(distinct consumer order by consumer) filter (consumer <> '') as consumers"""


@needs(SomeFinding("slow_consumer"))
def without_permits(capture: Capture) -> Iterator[Ruling]:
    """By topic, subscription and whether the consumer ever granted permits again."""
    for row in capture.rows(together(_DRY, ["protocol", "topic", '"group"', "stuck"], _MORE)):
        whose, topic = f"{_consumers(row)} of subscription {row['group']}", say.topic(row["topic"] or "a topic")
        who = say.clients(row["clients"])
        if not row["stuck"]:
            spent = say.span(row["longest_ns"])
            text = f"{whose} ({who}) left the broker without permits for {spent}, slower than topic {topic}."
            yield Ruling("slow_consumer", text, row | {"cost_ns": row["longest_ns"]})
            continue
        more = f"while {say.counted(row['waiting'], 'message')} more came to it" if row["waiting"] else ""
        yield Ruling(
            "permits_exhausted",
            f"{whose} ({who}) granted no permits after the last messages of topic {topic}: nothing was delivered for "
            f"{say.span(row['stopped_ns'])}{more and ', ' + more}.",
            row | {"cost_ns": row["stopped_ns"]},
            None if more else "The capture does not show whether more messages waited for it.",
            None if more else NOTE,
        )


def _consumers(row: Row) -> str:
    """`Consumer c-1`, `3 consumers`."""
    names = row["consumers"] or []
    return f"Consumer {names[0]}" if row["count"] == 1 and names else say.counted(row["count"], "consumer")
