"""A case as a JSON object, as text for an incident report, and as files to look at."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from dissectors.checksum import shown
from dissectors.forensics.cases import Case

_ROW = (
    "protocol", "checksum_kind", "role", "topic", "partition", "base_offset", "position", "connection", "incarnation",
    "time", "file", "packet", "stream_offset",
)  # fmt: skip
_PCAP_NS = 0xA1B23C4D
_SNAPLEN = 262_144


def as_json(case: Case) -> dict[str, Any]:
    """The stable object: one a bad checksum. Byte values are numbers, packets count from 1, byte offsets from 0."""
    row, suspect = case.row, case.suspect
    out: dict[str, Any] = {key: row[key] for key in _ROW}
    out["stored"], out["computed"] = row["checksum_stored"], row["checksum_computed"]
    if suspect is not None:
        out["checksum_kind"] = suspect.kind
        out["stored"] = shown(suspect.kind, suspect.stored)
        out["computed"] = shown(suspect.kind, suspect.computed)
    out["length"] = row["stored_bytes"]
    diagnosis = case.diagnosis
    out["diagnosis"] = {
        "pattern": diagnosis.pattern,
        "locations": [asdict(location) for location in case.locations],
        "verified": diagnosis.verified,
        "candidates": diagnosis.candidates,
        "note": diagnosis.note,
    }
    out["attribution"] = asdict(case.attribution)
    out["related"] = case.related
    plain: dict[str, Any] = _plain(out)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


# --- text ------------------------------------------------------------------------------------------------------------


def as_text(case: Case, number: int) -> str:
    """What a person can paste into an incident report."""
    told = as_json(case)
    where = f"{told['topic'] or 'unknown topic'}"
    if told["partition"] is not None:
        where += f", partition {told['partition']}"
    if told["position"] is not None:
        where += f", position {told['position']}"
    lines = [
        f"{number}. {told['protocol']} {told['role']}: {told['checksum_kind']} is {told['stored']}, "
        f"the bytes give {told['computed']}",
        f"   {where}; {told['length']} bytes",
        f"   {told['connection']} at {told['time']}, {told['file']} packet {told['packet']}",
        f"   What: {told['diagnosis']['pattern']}"
        + (" (proven: the corrected bytes match the checksum)" if told["diagnosis"]["verified"] else ""),
        f"         {told['diagnosis']['note']}",
    ]
    for spot in case.locations[:8]:
        bit = "" if spot.bit is None else f" bit {spot.bit}"
        right = "unknown" if spot.should_be is None else f"0x{spot.should_be:02x}"
        at = "" if spot.packet_offset is None else f" byte {spot.packet_offset}"
        lines.append(f"         packet {spot.packet}{at}{bit}: 0x{spot.was:02x}, should be {right} ({spot.field})")
    if len(case.locations) > 8:
        lines.append(f"         and {len(case.locations) - 8} more")
    lines.append(f"   Where: {case.attribution.where}, {case.attribution.certainty}")
    lines += [f"         {reason}" for reason in case.attribution.because]
    lines += [f"   See also: {_sighting(row)}" for row in case.related[:5]]
    filter_text = display_filter([case])
    if filter_text:
        lines.append(f"   Wireshark: {filter_text}")
    return "\n".join(lines)


def _sighting(row: dict[str, Any]) -> str:
    what = row.get("name") or f"{row['role']}, {row['verdict']}"
    return f"{what} in {row['file']} packet {row['packet']} ({row['why']})"


def display_filter(cases: Iterable[Case]) -> str:
    """A Wireshark display filter that finds the packets of these cases."""
    numbers = sorted(
        {spot.packet for case in cases for spot in case.locations} or {int(c.row["packet"]) for c in cases}
    )
    return f"frame.number in {{{', '.join(map(str, numbers))}}}" if numbers else ""


# --- files -----------------------------------------------------------------------------------------------------------


def extract(case: Case, number: int, folder: Path) -> list[Path]:
    """Write the unit as received and as corrected, and a capture of its packets; returns the files."""
    if case.suspect is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    written = [_write(folder / f"{number:03}-received.bin", case.suspect.unit)]
    if case.corrected is not None:
        written.append(_write(folder / f"{number:03}-corrected.bin", case.corrected))
    links = {segment.link for segment in case.segments}
    for link in sorted(links):
        packets = [(s.time, s.packet) for s in case.segments if s.link == link]
        suffix = "" if len(links) == 1 else f"-link{link}"
        written.append(_write(folder / f"{number:03}-packets{suffix}.pcap", _pcap(link, packets)))
    return written


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _pcap(link: int, packets: Sequence[tuple[int, bytes]]) -> bytes:
    """A pcap file with nanosecond times."""
    out = [struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, _SNAPLEN, link)]
    for time, packet in packets:
        out.append(struct.pack("<IIII", *divmod(time, 1_000_000_000), len(packet), len(packet)) + packet)
    return b"".join(out)
