"""Lookups that a broker sent on to another."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.verdict import Ruling, together


def lookups_redirected(capture: Capture) -> Iterator[Ruling]:
    """By broker that was asked and broker that was named."""
    sent_on = "select *, evidence->>'to' as named from v_noted where finding = 'lookup_redirect'"
    for row in capture.rows(together(sent_on, ["protocol", "server", "named"])):
        yield Ruling(
            "lookups_redirected",
            f"Broker {row['server']} sent {say.counted(row['count'], 'lookup')} of {say.clients(row['clients'])} on to "
            f"{say.broker(row['named'])}.",
            row,
        )
