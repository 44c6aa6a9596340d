"""Messages that a subscription of Pulsar got more than once, by why: `audit` states the same."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.audit.doubled import ASKED_AGAIN, DELIVERED_TO, SOUGHT, UNASKED
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.verdict import Row, Ruling, together

_AGAIN = """
    select b.*, r.why, r.most, r.delivered from v_redelivered r join v_batches b using (site, exchange_id)"""
_MORE = """
    saturated(sum(records)) as messages, max(most) as most, number_of(position) as entries,
    saturated(max(delivered)) as delivered"""
_REJECTED = (
    "Look at why its consumers reject these messages or take longer than ackTimeout; a dead letter policy "
    "(maxRedeliverCount) sets those aside that nobody can process."
)
_EXPECTED = "Nothing: what is not acknowledged is delivered again. Let consumers tell doubles apart."


@needs(SomeRows("batches", DELIVERED_TO, least=2))
def redelivered(capture: Capture) -> Iterator[Ruling]:
    """Of each subscription, what it got again; once, where a consumer left or a transaction failed, is how it works."""
    for row in capture.rows(together(_AGAIN, ["protocol", "topic", '"group"', "why"], _MORE)):
        moved = any(told.kind == "topic_moved" and row["topic"] in told.rows["topics"] for told in capture.told)
        were = "was a redelivery" if row["messages"] == 1 else "were redeliveries"
        expected = row["why"] == SOUGHT or (row["most"] == 2 and row["why"] not in (ASKED_AGAIN, UNASKED))
        asked = _REJECTED if row["why"] == ASKED_AGAIN else None
        yield Ruling(
            "redelivered",
            f"{units.count(row['messages'])} of {say.counted(row['delivered'], 'message')} delivered to subscription "
            f"{row['group']} of topic {say.topic(row['topic'])} {were}{_which(row)}: {row['why']}.",
            row,
            "Its topic moved." if moved else None,
            NOTE if expected or _set_aside(capture, row) else None,
            _EXPECTED if expected else asked,
        )


def _set_aside(capture: Capture, row: Row) -> bool:
    """Whether its consumers gave up on messages that came again: another verdict tells of these."""
    hosts = {client.split()[0] for client in row["clients"]}
    return row["why"] == ASKED_AGAIN and any(
        told.kind == "dead_lettered" and hosts & {client.split()[0] for client in told.rows["clients"]}
        for told in capture.told
    )


def _which(row: Row) -> str:
    """How few messages came again how often, where some came more than twice."""
    if row["most"] <= 2:
        return ""
    return f", {say.counted(row['entries'], 'message')} up to {row['most']} times each"
