"""Messages that a subscription of Pulsar got more than once, by why: `audit` states the same."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.audit.doubled import ASKED_AGAIN, DELIVERED_TO, SOUGHT, UNASKED, in_turn
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.verdict import Ruling

_AGAIN = f"""
    select b.*, r.why, r.most, r.delivered, r.nth
    from ({in_turn("FROM v_redelivered")}) r join v_batches b using (site, exchange_id)"""
_MORE = """
    saturated(sum(records)) as messages, max(most) as most, saturated(sum(records) filter (nth = 1)) as again,
    saturated(max(delivered)) as delivered"""
_REJECTED = (
    "Look at why its consumers reject these messages or take longer than ackTimeout; a dead letter policy "
    "(maxRedeliverCount) sets those aside that nobody can process."
)
_SET_BACK = "Nothing, if somebody set the subscription back on purpose; else see who sent SEEK, and why."
_EXPECTED = "Nothing: what is not acknowledged is delivered again. Let consumers tell doubles apart."


@needs(SomeRows("batches", DELIVERED_TO, least=2))
def redelivered(capture: Capture) -> Iterator[Ruling]:
    """Of each subscription, what it got again; once, where a consumer left or a transaction failed, is how it works."""
    dead = [told.rows for told in capture.told if told.kind == "dead_lettered"]
    given_up = [name for rows in dead for name in (*rows["topics"], *rows["clients"])]
    rows = capture.together(_AGAIN, ["protocol", "topic", '"group"', "why"], _MORE)
    in_all = f"In all, {units.counted(sum(row['again'] for row in rows), 'message')} came more than once."
    for row in rows:
        were = "was a redelivery" if row["messages"] == 1 else "were redeliveries"
        which = "" if row["most"] <= 2 else f", {say.counted(row['again'], 'message')} up to {row['most']} times each"
        asked = row["why"] == ASKED_AGAIN
        back = row["why"] == SOUGHT
        expected = back or (row["most"] == 2 and not asked and row["why"] != UNASKED)
        source = f"{say.topic(row['topic'])}-{row['group']}-"  # how clients name what they set aside, or who does it
        set_aside = asked and any(source in name for name in given_up)
        yield Ruling(
            "redelivered",
            f"{units.count(row['messages'])} of {say.counted(row['delivered'], 'message')} delivered to subscription "
            f"{row['group']} of topic {say.topic(row['topic'])} {were}{which}: {row['why']}.",
            row,
            in_all if len(rows) > 1 else None,
            severity=NOTE if expected or set_aside else None,
            advice=_SET_BACK if back else _EXPECTED if expected else _REJECTED if asked else None,
        )
