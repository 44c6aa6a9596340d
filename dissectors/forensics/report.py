"""A case as a JSON object, as text for an incident report, and as files to look at.

Bytes of messages are an application's: without `with_bytes` only broken ones have values, and only where they are few.
Those of topics in which a broker keeps credentials have none, and are not extracted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple

from dissectors.checksum import shown
from dissectors.forensics.cases import Case, Excerpt, Location
from dissectors.session.protocols import named
from dissectors.wire.codec_sums import Sum

_ROW = (
    "protocol", "checksum_kind", "role", "topic", "partition", "base_offset", "position", "connection", "incarnation",
    "time", "file", "packet", "stream_offset",
)  # fmt: skip
SPOTS = 6  # broken bytes in the text; the JSON has all
REVEALED = 4  # broken bytes whose values are shown without being asked for; more could be read
ALTERNATIVES = 3  # in the text; the JSON has all
_DEEPER = " " * 9  # below What: and Where:
_PCAP_NS = 0xA1B23C4D
_SNAPLEN = 262_144
_EXTRACT = re.compile(r"\d{3,}-(received\.bin|corrected\.bin|packets(-link\d+)?\.pcap)")


def as_json(case: Case, *, with_bytes: bool = False) -> dict[str, Any]:
    """The stable object: one a bad checksum. Byte values are numbers, packets count from 1, byte offsets from 0.

    with_bytes: also the bytes around what broke, and the values of broken bytes however many they are.
    """
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
        "locations": _locations(case, case.locations, with_bytes),
        "verified": diagnosis.verified,
        "candidates": diagnosis.candidates,
        "note": diagnosis.note,
        "excerpt": _hexadecimal(case.excerpt) if case.excerpt and with_bytes and not _is_secret(case) else None,
        "alternatives": [
            {"share": share, "locations": _locations(case, locations, with_bytes)}
            for share, locations in case.alternatives
        ],
    }
    out["attribution"] = asdict(case.attribution)
    out["packets"] = [asdict(packet) for packet in case.packets]
    out["inner"] = [_inner_sum(one) for one in case.inner.captured]
    out["related"] = case.related
    made: dict[str, Any] = plain(out)
    return made


def _is_secret(case: Case) -> bool:
    """Whether the broker keeps credentials in this topic."""
    protocol = named(case.row["protocol"])
    return protocol is not None and case.row["topic"] in protocol.credentials().topics


def _reveals(case: Case, locations: Sequence[Location], with_bytes: bool) -> bool:
    """Whether the values of these broken bytes are shown."""
    return not _is_secret(case) and (with_bytes or len({spot.stream_offset for spot in locations}) <= REVEALED)


def _locations(case: Case, locations: Sequence[Location], with_bytes: bool) -> list[dict[str, Any]]:
    hidden = {} if _reveals(case, locations, with_bytes) else {"was": None, "should_be": None}
    return [asdict(location) | hidden for location in locations]


def _inner_sum(one: Sum) -> dict[str, Any]:
    """A codec's own checksum."""
    stored, computed = (None if value is None else f"0x{value:x}" for value in (one.stored, one.computed))
    return {"checksum": one.name, "stored": stored, "computed": computed, "verdict": one.verdict}


def _hexadecimal(excerpt: Excerpt) -> dict[str, Any]:
    return {
        "stream_offset": excerpt.stream_offset,
        "captured": excerpt.captured.hex(),
        "corrected": None if excerpt.corrected is None else excerpt.corrected.hex(),
    }


