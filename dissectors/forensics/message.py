"""The same message elsewhere, found by its id.

Iggy's servers stamp offset and time into what they are given and compute the checksum anew, so at the next hop neither
a batch nor its checksum is the same. The id of a message is, and so are its payload and its user headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dissectors.checksum.unit_format import Identity
from dissectors.forensics.ids import Sighting
from dissectors.forensics.reference_bytes import verifies
from dissectors.forensics.units import identity
from dissectors.records import PACKET_MASK, PACKET_SHIFT, Conn
from dissectors.rows.sink import Suspect

WHY = "same message id"
LISTED = 20  # sightings of one message
_NEAR = 80  # bytes from the id to the payload at most, in any layout
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Elsewhere:
    """What the other sightings show."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # as the JSON shows them under `related`
    right: bytes | None = None  # the unit with the payload of a sighting, if that fits the checksum


def elsewhere(suspect: Suspect, seen: Sequence[Sighting], files: Sequence[str]) -> Elsewhere:
    """Compare the other sightings of the message with it. `files` in the order that places count them."""
    out = Elsewhere()
    mine = identity(suspect)
    if mine is None:
        return out
    for one in sorted(seen, key=lambda s: (s.time, s.packet_ref)):
        at = one.stream.find(mine.id)
        right = _right(suspect, mine, one.stream, at)
        out.right = out.right or right
        there = at + mine.start - mine.at
        same = one.stream[there : there + mine.end - mine.start] == suspect.unit[mine.start : mine.end]
        if (right is not None or same) and len(out.rows) < LISTED:  # else it may be another message, or no id at all
            out.rows.append(_row(suspect, one, files, "ok" if right is not None else None, same))
    return out


def _right(suspect: Suspect, mine: Identity, stream: bytes, at: int) -> bytes | None:
    """The unit with the payload that stands behind the id there, if it fits. What is sent may lie otherwise."""
    size = mine.end - mine.start
    for distance in dict.fromkeys((mine.start - mine.at, *range(len(mine.id), _NEAR))):
        body = stream[at + distance : at + distance + size]
        unit = suspect.unit[: mine.start] + body + suspect.unit[mine.end :]
        if len(body) == size and verifies(suspect, unit):
            return unit
    return None


def _row(suspect: Suspect, one: Sighting, files: Sequence[str], verdict: str | None, same: bool) -> dict[str, Any]:
    produced = one.target[1] == suspect.conn.server_port
    client, server = (one.source, one.target) if produced else (one.target, one.source)
    conn = Conn(suspect.conn.site, *client, *server, 0, suspect.conn.protocol)
    return {
        "role": "produce" if produced else "consume",
        "topic": None,
        "partition": None,
        "position": None,
        "verdict": verdict,
        "outcome": None,
        "site": conn.site,
        "connection": conn.connection,
        "incarnation": None,
        "time": _EPOCH + timedelta(microseconds=one.time // 1000),
        "file": files[one.packet_ref >> PACKET_SHIFT],
        "packet": one.packet_ref & PACKET_MASK,
        "why": WHY,
        "same_bytes": same,
    }
