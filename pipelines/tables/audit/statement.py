"""One thing that `audit` says, and what looks for such things are given and give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from pipelines.formats import units
from pipelines.sql.database import Row

LOST, DELIVERED, SKIPPED, UNKNOWN = "lost", "delivered", "skipped", "cannot tell"
DROPPED = "fetched again"
DOUBLED, TWICE, DISORDER, UNCONFIRMED, HELD = "doubled", "sent twice", "out of order", "unconfirmed", "held"
ORDER = (LOST, UNKNOWN, SKIPPED, DOUBLED, TWICE, DISORDER, HELD, UNCONFIRMED, DROPPED, DELIVERED)
"""What statements are about, in the order in which they are shown."""

OWN_DOING, DOUBTFUL = "its own doing", "doubtful"
"""Why something may be no harm: the reader chose it, by a seek or by what it left unacknowledged; somebody else chose
it for the reader, or nothing may have been lost."""

PLACE = "protocol, topic, partition"
OWNER = f"{PLACE}, owner"
HAS_HOLE = "coalesce(gap_bytes, 0) + coalesce(cut_bytes, 0) + coalesce(gaps, 0) > 0"
"""Whether bytes of a connection are missing."""


class Statement(NamedTuple):
    """One thing that records prove, or cannot tell."""

    what: str
    protocol: str
    topic: str | None
    group: str | None
    messages: int | None  # that it is about
    sentence: str
    rests_on: str
    excuse: str | None = None  # OWN_DOING or DOUBTFUL; None where nothing excuses it
    partition: int | None = None  # the only one that it is about
    offsets: str | None = None  # `4, 5 and 9`, `539 to 985`
    client: str | None = None  # `address name`, where it is about one
    transaction: str | None = None
    time: datetime | None = None  # since when
    until: datetime | None = None
    time_ns: int | None = None  # how long somebody waited
    file: str | None = None  # where the first of what it is about lies
    packet: int | None = None


Ask = Callable[[str], list[Row]]
"""Runs a query over the records and over the relations of the modules here."""

Look = Callable[[Ask], Iterator[Statement]]


def statement(
    what: str, row: Row, sentence: str, rests_on: str, messages: Any = None, excuse: str | None = None
) -> Statement:
    """A statement about a row with protocol, topic, owner and, where there is one, file and packet.

    messages: by default those of the row; of what cannot be told none.
    """
    messages = row.get("messages") if messages is None and what != UNKNOWN else messages
    number = None if messages is None else int(messages)
    more = {name: row[name] for name in _OF_ROW if row.get(name) is not None}
    return Statement(what, row["protocol"], row["topic"], row["owner"], number, sentence, rests_on, excuse, **more)


_OF_ROW = Statement._fields[Statement._fields.index("partition") :]
NAMED = 3  # runs of offsets that a sentence names


def offsets_of(runs: list[list[int]]) -> str:
    """Offsets as people say them: `4, 5 and 9`, `539 to 985`. runs: first and last of each batch."""
    joined: list[list[int]] = []
    for first, last in sorted(runs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(last, joined[-1][1])
        else:
            joined.append([first, last])
    said = [str(first) if first == last else f"{first} to {last}" for first, last in joined[:NAMED]]
    if len(joined) > NAMED:
        said.append(f"{units.count(sum(last - first + 1 for first, last in joined[NAMED:]))} more")
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1])))


def at_offsets(offsets: str) -> str:
    """`offset 4`, `offsets 539 to 985`. offsets: what `offsets_of` gave."""
    return f"offset{'' if offsets.isdigit() else 's'} {offsets}"


def messages_of(messages: Any, batches: int) -> str:
    """`90 messages`; of batches whose messages are not counted `9 batches`."""
    return units.counted(batches, "batch") if messages is None else units.counted(int(messages), "message")


def was(messages: Any) -> str:
    """The verb of so many messages."""
    return "was" if messages == 1 else "were"
