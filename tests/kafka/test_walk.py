"""The walk over a body: what it notes of one that is damaged, and which bodies make sense as which message."""

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import dissectors
from dissectors.compiling import loading
from dissectors.kafka import schema
from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.full import full
from dissectors.kafka.plan import PAIRED, VALUES, message_words, words_of
from dissectors.kafka.schema import SIZES, SchemaField, first_like
from dissectors.kafka.walk import walker
from dissectors.kafka.words import VALUES as NOTED
from tests.kafka.encoder import Encoder
from tests.kafka.wire import any_body

MESSAGES = [
    (name, version)
    for name in schema.messages()
    if schema.message(name).kind in ("request", "response")
    for version in schema.message(name).versions.each()
]
NEWEST = list({name: (name, version) for name, version in MESSAGES}.values())
LISTS: dict[str, Callable[[BodyNotes], Any]] = {
    "topics": lambda notes: notes.topics(),
    "names": lambda notes: notes.names(),
    "sets": lambda notes: [(s.topic, s.partition, s.start, s.size) for s in notes.sets()],
    "faults": lambda notes: [fault[:4] for fault in notes.faults()],  # without the text, which may be cut
    "pairs": lambda notes: notes.pairs(),
    "forgotten": lambda notes: notes.forgotten(),
}


def note(name: str, version: int, body: bytes) -> BodyNotes:
    return walker().note(message_words(name, version), body, 0, len(body))


def makes_sense(name: str, version: int, body: bytes, end: int | None = None) -> bool:
    return walker().makes_sense(message_words(name, version), body, 0, len(body) if end is None else end)


def lists(notes: BodyNotes) -> dict[str, list[Any]]:
    return {name: list(read(notes)) for name, read in LISTS.items()}


# --- notes ---


