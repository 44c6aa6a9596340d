"""Captures that ask for memory: floods of connections, frames that never come, segments in disorder, bombs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.benchmarks.captures import ACK, FILE_HEADER, PSH_ACK, START_S, SYN, SYN_ACK, Wire
from tests.kafka.encoder import uvarint
from tests.kafka.wire import batch, produce, produced

CLIENTS, SERVER = 0x0B000000, 0x0A000001
RST_ACK = 20
_HEADERS = 54  # Ethernet, IPv4, TCP
Ints = npt.NDArray[np.int64]


def packets(
    clients: Ints, *, side: int, port: int, seq: Ints | int, ack: int, flags: int, micros: Ints, payload: bytes = b""
) -> npt.NDArray[np.uint8]:
    """uint8[n, record]: one packet with the same payload for each client, sent by it (side 0) or to it (1)."""
    size = _HEADERS + len(payload)
    out = np.zeros((len(clients), 16 + size), np.uint8)
    ends = [(CLIENTS + clients // 50_000 * 256, 1024 + clients % 50_000), (SERVER, port)]
    (source, sport), (target, dport) = ends if side == 0 else ends[::-1]
    out[:, 28:30], out[:, 30], out[:, 38], out[:, 39], out[:, 62], out[:, 63] = (8, 0), 0x45, 64, 6, 0x50, flags
    fields: list[tuple[int, str, Any]] = [
        (0, "<u4", START_S + micros // 1_000_000), (4, "<u4", micros % 1_000_000), (8, "<u4", size), (12, "<u4", size),
        (32, ">u2", size - 14), (34, ">u2", np.arange(len(clients)) & 0xFFFF), (42, ">u4", source), (46, ">u4", target),
        (50, ">u2", sport), (52, ">u2", dport), (54, ">u4", seq), (58, ">u4", ack), (64, ">u2", 64_000),
    ]  # fmt: skip
    for at, kind, value in fields:
        column = np.broadcast_to(value, len(clients)).astype(kind)
        out[:, at : at + column.itemsize] = column.view(np.uint8).reshape(len(clients), -1)
    if payload:
        out[:, 16 + _HEADERS :] = np.frombuffer(payload, np.uint8)
    return out


def syn_flood(path: Path, connections: int, *, per_second: int = 100_000) -> None:
    """SYNs that nobody answers."""
    clients = np.arange(connections)
    micros = clients * 1_000_000 // per_second
    rows = packets(clients, side=0, port=9092, seq=clients, ack=0, flags=SYN, micros=micros)
    path.write_bytes(FILE_HEADER + rows.tobytes())


def short_connections(path: Path, connections: int, payload: bytes, *, port: int, per_second: int = 20_000) -> None:
    """SYN, one request and RST, one connection after the other."""
    clients = np.arange(connections)
    micros = clients * 1_000_000 // per_second
    steps = ((SYN, 0, b""), (PSH_ACK, 1, payload), (RST_ACK, 1 + len(payload), b""))
    rows = [
        packets(clients, side=0, port=port, seq=clients + ahead, ack=i and 1, flags=flags, micros=micros + i, payload=p)
        for i, (flags, ahead, p) in enumerate(steps)
    ]
    path.write_bytes(FILE_HEADER + np.concatenate(rows, axis=1).tobytes())


def announced_frames(path: Path, connections: int, head: bytes, *, port: int, turns: int = 3, size: int = 1000) -> None:
    """Connections at once, each of which begins a frame and sends some of its bytes in each turn, but never the end."""
    clients = np.arange(connections)
    turn = connections * 10
    steps = [(0, SYN, 0, 0, b""), (1, SYN_ACK, 0, 1, b""), (0, PSH_ACK, 1, 1, head)]
    sent = 1 + len(head)
    for _ in range(turns):
        steps.append((0, PSH_ACK, sent, 1, bytes(size)))
        sent += size
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        for number, (side, flags, seq, ack, payload) in enumerate(steps):
            micros = clients * 10 + number * turn
            rows = packets(
                clients, side=side, port=port, seq=np.full(connections, seq), ack=ack, flags=flags, micros=micros,
                payload=payload,
            )  # fmt: skip
            file.write(rows.tobytes())


def disorder(path: Path, data: bytes, order: Sequence[int], *, port: int, size: int = 1000) -> None:
    """One connection, whose client's whole segments of `size` bytes come in this order."""
    one = np.zeros(1, np.int64)
    number = np.array(order)
    rows = packets(
        np.zeros(len(number), np.int64), side=0, port=port, seq=1 + number * size, ack=1, flags=PSH_ACK,
        micros=2 + np.arange(len(number)), payload=bytes(size),
    )  # fmt: skip
    rows[:, 16 + _HEADERS :] = np.frombuffer(data, np.uint8, len(data) // size * size).reshape(-1, size)[number]
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        file.write(packets(one, side=0, port=port, seq=0, ack=0, flags=SYN, micros=one).tobytes())
        file.write(packets(one, side=1, port=port, seq=0, ack=1, flags=SYN_ACK, micros=one + 1).tobytes())
        file.write(rows.tobytes())


def many_topics(path: Path, connections: int, topics: int) -> None:
    """Each connection asks for its topics, and the broker names them all: Metadata, version 12."""
    body = struct.pack(">i", 0) + b"\2" + struct.pack(">i", 1) + b"\7broker" + struct.pack(">i", 9092) + b"\0\0"
    body += b"\0" + struct.pack(">i", 1) + uvarint(topics + 1)  # no cluster id, the controller
    for number in range(topics):
        name = f"a-topic-of-ordinary-length-{number:06d}".encode()
        body += struct.pack(">h", 0) + bytes([len(name) + 1]) + name + number.to_bytes(16, "big") + b"\0"
        body += b"\2" + struct.pack(">hiiii", 0, 0, 1, 0, 0)[:14] + b"\2\0\0\0\1" + b"\2\0\0\0\1" + b"\1\0"
        body += struct.pack(">i", -(1 << 31)) + b"\0"
    body += b"\0"
    request = struct.pack(">hhi", 3, 12, 1) + b"\0\6client" + b"\0" + b"\0\1\0\0"
    answer = struct.pack(">i", 1) + b"\0" + body
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        micros = 0
        for number in range(connections):
            wire = Wire(file, 40_000 + number)
            wire.micros += micros
            wire.send(0, struct.pack(">i", len(request)) + request)
            wire.send(1, struct.pack(">i", len(answer)) + answer)
            micros = wire.micros


def bombs(path: Path, codec: int, packed: bytes, messages: int, *, times: int = 1, answered: bool = True) -> None:
    """Produce requests (version 7), each with a batch of so many messages that is compressed to these bytes."""
    data = batch([b""] * messages, codec=codec, stored=packed)
    produce_sets(path, data, times=times, answered=answered)


def produce_sets(path: Path, data: bytes, *, times: int = 1, answered: bool = True) -> None:
    """Produce requests (version 7), each with this record set."""
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        wire = Wire(file, 40_000)
        for number in range(times):
            wire.send(0, produce(number, {("orders", 0): data}, client="client"))
            if answered:
                wire.send(1, produced(number, [("orders", 0, 0, number)]))


def records(count: int, value_bytes: int) -> bytes:
    """The records of a batch, magic 2: no keys, and values of zeros."""
    row = b"\0\0\0\1" + uvarint(2 * value_bytes) + bytes(value_bytes) + b"\0"
    return (uvarint(2 * len(row)) + row) * count


def steps(talk: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, int, int, int, bytes]]:
    """(side, flags, sequence number, acknowledged, payload) of the packets of a connection on which this is said."""
    yield from ((0, SYN, 0, 0, b""), (1, SYN_ACK, 0, 1, b""), (0, ACK, 1, 1, b""))
    sent = [1, 1]
    for side, payload in talk:
        yield side, PSH_ACK, sent[side], sent[1 - side], payload
        sent[side] += len(payload)


