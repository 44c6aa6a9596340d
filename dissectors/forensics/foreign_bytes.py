"""Bytes that belong to another packet: a stretch of the unit that the capture shows elsewhere too.

A network card, a driver or a buffer that is used twice puts bytes of one segment into another. Message data repeat
themselves as it is, so a stretch counts only if it is long and varied, begins or ends where a packet or the covered
bytes do, and does not lie in its packet as it would in a batch of its own. Nothing proves what the bytes were; a
witness may (truth.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dissectors.checksum.diagnosis import OTHER_SEGMENT, Diagnosis, Flip
from dissectors.forensics.packets import Carriers, Segment
from dissectors.records import PACKET_MASK
from dissectors.rows.sink import Suspect

LEAST = 48  # bytes of a stretch
VARIED = 12  # different bytes in it
_SHINGLE = 16  # bytes that are looked up
_BEFORE = 6  # bytes from the covered ones back to what marks a batch: the magic, in front of a checksum of 4 bytes
_LISTED = 64  # bytes listed one by one


class Stretch(NamedTuple):
    """Bytes [start, end) of the unit that are those of a packet, from byte `at` of its payload on."""

    start: int
    end: int
    packet_ref: int
    at: int


def recognise(diagnosis: Diagnosis, suspect: Suspect, carriers: Carriers, segments: Sequence[Segment]) -> Diagnosis:
    """The diagnosis, or a better one where nothing else was found and a stretch lies elsewhere too."""
    found = _longest(suspect, carriers, segments)
    if found is None:
        return diagnosis
    size = found.end - found.start
    note = (
        f"The {size} bytes at {found.start} are those of packet {found.packet_ref & PACKET_MASK}, "
        f"from byte {found.at} of its payload on; what they were is not known"
    )
    base = suspect.covered[0][0]
    shown = range(found.start, min(found.end, found.start + _LISTED))
    flips = tuple(Flip(at - base, None, suspect.unit[at], None) for at in shown)
    return replace(diagnosis, pattern=OTHER_SEGMENT, flips=flips, verified=False, candidates=1, note=note)


def _longest(suspect: Suspect, carriers: Carriers, segments: Sequence[Segment]) -> Stretch | None:
    if len(suspect.covered) != 1 or not carriers.neighbours:
        return None
    first, last = suspect.covered[0]
    known: dict[bytes, tuple[int, int]] = {}
    for index, (_, payload) in enumerate(carriers.neighbours):
        for at in range(len(payload) - _SHINGLE + 1):
            known.setdefault(payload[at : at + _SHINGLE], (index, at))
    edges = {first, last, *(s.start for s in segments), *(s.end for s in segments)}
    best: Stretch | None = None
    at = first
    while at + _SHINGLE <= last:
        hit = known.get(suspect.unit[at : at + _SHINGLE])
        if hit is None:
            at += 1
            continue
        packet_ref, payload = carriers.neighbours[hit[0]]
        end, there = at, hit[1]
        while end < last and there < len(payload) and suspect.unit[end] == payload[there]:
            end, there = end + 1, there + 1
        size = end - at
        at_an_edge = (at in edges or end in edges) and not _alike(suspect.unit, first, payload, hit[1] - (at - first))
        varied = len(set(suspect.unit[at:end])) >= VARIED
        if LEAST <= size < last - first and at_an_edge and varied and (best is None or size > best.end - best.start):
            best = Stretch(at, end, packet_ref, hit[1])
        at = end
    return best


def _alike(unit: bytes, first: int, payload: bytes, at: int) -> bool:
    """Whether a batch begins there too, so that equal bytes are in equal places: by what is before the checksum."""
    return at >= _BEFORE and payload[at - _BEFORE : at - 4] == unit[first - _BEFORE : first - 4]


__all__ = ["Stretch", "recognise"]
