"""Cuts a classic pcap file into several, as `tcpdump -C` would; and its IPv4 packets into fragments."""

import random
import struct
from pathlib import Path

_ETHERNET = 14
_MORE = 0x2000  # more fragments follow


def cut(path: Path, folder: Path, pieces: int) -> list[str]:
    """The same packets in `pieces` files of about equal packet counts; returns their names in order."""
    head, packets = read(path)
    size = -(-len(packets) // pieces)
    return [
        write(folder / f"{path.stem}-{piece:03}.pcap", head, packets[piece * size : (piece + 1) * size])
        for piece in range(pieces)
    ]


def read(path: Path) -> tuple[bytes, list[bytes]]:
    """(file header, packets with their headers)."""
    data = path.read_bytes()
    length = struct.Struct(_order(data) + "8xI").unpack_from
    packets = []
    at = 24
    while at + 16 <= len(data):
        end = at + 16 + length(data, at)[0]
        packets.append(data[at:end])
        at = end
    return data[:24], packets


def write(path: Path, head: bytes, packets: list[bytes]) -> str:
    path.write_bytes(head + b"".join(packets))
    return str(path)


def fragmented(head: bytes, packets: list[bytes], size: int, rng: random.Random) -> list[bytes]:
    """The packets of an Ethernet capture, those of IPv4 in fragments of at most `size` bytes, a multiple of 8."""
    out = []
    for packet in packets:
        ethernet, ip = packet[16 : 16 + _ETHERNET], packet[16 + _ETHERNET :]
        header = (ip[0] & 15) * 4
        body = ip[header : int.from_bytes(ip[2:4], "big")]
        if ethernet[12:14] != b"\x08\x00" or len(body) <= size:
            out.append(packet)
            continue
        ident = rng.getrandbits(16)
        for at in range(0, len(body), size):
            piece = body[at : at + size]
            word = (_MORE if at + size < len(body) else 0) | at // 8
            fragment = ethernet + ip[:2] + struct.pack(">HHH", header + len(piece), ident, word) + ip[8:header] + piece
            out.append(packet[:8] + struct.pack(_order(head) + "II", len(fragment), len(fragment)) + fragment)
    return out


def timed(head: bytes, packets: list[bytes], step: int) -> list[bytes]:
    """The packets, each so many ns after the last one; of a capture that counts in ns or us."""
    begin = times(head, packets[:1])[0]
    return [_at(head, packet, begin + number * step) for number, packet in enumerate(packets)]


def shifted(head: bytes, packets: list[bytes], by: int) -> list[bytes]:
    """The packets, so many ns later."""
    return [_at(head, packet, time + by) for time, packet in zip(times(head, packets), packets, strict=True)]


def times(head: bytes, packets: list[bytes]) -> list[int]:
    """When the packets were captured, in ns."""
    field = struct.Struct(_order(head) + "II")
    return [seconds * 10**9 + part * _unit(head) for seconds, part in map(field.unpack_from, packets)]


def _at(head: bytes, packet: bytes, time: int) -> bytes:
    seconds, rest = divmod(time, 10**9)
    return struct.pack(_order(head) + "II", seconds, rest // _unit(head)) + packet[8:]


def _unit(head: bytes) -> int:
    """What a capture counts in, in ns."""
    return 1 if head[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000


def _order(head: bytes) -> str:
    return "<" if head[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
