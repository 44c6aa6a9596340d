"""Captures to begin with, as packets and as the frames that their connections carry."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dissectors.capture.block import ACK, FIN, SYN, PacketBlock, address
from dissectors.capture.reader import Reader
from dissectors.limits import Limits
from tests.captures import CAPTURES
from tests.wires import Packet, Side, segment

ROOT = Path(__file__).parent.parent.parent
LARGEST = 120_000  # bytes of a capture that is taken as a seed
SERVER_PORTS = {"kafka": 9092, "pulsar": 6650, "iggy": 8090}
CLIENT, SERVER = 0, 1
_SEGMENT = 1400
_VSR_CAPTURES = ("iggy-vsr", "c9-")  # Iggy from 0.9 on frames in another way


class FrameOnWire(NamedTuple):
    """One frame of one direction of a connection."""

    connection: int
    direction: int
    time: int  # ns
    data: bytes


@dataclass
class Seed:
    """A capture, and what its connections carry."""

    path: Path
    protocol: str
    keylog: Path | None = None
    links: int = 1
    packets: list[Packet] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()


@cache
def seeds() -> list[Seed]:
    """The samples, and small captures of real brokers where there are any."""
    found = []
    folders = [ROOT / "samples"] + [CAPTURES / name for name in SERVER_PORTS if CAPTURES is not None]
    for folder in folders:
        for path in sorted(folder.glob("*.pcap*")):
            if path.suffix not in (".pcap", ".pcapng") or path.stat().st_size > LARGEST:
                continue
            protocol = folder.name if folder.name in SERVER_PORTS else path.name.partition("-")[0]
            keys = path.with_suffix(".keys")
            seed = Seed(path, protocol, keys if keys.exists() else None)
            seed.links, seed.packets = read_pcap(seed.data) if path.suffix == ".pcap" else (0, [])
            found.append(seed)
    return found


# --- packets ---------------------------------------------------------------------------------------------------------


def read_pcap(data: bytes) -> tuple[int, list[Packet]]:
    """(link type, packets) of a classic pcap file, as far as it is whole."""
    order = "<" if data[:1] in b"\xd4\x4d" else ">"
    unit = 1 if data[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    link: int = struct.unpack_from(order + "I", data, 20)[0]
    packets, at = [], 24
    while at + 16 <= len(data):
        seconds, fraction, captured, wire = struct.unpack_from(order + "IIII", data, at)
        packets.append(Packet(seconds * 10**9 + fraction * unit, data[at + 16 : at + 16 + captured], wire))
        at += 16 + captured
    return link, packets


# --- frames ----------------------------------------------------------------------------------------------------------


@cache
def frames(path: Path, protocol: str) -> tuple[FrameOnWire, ...]:
    """What the connections of a capture carry, frame by frame, in the order in which the frames were whole.

    Segments are put together as they come: what does not fit is left out.
    """
    framing = "vsr" if path.name.startswith(_VSR_CAPTURES) else protocol
    ends: dict[tuple[int, ...], tuple[int, int]] = {}
    expected: dict[tuple[int, int], int] = {}
    waiting: dict[tuple[int, int], bytes] = {}
    out = []
    for block in Reader(str(path), 0, Limits()).blocks():
        for at in range(len(block)):
            key, turned = _keys(block, at)
            if key not in ends:
                number = len(ends) // 2
                server = block.flags[at] & (SYN | ACK) == SYN | ACK or (
                    not block.flags[at] & SYN and block.sport[at] < block.dport[at]
                )
                ends[key], ends[turned] = (number, int(server)), (number, int(not server))
            stream = ends[key]
            data = bytes(block.buffer[block.at[at] : block.at[at] + block.have[at]])
            sequence = int(block.seq[at])
            if block.flags[at] & SYN:
                expected[stream] = (sequence + 1) % 2**32
            if not data or expected.setdefault(stream, sequence) != sequence:
                continue
            expected[stream] = (sequence + len(data)) % 2**32
            buffer = waiting.get(stream, b"") + data
            while (size := frame_size(framing, stream[1], buffer)) and size <= len(buffer):
                out.append(FrameOnWire(*stream, int(block.time[at]), buffer[:size]))
                buffer = buffer[size:]
            waiting[stream] = buffer
    out += [FrameOnWire(*stream, out[-1].time if out else 0, rest) for stream, rest in waiting.items() if rest]
    return tuple(out)


def _keys(block: PacketBlock, at: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    source = (int(block.src_hi[at]), int(block.src_lo[at]), int(block.sport[at]))
    target = (int(block.dst_hi[at]), int(block.dst_lo[at]), int(block.dport[at]))
    return (*source, *target), (*target, *source)


def frame_size(protocol: str, direction: int, data: bytes) -> int:
    """Size of the frame that begins here; 0 where it is not known yet."""
    if len(data) < 8:
        return 0
    if protocol == "tls":
        return 5 + int.from_bytes(data[3:5], "big")
    if protocol in ("kafka", "pulsar"):
        return 4 + int.from_bytes(data[:4], "big")
    if protocol == "vsr":
        return max(256, int.from_bytes(data[48:52], "little")) if len(data) >= 256 else 0
    if direction == CLIENT:
        return 4 + int.from_bytes(data[:4], "little")
    return 8 + (0 if any(data[:4]) else int.from_bytes(data[4:8], "little"))


def on_wire(frames: list[FrameOnWire], port: int) -> list[Packet]:
    """The frames as packets: each connection with its handshake, each frame in segments of its own."""
    return list(_on_wire(frames, port))


def _on_wire(frames: list[FrameOnWire], port: int) -> Iterator[Packet]:
    following: dict[int, list[int]] = {}
    clock = frames[0].time if frames else 0
    server = Side("10.0.0.1", port)
    for frame in frames:
        client = Side("10.0.0.2", 40_000 + frame.connection)
        clock = max(clock + 1000, min(frame.time, clock + 10**9))
        if frame.connection not in following:
            following[frame.connection] = [1001, 5001]
            yield segment(client, server, 1000, 0, b"", SYN, time=clock)
            yield segment(server, client, 5000, 1001, b"", SYN | ACK, time=clock + 100)
            yield segment(client, server, 1001, 5001, b"", ACK, time=clock + 200)
        ends, next_seq = (
            (client, server) if frame.direction == CLIENT else (server, client),
            following[frame.connection],
        )
        for at in range(0, len(frame.data), _SEGMENT):
            piece = frame.data[at : at + _SEGMENT]
            clock += 500
            yield segment(*ends, next_seq[frame.direction], next_seq[1 - frame.direction], piece, time=clock)
            next_seq[frame.direction] += len(piece)
    for connection, next_seq in following.items():
        client = Side("10.0.0.2", 40_000 + connection)
        yield segment(client, server, next_seq[CLIENT], next_seq[SERVER], b"", FIN | ACK, time=clock + 1000)


__all__ = ["CLIENT", "SERVER", "FrameOnWire", "Seed", "address", "frames", "on_wire", "read_pcap", "seeds"]