@pytest.mark.parametrize(("name", "version"), NEWEST)
def test_a_body_that_ends_early_gives_what_was_found_before_its_end(name: str, version: int) -> None:
    body = any_body(name, version, 3)
    everything, values = lists(note(name, version, body)), note(name, version, body).values()
    before: dict[str, list[Any]] = {kind: [] for kind in LISTS}
    for end in range(len(body)) if len(body) < 300 else range(0, len(body), len(body) // 300):
        notes = note(name, version, body[:end])
        found = lists(notes)
        for kind, rows in found.items():
            assert rows == everything[kind][: len(rows)], end
            assert len(rows) >= len(before[kind])
        assert all(value in (None, values[key]) for key, value in notes.values().items())
        before = found


def test_records_that_end_early_are_noted_with_the_size_that_they_should_have() -> None:
    body = b"\xff\xff\xff\xff\0\0\x75\x30\0\0\0\1\0\1t\0\0\0\1\0\0\0\5\0\0\x10\0" + bytes(40)
    notes = note("ProduceRequest", 7, body)
    assert not notes.whole
    assert lists(notes)["sets"] == [("t", 5, len(body) - 40, 0x1000)]


def test_an_error_is_noted_though_the_rest_of_its_struct_is_missing() -> None:
    found = note("ProduceResponse", 0, struct.pack(">ih1siih", 1, 1, b"t", 1, 7, 3) + b"\0\0")
    assert found.faults() == [(3, "partition", "t", 7, None)]
    assert not found.whole


def test_an_error_has_the_text_that_follows_it() -> None:
    found = note("FindCoordinatorResponse", 1, b"\0\0\0\0\0\x0f\0\4soon" + bytes(10))
    assert [(f.code, f.message) for f in found.faults()] == [(15, "soon")]


@pytest.mark.parametrize(
    ("name", "version", "body"),
    [
        ("MetadataRequest", 0, b"\x7f\xff\xff\xff"),
        ("MetadataRequest", 9, b"\xff\xff\xff\xff\x0f"),
        ("MetadataResponse", 0, b"\x7f\xff\xff\xff" + bytes(20)),
        ("FetchRequest", 7, bytes(17) + b"\x7f\xff\xff\xff"),
    ],
)
def test_a_count_that_the_bytes_cannot_hold_ends_the_body(name: str, version: int, body: bytes) -> None:
    notes = note(name, version, body)
    assert not notes.whole
    assert not any(lists(notes).values())
    assert not makes_sense(name, version, body)


@pytest.mark.parametrize("tags", [b"\xff\xff\xff\xff\x0f", b"\1\1\xff\xff\xff\xff\x0f", b"\x80" * 9])
def test_tagged_fields_that_the_bytes_cannot_hold_end_the_body(tags: bytes) -> None:
    notes = note("MetadataRequest", 9, b"\2\2t" + tags)
    assert not notes.whole
    assert notes.topics() == ("t",)
    assert not makes_sense("HeartbeatResponse", 4, bytes(6) + tags)


def test_numbers_at_the_edge_of_64_bits_are_numbers() -> None:
    body = struct.pack(">ih1siihqqi", 1, 1, b"t", 1, 7, 0, -(1 << 63), -1, 0)
    assert note("ProduceResponse", 3, body).pairs() == [("t", 7, -(1 << 63))]
    body = struct.pack(">ihqh", 0, 0, -(1 << 63), -1)
    assert note("InitProducerIdResponse", 1, body).values() == {"producerId": -(1 << 63), "producerEpoch": -1}


def test_a_body_of_very_many_topics_leaves_no_large_arrays_behind() -> None:
    many = 100_000
    assert len(note("MetadataRequest", 0, struct.pack(">i", many) + b"\0\1t" * many).topics()) == many
    assert note("MetadataRequest", 0, b"\0\0\0\1\0\1t").topics() == ("t",)


def test_what_was_read_of_the_notes_stays_when_the_next_body_is_noted() -> None:
    first = note("MetadataRequest", 0, b"\0\0\0\1\0\1a")
    topics, values = first.topics(), first.values()
    note("MetadataRequest", 0, b"\0\0\0\1\0\1b")
    assert (topics, values) == (("a",), {})


def test_each_thread_has_notes_of_its_own() -> None:
    here = note("MetadataRequest", 0, b"\0\0\0\1\0\1a")
    with ThreadPoolExecutor(1) as other:
        there = other.submit(note, "MetadataRequest", 0, b"\0\0\0\1\0\1b").result()
    assert (here.topics(), there.topics()) == (("a",), ("b",))


def test_every_value_that_a_plan_wants_has_a_place() -> None:
    assert {name for names in VALUES.values() for name in names} <= set(NOTED)
    assert set(PAIRED) <= set(schema.messages())
    for name, version in MESSAGES:
        message_words(name, version)  # raises where a message has more errors than slots


def test_versions_share_a_plan_only_where_their_fields_are_alike() -> None:
    shared = [(name, version, first) for name, version in MESSAGES if (first := first_like(name, version)) != version]
    assert len(shared) > 100
    for name, version, first in shared:
        one, other = words_of(name, version, True), words_of(name, first, True)
        assert list(one.words) == list(other.words), (name, version)
        assert (one.last, one.scopes) == (other.last, other.scopes), (name, version)


# --- sense ---


class Plain(Encoder):
    """Bodies as brokers write them: error codes and times that exist, no tagged fields of which nobody knows."""

    def one(self, field: SchemaField) -> tuple[Any, bytes]:
        if field.type not in SIZES or field.type in ("uuid", "float64", "bool"):
            return super().one(field)
        value = self.rng.choice((0, 0, 1, 3))
        return value, struct.pack(">q", value)[8 - SIZES[field.type] :]


def plain(name: str, version: int, seed: int) -> bytes:
    return Plain(schema.message(name), version, random.Random(f"{name}{version}{seed}"), unknown_tags=False).body()[1]


@pytest.mark.parametrize("name", sorted({name for name, _ in MESSAGES}))
def test_a_body_makes_sense_as_its_message_and_its_beginning_as_that_of_one(name: str) -> None:
    for version in schema.message(name).versions.each():
        body = plain(name, version, 1)
        assert makes_sense(name, version, body)
        for cut in range(0, len(body), 1 + len(body) // 50):
            assert makes_sense(name, version, body[:cut], len(body)), cut
            assert not makes_sense(name, version, body[:cut]) or full(name, version, body, 0, cut).exact
        assert not makes_sense(name, version, body + b"\0")


@pytest.mark.parametrize("name", sorted({name for name, _ in MESSAGES}))
def test_what_makes_sense_can_be_decoded_in_full(name: str) -> None:
    rng = random.Random(name)
    for version in schema.message(name).versions.each():
        for seed in range(6):
            body = bytearray(plain(name, version, seed))
            for _ in range(rng.randrange(3)):
                if body:
                    body[rng.randrange(min(len(body), 40))] = rng.choice((0, 1, 2, 127, 128, 255))
            if makes_sense(name, version, bytes(body)):
                assert full(name, version, bytes(body), 0, len(body)).exact


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (struct.pack(">ih", 0, 9999), "an error code that does not exist"),
        (struct.pack(">ih", -1, 0), "a negative throttle time"),
        (struct.pack(">ih", 1 << 30, 0), "a throttle time of days"),
        (struct.pack(">ih", 0, 0) + b"\0", "a byte more"),
        (struct.pack(">i", 0) + b"\0", "a byte less"),
    ],
)
def test_a_heartbeat_answer_that_no_broker_gives_makes_no_sense(body: bytes, why: str) -> None:
    assert not makes_sense("HeartbeatResponse", 1, body), why
    assert makes_sense("HeartbeatResponse", 1, struct.pack(">ih", 9, 27))


