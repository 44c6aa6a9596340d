"""Words of sentences: numbers with their nouns, and names, of which there may be several."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from textwrap import shorten
from typing import Any

from pipelines.formats import units, who
from pipelines.sql import database

FEW = 2  # names that a sentence gives before it counts
_EXCEPTION = re.compile(r"\b(?:\w+\.){2,}[\w$]+: ")


def client(address_and_id: str) -> str:
    """One client: `10.0.0.2 nw-k-p` -> `nw-k-p on 10.0.0.2`."""
    return clients(who.of([address_and_id]))


def clients(row: Mapping[str, Any]) -> str:
    """Whom a row of `together`, or of the table `verdicts`, concerns: `nw-k-p on 10.0.0.2`, `16 client ids on 9 hosts`.

    One id is one client wherever it is used; a client that gives itself no id is its address.
    """
    return who.clients(row) or "a client"


def verb(row: Mapping[str, Any], one: str, more: str) -> str:
    """The verb of `clients`: `has` of one, `have` of several."""
    return one if who.is_one(row) else more


def listed(names: Sequence[str], noun: str) -> str:
    """`A`, `A and B`, `3 topics`."""
    return " and ".join(names) if len(names) <= FEW else units.counted(len(names), noun)


def apis(names: Sequence[str | None]) -> str:
    """`Produce`, `Produce and Fetch`, `3 APIs`, `Requests of an unknown API`."""
    known = [name for name in names if name]
    return listed(known, "API") if known else "Requests of an unknown API"


def named(names: Sequence[str], noun: str) -> str:
    """`topic A`, `topics A and B`, `3 topics`; nothing of none."""
    names = [topic(name) for name in names] if noun == "topic" else names
    if not names:
        return ""
    return (
        f"{noun if len(names) == 1 else noun + 's'} {listed(names, noun)}" if len(names) <= FEW else listed(names, noun)
    )


def counted(number: int, noun: str, verb: str = "", verbs: str = "") -> str:
    """`1 request was`, `12 requests were`: with a verb for one and for more."""
    said = verb if number == 1 else verbs
    return f"{units.counted(number, noun)}{said and ' ' + said}"


def times(number: int) -> str:
    """`once`, `twice`, `7 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{units.count(number)} times")


def number(value: int) -> str:
    """`10,490`."""
    return units.count(value)


def span(ns: float) -> str:
    """`8.30 s`."""
    return units.duration(ns)


def most(number: int, ns: float) -> str:
    """The longest of so many: `206 ms` of one, `up to 206 ms` of more."""
    return span(ns) if number == 1 else f"up to {span(ns)}"


def share(part: float, whole: float) -> str:
    """`12 %`."""
    return units.share(part / whole)


def moment(us: int) -> datetime:
    """Microseconds since the epoch as a time."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def clock(us: int) -> str:
    """`23:31:04`, UTC."""
    return f"{moment(us):%H:%M:%S}"


def micros(time: datetime) -> int:
    """A time as microseconds since the epoch."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def literal(value: str | None) -> str:
    """A text as SQL has it."""
    return "null" if value is None else database.literal(value)


def topic(name: str) -> str:
    """Pulsar's topics without `persistent://`."""
    return name.removeprefix("persistent://")


def broker(url: str | None) -> str:
    """`pulsar://10.0.0.1:6650` -> `10.0.0.1:6650`."""
    return "another broker" if url is None else url.partition("://")[2] or url


def place(file: str | None, packet: int | None) -> str:
    """`packet 12 of a.pcap`."""
    return f"packet {packet} of {(file or '').rpartition('/')[2]}"


def joined(texts: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def words(message: str) -> str:
    """What a broker said with an error, without the names of Java's exceptions, as far as a sentence has room."""
    first = message.partition("\n")[0].partition(" caused by ")[0]
    return shorten(_EXCEPTION.sub("", first).rstrip(".: "), 120, placeholder=" …")
