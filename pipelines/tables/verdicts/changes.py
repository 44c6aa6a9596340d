"""What somebody changed before something failed: a cause that the errors themselves do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.verdict import Ruling, sql_list

_NAMES = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "TopicNotFound", "TopicIdNotFound", "TopicNameNotFound")
"""Names of errors by which a broker says that a topic is not there."""


def with_deletion(capture: Capture, ruling: Ruling, row: dict[str, Any]) -> Ruling:
    """A verdict `errors`, with who deleted its topic before, where that is what the error says and was captured."""
    if row["cause"] not in _NAMES or not row["topics"] or not capture.may_have("events"):
        return ruling
    cause = deletion_of(capture, row["topics"], row["last_time"])
    if cause is None:
        return ruling
    return Ruling(
        ruling.kind,
        ruling.sentence,
        ruling.rows,
        " ".join(filter(None, (cause, ruling.detail))),
        ruling.severity,
        ruling.advice,
        ruling.chain,
    )


def deletion_of(capture: Capture, topics: Sequence[str], until: datetime) -> str | None:
    """A sentence that says who deleted one of these topics last, before a time; None where nobody did."""
    found = capture.rows(f"""
        select topic, client, time, file, packet from v_noted
        where event = 'deleted' and number = 0 and topic in {sql_list(topics)}
            and epoch_us(time) <= {say.micros(until)}
        order by time desc limit 1""")
    if not found:
        return None
    (one,) = found
    return (
        f"{say.client(one['client'])} deleted topic {say.topic(one['topic'])} before, "
        f"{say.place(one['file'], one['packet'])}."
    )