@pytest.mark.parametrize(("text", "sensible"), [("group-1", True), ("größe", True), ("a\nb", False), ("\x7f", False)])
def test_only_text_that_can_be_shown_makes_sense(text: str, sensible: bool) -> None:
    body = b"\0\0\0\1" + struct.pack(">h", len(text.encode())) + text.encode()
    assert makes_sense("DescribeGroupsRequest", 0, body) == sensible


@pytest.mark.parametrize("tags", [b"\1\x63\0", b"\1\1\2\0\0", b"\2\0"])
def test_tagged_fields_that_the_schema_does_not_have_make_no_sense(tags: bytes) -> None:
    assert makes_sense("HeartbeatResponse", 4, bytes(7))
    assert not makes_sense("HeartbeatResponse", 4, bytes(6) + tags)


# --- both builds ---

_DIGEST = """
import hashlib, random
from tests.kafka.test_walk import MESSAGES, any_body, lists, makes_sense, note
total, rng = hashlib.sha256(), random.Random(5)
for name, version in MESSAGES[::3]:
    for seed in range(4):
        body = bytearray(any_body(name, version, seed))
        for _ in range(seed):
            if body:
                body[rng.randrange(len(body))] = rng.choice((0, 1, 127, 128, 255))
        body = bytes(body[: rng.randrange(len(body) + 1)]) if seed > 2 else bytes(body)
        notes = note(name, version, body)
        said = (notes.whole, notes.partitions, notes.throttle_ms, notes.values(), notes.faults(), lists(notes))
        total.update(repr((said, makes_sense(name, version, body))).encode())
print(total.hexdigest())
"""


@pytest.mark.skipif(loading.is_forced() or not dissectors.STATE.is_compiled, reason="nothing is compiled")
def test_the_compiled_walk_notes_what_its_source_does() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", _DIGEST], env=os.environ | {loading.VARIABLE: forced}, capture_output=True, text=True
        )
        for forced in ("0", "1")
    ]
    assert said[0].stdout == said[1].stdout != "", said[1].stderr
