"""Messages that consumers of share groups did not accept."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.verdict import Ruling, together

_SUMS = """
    saturated(sum(released)) as released, saturated(sum(rejected)) as rejected"""
# requests that release or reject messages, each with how many
_REFUSED = """
    select c.*, released, rejected from v_calls c join (
        select site, exchange_id, sum(number) filter (kind = 'released') as released,
            sum(number) filter (kind = 'rejected') as rejected
        from events where kind in ('released', 'rejected') group by all) using (site, exchange_id)"""


@needs(SomeRows("events", "kind in ('released', 'rejected')"))
def share_group(capture: Capture) -> Iterator[Ruling]:
    """Of each share group, what its members released for another delivery, and what they rejected for good."""
    for row in capture.rows(together(_REFUSED, ["protocol", '"group"'], _SUMS)):
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
