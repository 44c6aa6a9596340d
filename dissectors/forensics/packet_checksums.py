"""IPv4 header and TCP checksums of one captured packet.

A sum may be right, wrong, or prove nothing: a host that leaves it to the network card captures its own packets with a
sum of zero, or with the part that the card needs (Linux' CHECKSUM_PARTIAL: the pseudo-header only, not
complemented). Such a packet is not broken; it was captured inside the sending host, or never left it.

Source: RFC 791, RFC 1071, RFC 9293 §3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

RIGHT, WRONG, ZERO, PARTIAL, UNKNOWN = "right", "wrong", "zero", "partial", "unverifiable"
OFFLOADED = (ZERO, PARTIAL)
_TCP = 6
_CHECK_AT = 16  # of the checksum in a TCP header


class Sums(NamedTuple):
    """Verdicts of the two checksums; None for an IP header that has none."""

    ip: str | None
    tcp: str


@dataclass(frozen=True, slots=True)
class HeaderLayout:
    """Where the headers of a captured packet lie; -1 where they were not found."""

    ip: int
    tcp: int
    payload: int
    size: int  # payload bytes on the wire


def layout(packet: bytes, payload: int, size: int, sport: int, dport: int) -> HeaderLayout:
    """Find the headers before the payload."""
    ports = sport.to_bytes(2, "big") + dport.to_bytes(2, "big")
    for length in range(20, 64, 4):
        tcp = payload - length
        if tcp < 0 or packet[tcp : tcp + 4] != ports or packet[tcp + 12] >> 4 != length // 4:
            continue
        for header in range(20, 64, 4):
            ip = tcp - header
            if ip >= 0 and packet[ip] == 0x40 | header // 4 and packet[ip + 9] == _TCP:
                return HeaderLayout(ip, tcp, payload, size)
        for header in range(40, 256, 8):
            ip = tcp - header
            if ip < 0:
                break
            length6 = int.from_bytes(packet[ip + 4 : ip + 6], "big")
            if packet[ip] >> 4 == 6 and 40 + length6 == header + length + size:
                return HeaderLayout(ip, tcp, payload, size)
        return HeaderLayout(-1, tcp, payload, size)
    return HeaderLayout(-1, -1, payload, size)


def judge(packet: bytes, where: HeaderLayout) -> Sums:
    """The verdicts over a packet as captured."""
    if where.ip < 0 or where.tcp < 0:
        return Sums(None, UNKNOWN)
    version = packet[where.ip] >> 4
    ip = None
    if version == 4:
        header = packet[where.ip : where.ip + 4 * (packet[where.ip] & 15)]
        ip = RIGHT if fold(header) == 0xFFFF else ZERO if header[10:12] == b"\0\0" else WRONG
    stop = where.payload + where.size
    if stop > len(packet):
        return Sums(ip, UNKNOWN)
    if fold(summed(packet, where)) == 0xFFFF:
        return Sums(ip, RIGHT)
    stored = int.from_bytes(packet[where.tcp + _CHECK_AT : where.tcp + _CHECK_AT + 2], "big")
    if stored == 0:
        return Sums(ip, ZERO)
    lengths = (stop - where.tcp, 0)  # segmentation offload leaves the length out
    partial = [fold(_pseudo(packet, where.ip, version, length)) for length in lengths]
    return Sums(ip, PARTIAL if stored in partial else WRONG)


def summed(packet: bytes, where: HeaderLayout) -> bytes:
    """What the TCP checksum covers, itself included: pseudo-header, header and payload."""
    stop = where.payload + where.size
    return _pseudo(packet, where.ip, packet[where.ip] >> 4, stop - where.tcp) + packet[where.tcp : stop]


def fold(data: bytes) -> int:
    """The ones' complement sum of 16-bit words, big-endian; not complemented."""
    if len(data) % 2:
        data += b"\0"
    total = int(np.frombuffer(data, ">u2").sum(dtype=np.uint64))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _pseudo(packet: bytes, ip: int, version: int, length: int) -> bytes:
    if version == 4:
        return packet[ip + 12 : ip + 20] + bytes([0, _TCP]) + length.to_bytes(2, "big")
    return packet[ip + 8 : ip + 40] + length.to_bytes(4, "big") + bytes([0, 0, 0, _TCP])
