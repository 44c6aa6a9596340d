"""Captures without some of their packets, and which exchanges of the whole capture that leaves untouched."""

import random
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.pipelines import cutting

_LINK_HEADER = {0: 4, 1: 14, 101: 0, 108: 4, 113: 16, 276: 20}
_CIRCLE, _HALF = 1 << 32, 1 << 31
Side = tuple[int, int]
"""(port that sends, port that receives)."""


class TcpSegment(NamedTuple):
    """What one packet carries."""

    side: Side
    sequence: int
    size: int


def drop(path: Path, share: float, seed: int, to: Path) -> list[int]:
    """Write a capture without a random share of its packets; the indices of those."""
    head, records = cutting.read(path)
    rng = random.Random(seed)
    lost = [i for i in range(len(records)) if rng.random() < share]
    gone = set(lost)
    to.write_bytes(head + b"".join(record for i, record in enumerate(records) if i not in gone))
    return lost


def segments(path: Path) -> list[TcpSegment | None]:
    """What each packet carries."""
    head, records = cutting.read(path)
    assert head[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"), "little-endian"
    return [_segment(head, record) for record in records]


def _segment(head: bytes, record: bytes) -> TcpSegment | None:
    """The TCP segment over IPv4 in a packet record; None where it is something else."""
    ip = record[16 + _LINK_HEADER[int.from_bytes(head[20:24], "little") & 0xFFFF] :]
    if len(ip) < 40 or ip[0] >> 4 != 4 or ip[9] != 6:
        return None
    tcp = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4], "big") or None]
    source, target, sequence = struct.unpack_from(">HHI", tcp)
    return TcpSegment((source, target), sequence, len(tcp) - (tcp[12] >> 4) * 4)


def untouched(
    exchanges: Iterable[dict[str, Any]], segments: Sequence[TcpSegment | None], lost: Collection[int]
) -> list[dict[str, Any]]:
    """The exchanges of which no byte was in a lost packet: rows of a capture, its segments, indices of those lost.

    A frame begins somewhere in its first packet, so it may reach as far beyond that packet as it is long.
    """
    gone: dict[Side, list[TcpSegment]] = defaultdict(list)
    for at in lost:
        found = segments[at]
        if found is not None and found.size:
            gone[found.side].append(found)

    def hit(packet: int | None, size: int | None) -> bool:
        if packet is None or size is None:
            return False
        first = segments[packet - 1]
        assert first is not None
        reach = first.size + size
        return any(
            -each.size < (each.sequence - first.sequence + _HALF) % _CIRCLE - _HALF < reach for each in gone[first.side]
        )

    return [
        row
        for row in exchanges
        if not hit(row["request_packet"], row["request_bytes"])
        and not hit(row["response_packet"], row["response_bytes"])
    ]
