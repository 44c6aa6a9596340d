"""Lookups that a broker sent on to another."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import LINKS
from pipelines.tables.verdicts.verdict import Link, Ruling, together

_SENT_ON = "select *, text as named from v_noted where event = 'redirected'"
_FIRST = f"arg_min({{'time': time, 'topics': topics, 'file': file, 'packet': packet}}, time, {LINKS}) as first"


@needs(SomeRows("events", "kind = 'redirected'"))
def lookups_redirected(capture: Capture) -> Iterator[Ruling]:
    """By broker that was asked and broker that was named; the first of them as a chain."""
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
