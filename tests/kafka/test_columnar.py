"""Many frames by column hold what the walk over each one notes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from dissectors.frame_columns import NONE, PADDING
from dissectors.kafka import columnar, schema
from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.coded import CodedTexts
from dissectors.kafka.plan import GROUP, plan
from dissectors.kafka.walk import walker
from dissectors.kafka.words import message_words
from tests.kafka.wire import any_body

MESSAGES = [f"{api.name}{kind}" for api in schema.apis().values() for kind in ("Request", "Response")]


Walked = tuple[bytes, CodedTexts, np.ndarray, np.ndarray, columnar.ColumnNotes]


def walked(name: str, version: int, bodies: list[bytes]) -> Walked:
    """The buffer, where the bodies are in it, and what was found."""
    buf = b"".join(bodies) + bytes(PADDING)
    end = np.cumsum([len(body) for body in bodies])
    at = end - [len(body) for body in bodies]
    octets = np.frombuffer(buf, np.uint8)
    texts = CodedTexts(buf, octets)
    return buf, texts, at, end, columnar.walk(plan(name, version).noting, octets, texts, at, end)


def found_in(wanted: int, buf: bytes, texts: CodedTexts, found: columnar.ColumnNotes) -> dict[str, Any]:
    """What a row holds, as the notes have it."""

    def topics_of(topics: columnar.Topics) -> list[Any]:
        return [texts.values[code] for code in topics.code.tolist()]

    topics = [topic for group in found.topics for topic in topics_of(group.at(group.row == wanted))]
    names = [
        (buf[i : i + 16], buf[start : start + size].decode("utf-8", "backslashreplace"))
        for group in found.names
        for row, i, start, size in zip(*group, strict=True)
        if row == wanted
    ]
    sets = []
    for group in found.sets:
        mine = group.topic.row == wanted
        columns = (group.partition[mine].tolist(), group.start[mine].tolist(), group.size[mine].tolist())
        sets += list(zip(topics_of(group.topic.at(mine)), *columns, strict=True))
    pairs = []
    for pair in found.pairs:
        mine = pair.topic.row == wanted
        numbers = [column[mine].tolist() for column in (pair.partition, *pair.numbers)]
        pairs += list(zip(topics_of(pair.topic.at(mine)), *numbers, strict=True))
    throttle = None if found.throttle is None else int(found.throttle[wanted])
    return {
        "topics": topics,
        "names": names,
        "sets": sets,
        "pairs": pairs,
        "throttle": throttle,
        "n": int(found.partitions[wanted]),
    }


def noted(notes: BodyNotes) -> dict[str, Any]:
    return {
        "topics": list(notes.topics),
        "names": list(notes.names),
        "sets": [tuple(s) for s in notes.sets],
        "pairs": list(notes.pairs),
        "throttle": notes.throttle_ms,
        "n": notes.partitions,
    }


def same(name: str, version: int, bodies: list[bytes]) -> int:
    """Rows that stay say what the notes say; how many do."""
    buf, texts, at, end, found = walked(name, version, bodies)
    for row in np.flatnonzero(found.ok).tolist():
        notes = walker().note(message_words(name, version), buf, int(at[row]), int(end[row]))
        assert notes.whole
        assert not notes.faults
        got, want = found_in(row, buf, texts, found), noted(notes)
        assert {k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in got.items()} == {
            k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in want.items()
        }
        for key, values in found.values.items():
            assert values[row] == (NONE if notes.values[key] is None else notes.values[key])
        for key, (starts, sizes) in found.texts.items():
            start, size = int(starts[row]), int(sizes[row])
            assert notes.values[key] == (
                None if size < 0 else buf[start : start + size].decode("utf-8", "backslashreplace")
            )
    return int(found.ok.sum())


@pytest.mark.parametrize("name", MESSAGES)
def test_columns_hold_what_the_walk_notes(name: str) -> None:
    for version in schema.message(name).versions.each():
        same(name, version, [any_body(name, version, seed) for seed in range(12)])


@pytest.mark.parametrize("name", MESSAGES)
def test_damaged_rows_are_given_up_or_read_alike(name: str) -> None:
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


def test_plain_rows_stay() -> None:
    for name, version in (("ProduceRequest", 7), ("HeartbeatResponse", 4), ("FindCoordinatorRequest", 3)):
        bodies = {
            "ProduceRequest": b"\xff\xff\xff\xff\0\0\x75\x30\0\0\0\1\0\1t\0\0\0\1\0\0\0\5\0\0\0\0",
            "HeartbeatResponse": b"\0\0\0\0\0\0\0",
            "FindCoordinatorRequest": b"\2g\0\0",
        }
        assert same(name, version, [bodies[name]] * 5) == 5


@pytest.mark.parametrize(
    ("name", "version", "body", "group"),
    [
        ("OffsetFetchRequest", 8, b"\2\2g\1\0\0\0", "g"),
        ("OffsetFetchRequest", 8, b"\3\2g\1\0\2h\1\0\0\0", None),
        ("OffsetFetchRequest", 8, b"\2\2g\5", None),  # it ends early
        ("DescribeGroupsRequest", 0, b"\0\0\0\1\0\1g", "g"),
        ("DescribeGroupsRequest", 0, b"\0\0\0\3\0\1g\0\1g\0\1h", None),
        ("DeleteGroupsRequest", 0, b"\0\0\0\0", None),
        ("ConsumerGroupDescribeRequest", 1, b"\2\2g\0\0", "g"),
        ("FindCoordinatorRequest", 0, b"\0\1g", "g"),
        ("FindCoordinatorRequest", 3, b"\2g\0\0", "g"),
        ("FindCoordinatorRequest", 3, b"\2t\1\0", None),  # a transaction
        ("FindCoordinatorRequest", 6, b"\0\2\2g\0", "g"),
        ("FindCoordinatorRequest", 6, b"\2\2\6g:t:0\0", None),  # a partition of a share group
        ("FindCoordinatorRequest", 6, b"\0\3\2g\2h\0", None),
    ],
)
def test_a_request_that_names_one_group_is_about_it(name: str, version: int, body: bytes, group: str | None) -> None:
    assert walker().note(message_words(name, version), body, 0, len(body)).values[GROUP] == group
    same(name, version, [body] * 3)


def test_the_tagged_fields_of_a_replica_are_read_by_column() -> None:
    state = (2).to_bytes(4, "big") + (9).to_bytes(8, "big") + b"\0"
    head = b"\0\0\1\xf4" + bytes(8) + b"\0" + (7).to_bytes(4, "big") + (3).to_bytes(4, "big") + b"\1\1\1"
    bodies = [head + b"\0", head + b"\1\1" + bytes([len(state)]) + state, head + b"\2\0\2\2x\1\x0d" + state]
    assert same("FetchRequest", 15, bodies) == 3
    *_, found = walked("FetchRequest", 15, bodies)
    assert found.values["replicaId"].tolist() == [NONE, 2, 2]
