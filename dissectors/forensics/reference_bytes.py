"""Where the right bytes were seen too: another copy of the packet, or the same batch at another hop.

Nothing has to be guessed then: what differs is what broke, and `shape` gives it its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dissectors.checksum import compute
from dissectors.checksum.diagnosis import (
    BURST,
    CRLF,
    DOUBLE_BIT,
    OTHER_SEGMENT,
    OVERWRITTEN,
    REPEATED,
    SHIFTED,
    SINGLE_BIT,
    STORED,
    SWAPPED,
    TRUNCATED,
    UTF8,
    ZEROED,
    Diagnosis,
    Flip,
)
from dissectors.forensics.packets import Carriers, Segment
from dissectors.records import PACKET_MASK
from dissectors.rows.sink import Suspect

LISTED = 512  # bytes listed one by one at most
TELLING = 12  # bytes that are no coincidence when found elsewhere
MOST_SHIFT = 64
_REPLACEMENT = b"\xef\xbf\xbd"


@dataclass(slots=True)
class Copy:
    """Another packet that carries some of the same stream bytes, with other values."""

    segment: Segment
    fits: bool  # with its bytes the checksum is right
    unit: bytes  # the unit with its bytes


def copies(suspect: Suspect, carriers: Carriers) -> list[Copy]:
    """Packets that carry other bytes for the same place in the stream."""
    if suspect.base is None:
        return []
    found = []
    for segment in carriers.segments:
        start, end = max(0, segment.start), min(len(suspect.unit), segment.end)
        payload = segment.payload[start - segment.start : end - segment.start]
        if payload != suspect.unit[start:end]:
            unit = suspect.unit[:start] + payload + suspect.unit[end:]
            found.append(Copy(segment, verifies(suspect, unit), unit))
    return found


def witnessed(suspect: Suspect, carriers: Carriers) -> bytes | None:
    """The unit with the bytes that a witness carried, if these fit the checksum that the suspect stores."""
    at, size = suspect.checksum_at, suspect.checksum_bytes
    first, last = suspect.covered[0][0], suspect.covered[-1][1]
    if len(suspect.covered) != 1 or first < at + size:
        return None
    for stream in carriers.witnessed:
        start = -1
        while (start := stream.find(suspect.unit[at : at + size], start + 1)) >= 0:
            begin = start + first - at
            unit = suspect.unit[:first] + stream[begin : begin + last - first] + suspect.unit[last:]
            if len(unit) == len(suspect.unit) and verifies(suspect, unit):
                return unit
    return None


def verifies(suspect: Suspect, unit: bytes) -> bool:
    """Whether the checksum that the unit stores is right."""
    at = suspect.checksum_at
    stored = int.from_bytes(unit[at : at + suspect.checksum_bytes], suspect.byteorder)
    return compute(suspect.kind, b"".join(unit[a:b] for a, b in suspect.covered)) == stored


def compared(suspect: Suspect, right: bytes, carriers: Carriers, source: str) -> tuple[Diagnosis, list[int]]:
    """The diagnosis where the right bytes are known, and the index in the unit of each of its flips."""
    was = suspect.unit
    packet_refs = [at for at, (x, y) in enumerate(zip(was, right, strict=True)) if x != y]
    pattern, what = shape(suspect, right, packet_refs, carriers)
    flips, at_unit = [], []
    for at in packet_refs[:LISTED]:
        change = was[at] ^ right[at]
        bits = [bit for bit in range(8) if change >> bit & 1] if pattern in (SINGLE_BIT, DOUBLE_BIT, BURST) else [None]
        for bit in bits:
            flips.append(Flip(at, bit, was[at], right[at]))
            at_unit.append(at)
    bytes_ = "1 byte differs" if len(packet_refs) == 1 else f"{len(packet_refs)} bytes differ"
    note = f"{bytes_} from {source}, whose bytes fit the checksum{what}"
    return Diagnosis(pattern, tuple(flips), True, 1, note), at_unit


def shape(suspect: Suspect, right: bytes, packet_refs: Sequence[int], carriers: Carriers) -> tuple[str, str]:
    """The pattern of a difference that is known, and what there is to say of it."""
    was = suspect.unit
    low, high = packet_refs[0], packet_refs[-1] + 1
    broken, whole = was[low:high], right[low:high]
    error = int.from_bytes(bytes(x ^ y for x, y in zip(broken, whole, strict=True)), "little")
    at = suspect.checksum_at
    if at <= low and high <= at + suspect.checksum_bytes:
        return STORED, ""
    if error.bit_count() <= 2:
        return (SINGLE_BIT, DOUBLE_BIT)[error.bit_count() - 1], ""
    zeros = not any(was[at] for at in packet_refs)
    if zeros:
        tail = high == len(was) and high - low >= 8
        return (TRUNCATED if tail else ZEROED), f": {high - low} bytes at {low} are zero"
    if error.bit_length() - ((error & -error).bit_length() - 1) <= 32:
        return BURST, ""
    for recognise in (_moved, _converted, _from_elsewhere):
        for pattern, what in recognise(suspect, low, broken, whole, carriers):
            return pattern, what
    return OVERWRITTEN, ""


def _moved(suspect: Suspect, low: int, broken: bytes, whole: bytes, carriers: Carriers) -> Iterator[tuple[str, str]]:
    if sorted(broken) == sorted(whole):
        yield SWAPPED, ": the same bytes in another order"
    for by in range(1, min(MOST_SHIFT, len(broken) // 2)):
        if broken[by:] == whole[:-by]:
            yield SHIFTED, f": {by} too many at {low}, all that follows came too late"
        if broken[:-by] == whole[by:]:
            yield SHIFTED, f": {by} missing at {low}, all that follows came too early"


def _converted(
    suspect: Suspect, low: int, broken: bytes, whole: bytes, carriers: Carriers
) -> Iterator[tuple[str, str]]:
    if _REPLACEMENT in broken and _REPLACEMENT not in whole:
        yield UTF8, ": they went through a text decoder"
    before = suspect.unit[max(0, low - 1) : low]  # a translated line end may begin with an equal byte
    for old, new in ((b"\n", b"\r\n"), (b"\r\n", b"\n")):
        made = (before + whole).replace(old, new)
        if made[: len(broken)] in (broken, (before + broken)[: len(broken)]) and made[: len(broken)] != whole:
            yield CRLF, ": line ends were translated"


def _from_elsewhere(
    suspect: Suspect, low: int, broken: bytes, whole: bytes, carriers: Carriers
) -> Iterator[tuple[str, str]]:
    if len(broken) < TELLING:
        return
    unit = suspect.unit
    for start in (unit.find(broken), unit.rfind(broken)):
        if start != low and start >= 0:
            yield REPEATED, f": they repeat those at {start}"
    for packet_ref, payload in carriers.neighbours:
        at = payload.find(broken)
        if at >= 0:
            yield (
                OTHER_SEGMENT,
                f": they are those of packet {packet_ref & PACKET_MASK}, from byte {at} of its payload on",
            )


__all__ = ["Copy", "compared", "copies", "shape", "verifies", "witnessed"]
