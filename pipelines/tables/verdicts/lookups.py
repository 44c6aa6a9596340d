"""Lookups that a broker sent on to another."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import WARNING
from pipelines.tables.verdicts.thresholds import ASKED_AGAIN, LINKS
from pipelines.tables.verdicts.verdict import Link, Ruling, together

_SENT_ON = "select *, text as named from v_noted where event = 'redirected'"
_FIRST = f"arg_min({{'time': time, 'topics': topics, 'file': file, 'packet': packet}}, time, {LINKS}) as first"
# lookups of topics for which brokers name each other only, again and again, and none of them answers as the owner
_CIRCLES = f"""
    with sent_on as (
        select unnest(topics) as topic, server, regexp_replace(named, '^[a-z+]+://', '') as named from ({_SENT_ON})
    ), circles as (
        select topic from sent_on group by topic
        having count(*) >= {ASKED_AGAIN} and list_has_all(names_of(server), names_of(named))
    )
    select n.*, c.topic as looked_up from (select *, unnest(topics) as one from ({_SENT_ON})) n
        join circles c on c.topic = n.one anti join (
            select unnest(topics) as topic from v_calls c where protocol = 'pulsar' and kind = 'call' and status = 'ok'
                and api in ('LOOKUP', 'PRODUCER', 'SUBSCRIBE')
                and (site, exchange_id) not in (select (site, exchange_id) from ({_SENT_ON}))
        ) o on o.topic = c.topic"""


@needs(SomeRows("events", "kind = 'redirected'"))
def lookups_redirected(capture: Capture) -> Iterator[Ruling]:
    """By topic that no broker answers for; by broker that was asked and broker that was named, the first as a chain."""
    for row in capture.rows(together(_CIRCLES, ["protocol", "looked_up"])):
        yield Ruling(
            "lookups_redirected",
            f"{say.counted(row['count'], 'lookup')} of topic {say.topic(row['looked_up'])}, by {say.clients(row)}, "
            f"went in a circle: {say.listed(row['servers'], 'broker')} name each other, and none answers as the owner.",
            row,
            severity=WARNING,
            advice="Compare what each broker holds for the owner of this topic's bundle: they do not agree.",
        )
    for row in capture.rows(together(_SENT_ON, ["protocol", "server", "named"], _FIRST)):
        to, topics = say.broker(row["named"]), say.named(row["topics"], "topic")
        yield Ruling(
            "lookups_redirected",
            f"Broker {row['server']} sent {say.counted(row['count'], 'lookup')}{topics and ' of ' + topics}, by "
            f"{say.clients(row)}, on to {to}.",
            row,
            chain=[
                Link(
                    one["time"],
                    f"lookup of {say.named(one['topics'] or [], 'topic') or 'a topic'}: ask {to}",
                    one["file"],
                    one["packet"],
                )
                for one in row["first"]
            ],
        )
