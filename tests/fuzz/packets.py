"""Damage to packets: link layer, IP and TCP headers; loss, order and repetition."""

import struct
from collections.abc import Sequence
from random import Random

from tests.fuzz.values import damage, number, put
from tests.wires import Packet, checksum

_ETHERNET = 14
_LINK_TYPES = (0, 1, 12, 101, 113, 228, 229, 276)


def _some(rng: Random, packets: Sequence[Packet], most: int = 12) -> list[int]:
    return rng.sample(range(len(packets)), min(len(packets), rng.randint(1, most)))


def link(rng: Random, packets: list[Packet]) -> list[Packet]:
    """The Ethernet type, and tags and tunnels that lead nowhere."""
    for i in _some(rng, packets):
        data = packets[i].data
        kind = rng.choice((b"\x81\x00", b"\x88\xa8", b"\x88\x47", b"\x88\x64", b"\x08\x06", b"\x86\xdd"))
        more = rng.randbytes(rng.choice((0, 2, 4, 8)))
        data = data[:12] + kind + more + data[rng.choice((12, 14)) :]
        packets[i] = packets[i]._replace(data=data)
    return packets


def ip(rng: Random, packets: list[Packet]) -> list[Packet]:
    """Version, header length, total length, fragments, protocol; tunnels in tunnels."""
    for i in _some(rng, packets):
        data = packets[i].data
        if len(data) < _ETHERNET + 20:
            continue
        at, size = rng.choice(((0, 1), (2, 2), (4, 2), (6, 2), (6, 2), (9, 1), (12, 4), (16, 4)))
        if at == 9:
            data = (
                data[: _ETHERNET + 9] + bytes([rng.choice((4, 41, 47, 17, 44, 0, 60, 51, 43))]) + data[_ETHERNET + 10 :]
            )
        else:
            data = put(rng, data, _ETHERNET + at, size)
        if rng.random() < 0.2:  # IP in IP, some layers deep
            inner = data[_ETHERNET:]
            for _ in range(rng.choice((1, 2, 20))):
                head = struct.pack(">BBHHHBBHII", 0x45, 0, (20 + len(inner)) % 65536, 1, 0, 9, 4, 0, 1, 2)
                inner = head[:10] + struct.pack(">H", checksum(head)) + head[12:] + inner
            data = data[:_ETHERNET] + inner
        packets[i] = packets[i]._replace(data=data, wire=max(packets[i].wire, len(data)))
    return packets


def fragments(rng: Random, packets: list[Packet]) -> list[Packet]:
    """Datagrams in fragments that overlap, repeat, lack their end or begin nowhere."""
    out = []
    for packet in packets:
        data = packet.data
        if rng.random() > 0.3 or len(data) < _ETHERNET + 60 or data[12:14] != b"\x08\0":
            out.append(packet)
            continue
        head, body = data[: _ETHERNET + 20], data[_ETHERNET + 20 :]
        step = 8 * rng.randint(1, 8)
        pieces = [(at, body[at : at + step + 8 * rng.choice((0, 0, 0, 1))]) for at in range(0, len(body), step)]
        pieces = [piece for piece in pieces if rng.random() > 0.05]
        if rng.random() < 0.3:
            rng.shuffle(pieces)
        for at, piece in pieces:
            more = 0 if at + len(piece) >= len(body) else 0x2000
            lies = number(rng, 16) if rng.random() < 0.02 else more | at // 8
            fields = struct.pack(
                ">HHH", 20 + len(piece), 77 if rng.random() < 0.02 else hash(packet.time) % 60000, lies
            )
            out.append(Packet(packet.time, head[:16] + fields + head[22:] + piece, len(head) + len(piece)))
    return out


def tcp(rng: Random, packets: list[Packet]) -> list[Packet]:
    """Ports, sequence and acknowledgement numbers, data offset, flags, window."""
    for i in _some(rng, packets):
        data = packets[i].data
        at = _ETHERNET + 20
        if len(data) < at + 20:
            continue
        place, size = rng.choice(((0, 2), (2, 2), (4, 4), (4, 4), (8, 4), (8, 4), (12, 1), (13, 1), (13, 1), (14, 2)))
        if place in (4, 8) and rng.random() < 0.6:  # near the right one
            near = int.from_bytes(data[at + place : at + place + 4], "big") + rng.choice(
                (-1400, -3, -1, 1, 3, 1400, 70000)
            )
            data = data[: at + place] + (near % 2**32).to_bytes(4, "big") + data[at + place + 4 :]
        else:
            data = put(rng, data, at + place, size)
        packets[i] = packets[i]._replace(data=data)
    return packets


def headers(rng: Random, packets: list[Packet]) -> list[Packet]:
    """Any byte of any header."""
    for i in _some(rng, packets):
        head = rng.choice((34, 54, 66, 80))
        data = packets[i].data
        packets[i] = packets[i]._replace(data=damage(rng, data[:head], 2) + data[head:])
    return packets


def payload(rng: Random, packets: list[Packet]) -> list[Packet]:
    """Any byte behind the headers."""
    for i in _some(rng, packets):
        data = packets[i].data
        packets[i] = packets[i]._replace(data=data[:54] + damage(rng, data[54:], 3))
    return packets


def snaplen(rng: Random, packets: list[Packet]) -> list[Packet]:
    """Cut, all at one length or each at its own."""
    length = rng.choice((0, 1, 14, 34, 54, 60, 96, 200))
    return [
        p._replace(data=p.data[: length if rng.random() < 0.9 else rng.randrange(len(p.data) + 1)])
        if rng.random() < 0.5
        else p
        for p in packets
    ]


def loss(rng: Random, packets: list[Packet]) -> list[Packet]:
    """Some are missing, some come late, some come again with other bytes; times may step back."""
    share = rng.choice((0.02, 0.1, 0.5))
    out = [packet for packet in packets if rng.random() > share]
    if rng.random() < 0.5:
        window = rng.choice((2, 10, len(out) + 1))
        order = sorted(range(len(out)), key=lambda i: i + rng.random() * window)
        out = [out[i]._replace(time=out[n if rng.random() < 0.9 else i].time) for n, i in enumerate(order)]
    for packet in rng.sample(out, len(out) // 10):
        again = packet if rng.random() < 0.5 else packet._replace(data=packet.data[:54] + damage(rng, packet.data[54:]))
        out.insert(rng.randrange(len(out) + 1), again)
    return out


def reused_ports(rng: Random, packets: list[Packet]) -> list[Packet]:
    """The same connection again at once, or all of them on one pair of ports."""
    later = packets[-1].time - packets[0].time + rng.choice((0, 1, 10**9)) if packets else 0
    again = [p._replace(time=p.time + later) for p in packets[rng.randrange(len(packets) + 1) :]]
    if rng.random() < 0.5 and packets:
        ports = packets[0].data[34:38]
        back = ports[2:] + ports[:2]
        again = [
            p._replace(data=p.data[:34] + (ports if p.data[34:36] > p.data[36:38] else back) + p.data[38:])
            for p in again
        ]
    return packets + again


PACKETS = {
    "link": link, "ip": ip, "fragments": fragments, "tcp": tcp, "headers": headers, "payload": payload,
    "snaplen": snaplen, "loss": loss, "ports": reused_ports,
}  # fmt: skip
LINK_TYPES = _LINK_TYPES
