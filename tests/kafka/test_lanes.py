"""Many frames by column say what the skimmer says of each."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from dissectors.kafka import lanes, schema
from dissectors.kafka.skim import Skim, skimmer
from dissectors.stretch import PADDING
from tests.kafka.wire import any_body

MESSAGES = [f"{api.name}{kind}" for api in schema.apis().values() for kind in ("Request", "Response")]


def walked(name: str, version: int, bodies: list[bytes]) -> tuple[bytes, np.ndarray, np.ndarray, lanes.Found] | None:
    """The buffer, where the bodies are in it, and what was found."""
    plan = lanes.steps(name, version)
    if plan is None:
        return None
    buf = b"".join(bodies) + bytes(PADDING)
    end = np.cumsum([len(body) for body in bodies])
    at = end - [len(body) for body in bodies]
    return buf, at, end, lanes.walk(plan, np.frombuffer(buf, np.uint8), at, end)


def found_in(lane: int, buf: bytes, found: lanes.Found) -> dict[str, Any]:
    """What a lane holds, as a skimmer has it."""
    topics: list[Any] = []
    for group in found.topics:
        for row, start, size, is_id in zip(*group, strict=True):
            if row == lane:
                raw = buf[start : start + size]
                topics.append(raw if is_id else raw.decode("utf-8", "backslashreplace"))
    names = [
        (buf[i : i + 16], buf[start : start + size].decode("utf-8", "backslashreplace"))
        for group in found.names
        for row, i, start, size in zip(*group, strict=True)
        if row == lane
    ]
    sets = [(start, size) for group in found.sets for row, start, size in zip(*group, strict=True) if row == lane]
    throttle = None if found.throttle is None else int(found.throttle[lane])
    return {"topics": topics, "names": names, "sets": sets, "throttle": throttle, "n": int(found.partitions[lane])}


def skimmed(skim: Skim) -> dict[str, Any]:
    sets = [(each.start, each.size) for each in skim.sets]
    names, topics = list(skim.names), list(skim.topics)
    return {"topics": topics, "names": names, "sets": sets, "throttle": skim.throttle_ms, "n": skim.partitions}


def same(name: str, version: int, bodies: list[bytes]) -> int:
    """Lanes that stay say what the skimmer says; how many do."""
    result = walked(name, version, bodies)
    if result is None:
        return 0
    buf, at, end, found = result
    for lane in np.flatnonzero(found.ok).tolist():
        skim = skimmer(name, version)(buf, int(at[lane]), int(end[lane]))
        assert skim.whole
        assert not skim.faults
        got, want = found_in(lane, buf, found), skimmed(skim)
        assert {k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in got.items()} == {
            k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in want.items()
        }
        for key, values in found.values.items():
            assert values[lane] == skim.values[key]
        for key, (starts, sizes) in found.texts.items():
            start, size = int(starts[lane]), int(sizes[lane])
            assert skim.values[key] == (
                None if size < 0 else buf[start : start + size].decode("utf-8", "backslashreplace")
            )
    return int(found.ok.sum())


@pytest.mark.parametrize("name", MESSAGES)
def test_lanes_find_what_the_skimmer_finds(name: str) -> None:
    for version in schema.message(name).versions.each():
        same(name, version, [any_body(name, version, seed) for seed in range(12)])


@pytest.mark.parametrize("name", MESSAGES)
def test_damaged_lanes_leave_or_are_read_alike(name: str) -> None:
    rng = random.Random(name)
    for version in list(schema.message(name).versions.each())[-2:]:
        bodies = []
        for seed in range(12):
            body = bytearray(any_body(name, version, seed))
            for _ in range(rng.randrange(3)):
                if body:
                    body[rng.randrange(len(body))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            bodies.append(bytes(body[: rng.randrange(len(body) + 1)] if rng.random() < 0.3 else body))
        same(name, version, bodies)


def test_plain_lanes_stay() -> None:
    for name, version in (("ProduceRequest", 7), ("HeartbeatResponse", 4), ("FindCoordinatorRequest", 3)):
        bodies = {
            "ProduceRequest": b"\xff\xff\xff\xff\0\0\x75\x30\0\0\0\1\0\1t\0\0\0\1\0\0\0\5\0\0\0\0",
            "HeartbeatResponse": b"\0\0\0\0\0\0\0",
            "FindCoordinatorRequest": b"\2g\0\0",
        }
        assert same(name, version, [bodies[name]] * 5) == 5
