"""One Case a bad checksum: the row, the diagnosis, the places in packets, the verdict on who broke it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dissectors.checksum import XXH3, compute, shown
from dissectors.checksum.diagnosis import UNKNOWN, Diagnosis, Flip
from dissectors.checksum.locate import CERTAIN, locate
from dissectors.engine import Run
from dissectors.forensics import fields
from dissectors.forensics.attribution import Attribution, Copy, Evidence, attribute
from dissectors.forensics.narrow import narrow
from dissectors.forensics.oddities import oddities
from dissectors.forensics.packets import Carriers, Segment, gather
from dissectors.forensics.sums import WRONG, judge
from dissectors.options import Options
from dissectors.records import PLACE_MASK, PLACE_SHIFT
from dissectors.sink import Suspect
from dissectors.tcp.chunk import CLIENT

OVERWRITTEN = "overwritten"  # a copy of the packet shows other bytes, in no pattern
RELATED = 20  # sightings told of one batch
SIGHTINGS = 2_000_000  # rows of `batches` remembered to find them in
TROUBLES = 1000  # findings remembered

_KEYS = ("site", "connection", "incarnation", "stream_offset")
_SIGHTING = (
    *_KEYS, "role", "format", "topic", "partition", "base_offset", "position", "producer", "producer_epoch",
    "base_sequence", "checksum_stored", "verdict", "outcome", "correlation_id", "time", "file", "packet",
)  # fmt: skip
_REACTION = re.compile("corrupt|checksum|crc", re.I)
_NOT_CHECKSUMS = ("bad_checksum", "gap", "resync")  # findings that are told elsewhere


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


class Investigation:
    """All checksums of a set of captures.

    `run` reads everything once and counts verdicts; `cases` looks into the bad ones, which reads the files of their
    capture points once more.
    """

    def __init__(self, paths: Sequence[str], options: Options, progress: Callable[[int], None] | None = None) -> None:
        self.options = replace(options, tables=("batches", "errors", "findings"))
        self.reader = Run(paths, self.options, progress)
        self.reader.suspects = []
        self.verdicts: Counter[tuple[str, str, str]] = Counter()  # (protocol, kind, verdict)
        self.table: Counter[tuple[str, ...]] = Counter()  # (protocol, topic, client, server, role, verdict)
        self.bad: list[dict[str, Any]] = []
        self.troubles: list[dict[str, Any]] = []
        self._sightings: list[pa.RecordBatch] = []
        self._seen = 0
        self._reactions: list[dict[str, Any]] = []

    def run(self) -> None:
        """The first pass."""
        for table, batch in self.reader.records():
            {"batches": self._batches, "errors": self._errors, "findings": self._findings}[table](batch)

    def _batches(self, batch: pa.RecordBatch) -> None:
        columns = ("protocol", "checksum_kind", "verdict", "topic", "client_ip", "server_ip", "role")
        for protocol, kind, verdict, *rest in zip(*(batch.column(c).to_pylist() for c in columns), strict=True):
            self.verdicts[protocol or "", kind or "none", verdict or "absent"] += 1
            self.table[(protocol or "", *(value or "" for value in rest), verdict or "absent")] += 1
        self.bad += batch.filter(pc.equal(batch.column("verdict"), "bad")).to_pylist()
        if self._seen < SIGHTINGS:
            self._seen += batch.num_rows
            self._sightings.append(batch.select(list(_SIGHTING)))

    def _errors(self, batch: pa.RecordBatch) -> None:
        names = batch.column("name").to_pylist()
        wanted = [i for i, name in enumerate(names) if name and _REACTION.search(name)]
        self._reactions += batch.take(wanted).to_pylist() if wanted else []

    def _findings(self, batch: pa.RecordBatch) -> None:
        severe = pc.is_in(batch.column("severity"), pa.array(["error", "warning"]))
        other = pc.invert(pc.is_in(batch.column("kind"), pa.array(_NOT_CHECKSUMS)))
        rows = batch.filter(pc.and_(severe, other))
        self.troubles += rows.slice(0, TROUBLES - len(self.troubles)).to_pylist()

    def oddities(self) -> Iterator[str]:
        """What does not fit although the checksums are right, a sentence each."""
        for finding in self.troubles:
            place = "" if finding["file"] is None else f" ({finding['file']} packet {finding['packet']})"
            yield f"{finding['kind']}: {finding['message']}{place}"
        if self._sightings:
            yield from oddities(pa.Table.from_batches(self._sightings))

    def cases(self) -> Iterator[Case]:
        """The second pass; in order of time."""
        suspects = list(
            {(id(s.conn), s.direction, s.offset, s.checksum_at): s for s in self.reader.suspects or ()}.values()
        )
        by_key: dict[tuple[Any, ...], list[int]] = {}
        for index, suspect in enumerate(suspects):
            conn = suspect.conn
            key = (conn.site, conn.connection, conn.incarnation, suspect.offset)
            by_key.setdefault(key, []).append(index)
        carriers = gather(self.reader.files, suspects, self.options)
        sightings = pa.Table.from_batches(self._sightings).combine_chunks() if self._sightings and self.bad else None
        for row in sorted(self.bad, key=lambda row: (row["time"] is None, row["time"])):
            mine = [i for i in by_key.get(tuple(row[k] for k in _KEYS), []) if _belongs(suspects[i], row)]
            related = self._related(row, sightings)
            for index in mine:
                yield self._case(row, suspects[index], carriers[index], related)
            if not mine:
                yield Case(row, related=related)

    # --- one case ---

    def _case(
        self, row: Mapping[str, Any], suspect: Suspect, carriers: Carriers, related: list[dict[str, Any]]
    ) -> Case:
        data = b"".join(suspect.unit[a:b] for a, b in suspect.covered)
        diagnosis = locate(suspect.kind, data, suspect.stored, suspect.computed, body=fields.body(suspect))
        copies = _copies(suspect, carriers)
        diagnosis = _by_copy(diagnosis, suspect, copies)
        taken = {place for _, place, _ in suspect.pieces}
        delivered_by = [s for s in carriers.segments if s.place in taken]
        flips = [(_in_unit(suspect, flip), flip) for flip in diagnosis.flips]
        corrected = _corrected(suspect, flips) if diagnosis.verified else None
        if corrected is None or not _agrees(diagnosis, delivered_by, suspect, corrected):
            diagnosis = narrow(diagnosis, suspect, delivered_by)
            flips = [(_in_unit(suspect, flip), flip) for flip in diagnosis.flips]
            corrected = _corrected(suspect, flips) if diagnosis.verified else None
        parts = fields.parts(suspect, corrected or suspect.unit)
        located = diagnosis.verified and diagnosis.candidates <= 1 and bool(flips)
        delivered = {
            s.place: s for at in _carried(suspect, [at for at, _ in flips]) if (s := carriers.delivered(suspect, at))
        }
        evidence = Evidence(
            encrypted=suspect.base is None,
            located=located,
            carried=list(delivered.values()),
            mended=_mended(delivered.values(), suspect, corrected) if located and corrected else {},
            carriers=carriers,
            copies=copies,
            role=row["role"],
            sightings=[r for r in related if "verdict" in r],
            reactions=[r for r in related if "name" in r],
            names={s.place: f"packet {s.place & PLACE_MASK}" for s in carriers.segments},
        )
        return Case(
            row,
            suspect,
            diagnosis,
            [self._location(suspect, carriers, at, flip, fields.name(parts, at)) for at, flip in flips],
            attribute(evidence),
            related,
            carriers.segments,
            corrected,
        )

    def _location(self, suspect: Suspect, carriers: Carriers, at: int, flip: Flip, field_name: str | None) -> Location:
        segment = carriers.delivered(suspect, at)
        place = max((p for p in suspect.pieces if p[0] <= suspect.offset + at), default=suspect.pieces[0])[1]
        offset = None
        if segment is not None and segment.payload_at is not None and suspect.base is not None:
            offset = segment.payload_at + at - segment.start
        file = self.reader.files[place >> PLACE_SHIFT]
        return Location(
            file, place & PLACE_MASK, offset, suspect.offset + at, flip.bit, flip.was, flip.should_be, field_name
        )

    def _related(self, row: Mapping[str, Any], sightings: pa.Table | None) -> list[dict[str, Any]]:
        """Other sightings of the same batch, and what the receiver said of it."""
        found: list[dict[str, Any]] = []
        if sightings is not None:
            for why, keys in _IDENTITIES:
                if any(row[key] is None for key in keys):
                    continue
                hits = sightings.filter(_equal(sightings, row, keys)).slice(0, RELATED).to_pylist()
                found += [{**hit, "why": why} for hit in hits if not _itself(hit, row) and not _told(hit, found)]
        wanted = ("role", "topic", "partition", "position", "verdict", "outcome", "site", "connection", "incarnation")
        out = [{key: hit[key] for key in (*wanted, "time", "file", "packet", "why")} for hit in found[:RELATED]]
        same = ("connection", "incarnation", "correlation_id")
        for error in self._reactions:
            if all(error[key] == row[key] for key in same):
                told = {key: error[key] for key in ("api", "code", "name", "connection", "time", "file", "packet")}
                out.append({**told, "why": "the answer to it"})
        return out


_IDENTITIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("same connection, other capture point", ("connection", "incarnation", "stream_offset", "role")),
    ("same topic and checksum", ("topic", "partition", "checksum_stored")),
    ("same producer and sequence", ("topic", "partition", "producer", "producer_epoch", "base_sequence")),
    ("same position", ("topic", "partition", "position")),
)


def _equal(table: pa.Table, row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    mask = None
    for key in keys:
        column = table.column(key)
        same = pc.equal(column, pa.scalar(row[key], column.type))
        mask = same if mask is None else pc.and_(mask, same)
    return pc.fill_null(mask, False)


def _itself(hit: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(hit[key] == row[key] for key in (*_KEYS, "role"))


def _told(hit: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> bool:
    return any(all(hit[key] == other[key] for key in (*_KEYS, "role")) for other in found)


def _belongs(suspect: Suspect, row: Mapping[str, Any]) -> bool:
    """Both directions of a connection may have a unit at one offset."""
    if row["checksum_stored"] == shown(suspect.kind, suspect.stored):
        return True
    from_client = suspect.direction == CLIENT
    return row["format"] == suspect.format and (row["role"] == "produce") is from_client


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


def _corrected(suspect: Suspect, flips: Sequence[tuple[int, Flip]]) -> bytes | None:
    """The unit with its corrections; None where not all are known."""
    unit = bytearray(suspect.unit)
    for at, flip in flips:
        if flip.should_be is None:
            return None
        unit[at] = flip.should_be
    return bytes(unit) if _verifies(suspect, bytes(unit)) else None


def _verifies(suspect: Suspect, unit: bytes) -> bool:
    at = suspect.checksum_at
    stored = int.from_bytes(unit[at : at + suspect.checksum_bytes], suspect.byteorder)
    return compute(suspect.kind, b"".join(unit[a:b] for a, b in suspect.covered)) == stored


def _carried(suspect: Suspect, flips: Sequence[int]) -> Sequence[int]:
    """Indices whose packets decide: the broken bytes, or one byte of every piece where these are not known."""
    if flips:
        return flips
    first = min(suspect.checksum_at, suspect.covered[0][0])
    pieces = [max(first, offset - suspect.offset) for offset, _, _ in suspect.pieces]
    return [at for at in dict.fromkeys(pieces) if at < suspect.covered[-1][1]]


def _copies(suspect: Suspect, carriers: Carriers) -> list[Copy]:
    """Packets that carry other bytes for the same place in the stream."""
    if suspect.base is None:
        return []
    found = []
    for segment in carriers.segments:
        start, end = max(0, segment.start), min(len(suspect.unit), segment.end)
        payload = segment.payload[start - segment.start : end - segment.start]
        if payload != suspect.unit[start:end]:
            unit = suspect.unit[:start] + payload + suspect.unit[end:]
            found.append(Copy(segment, _verifies(suspect, unit), unit))
    return found


def _by_copy(diagnosis: Diagnosis, suspect: Suspect, copies: Sequence[Copy]) -> Diagnosis:
    """Where a copy shows the right bytes, nothing has to be guessed."""
    right = next((copy.unit for copy in copies if copy.fits), None)
    if right is None or (diagnosis.verified and diagnosis.candidates == 1 and diagnosis.flips):
        return diagnosis
    flips, before = [], 0
    for start, end in suspect.covered:
        for at in range(start, end):
            if suspect.unit[at] != right[at]:
                flips.append(Flip(before + at - start, None, suspect.unit[at], right[at]))
        before += end - start
    pattern = OVERWRITTEN if diagnosis.pattern == UNKNOWN else diagnosis.pattern
    note = f"{len(flips)} bytes differ from a copy of the packet whose bytes fit the checksum"
    return Diagnosis(pattern, tuple(flips), True, 1, note)


def _agrees(diagnosis: Diagnosis, segments: Sequence[Segment], suspect: Suspect, corrected: bytes) -> bool:
    """Whether the TCP sums have nothing against this correction, or it is too simple to be doubted."""
    wrong = [segment for segment in segments if segment.sums.tcp == WRONG]
    return diagnosis.chance <= CERTAIN or WRONG not in _mended(wrong, suspect, corrected).values()


def _mended(segments: Any, suspect: Suspect, corrected: bytes) -> dict[int, str]:
    """TCP verdicts of the packets with the corrected bytes in them."""
    out = {}
    for segment in segments:
        if segment.payload_at is None:
            continue
        packet = bytearray(segment.packet)
        start, end = max(0, segment.start), min(len(corrected), segment.end)
        at = segment.payload_at + start - segment.start
        packet[at : at + end - start] = corrected[start:end]
        out[segment.place] = judge(bytes(packet), segment.where).tcp
    return out
