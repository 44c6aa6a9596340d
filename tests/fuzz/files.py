"""Damage to a capture file: headers of the file, of its records and its blocks."""

import struct
from random import Random

from tests.fuzz.values import damage, number, put, resize

_PCAP_HEADER, _RECORD_HEADER = 24, 16


def pcap_header(rng: Random, data: bytes) -> bytes:
    """Magic, version, snaplen, link type."""
    head = damage(rng, data[:_PCAP_HEADER], 2)
    return (data[:4] + head[4:] if rng.random() < 0.8 else head) + data[_PCAP_HEADER:]


def record_headers(rng: Random, data: bytes) -> bytes:
    """Times and lengths of some packets."""
    order = "<" if data[:1] in b"\xd4\x4d" else ">"
    places, at = [], _PCAP_HEADER
    while at + _RECORD_HEADER <= len(data):
        places.append(at)
        at += _RECORD_HEADER + int(struct.unpack_from(order + "I", data, at + 8)[0])
    for place in rng.sample(places, min(len(places), rng.randint(1, 4))):
        data = put(rng, data, place + 4 * rng.randrange(4), 4, "little" if order == "<" else "big")
    return data


def block_headers(rng: Random, data: bytes) -> bytes:
    """Of pcapng: types and lengths of blocks, and the first fields in them."""
    places, at = [], 0
    while at + 12 <= len(data):
        places.append(at)
        at += max(12, int.from_bytes(data[at + 4 : at + 8], "little"))
    for place in rng.sample(places, min(len(places), rng.randint(1, 3))):
        data = put(rng, data, place + 4 * rng.randrange(8), rng.choice((2, 4)), "little")
    return data


def options(rng: Random, data: bytes) -> bytes:
    """Of pcapng: interfaces with absurd options, put before the first packet."""
    resolution = bytes([rng.randrange(256)])
    made = struct.pack("<HHI", number(rng, 16), 0, number(rng, 32))
    for code, value in ((9, resolution), (14, rng.randbytes(8)), (number(rng, 16), rng.randbytes(rng.randrange(40)))):
        made += struct.pack("<HH", code, rng.choice((len(value), number(rng, 16)))) + value + bytes(-len(value) % 4)
    size = struct.pack("<I", 12 + len(made))
    first = int.from_bytes(data[4:8], "little")
    return data[:first] + struct.pack("<I", 1) + size + made + size + data[first:]


def anywhere(rng: Random, data: bytes) -> bytes:
    """Bytes anywhere; perhaps the end is missing."""
    data = damage(rng, data, 20)
    return data[: rng.randrange(1, len(data) + 1)] if rng.random() < 0.4 else data


def cut_out(rng: Random, data: bytes) -> bytes:
    """Bytes lost, doubled or put in: all after them have moved."""
    return resize(rng, data)


PCAP = {"pcap header": pcap_header, "pcap records": record_headers}
PCAPNG = {"pcapng blocks": block_headers, "pcapng options": options}
ANY = {"file bytes": anywhere, "file size": cut_out}
