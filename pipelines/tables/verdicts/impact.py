"""What became of the work: the rows of the table `impacts`, each of exactly one verdict.

A verdict above a note says what it did to somebody's work (`harm` of its kind). Where a check knows the pieces of work
themselves (a batch, the position of a group, a transaction), it gives their rows; of other verdicts, the rows that they
count are put together by whom they concern: client, broker, topic and group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pipelines.tables.verdicts import IMPACT_SCHEMA
from pipelines.tables.verdicts.say import moment

Row = dict[str, Any]

SEEN, AT_LEAST, CANNOT_TELL = "seen", "at least", "cannot tell"
"""Values of `certainty`."""

_EMPTY: Row = dict.fromkeys(IMPACT_SCHEMA.names)


def impact(what: str, row: Row, **more: Any) -> Row:
    """One row. row: values by the names of columns, others are left out; more: values that replace them."""
    known = {name: value for name, value in (row | more).items() if name in _EMPTY}
    return {**_EMPTY, "what": what, "certainty": SEEN, **known}


def of_counted(what: str, rows: Row) -> list[Row]:
    """The impacts of a verdict whose check named none, one for each client, broker, topic and group that it counts.

    rows: what `together` gave. Of a verdict that counts more rows than its evidence names, they are "at least".
    """
    of_subject: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for place in rows["evidence"]:
        of_subject[place["client"], place["server"], place["topic"], place["group"]].append(place)
    certainty = SEEN if len(rows["evidence"]) == rows["count"] else AT_LEAST
    impacts = []
    for (client, server, topic, group), places in of_subject.items():
        ip, _, name = (client or "").partition(" ")
        impacts.append(
            impact(
                what,
                {
                    "protocol": rows["protocol"], "client_ip": ip or None, "client_id": name or None, "server": server,
                    "topic": topic, "group": group, "from": _at(min, places, "from_us"),
                    "until": _at(max, places, "until_us"), "time_ns": waited_ns(places), "certainty": certainty,
                    "evidence": places,
                },
            )
        )  # fmt: skip
    return impacts


def waited_ns(places: Sequence[Row]) -> int:
    """How long somebody waited: the union of the times from `from_us` to `until_us`, in ns."""
    spans = sorted(span for p in places if None not in (span := (p["from_us"], p["until_us"])))
    total, reached = 0, 0
    for begin, end in spans:
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total * 1000


def _at(which: Callable[..., int | None], places: Sequence[Row], column: str) -> datetime | None:
    """The first or the last of some times, in µs; None where none is known."""
    us = which((place[column] for place in places if place[column] is not None), default=None)
    return None if us is None else moment(us)
