"""An independent walk: which record batches a capture holds whole, found without TCP state, framing or budgets.

The captured bytes of each direction are put where their sequence numbers say, by a plain loop; in every contiguous
stretch, from left to right, each place is tried as a batch of magic 2: its length must fit and its CRC32C hold. What
lies in a batch is not looked at again.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import crc32c

from tests.pipelines import cutting

_SYN = 2
_HALF, _WRAP = 1 << 31, 1 << 32


class CapturedBatch(NamedTuple):
    """A whole batch of magic 2."""

    source_port: int
    target_port: int
    size: int
    base_offset: int
    crc: int


def _segments(path: Path) -> Iterator[tuple[bytes, int, int, int, int, bytes]]:
    """(addresses, ports, sequence number, flags, payload) of TCP over IPv4 over Ethernet."""
    _, records = cutting.read(path)
    for packet in (record[16:] for record in records):
        if packet[12:14] != b"\x08\x00" or packet[23] != 6:
            continue
        ip = packet[14 : 14 + int.from_bytes(packet[16:18], "big")]
        tcp = ip[(ip[0] & 15) * 4 :]
        source, target, sequence = struct.unpack_from(">HHI", tcp)
        yield ip[12:20], source, target, sequence, tcp[13], tcp[(tcp[12] >> 4) * 4 :]


def stretches(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """(source port, target port, bytes) of every contiguous run of captured bytes; no port may be used again."""
    flows: dict[tuple[bytes, int, int], dict[int, bytes]] = {}
    first: dict[tuple[bytes, int, int], int] = {}
    for addresses, source, target, sequence, flags, payload in _segments(path):
        if not payload:
            continue
        key = addresses, source, target
        base = first.setdefault(key, sequence)
        at = (sequence + bool(flags & _SYN) - base + _HALF) % _WRAP - _HALF
        held = flows.setdefault(key, {})
        if len(payload) > len(held.get(at, b"")):
            held[at] = payload
    for (_, source, target), held in flows.items():
        run, end = bytearray(), None
        for at in sorted(held):
            payload = held[at]
            if end is not None and at > end:
                yield source, target, bytes(run)
                run = bytearray()
                end = None
            known = 0 if end is None else end - at
            run += payload[known:]
            end = at + len(payload) if end is None else max(end, at + len(payload))
        yield source, target, bytes(run)


def whole_batches(data: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of the batches in some bytes."""
    at = data.find(b"\2", 16)
    while at >= 0:
        start = at - 16
        length, _magic, crc, attributes = struct.unpack_from(">i4xBIH", data + bytes(12), start + 8)
        end = start + 12 + length
        if length >= 49 and end <= len(data) and attributes < 128 and crc32c.crc32c(data[start + 21 : end]) == crc:
            yield start, end
            at = data.find(b"\2", end + 16)
        else:
            at = data.find(b"\2", at + 1)


def captured_batches(path: Path) -> list[CapturedBatch]:
    """The whole batches in a capture."""
    found = []
    for source, target, data in stretches(path):
        for start, end in whole_batches(data):
            offset = int.from_bytes(data[start : start + 8], "big", signed=True)
            crc = int.from_bytes(data[start + 17 : start + 21], "big")
            found.append(CapturedBatch(source, target, end - start, offset, crc))
    return found
