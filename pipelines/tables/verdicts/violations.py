"""Rules of the protocol that a peer broke (Pulsar)."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Ruling, together

_BROKEN = "select *, subject as rule from v_noted where event = 'rule_broken'"


@needs(SomeRows("events", "kind = 'rule_broken'"))
def protocol_violation(capture: Capture) -> Iterator[Ruling]:
    """By rule, and by who broke it."""
    first = "arg_min(text, time) as first"
    for row in capture.rows(together(_BROKEN, ["protocol", "rule", "direction"], first)):
        by_client = row["direction"] == "client"
        who = say.clients(row) if by_client else say.listed(row["servers"], "broker")
        yield Ruling(
            "protocol_violation",
            f"{who} broke a rule of the protocol {say.times(row['count'])}: {row['first']}.",
            row,
        )
