"""Large captures for measurements: Kafka with big batches, with tiny exchanges, and the samples many times over."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tests.kafka import wire

CLIENT, SERVER, PORT = 0x0A000002, 0x0A000001, 9092
START_S = 1_760_000_000
SEGMENT = 1448  # payload bytes of a full TCP segment
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
_ETHERNET = bytes(12) + b"\x08\x00"
ACK, PSH_ACK, SYN, SYN_ACK = 16, 24, 2, 18
_ID_AT = 8  # of the correlation id in a request of Kafka


class Wire:
    """One TCP connection, written packet by packet to a pcap file."""

    def __init__(self, file: BinaryIO, client_port: int, port: int = PORT, *, handshake: bool = True) -> None:
        """port: the server's. handshake: the connection begins here, not in mid-stream."""
        self._file = file
        self._port = client_port
        self._server_port = port
        self._next = [1_000, 5_000]  # sequence numbers of client and server
        self.micros = 0
        if handshake:
            self._packet(0, SYN, b"")
            self._next[0] += 1
            self._packet(1, SYN_ACK, b"")
            self._next[1] += 1
            self._packet(0, ACK, b"")

    def send(self, side: int, data: bytes) -> None:
        """Data of one side (0 client, 1 server) in segments; the other acknowledges every second one."""
        for number, at in enumerate(range(0, len(data), SEGMENT)):
            self._packet(side, PSH_ACK, data[at : at + SEGMENT])
            self._next[side] += len(data[at : at + SEGMENT])
            if number % 2:
                self._packet(1 - side, ACK, b"")

    def lose(self, side: int, size: int) -> None:
        """Data of one side that the capture lacks: acknowledged, and not there."""
        self._next[side] += size
        self._packet(1 - side, ACK, b"")

    def _packet(self, side: int, flags: int, payload: bytes) -> None:
        self.micros += 7
        source, target = (CLIENT, SERVER) if side == 0 else (SERVER, CLIENT)
        ports = (self._port, self._server_port) if side == 0 else (self._server_port, self._port)
        size = 40 + len(payload)
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, size, self.micros & 0xFFFF, 0x4000, 64, 6, 0, source, target)
        sequence, acknowledged = (self._next[i] & 0xFFFFFFFF for i in (side, 1 - side))
        tcp = struct.pack(">HHIIBBHHH", *ports, sequence, acknowledged, 0x50, flags, 64_000, 0, 0)
        length = 14 + size
        seconds, micros = divmod(self.micros, 1_000_000)
        self._file.write(struct.pack("<IIII", START_S + seconds, micros, length, length))
        self._file.write(_ETHERNET + ip + tcp + payload)


def produce(path: Path, size: int, *, records: int, value_bytes: int) -> None:
    """Produce requests (version 7) of one batch each, with their answers, until the file has about `size` bytes."""
    value = bytes(i * 37 & 0xFF for i in range(value_bytes))
    data = wire.batch([wire.record(number, None, value) for number in range(records)])
    topic = wire.text("orders")
    requests = [wire.produce(0, {("orders", 0): data}, client=f"bench-{number}") for number in range(20)]
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        wires = [Wire(file, 40_000 + i) for i in range(len(requests))]
        micros = number = 0
        while file.tell() < size:
            connection = wires[number % len(wires)]
            connection.micros = micros
            request = requests[number % len(wires)]
            connection.send(0, request[:_ID_AT] + struct.pack(">i", number) + request[_ID_AT + 4 :])
            connection.micros += 300
            answer = (
                struct.pack(">ii", number, 1) + topic + struct.pack(">iihqqqi", 1, 0, 0, number * records, -1, 0, 0)
            )
            connection.send(1, wire.frame(answer))
            micros, number = connection.micros, number + 1


def repeat(sources: list[Path], path: Path, size: int) -> None:
    """Captures again and again, each time between other addresses and later, until the file has about `size` bytes."""
    packets = [list(_packets(source)) for source in sources]
    first = min(p[0] for some in packets for p in some)
    span = max(p[0] for some in packets for p in some) - first + 1_000_000
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        turn = 0
        while file.tell() < size:
            for some in packets:
                for micros, frame in some:
                    moved = bytearray(frame)
                    for at in (26, 30):  # source and destination address: 10.x.y.z
                        moved[at + 1], moved[at + 2] = turn >> 8 & 255, turn & 255
                    seconds, rest = divmod(START_S * 1_000_000 + micros - first + turn * span, 1_000_000)
                    file.write(struct.pack("<IIII", seconds, rest, len(moved), len(moved)))
                    file.write(moved)
            turn += 1


def _packets(path: Path) -> Iterator[tuple[int, bytes]]:
    """(µs, frame) of each IPv4 packet of an Ethernet pcap file; nothing of any other file."""
    data = path.read_bytes()
    if data[:4] != FILE_HEADER[:4] or data[20:24] != FILE_HEADER[20:]:
        return
    at = 24
    while at + 16 <= len(data):
        seconds, micros, captured, _ = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + captured]
        if frame[12:14] == b"\x08\x00":
            yield seconds * 1_000_000 + micros, frame
        at += 16 + captured
