"""What an engine keeps, and what it lets go."""

from __future__ import annotations

import gc
import json
import struct
from pathlib import Path

import pytest

import dissectors
from dissectors.capture.reader import Reader
from dissectors.conversation import Conversation
from dissectors.engine import Engine
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import TABLES
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


def test_more_connections_than_are_followed_leave_most_of_them_whole(tmp_path: Path) -> None:
    path, talk = tmp_path / "open.pcap", [(0, REQUEST), (1, ANSWER)]
    hostile.open_connections(path, 3_000, talk, port=9092, turns=8)
    tables = ("exchanges", "connections", "findings")
    made = dissectors.dissect([path], tables=list(tables), limits=Limits(flows=2_000, block_packets=500))
    assert made["connections"].num_rows == 3_000  # none came back to take another's place
    whole = [row for row in made["connections"].to_pylist() if row["frames"] == 16]
    assert len(whole) > 0.8 * 2_000
    assert made["exchanges"].num_rows >= 8 * len(whole)
    (found,) = (row for row in made["findings"].to_pylist() if row["kind"] == "limit")
    seen = sum(row["client_packets"] + row["server_packets"] for row in made["connections"].to_pylist())
    assert json.loads(found["evidence"])["packets"] + seen == 19 * 3_000


def test_a_connection_that_was_closed_early_is_followed_again_after_a_while(tmp_path: Path) -> None:
    path, talk = tmp_path / "open.pcap", [(0, REQUEST), (1, ANSWER)]
    hostile.open_connections(path, 300, talk, port=9092, turns=2, step=200_000)  # a minute from a packet to the next
    made = dissectors.dissect([path], tables=["connections"], limits=Limits(flows=100, block_packets=50))
    assert made["connections"].num_rows > 600


def _conversations() -> int:
    return sum(isinstance(thing, Conversation) for thing in gc.get_objects())
