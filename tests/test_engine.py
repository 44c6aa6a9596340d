"""What an engine keeps, and what it lets go."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from dissectors.capture.reader import Reader
from dissectors.conversation import Conversation
from dissectors.engine import Engine
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import TABLES

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


def _conversations() -> int:
    return sum(isinstance(thing, Conversation) for thing in gc.get_objects())
