"""Errors to be put into real captures: where a batch lies in its packets, and what may happen to its bytes.

Nothing here uses the decoders but to learn where batches are: streams are laid out by sequence numbers.
"""

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import dissectors
from dissectors.capture.reader import Reader
from dissectors.limits import Limits
from tests.wires import Packet, checksum

IP = 14  # of Ethernet's header
HEADERS = {"magic 2": (17, 21), "magic 1": (12, 16), "magic 0": (12, 16)}  # where the stored checksum lies


class Unit(NamedTuple):
    """A batch: its row, its bytes, and the packets (index, offset) that hold each of them."""

    row: dict[str, Any]
    data: bytes
    where: list[list[tuple[int, int]]]
    stored: tuple[int, int]  # [start, end) of the stored checksum; what it covers follows


@dataclass
class Capture:
    """A capture over Ethernet and IPv4, and its intact batches."""

    packets: list[Packet]
    units: list[Unit]


def load(path: Path) -> Capture:
    packets = [
        Packet(time, bytes(raw.buffer[at : at + have]), wire)
        for raw in Reader(str(path), 0, Limits()).raw_blocks()
        for time, at, have, wire in zip(raw.time.tolist(), raw.at.tolist(), raw.have.tolist(), raw.wire.tolist())
    ]
    rows = dissectors.dissect([str(path)], tables=["batches"])["batches"].to_pylist()
    streams = _streams(packets)
    return Capture(packets, [unit for row in rows if row["verdict"] == "ok" for unit in _units(row, packets, streams)])


def _streams(packets: Sequence[Packet]) -> dict[tuple[bytes, bytes], list[tuple[int, int, int, int]]]:
    """(addresses, ports) -> (offset in the stream, packet, where its payload lies, size), by sequence numbers."""
    first: dict[tuple[bytes, bytes], int] = {}
    out: dict[tuple[bytes, bytes], list[tuple[int, int, int, int]]] = {}
    for index, packet in enumerate(packets):
        data = packet.data
        tcp = IP + 4 * (data[IP] & 15)
        start, end = tcp + 4 * (data[tcp + 12] >> 4), IP + int.from_bytes(data[IP + 2 : IP + 4], "big")
        key, seq = (data[IP + 12 : IP + 20], data[tcp : tcp + 4]), int.from_bytes(data[tcp + 4 : tcp + 8], "big")
        if data[tcp + 13] & 2:
            first[key] = seq + 1
        elif end > start and key in first:
            out.setdefault(key, []).append(((seq - first[key]) & 0xFFFFFFFF, index, start, end - start))
    return out


def _units(row: dict[str, Any], packets: Sequence[Packet], streams: Any) -> Iterator[Unit]:
    sides = ("client", "server") if row["role"] == "produce" else ("server", "client")
    addresses, ports = ([row[f"{side}_{what}"] for side in sides] for what in ("ip", "port"))
    key = (b"".join(ip_address(a).packed for a in addresses), b"".join(p.to_bytes(2, "big") for p in ports))
    low, size = row["stream_offset"], row["stored_bytes"]
    where: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for start, index, at, have in streams.get(key, ()):
        for offset in range(max(low, start), min(low + size, start + have)):
            where[offset - low].append((index, at + offset - start))
    if not all(where):
        return
    data = bytes(packets[spots[0][0]].data[spots[0][1]] for spots in where)
    if row["format"] == "entry":
        magic = data.index(b"\x0e\x01")
        yield Unit(row, data, where, (magic + 2, magic + 6))
    elif row["format"] in HEADERS:
        yield Unit(row, data, where, HEADERS[row["format"]])


def apply(
    capture: Capture, unit: Unit, data: bytes, *, repaired: bool = False
) -> tuple[list[Packet], set[tuple[int, int]]]:
    """The packets with other bytes in a batch, and the (packet from 1, offset) of all that changed."""
    changed = {spot: data[at] for at, spots in enumerate(unit.where) if data[at] != unit.data[at] for spot in spots}
    packets = list(capture.packets)
    for index in {index for index, _ in changed}:
        broken = bytearray(packets[index].data)
        for (_, at), value in ((spot, value) for spot, value in changed.items() if spot[0] == index):
            broken[at] = value
        packets[index] = packets[index]._replace(data=sealed(bytes(broken)) if repaired else bytes(broken))
    return packets, {(index + 1, at) for index, at in changed}


def sealed(data: bytes) -> bytes:
    """The packet with a right TCP checksum."""
    tcp, end = IP + 4 * (data[IP] & 15), IP + int.from_bytes(data[IP + 2 : IP + 4], "big")
    pseudo = data[IP + 12 : IP + 20] + struct.pack(">BBH", 0, 6, end - tcp)
    blank = data[: tcp + 16] + b"\0\0" + data[tcp + 18 :]
    return blank[: tcp + 16] + struct.pack(">H", checksum(pseudo + blank[tcp:end])) + blank[tcp + 18 :]


# --- what may happen -------------------------------------------------------------------------------------------------

Change = Callable[[random.Random, bytes], bytes]


def bits(width: int) -> Change:
    """A burst: the first and the last bit of `width` are wrong."""

    def change(rng: random.Random, data: bytes) -> bytes:
        start = rng.randrange(8 * len(data) - width)
        error = (rng.getrandbits(width) | 1 | 1 << width - 1) << start
        return bytes(x ^ y for x, y in zip(data, error.to_bytes(len(data), "little"), strict=True))

    return change


def two_bits(rng: random.Random, data: bytes) -> bytes:
    error = sum(1 << at for at in rng.sample(range(8 * len(data)), 2))
    return bytes(x ^ y for x, y in zip(data, error.to_bytes(len(data), "little"), strict=True))


def replaced(most: int, made: Callable[[random.Random, bytes, int, int], bytes]) -> Change:
    """Up to `most` bytes from a random place on become others."""

    def change(rng: random.Random, data: bytes) -> bytes:
        size = rng.randrange(1, min(most, len(data) // 2) + 1)
        at = rng.randrange(len(data) - size + 1)
        return data[:at] + made(rng, data, at, size) + data[at + size :]

    return change


def swapped(rng: random.Random, data: bytes) -> bytes:
    size = min(rng.choice((1, 2, 4, 8, 16, 32)), len(data) // 2)
    at = rng.randrange(len(data) - 2 * size + 1)
    return data[:at] + data[at + size : at + 2 * size] + data[at : at + size] + data[at + 2 * size :]


def lost(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + 1 :] + rng.randbytes(1)


CHANGES: dict[str, Change] = {
    "one bit": bits(1),
    "two bits": two_bits,
    "8 bits": bits(8),
    "20 bits": bits(20),
    "32 bits": bits(32),
    "zeros": replaced(30, lambda rng, data, at, size: bytes(size)),
    "random bytes": replaced(30, lambda rng, data, at, size: rng.randbytes(size)),
    "a block from elsewhere": replaced(300, lambda rng, data, at, size: data[:size]),
    "swapped": swapped,
    "lost": lost,
}
