"""What an engine keeps, and what it lets go."""

import gc
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dissectors
from dissectors.capture.reader import Reader
from dissectors.engine import Engine, decode_all
from dissectors.limits import KIB, SHARES, Limits
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.session.conversation import Conversation
from dissectors.tcp.flow import Flow
from dissectors.tcp.packed import Packer
from dissectors.tcp.tracker import Tracker
from tests.benchmarks import hostile

REQUEST = struct.pack(">ihhih", 16, 18, 0, 1, 6) + b"client"
ANSWER = struct.pack(">iihihhh", 16, 1, 0, 1, 18, 0, 3)
SAMPLES = Path(__file__).parent.parent / "samples"


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.pcap")))
def test_what_is_left_of_a_closed_connection_needs_no_garbage_collector(name: str) -> None:
    path = SAMPLES / name
    options = Options(tables=tuple(TABLES), full=True)
    gc.collect()
    gc.disable()
    try:
        engine = Engine(options, [str(path)])
        for block in Reader(str(path), 0, Limits()).blocks():
            engine.feed("", block)
        engine.decode()
        while_open = _conversations()
        for _ in engine.end():
            engine.take()
        assert while_open
        assert _conversations() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.pcap")))
def test_connections_that_are_packed_between_their_packets_give_the_same_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = []
    unpack = Packer.unpack

    def counting(self: Packer, packed: bytes, *rest: Any) -> Flow:
        unpacked.append(packed)
        return unpack(self, packed, *rest)

    monkeypatch.setattr(Packer, "unpack", counting)
    small = {"block_bytes": 16 * KIB, "decode_bytes": 8 * KIB, "idle_ns": 0}
    often, never = (
        dissectors.dissect([SAMPLES / name], tables=list(TABLES), limits=Limits(unpacked=most, **small))
        for most in (0, 1_000_000)
    )
    for table in TABLES:
        assert often[table].equals(never[table])
    assert unpacked


def test_more_connections_than_are_followed_leave_most_of_them_whole(tmp_path: Path) -> None:
    path, talk = tmp_path / "open.pcap", [(0, REQUEST), (1, ANSWER)]
    hostile.open_connections(path, 3_000, talk, port=9092, turns=8)
    tables = ("exchanges", "connections", "findings")
    made = dissectors.dissect([path], tables=list(tables), limits=Limits(flows=2_000, block_packets=500))
    assert made["connections"].num_rows == 3_000  # none came back to take another's place
    whole = [row for row in made["connections"].to_pylist() if row["frames"] == 16]
    assert len(whole) > 0.8 * 2_000
    assert made["exchanges"].num_rows >= 8 * len(whole)
    found = [json.loads(row["evidence"]) for row in made["findings"].to_pylist() if row["kind"] == "limit"]
    seen = sum(row["client_packets"] + row["server_packets"] for row in made["connections"].to_pylist())
    assert sum(evidence["packets"] for evidence in found) + seen == 19 * 3_000


def test_a_connection_that_was_closed_early_is_followed_again_after_a_while(tmp_path: Path) -> None:
    path, talk = tmp_path / "open.pcap", [(0, REQUEST), (1, ANSWER)]
    count = 2 * SHARES
    hostile.open_connections(
        path, count, talk, port=9092, turns=2, step=60_000_000 // count
    )  # a minute from a packet of each to its next
    made = dissectors.dissect([path], tables=["connections"], limits=Limits(flows=100, block_packets=50))
    assert made["connections"].num_rows > 2 * count


def _conversations() -> int:
    return sum(isinstance(thing, Conversation) for thing in gc.get_objects())


def test_packets_without_payload_are_not_decoded_one_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = Reader(str(SAMPLES / "kafka-codecs.pcap"), 0, Limits()).blocks()
    bare = block.take(np.flatnonzero(block.have == 0)[:100])
    blocks = [(f"site {n}", replace(bare.take(slice(n, n + 1)), buffer=b"")) for n in range(100)]
    steps: list[None] = []
    packed: list[None] = []
    decode, pack = Engine.decode, Tracker.pack
    monkeypatch.setattr(Engine, "decode", lambda self: steps.append(decode(self)))
    monkeypatch.setattr(Tracker, "pack", lambda self, busy: packed.append(pack(self, busy)))
    assert len(bare) == 100
    list(decode_all(Engine(Options(), [""]), blocks))
    assert len(steps) < 20
    assert len(packed) == 100, "a step looks only at sites of which packets have come"
