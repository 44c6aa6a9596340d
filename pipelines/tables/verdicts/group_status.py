"""Groups whose members are told that they cannot work, in a status that is no error (Kafka Streams, KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Ruling, together

_TOLD = "select * from v_noted where event = 'status'"


@needs(SomeRows("events", "kind = 'status'"))
def group_not_ready(capture: Capture) -> Iterator[Ruling]:
    """By group and status."""
    for row in capture.rows(together(_TOLD, ["protocol", '"group"', "text"])):
        members = say.clients(row["clients"])
        yield Ruling(
            "group_not_ready",
            f"Group {row['group']} does not work: its broker tells {members} {row['text'].rstrip('.')}.",
            row,
        )
