"""One Case a bad checksum: the row, the diagnosis, the places in packets, the verdict on who broke it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dissectors.checksum import XXH3
from dissectors.checksum.diagnosis import SINGLE_BIT, STORED, UNKNOWN, Diagnosis, Flip
from dissectors.checksum.linear import POLYNOMIALS
from dissectors.checksum.locate import CERTAIN, locate
from dissectors.checksum.otherwise import otherwise
from dissectors.forensics import foreign_bytes, reference_bytes, units
from dissectors.forensics.attribution import Attribution, Evidence, attribute
from dissectors.forensics.burst_narrowing import narrow
from dissectors.forensics.inner import InnerChecksum, inner
from dissectors.forensics.message import elsewhere as same_message
from dissectors.forensics.packet_checksums import WRONG, judge
from dissectors.forensics.packets import Carriers, Segment
from dissectors.records import PACKET_MASK, PACKET_SHIFT
from dissectors.rows.sink import Suspect

AROUND = 8  # bytes shown before and after what broke
EXCERPT = 20  # bytes of what broke that are shown


@dataclass(frozen=True, slots=True)
class Location:
    """A broken bit or byte, with the way to it."""

    file: str
    packet: int
    packet_offset: int | None  # in the captured packet, from 0; None under TLS and in joined fragments
    stream_offset: int
    bit: int | None
    was: int
    should_be: int | None
    field: str | None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The bytes around what broke."""

    stream_offset: int
    captured: bytes
    corrected: bytes | None


@dataclass(frozen=True, slots=True)
class Carried:
    """A packet that carried bytes of the batch, and what its own checksums say."""

    file: str
    packet: int
    ipv4: str | None  # right, wrong or zero; None for IPv6
    tcp: str  # right, wrong, zero or partial (both: left to the network card), unverifiable
    taken: bool  # its bytes count; else it is another copy


