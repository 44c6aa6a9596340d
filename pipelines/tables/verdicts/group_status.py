"""Groups whose members are told that they cannot work, in a status that is no error (Kafka Streams, KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.verdict import Ruling, together

_BY = ("protocol", '"group"', "text", "passed")
_USUAL = "ASSIGNMENT_DELAYED"  # how a group begins
# what members are told, and when one of their group heard that this is over
_TOLD = f"""
    select t.*, (
            select min(w.time) from v_noted w
            where w.event = 'status' and w.text is null and w."group" = t."group" and w.time > t.time
        ) as over
    from v_noted t where event = 'status' and text is not null and not starts_with(text, '{_USUAL}')"""


@needs(SomeRows("events", "kind = 'status'"))
def group_not_ready(capture: Capture) -> Iterator[Ruling]:
    """By group and status; one that passed is a note."""
    more = "max(epoch_us(over) - epoch_us(time)) as over_us"
    for row in capture.rows(together(f"select *, over is not null as passed from ({_TOLD})", _BY, more)):
        members, status = say.clients(row), row["text"].rstrip(".")
        if row["passed"]:
            lasted = say.span(row["over_us"] * 1000)
            text = f"Group {row['group']} did not work for {lasted}: its broker told {members} {status}."
            yield Ruling("group_not_ready", text, row, severity=NOTE, advice="Nothing: it works again.")
        else:
            text = f"Group {row['group']} does not work: its broker tells {members} {status}."
            yield Ruling("group_not_ready", text, row)
