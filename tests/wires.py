"""Packets and capture files made by hand, for tests of the lower floors."""

import ipaddress
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from dissectors.capture.block import ACK, FIN, PSH, SYN, PacketBlock
from dissectors.capture.reader import Reader
from dissectors.limits import Limits

T0 = 1_700_000_000_000_000_000


class Packet(NamedTuple):
    """Time in ns, bytes captured, length on the wire."""

    time: int
    data: bytes
    wire: int


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def tcp(
    src: str,
    dst: str,
    sport: int,
    dport: int,
    seq: int,
    ack: int,
    flags: int,
    payload: bytes = b"",
    window: int = 65535,
    options: bytes = b"",
) -> bytes:
    """A TCP segment with a right checksum. options: a multiple of four bytes."""
    offset = 5 + len(options) // 4 << 4
    head = struct.pack(">HHIIBBHHH", sport, dport, seq % 2**32, ack % 2**32, offset, flags, window, 0, 0) + options
    a, b = ipaddress.ip_address(src).packed, ipaddress.ip_address(dst).packed
    size = len(head) + len(payload)
    pseudo = a + b + (struct.pack(">BBH", 0, 6, size) if len(a) == 4 else struct.pack(">IHBB", size, 0, 0, 6))
    right = checksum(pseudo + head + payload)
    return head[:16] + struct.pack(">H", right) + head[18:] + payload


def ip(src: str, dst: str, protocol: int, payload: bytes, ip_id: int = 1) -> bytes:
    """An IPv4 or IPv6 packet."""
    a, b = ipaddress.ip_address(src).packed, ipaddress.ip_address(dst).packed
    if len(a) == 16:
        return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + a + b + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), ip_id % 65536, 0x4000, 64, protocol, 0) + a + b
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def ethernet(packet: bytes) -> bytes:
    """An Ethernet II frame around an IP packet."""
    kind = 0x0800 if packet[0] >> 4 == 4 else 0x86DD
    return b"\x02\0\0\0\0\1\x02\0\0\0\0\2" + struct.pack(">H", kind) + packet


class Side(NamedTuple):
    """One end of a connection."""

    ip: str
    port: int


CLIENT, SERVER = Side("10.0.0.2", 40000), Side("10.0.0.1", 9092)


def segment(
    source: Side,
    target: Side,
    seq: int,
    ack: int,
    payload: bytes = b"",
    flags: int = ACK | PSH,
    *,
    time: int = T0,
    ip_id: int = 1,
    keep: int | None = None,
    window: int = 65535,
    options: bytes = b"",
) -> Packet:
    """One Ethernet frame with a TCP segment; `keep` cuts it as a snaplen does."""
    body = tcp(source.ip, target.ip, source.port, target.port, seq, ack, flags, payload, window, options)
    frame = ethernet(ip(source.ip, target.ip, 6, body, ip_id))
    return Packet(time, frame[:keep], len(frame))


class Talk:
    """Writes the packets of one connection between a client (side 0) and a server (1), a step after another."""

    def __init__(
        self,
        client: Side = CLIENT,
        server: Side = SERVER,
        *,
        first: tuple[int, int] = (1000, 5000),
        handshake: bool = True,
        time: int = T0,
        step: int = 1_000_000,
    ) -> None:
        """first: sequence numbers of the sides; time: of the first packet, and step: until the next one, ns."""
        self.ends = (client, server)
        self.next = [*first]
        self.time, self.step = time, step
        self.packets: list[Packet] = []
        if handshake:
            self.send(0, flags=SYN).send(1, flags=SYN | ACK).send(0, flags=ACK)

    def send(self, side: int, payload: bytes = b"", flags: int = ACK | PSH) -> Self:
        """One segment, with an IP id of its own."""
        source, target = self.ends[side], self.ends[1 - side]
        ack, count = self.next[1 - side] if flags & ACK else 0, len(self.packets) + 1
        packet = segment(source, target, self.next[side], ack, payload, flags, time=self.time, ip_id=count)
        self.packets.append(packet)
        self.next[side] += len(payload) + bool(flags & (SYN | FIN))
        self.time += self.step
        return self

    def close(self) -> list[Packet]:
        """All packets, with those that end the connection."""
        return self.send(0, flags=FIN | ACK).send(1, flags=FIN | ACK).send(0, flags=ACK).packets


def pcap(packets: Iterable[Packet], *, order: str = "<", nano: bool = False, link: int = 1) -> bytes:
    """A classic pcap file."""
    magic, unit = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for p in packets:
        fraction = p.time % 1_000_000_000 // unit
        out.append(struct.pack(order + "IIII", p.time // 1_000_000_000, fraction, len(p.data), p.wire) + p.data)
    return b"".join(out)


def blocks(path: Path, data: bytes, *, block_bytes: int | None = None) -> list[PacketBlock]:
    """Write a capture and read it back as packet blocks."""
    path.write_bytes(data)
    limits = Limits() if block_bytes is None else Limits(block_bytes=block_bytes)
    return list(Reader(str(path), 0, limits).blocks())


def payloads(found: Sequence[PacketBlock]) -> list[bytes]:
    """Captured payload of every packet."""
    return [
        bytes(block.buffer[at : at + have])
        for block in found
        for at, have in zip(block.at.tolist(), block.have.tolist(), strict=True)
    ]
