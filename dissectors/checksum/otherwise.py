"""A stored checksum that is right in another way: made by the other polynomial, or over other bytes of the unit.

Tried are CRC-32 and CRC-32C over all that ends where the covered bytes end and begins in the unit's head, or that ends
a little before: with the stored checksum as it stands, and with zeros in its place. These are some hundred
computations; one of them meets 32 bits by chance once in ten million units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dissectors.checksum.diagnosis import STORED, Diagnosis
from dissectors.checksum.linear import POLYNOMIALS
from dissectors.checksum.locate import stored_flips
from dissectors.checksum.verify import CRC32, CRC32C, compute

HEAD = 96  # bytes of a unit in which another range may begin
TAIL = 8  # bytes at the end that it may leave out
MOST_BYTES = 4 << 20  # larger units are not tried: each takes two hundred passes
_NAMES = {CRC32: "CRC-32", CRC32C: "CRC-32C"}

Span = tuple[int, int]


def otherwise(
    kind: str, unit: bytes, covered: Sequence[Span], checksum: Span, stored: int, computed: int
) -> Diagnosis | None:
    """What the stored checksum of a unit is the checksum of; None where it is of nothing that is tried.

    covered: what it should cover; checksum: where it lies. Both are [start, end) in the unit.
    """
    if kind not in POLYNOMIALS or len(covered) != 1 or len(unit) > MOST_BYTES or stored >> 32:
        return None
    right = covered[0]
    for tried, (name, span, zeroed) in enumerate(_ways(kind, len(unit), right, checksum), 1):
        data = memoryview(unit)[span[0] : span[1]]
        if zeroed:
            start, end = checksum
            data = memoryview(unit[span[0] : start] + bytes(end - start) + unit[end : span[1]])
        if compute(name, data) == stored:
            flips = stored_flips(stored.to_bytes(4, "big"), computed.to_bytes(4, "big"))
            return Diagnosis(STORED, flips, True, 1, _note(kind, right, name, span, zeroed), tried / 2.0**32)
    return None


def _ways(kind: str, size: int, right: Span, checksum: Span) -> Iterator[tuple[str, Span, bool]]:
    """(checksum, bytes that it covers, whether its own place counts as zeros), the likeliest first."""
    others = [name for name in POLYNOMIALS if name != kind]
    for name in others:
        yield name, right, False
    start, end = right
    starts = [at for at in range(min(HEAD, end)) if at != start]
    for name in (kind, *others):
        for at in starts:
            yield name, (at, end), False
            if at <= checksum[0] and checksum[1] <= end:
                yield name, (at, end), True
        for less in range(1, min(TAIL, end - start - 1) + 1):
            yield name, (start, end - less), False
        if end != size:
            yield name, (start, size), False


def _note(kind: str, right: Span, name: str, span: Span, zeroed: bool) -> str:
    own, its = _NAMES[kind], _NAMES[name]
    if span == right:
        return f"The stored checksum is the {its} of the bytes, not their {own}: it was made by another polynomial"
    zeros = ", with zeros in its own place" if zeroed else ""
    of = f"bytes {span[0]} to {span[1]} of the batch{zeros}, not of bytes {right[0]} to {right[1]}"
    more = "" if name == kind else f", and not a {own}"
    return f"The stored checksum is the {its} of {of}{more}: it was made over another range"
