"""One thing that `audit` says, and what looks for such things are given and give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pipelines.answers.records import Row
from pipelines.formats import units

LOST, DELIVERED, SKIPPED, UNKNOWN = "lost", "delivered", "skipped", "cannot tell"
DOUBLED, TWICE, DISORDER, UNCONFIRMED, HELD = "doubled", "sent twice", "out of order", "unconfirmed", "held"
ORDER = (LOST, UNKNOWN, SKIPPED, DOUBLED, TWICE, DISORDER, HELD, UNCONFIRMED, DELIVERED)
"""What statements are about, in the order in which they are shown."""

PLACE = "protocol, topic, partition"
OWNER = f"{PLACE}, owner"


class Statement(NamedTuple):
    """One thing that records prove, or cannot tell."""

    what: str
    protocol: str
    topic: str | None
    group: str | None
    messages: int | None  # that it is about
    sentence: str
    rests_on: str
    file: str | None = None  # where the first of what it is about lies
    packet: int | None = None


Ask = Callable[[str], list[Row]]
"""Runs a query over the records and over the relations of the modules here."""

Look = Callable[[Ask], Iterator[Statement]]


def statement(what: str, row: Row, sentence: str, rests_on: str, messages: Any = None) -> Statement:
    """A statement about a row with protocol, topic, owner and, where there is one, file and packet."""
    number = None if messages is None else int(messages)
    place = (row.get("file"), row.get("packet"))
    return Statement(what, row["protocol"], row["topic"], row["owner"], number, sentence, rests_on, *place)


def messages_of(messages: Any, batches: int) -> str:
    """`90 messages`; of batches whose messages are not counted `9 batches`."""
    return units.counted(batches, "batch") if messages is None else units.counted(int(messages), "message")
