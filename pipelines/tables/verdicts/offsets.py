"""Groups that went back: they committed a smaller offset of a partition than before."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Ruling, together

_OF_PARTITION = "partition by protocol, topic, part, owner order by at_us, number"
_BACK = f"""
    select * from (
        select *, lag(number) over ({_OF_PARTITION}) as before, lag(at_us) over ({_OF_PARTITION}) as before_us
        from v_reached where api <> 'OffsetFetch' and api <> 'GET_CONSUMER_OFFSET'
    ) where number < before"""
_RESET = """
    select x.* exclude (topics, "group"), owner as "group", [topic] as topics, topic, part, before - number as messages
    from v_back join v_calls x using (site, exchange_id)
    where not exists (
        select 1 from exchanges e where e.api = 'DeleteTopics' and list_contains(coalesce(e.topics, []), topic)
            and epoch_us(e.time) between before_us and at_us
    )"""
"""The exchanges by which offsets went back, once for each partition. Those of a topic made anew begin at 0 again."""


@needs(SomeRows("positions", "what in ('committed', 'pending') and protocol <> 'pulsar'", least=2))
def offsets_moved_back(capture: Capture) -> Iterator[Ruling]:
    """By group and topic."""
    if not capture.keep("v_back", _BACK):
        return
    more = "number_of(part) as partitions, max(messages) as furthest"
    for row in capture.rows(together(_RESET, ["protocol", '"group"', "topic"], more)):
        who = say.clients(row)
        where = f"{say.counted(row['partitions'], 'partition')} of topic {say.topic(row['topic'])}"
        far = _far(row["count"], row["furthest"])
        yield Ruling(
            "offsets_moved_back",
            f"Group {row['group']} went back {say.times(row['count'])} in {where}, by {far}: {who} committed a "
            "smaller offset than before.",
            row,
        )


def _far(times: int, furthest: int) -> str:
    """`53 messages`, `up to 53 messages`."""
    return f"{'' if times == 1 else 'up to '}{say.counted(furthest, 'message')}"
