"""Columns of a verdict as people read them: the same words in text and on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.formats import cells, units
from pipelines.formats.plain import cut

Row = Mapping[str, Any]
NAMED = 3  # clients that are named before they are counted
LONGEST_NAME = 250  # characters of one of them: names may have 64 KiB
_SECOND = 1_000_000_000


def who(verdict: Row) -> str:
    """Whom it concerns: clients, else brokers."""
    clients = sorted({name.partition(" ")[2] or name for name in verdict["clients"]})
    return _listed(clients, "client") or _listed(verdict["servers"], "broker")


def when(verdict: Row) -> str:
    """`23:31:04.730 for 8.30 s`; without a length where it is none."""
    first, last = verdict["first_time"], verdict["last_time"]
    if first is None:
        return ""
    ns = 0 if last is None else round((last - first).total_seconds() * _SECOND)
    return f"{first:%H:%M:%S.%f}"[:-3] + (f" for {units.duration(ns)}" if ns > 0 else "")


def cost(verdict: Row) -> str:
    """`12.3 s in all`, where it took time."""
    return f"{units.duration(verdict['cost_ns'])} in all" if verdict["cost_ns"] else ""


def where(verdict: Row) -> str:
    """The first packet of the evidence, and how many rows there are: `a.pcap:17 and 33 more`."""
    places = [cells.where(row["file"], row["packet"]) for row in verdict["evidence"][:1] if row["packet"] is not None]
    rest = verdict["count"] - 1
    return "".join(f"{place}{f' and {units.count(rest)} more' if rest > 0 else ''}" for place in places if place)


def _listed(names: Sequence[str], noun: str) -> str:
    return (
        ", ".join(cut(name, LONGEST_NAME) for name in names) if len(names) <= NAMED else units.counted(len(names), noun)
    )
