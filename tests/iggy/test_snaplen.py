"""Captures of VSR cut by the snap length: what each frame's 256-byte header still shows, by how much of it is there."""

import struct
from pathlib import Path
from typing import Any

import pytest

from dissectors import dissect
from tests.captures import captures, needs_captures

SIZED = 52  # bytes up to the end of a frame's size
HEADER = 256
KEPT = (16, 32, 47, 48, 49, 51, 52, 56, 60, 61, 63, 64, 65, 80, 100, 127, 128, 129, 176, 200, 255, 256, 257)
BEFORE_PAYLOAD = {  # Ethernet, IP and TCP with its timestamps
    "c9-dev-crud": 66, "c9-dev-errors": 66, "c9-dev-messages": 66, "c9-dev-loss3": 66, "c9-dev-ipv6": 86,
}  # fmt: skip
ONE_PACKET_A_FRAME = ("c9-dev-crud", "c9-dev-errors")


def cut(source: Path, target: Path, snaplen: int) -> Path:
    """The capture as it would be with that snap length."""
    data, at = source.read_bytes(), 24
    out = [data[:at]]
    while at < len(data):
        seconds, fraction, captured, length = struct.unpack_from("<4I", data, at)
        kept = min(captured, snaplen)
        out += struct.pack("<4I", seconds, fraction, kept, length), data[at + 16 : at + 16 + kept]
        at += 16 + captured
    target.write_bytes(b"".join(out))
    return target


def rows(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    tables = dissect([path], tables=["connections", "exchanges"])
    return tables["connections"].to_pylist(), tables["exchanges"].to_pylist()


def shape(exchange: dict[str, Any]) -> tuple[Any, ...]:
    """What the sizes of frames and the times of packets tell."""
    columns = ("kind", "connection", "time", "request_packet", "request_bytes", "response_packet", "response_bytes")
    return tuple(exchange[column] for column in columns)


@needs_captures
@pytest.mark.parametrize("name", BEFORE_PAYLOAD)
def test_connections_stay_iggy_and_exchanges_stay_as_many_as_sizes_are_known(name: str, tmp_path: Path) -> None:
    source = captures("iggy") / f"{name}.pcap"
    whole, exchanges = rows(source)
    for kept in KEPT:
        connections, found = rows(cut(source, tmp_path / "cut.pcap", BEFORE_PAYLOAD[name] + kept))
        assert [(c["connection"], c["protocol"]) for c in connections] == [(c["connection"], "iggy") for c in whole], (
            kept
        )
        if kept >= SIZED:
            assert [shape(e) for e in found] == [shape(e) for e in exchanges], kept
            assert all(c["skipped_bytes"] == 0 for c in connections), kept
        elif name in ONE_PACKET_A_FRAME:
            assert [(e["kind"], e["time"]) for e in found] == [(e["kind"], e["time"]) for e in exchanges], kept
        if kept >= HEADER:
            assert [e["correlation_id"] for e in found] == [e["correlation_id"] for e in exchanges], kept
            assert all(e["api"] for e in found), kept
