"""Columns of a verdict as people read them: the same words in text and on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.formats import cells, units
from pipelines.formats.plain import cut
from pipelines.formats.who import LONGEST_ID, clients

Row = Mapping[str, Any]
NAMED = 3  # brokers that are named before they are counted
_ONE = {"exchanges": "exchange", "batches": "batch", "connections": "connection", "findings": "finding"}
_SECOND = 1_000_000_000


def who(verdict: Row) -> str:
    """Whom it concerns: clients, else brokers."""
    return clients(verdict) or _listed(verdict["servers"], "broker")


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


def counted(verdict: Row) -> str:
    """What the verdict counts: `34 exchanges`, `1 batch`."""
    return units.counted(verdict["count"], _ONE.get(verdict["counted"] or "", "row"))


def where(verdict: Row) -> str:
    """What it counts, and the first packet of it: `34 exchanges from a.pcap:17`."""
    first = next((cells.where(row["file"], row["packet"]) for row in verdict["evidence"] if row["packet"]), "")
    return f"{counted(verdict)} from {first}" if first else counted(verdict)


def _listed(names: Sequence[str], noun: str) -> str:
    return (
        ", ".join(cut(name, LONGEST_ID) for name in names) if len(names) <= NAMED else units.counted(len(names), noun)
    )