def plain(value: Any) -> Any:
    """A value as JSON has it: times as texts."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


# --- text ------------------------------------------------------------------------------------------------------------


class ReportLine(NamedTuple):
    """A line of text; names in it are as in the capture."""

    lead: str  # further lines are indented as it is wide, should one not be enough
    text: str
    whole: bool = False  # it is to be copied, or compared with the next: never broken


def as_lines(case: Case, number: int, *, with_bytes: bool = False, across: int = 64) -> Iterator[ReportLine]:
    """What a person can paste into an incident report. with_bytes: as `as_json` has it.

    across: bytes around what broke that one line holds.
    """
    row = as_json(case, with_bytes=with_bytes)
    where = f"{row['topic'] or 'unknown topic'}"
    if row["partition"] is not None:
        where += f", partition {row['partition']}"
    if row["position"] is not None:
        where += f", position {row['position']}"
    sums = f"{row['checksum_kind']} is {row['stored']}, the bytes give {row['computed']}"
    yield ReportLine(f"{number}. ", f"{row['protocol']} {row['role']}: {sums}")
    yield ReportLine("   ", f"{where}; {row['length']} bytes")
    yield ReportLine("   ", f"{row['connection']} at {row['time']}, {row['file']} packet {row['packet']}")
    yield ReportLine("   What: ", f"{row['diagnosis']['pattern']}{_how_sure(row['diagnosis'])}")
    yield ReportLine(_DEEPER, row["diagnosis"]["note"])
    yield from _places(case, with_bytes)
    if case.excerpt is not None and with_bytes and not _is_secret(case):
        for line in _compared(case.excerpt, {s.stream_offset for s in case.locations}, across):
            yield ReportLine(_DEEPER, line, whole=True)
    for other in row["diagnosis"]["alternatives"][:ALTERNATIVES]:
        yield ReportLine(_DEEPER, f"perhaps ({other['share']:.0%}): {_packet_refs(other['locations'])}")
    yield ReportLine("   Where: ", f"{case.attribution.where}, {case.attribution.certainty}")
    for reason in case.attribution.because:
        yield ReportLine(_DEEPER, reason)
    packets = [f"packet {p['packet']} {_sums_of(p)}" for p in row["packets"]]
    if packets:
        more = f"; and {len(packets) - SPOTS} more" if len(packets) > SPOTS else ""
        yield ReportLine("   Sums: ", f"{'; '.join(packets[:SPOTS])}{more}")
    if row["inner"]:
        yield ReportLine("   Inside: ", ", ".join(f"{one['checksum']} {one['verdict']}" for one in row["inner"]))
    for sighting in case.related[:5]:
        yield ReportLine("   See also: ", _sighting(sighting))
    filters = display_filters([case])
    for file, text in filters.items():
        yield ReportLine("   Wireshark: ", text + (f" in {file}" if len(filters) > 1 else ""), whole=True)


def _places(case: Case, with_bytes: bool) -> Iterator[ReportLine]:
    """The bytes that broke."""
    spots = _by_byte(case.locations)
    revealed = _reveals(case, case.locations, with_bytes)
    for spot, bits in spots[:SPOTS]:
        right = "what it was is unknown" if spot.should_be is None else f"should be 0x{spot.should_be:02x}"
        values = f" 0x{spot.was:02x}, {right}" if revealed else ""
        at = "" if spot.packet_offset is None else f" byte {spot.packet_offset}"
        yield ReportLine(_DEEPER, f"packet {spot.packet}{at}{bits}:{values} ({spot.field or 'unnamed'})")
    if len(spots) > SPOTS:
        yield ReportLine(_DEEPER, f"and {len(spots) - SPOTS} more bytes")


def _by_byte(locations: Sequence[Location]) -> list[tuple[Location, str]]:
    """One location a byte, and its bits in words."""
    bits: dict[tuple[str, int], list[int]] = {}
    first: dict[tuple[str, int], Location] = {}
    for spot in locations:
        key = (spot.file, spot.stream_offset)
        first.setdefault(key, spot)
        bits.setdefault(key, []).extend(() if spot.bit is None else (spot.bit,))
    names = {key: f" bit{'s' * (len(b) > 1)} {', '.join(map(str, sorted(b)))}" if b else "" for key, b in bits.items()}
    return [(spot, names[key]) for key, spot in first.items()]


def _how_sure(diagnosis: dict[str, Any]) -> str:
    if not diagnosis["verified"]:
        return ""
    if diagnosis["candidates"] <= 1:
        return " (proven: the corrected bytes match the checksum)"
    return f" (the likeliest of {diagnosis['candidates']} corrections that match the checksum)"


def _compared(excerpt: Excerpt, broken: set[int], across: int) -> Iterator[str]:
    """The bytes as captured, and as they should be: the broken ones in brackets."""
    wrong = [excerpt.stream_offset + at in broken for at in range(len(excerpt.captured))]
    for at in range(0, len(wrong), across):
        part = slice(at, at + across)
        yield f"captured   {_marked(excerpt.captured[part], wrong[part])}"
        if excerpt.corrected is not None:
            yield f"corrected  {_marked(excerpt.corrected[part], wrong[part])}"


def _marked(data: bytes, wrong: Sequence[bool]) -> str:
    shown = "".join(f"[{byte:02x}]" if bad else f" {byte:02x} " for byte, bad in zip(data, wrong, strict=True))
    return f"{shown}  {''.join(chr(byte) if 32 <= byte < 127 else '.' for byte in data)}"


def _packet_refs(locations: Sequence[dict[str, Any]]) -> str:
    """Locations in a line: the first byte, how many bits, the field."""
    first = locations[0]
    at = "" if first["packet_offset"] is None else f" byte {first['packet_offset']}"
    return f"packet {first['packet']}{at}, {len(locations)} bits ({first['field']})"


def _sums_of(packet: dict[str, Any]) -> str:
    """IPv4 and TCP verdict of a packet."""
    ip = "" if packet["ipv4"] is None else f"IPv4 {packet['ipv4']}, "
    return f"{ip}TCP {packet['tcp']}" + ("" if packet["taken"] else " (another copy)")


def _sighting(row: dict[str, Any]) -> str:
    what = row.get("name") or f"{row['role']}, {row['verdict']}"
    return f"{what} in {row['file']} packet {row['packet']} ({row['why']})"


def display_filters(cases: Iterable[Case]) -> dict[str, str]:
    """For each file a Wireshark display filter that finds the packets of these cases."""
    packets: dict[str, set[int]] = {}
    for case in cases:
        for spot in case.locations:
            packets.setdefault(spot.file, set()).add(spot.packet)
        if not case.locations and case.row["packet"] is not None:
            packets.setdefault(case.row["file"], set()).add(int(case.row["packet"]))
    return {file: f"frame.number in {{{', '.join(map(str, sorted(found)))}}}" for file, found in packets.items()}


# --- files -----------------------------------------------------------------------------------------------------------


def extract(case: Case, number: int) -> dict[str, bytes]:
    """The unit as received and as corrected, and captures of its packets: file name -> content.

    Nothing of a topic in which a broker keeps credentials.
    """
    if case.suspect is None or _is_secret(case):
        return {}
    made = {f"{number:03}-received.bin": case.suspect.unit}
    if case.corrected is not None:
        made[f"{number:03}-corrected.bin"] = case.corrected
    links = {segment.link for segment in case.segments}
    for link in sorted(links):
        packets = [(s.time, s.packet, s.missing) for s in case.segments if s.link == link]
        suffix = "" if len(links) == 1 else f"-link{link}"
        made[f"{number:03}-packets{suffix}.pcap"] = _pcap(link, packets)
    return made


def is_extract(name: str) -> bool:
    """Whether a file's name is one that `extract` gives."""
    return _EXTRACT.fullmatch(name) is not None


def _pcap(link: int, packets: Sequence[tuple[int, bytes, int]]) -> bytes:
    """A pcap file with nanosecond times. packets: time, bytes captured, bytes that the capture had cut off."""
    out = [struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, _SNAPLEN, link)]
    for time, packet, missing in packets:
        head = struct.pack("<IIII", *divmod(time, 1_000_000_000), len(packet), len(packet) + missing)
        out.append(head + packet)
    return b"".join(out)
