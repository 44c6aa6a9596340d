"""Messages that a subscription got more than once."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.sql.words import RELAYED
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.verdict import Row, Ruling, together

_DELIVERED = """
    protocol = 'pulsar' and role = 'consume' and "group" is not null and position is not null
        and topic not like 'non-persistent://%'"""
# a delivery is seen on both sides of a proxy: those of a connection that a proxy opened are compared among themselves
_MESSAGE = 'topic, partition, position, "group", relayed'
_TWICE = f"""select 1 from batches left join ({RELAYED}) using (site, connection, incarnation)
    where {_DELIVERED} group by {_MESSAGE} having count(*) > 1 limit 1"""
# deliveries of one position to one subscription, but for the first; who seeks asks for them
_AGAIN = f"""
    with sent as (
        select *, row_number() over (same order by time, file, packet) as nth,
            lag(time) over (same order by time, file, packet) as before
        from v_batches left join ({RELAYED}) using (site, connection, incarnation) where {_DELIVERED}
        window same as (partition by {_MESSAGE})
    ), seeks as (
        select "group", topics[1] as topic, time from exchanges where protocol = 'pulsar' and api = 'SEEK'
    )
    select * from sent s where nth > 1 and not exists (
        select 1 from seeks k where k."group" = s."group" and k.time between s.before and s.time)"""


@needs(SomeRows("batches", _DELIVERED, least=2))
def redelivered(capture: Capture) -> Iterator[Ruling]:
    """Of each subscription, what it got again."""
    if not capture.rows(_TWICE):
        return
    more = "saturated(sum(records)) as messages, max(nth) as most, number_of(position) as entries"
    for row in capture.rows(together(_AGAIN, ["protocol", "topic", '"group"'], more)):
        group, topic = row["group"], row["topic"]
        (whole,) = capture.rows(f"""
            select saturated(sum(records)) as messages from batches where role = 'consume'
                and topic = {say.literal(topic)} and "group" = {say.literal(group)}""")
        moved = any(told.kind == "topic_moved" and topic in told.rows["topics"] for told in capture.told)
        often = f"One came {row['most']} times." if row["most"] > 2 else ""
        were = "was a redelivery" if row["messages"] == 1 else "were redeliveries"
        yield Ruling(
            "redelivered",
            f"{units.count(row['messages'])} of {say.counted(whole['messages'], 'message')} delivered to subscription "
            f"{group} of topic {say.topic(topic)} {were}{_which(row)}.",
            row,
            " ".join(filter(None, (often, "Its topic moved." if moved else ""))) or None,
            NOTE if moved and row["most"] == 2 else None,
        )


def _which(row: Row) -> str:
    """How few messages came again how often, where some came more than twice."""
    if row["most"] <= 2:
        return ""
    return f": {say.counted(row['entries'], 'message', 'comes', 'come')} again and again"
