"""Cuts a classic pcap file into several, as `tcpdump -C` would."""

from __future__ import annotations

import struct
from pathlib import Path


def cut(path: Path, folder: Path, pieces: int) -> list[str]:
    """The same packets in `pieces` files of about equal packet counts; returns their names in order."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    packets = []
    at = 24
    while at + 16 <= len(data):
        captured = struct.unpack_from(order + "I", data, at + 8)[0]
        packets.append(data[at : at + 16 + captured])
        at += 16 + captured
    size = -(-len(packets) // pieces)
    out = []
    for piece in range(pieces):
        file = folder / f"{path.stem}-{piece:03}.pcap"
        file.write_bytes(data[:24] + b"".join(packets[piece * size : (piece + 1) * size]))
        out.append(str(file))
    return out