@dataclass
class Case:
    """One bad checksum."""

    row: Mapping[str, Any]  # of `batches`
    suspect: Suspect | None = None  # None where limits kept it from being looked into
    diagnosis: Diagnosis = field(
        default_factory=lambda: Diagnosis(UNKNOWN, note="Not looked into: a limit was reached")
    )
    locations: list[Location] = field(default_factory=list)
    attribution: Attribution = field(default_factory=Attribution)
    related: list[dict[str, Any]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    corrected: bytes | None = None  # the unit, where the correction is known
    excerpt: Excerpt | None = None
    inner: InnerChecksum = field(default_factory=lambda: InnerChecksum([], []))
    packets: list[Carried] = field(default_factory=list)
    alternatives: list[tuple[float, list[Location]]] = field(default_factory=list)  # the likelihood of each


def examine(
    row: Mapping[str, Any],
    suspect: Suspect,
    carriers: Carriers,
    related: Sequence[dict[str, Any]],
    files: Sequence[str],
) -> Case:
    """Look into one bad checksum. `files` in the order that places count them."""
    copies = reference_bytes.copies(suspect, carriers)
    delivered_by = _delivered(suspect, carriers)
    message = same_message(suspect, carriers.seen, files)
    related = [*related, *message.rows]
    diagnosis, at_unit, corrected = _diagnose(suspect, carriers, copies, delivered_by, message.right)
    flips = list(zip(at_unit, diagnosis.flips, strict=True))
    located = diagnosis.verified and diagnosis.candidates <= 1 and bool(flips)
    parts = units.fields(suspect, corrected or suspect.unit)
    choice = diagnosis.verified and not located  # one of several places: no packet can be named
    taken = {
        s.packet_ref: s for at in _carried(suspect, [] if choice else at_unit) if (s := carriers.delivered(suspect, at))
    }
    within = inner(suspect, corrected)
    evidence = Evidence(
        encrypted=suspect.base is None,
        located=located,
        carried=list(taken.values()),
        mended=_mended(taken.values(), suspect, corrected) if located and corrected else {},
        carriers=carriers,
        copies=copies,
        protocol=row["protocol"],
        role=row["role"],
        outcome=row["outcome"],
        sightings=[r for r in related if "verdict" in r],
        reactions=[r for r in related if "name" in r],
        names={s.packet_ref: f"packet {s.packet_ref & PACKET_MASK}" for s in carriers.segments},
        inner=within.reasons(),
    )

    def locations(placed: Iterable[tuple[int, Flip]]) -> list[Location]:
        return [_location(suspect, carriers, files, at, flip, units.field_at(parts, at)) for at, flip in placed]

    return Case(
        row,
        suspect,
        diagnosis,
        locations(flips),
        attribute(evidence),
        list(related),
        carriers.segments,
        corrected,
        _excerpt(suspect, at_unit, corrected),
        within,
        [_carried_by(segment, files, segment in delivered_by) for segment in carriers.segments],
        [
            (other.share, locations((_in_unit(suspect, flip), flip) for flip in other.flips))
            for other in diagnosis.alternatives
        ],
    )


def _diagnose(
    suspect: Suspect,
    carriers: Carriers,
    copies: Sequence[reference_bytes.Copy],
    delivered_by: Sequence[Segment],
    message: bytes | None,
) -> tuple[Diagnosis, list[int], bytes | None]:
    """What broke, the index in the unit of each flip, and the corrected unit where there is one answer."""
    right, source = next((copy.unit for copy in copies if copy.fits), None), "a copy of the packet"
    if right is None:
        right, source = reference_bytes.witnessed(suspect, carriers), "the same batch elsewhere"
    if right is None:
        right, source = message, "the same message elsewhere"
    if right is not None and suspect.kind not in POLYNOMIALS:  # nothing to be computed from the checksum
        return (*reference_bytes.compared(suspect, right, carriers, source), right)
    other = otherwise(
        suspect.kind,
        suspect.unit,
        suspect.covered,
        (suspect.checksum_at, suspect.checksum_at + suspect.checksum_bytes),
        suspect.stored,
        suspect.computed,
    )
    if other is not None:
        return other, [_in_unit(suspect, flip) for flip in other.flips], _corrected(suspect, other)
    data = b"".join(suspect.unit[a:b] for a, b in suspect.covered)
    is_valid = units.validity(suspect)
    diagnosis = locate(
        suspect.kind, data, suspect.stored, suspect.computed, body=units.data_start(suspect), is_valid=is_valid
    )
    certain = diagnosis.pattern in (SINGLE_BIT, STORED) or diagnosis.chance <= CERTAIN
    if right is not None and not (diagnosis.verified and diagnosis.candidates == 1 and diagnosis.flips and certain):
        return (*reference_bytes.compared(suspect, right, carriers, source), right)
    corrected = _corrected(suspect, diagnosis)
    if corrected is None or not _agrees(diagnosis, delivered_by, suspect, corrected):
        diagnosis = narrow(diagnosis, suspect, delivered_by, is_valid)
        corrected = _corrected(suspect, diagnosis)
    if diagnosis.pattern == UNKNOWN:
        diagnosis = foreign_bytes.recognise(diagnosis, suspect, carriers, delivered_by)
    return diagnosis, [_in_unit(suspect, flip) for flip in diagnosis.flips], corrected


def _carried_by(segment: Segment, files: Sequence[str], taken: bool) -> Carried:
    packet_ref, sums = segment.packet_ref, segment.sums
    return Carried(files[packet_ref >> PACKET_SHIFT], packet_ref & PACKET_MASK, sums.ip, sums.tcp, taken)


def _excerpt(suspect: Suspect, at_unit: Sequence[int], corrected: bytes | None) -> Excerpt | None:
    """What broke, with a few bytes before and after it."""
    if not at_unit:
        return None
    start = max(0, at_unit[0] - AROUND)
    end = min(len(suspect.unit), max(at for at in at_unit if at < at_unit[0] + EXCERPT) + AROUND + 1)
    right = None if corrected is None else corrected[start:end]
    return Excerpt(suspect.offset + start, suspect.unit[start:end], right)


def _delivered(suspect: Suspect, carriers: Carriers) -> list[Segment]:
    """The packets whose bytes were taken."""
    taken = {packet_ref for _, packet_ref, _ in suspect.pieces}
    return [segment for segment in carriers.segments if segment.packet_ref in taken]


def _location(
    suspect: Suspect, carriers: Carriers, files: Sequence[str], at: int, flip: Flip, field_name: str | None
) -> Location:
    segment = carriers.delivered(suspect, at)
    packet_ref = max((p for p in suspect.pieces if p[0] <= suspect.offset + at), default=suspect.pieces[0])[1]
    offset = None
    if segment is not None and segment.payload_at is not None and suspect.base is not None:
        offset = segment.payload_at + at - segment.start
    file = files[packet_ref >> PACKET_SHIFT]
    return Location(
        file, packet_ref & PACKET_MASK, offset, suspect.offset + at, flip.bit, flip.was, flip.should_be, field_name
    )


def _in_unit(suspect: Suspect, flip: Flip) -> int:
    """Index in the unit of a byte that the diagnosis names."""
    if flip.stored:
        width = 8 if suspect.kind == XXH3 or suspect.stored >> 32 else 4
        weight = width - 1 - flip.at
        shift = weight if suspect.byteorder == "little" else suspect.checksum_bytes - 1 - weight
        return suspect.checksum_at + shift
    at = flip.at
    for start, end in suspect.covered:
        if at < end - start:
            return start + at
        at -= end - start
    return suspect.covered[-1][1] - 1


def _corrected(suspect: Suspect, diagnosis: Diagnosis) -> bytes | None:
    """The unit with its corrections; None where not all are known, or one of several is to be chosen."""
    if not diagnosis.verified or diagnosis.candidates > 1:
        return None
    unit = bytearray(suspect.unit)
    if diagnosis.right is not None:
        at = 0
        for start, end in suspect.covered:
            unit[start:end] = diagnosis.right[at : at + end - start]
            at += end - start
    else:
        for flip in diagnosis.flips:
            if flip.should_be is None:
                return None
            unit[_in_unit(suspect, flip)] = flip.should_be
    return bytes(unit) if reference_bytes.verifies(suspect, bytes(unit)) else None


def _carried(suspect: Suspect, flips: Sequence[int]) -> Sequence[int]:
    """Indices whose packets decide: the broken bytes, or one byte of every piece where these are not known."""
    if flips:
        return flips
    first = min(suspect.checksum_at, suspect.covered[0][0])
    pieces = [max(first, offset - suspect.offset) for offset, _, _ in suspect.pieces]
    return [at for at in dict.fromkeys(pieces) if at < suspect.covered[-1][1]]


def _agrees(diagnosis: Diagnosis, segments: Sequence[Segment], suspect: Suspect, corrected: bytes) -> bool:
    """Whether the TCP sums have nothing against this correction, or it is too simple to be doubted."""
    wrong = [segment for segment in segments if segment.sums.tcp == WRONG]
    return diagnosis.chance <= CERTAIN or WRONG not in _mended(wrong, suspect, corrected).values()


def _mended(segments: Iterable[Segment], suspect: Suspect, corrected: bytes) -> dict[int, str]:
    """TCP verdicts of the packets with the corrected bytes in them."""
    out = {}
    for segment in segments:
        if segment.payload_at is None:
            continue
        packet = bytearray(segment.packet)
        start, end = max(0, segment.start), min(len(corrected), segment.end)
        at = segment.payload_at + start - segment.start
        packet[at : at + end - start] = corrected[start:end]
        out[segment.packet_ref] = judge(bytes(packet), segment.where).tcp
    return out
