"""Messages that consumers of share groups did not accept."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeFinding, needs
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.verdict import Ruling, together

_SUMS = """
    saturated(sum(whole(evidence->>'released'))) as released,
    saturated(sum(whole(evidence->>'rejected'))) as rejected"""


@needs(SomeFinding("not_accepted"))
def share_group(capture: Capture) -> Iterator[Ruling]:
    """Of each share group, what its members released for another delivery, and what they rejected for good."""
    refused = "select * from v_noted where finding = 'not_accepted' and api in ('ShareFetch', 'ShareAcknowledge')"
    for row in capture.rows(together(refused, ["protocol", '"group"'], _SUMS)):
        group = row["group"]
        (fetched,) = capture.rows(f"""
            select saturated(sum(records)) as records from exchanges
            where api = 'ShareFetch' and "group" is not distinct from {say.literal(group)}""")
        yield Ruling(
            "share_group",
            f"Share group {group} released {say.counted(row['released'], 'message')} for another delivery and rejected "
            f"{row['rejected']} for good, of {units.count(fetched['records'])} delivered.",
            row,
            severity=WARNING if row["rejected"] else NOTE,
        )
