"""A small connection on the wire, whole, to be broken by tests: Kafka, one batch produced and fetched."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dissectors.capture.block import ACK
from dissectors.forensics import Case, Investigation
from dissectors.options import Options
from tests.kafka import wire
from tests.wires import CLIENT, SERVER, Packet, Side, Talk, checksum, pcap

VALUE = b"The quick brown fox jumps over the lazy dog, and 1,234 other foxes do it again."
RECORDS = [wire.record(i, b"key-%d" % i, b"%d:" % i + VALUE) for i in range(5)]
BATCH = wire.batch(RECORDS, producer=(9, 1, 40))
STORED = wire.batch(RECORDS, base=100, producer=(9, 1, 40))
HEADERS = 14 + 20 + 20  # Ethernet, IPv4, TCP without options


class Scene(Talk):
    """Packets of one connection; `mss` cuts what is sent into segments."""

    def __init__(self, mss: int = 1460, client: Side = CLIENT, server: Side = SERVER) -> None:
        self.mss = mss
        super().__init__(client, server)

    def say(self, direction: int, data: bytes) -> Scene:
        for at in range(0, len(data), self.mss):
            self.send(direction, data[at : at + self.mss], ACK)
        return self

    def again(self, index: int, *, after: int) -> Scene:
        """Packet `index` is sent once more, and captured after packet `after`."""
        packet = self.packets[index]
        data = bytearray(packet.data)
        data[18:20] = b"\x77\x77"  # another IP id: sent twice, not captured twice
        data[24:26] = b"\0\0"
        data[24:26] = struct.pack(">H", checksum(bytes(data[14:34])))
        self.packets.insert(after + 1, Packet(self.packets[after].time + 1, bytes(data), packet.wire))
        return self


def kafka(mss: int = 1460) -> Scene:
    """Produce, its answer; fetch, its answer with the same batch."""
    scene = Scene(mss)
    scene.say(0, wire.produce(1, {("orders", 3): BATCH})).say(1, wire.produced(1, [("orders", 3, 0, 100)]))
    return scene.say(0, wire.fetch(2, [("orders", [3])])).say(1, wire.fetched(2, {("orders", 3): STORED}))


def find(packets: Sequence[Packet], what: bytes, nth: int = 0) -> tuple[int, int]:
    """(index of the packet, offset in it) of the nth packet that holds these bytes."""
    hits = [(i, p.data.index(what)) for i, p in enumerate(packets) if what in p.data]
    return hits[nth]


def broken(packet: Packet, changes: dict[int, int], *, repaired: bool) -> Packet:
    """The packet with bytes XORed; `repaired`: the TCP checksum is computed anew."""
    data = bytearray(packet.data)
    for at, change in changes.items():
        data[at] ^= change
    return repair(packet._replace(data=bytes(data))) if repaired else packet._replace(data=bytes(data))


def repair(packet: Packet) -> Packet:
    """The packet with a right TCP checksum."""
    data = bytearray(packet.data)
    data[50:52] = b"\0\0"
    pseudo = bytes(data[26:34]) + struct.pack(">BBH", 0, 6, len(data) - 34)
    data[50:52] = struct.pack(">H", checksum(pseudo + bytes(data[34:])))
    return packet._replace(data=bytes(data))


def offloaded(packet: Packet, how: str) -> Packet:
    """The packet as a sending host captures it that leaves the checksum to the network card."""
    data = bytearray(packet.data)
    pseudo = bytes(data[26:34]) + struct.pack(">BBH", 0, 6, len(data) - 34)
    data[50:52] = b"\0\0" if how == "zero" else struct.pack(">H", ~checksum(pseudo) & 0xFFFF)
    return packet._replace(data=bytes(data))


def investigate(folder: Path, packets: Sequence[Packet], name: str = "a.pcap", **options: Any) -> list[Case]:
    """What forensics says of these packets."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(pcap(packets, nano=True))
    return investigate_paths([path], **options)


def investigate_paths(paths: Sequence[Path], **options: Any) -> list[Case]:
    found = Investigation([str(path) for path in paths], Options(**options))
    found.run()
    return list(found.cases())