def open_connections(
    path: Path, connections: int, talk: Iterable[tuple[int, bytes]], *, port: int, turns: int = 1, step: int = 10
) -> None:
    """Connections that are all open at once: each with its handshake and then, `turns` times, what its sides say.

    talk: (side, bytes) one after the other. step: microseconds between a connection and the next.
    """
    clients = np.arange(connections)
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        for number, (side, flags, seq, ack, payload) in enumerate(steps([*talk] * turns)):
            micros = (clients + number * connections) * step
            rows = packets(
                clients, side=side, port=port, seq=np.full(connections, seq), ack=ack, flags=flags, micros=micros,
                payload=payload,
            )  # fmt: skip
            file.write(rows.tobytes())


def idle_connections(path: Path, connections: int, talk: Iterable[tuple[int, bytes]], *, port: int) -> None:
    """One connection after the other, each with its handshake and what its sides say; none of them ends."""
    clients = np.arange(connections)
    rows = [
        packets(
            clients, side=side, port=port, seq=np.full(connections, seq), ack=ack, flags=flags,
            micros=clients * 1_000 + number, payload=payload,
        )
        for number, (side, flags, seq, ack, payload) in enumerate(steps(talk))
    ]  # fmt: skip
    path.write_bytes(FILE_HEADER + np.concatenate(rows, axis=1).tobytes())


def copies(path: Path, samples: Iterable[Path], times: int) -> None:
    """Captures (pcap, Ethernet, IPv4) one after the other in time, again and again under new addresses."""
    plain = [sample.read_bytes() for sample in samples]
    clock = START_S
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        for number in range(times):
            for data in plain:
                at = len(FILE_HEADER)
                (begin,) = struct.unpack_from("<I", data, at)
                while at < len(data):
                    seconds, micros, size, wire = struct.unpack_from("<IIII", data, at)
                    packet = bytearray(data[at + 16 : at + 16 + size])
                    for address in (26, 30):
                        packet[address : address + 2] = (11 << 8 | number).to_bytes(2, "big")
                    file.write(struct.pack("<IIII", clock + seconds - begin, micros, size, wire) + packet)
                    at += 16 + size
                clock += seconds - begin + 1


def talk(path: Path, port: int, script: Iterable[tuple[int, bytes]]) -> None:
    """One connection on which its sides (0 client, 1 server) say this."""
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        wire = Wire(file, 40_000, port)
        for side, data in script:
            wire.send(side, data)
