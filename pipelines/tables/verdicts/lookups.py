"""Lookups that a broker sent on to another."""

from __future__ import annotations

from pipelines.tables.verdicts.check import SomeRows
from pipelines.tables.verdicts.kinds import WARNING
from pipelines.tables.verdicts.thresholds import ASKED_AGAIN, LINKS
from pipelines.tables.verdicts.told import Told

_NEEDS = SomeRows("events", "kind = 'redirected'")
_SENT_ON = "select *, text as named from v_noted where event = 'redirected'"
_TO = "regexp_replace(named, '^[a-z+]+://', '')"
# lookups of topics for which brokers name each other only, again and again, and none of them answers as the owner
_CIRCLES = f"""
    with sent_on as (
        select unnest(topics) as topic, server, {_TO} as named from ({_SENT_ON})
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
_LINK = f"""{{'time': time,
    'text': concat('lookup of ', coalesce('topic ' || regexp_replace(topics[1], '^persistent://', ''), 'a topic'),
        ': ask ', coalesce({_TO}, 'another broker')),
    'file': file, 'packet': packet}}"""

LOOKUPS_REDIRECTED = (
    Told(
        _NEEDS, "lookups_redirected",
        "{count:lookup} of topic {looked_up:topic}, by {who}, went in a circle: {servers:broker} name each other, and "
        "none answers as the owner.",
        _CIRCLES,
        by=("protocol", "looked_up"),
        severity=WARNING,
        advice="Compare what each broker holds for the owner of this topic's bundle: they do not agree.",
    ),
    Told(
        _NEEDS, "lookups_redirected",
        "Broker {server} sent {count:lookup}{of_topics}, by {who}, on to {other}.",
        _SENT_ON,
        by=("protocol", "server", "named"),
        more=f"coalesce({_TO}, 'another broker') as other, arg_min({_LINK}, time, {LINKS}) as chain",
    ),
)  # fmt: skip
"""By topic that no broker answers for; by broker that was asked and broker that was named, the first as a chain."""
