"""Messages that a subscription of Pulsar got more than once, by why: `audit` states the same."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.audit.doubled import ASKED_AGAIN, DELIVERED_TO, SET_BACK, SOUGHT, TURNED, UNASKED, in_turn
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.verdict import Ruling

_AGAIN = f"""
    select b.*, r.why, r.most, r.delivered, r.nth, a.times, if(r.why = '{TURNED}', t.turns, null) as turns
    from ({in_turn("FROM v_redelivered")}) r join v_batches b using (site, exchange_id)
        left join (
            select "group", topic, ledger || ':' || value as position, count(distinct exchange_id) as times
            from positions where api = 'ACK' and protocol = 'pulsar' group by all
        ) a on a."group" = b."group" and a.topic = b.topic and a.position = b.position
        left join (
            select "group", topic, partition, count(*) - 1 as turns from events where kind = 'active' group by all
        ) t on t."group" = b."group" and t.topic = b.topic and t.partition is not distinct from b.partition"""
_MORE = """
    saturated(sum(records)) as messages, max(most) as most, saturated(sum(records) filter (nth = 1)) as again,
    saturated(max(delivered)) as delivered, max(turns) as turns,
    coalesce(saturated(sum(records) filter (nth = 1 and times > 1)), 0) as processed"""
_REJECTED = (
    "Look at why its consumers reject these messages or take longer than ackTimeout; a dead letter policy "
    "(maxRedeliverCount) sets those aside that nobody can process."
)
_TOO_LONG = (
    "Set an ackTimeout longer than consumers need for a message, and for those before it in their queue, or none: what "
    "they still work on comes again, and is processed twice."
)
_TURNS = (
    "See why the active consumer of a Failover subscription changes: consumers come and go, or lose their connections. "
    "Each time, what is not acknowledged is sent again."
)
_SET_BACK = "Nothing, if somebody set the subscription back on purpose; else see who sent SEEK, and why."
_RESET = (
    "Nothing, if somebody reset the subscription on purpose (pulsar-admin topics reset-cursor); after a crash, a "
    "broker may not have kept the last acknowledgements."
)
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
        back = {SOUGHT: _SET_BACK, SET_BACK: _RESET}.get(row["why"])
        expected = back is not None or (row["most"] == 2 and not asked and row["why"] != UNASKED)
        source = f"{say.topic(row['topic'])}-{row['group']}-"  # how clients name what they set aside, or who does it
        twice = row["processed"] if asked else 0
        also = say.counted(twice, "message", "was", "were") if twice else ""
        more = f"; {also} acknowledged more than once, as consumers were still at work on them" if also else ""
        more += f", {say.times(row['turns'])}" if (row["turns"] or 0) > 1 else ""
        set_aside = asked and any(source in name for name in given_up)
        advice = (
            (back, back), (expected, _EXPECTED), (row["turns"], _TURNS), (2 * twice >= row["again"], _TOO_LONG),
            (asked, _REJECTED),
        )  # fmt: skip
        yield Ruling(
            "redelivered",
            f"{units.count(row['messages'])} of {say.counted(row['delivered'], 'message')} delivered to subscription "
            f"{row['group']} of topic {say.topic(row['topic'])} {were}{which}: {row['why']}{more}.",
            row,
            in_all if len(rows) > 1 else None,
            severity=NOTE if expected or set_aside else None,
            advice=next((text for holds, text in advice if holds), None),
        )
