"""Bodies of all messages: everything that the tables can say is read back, and the two ways to read agree."""

import random
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.kafka import schema
from dissectors.kafka.full import full
from dissectors.kafka.nested import DECODED, INNER, PRINCIPAL
from dissectors.kafka.plan import PAIRED, VALUES, message_words
from dissectors.kafka.schema import MessageSchema, SchemaField
from dissectors.kafka.secrets import SECRET_FIELDS
from dissectors.kafka.walk import walker
from dissectors.redaction import REDACTED
from tests.kafka.encoder import UNKNOWN_TAG, Encoder

ALL = schema.messages()
BODIES = [name for name in ALL if name.endswith(("Request", "Response"))]


def same(ours: Any, sent: Any, message: str, name: str | int = "") -> bool:
    """Whether a decoded value is what was sent; bytes may be shown in many ways."""
    if isinstance(sent, dict):
        ours = {k: v for k, v in ours.items() if k in sent or not (str(k).endswith(DECODED) or k in (INNER, PRINCIPAL))}
        return set(ours) == set(sent) and all(same(ours[k], v, message, k) for k, v in sent.items())
    if isinstance(sent, list):
        return len(ours) == len(sent) and all(same(a, b, message, name) for a, b in zip(ours, sent, strict=True))
    if isinstance(sent, bytes):
        size = ours["sizeInBytes"] if isinstance(ours, dict) else -1
        return size == len(sent) or ours in (REDACTED, b64encode(sent).decode())
    if name == UNKNOWN_TAG and message in SECRET_FIELDS:
        return bool(ours == REDACTED)
    return bool(ours == sent)


@pytest.mark.parametrize("name", ALL)
def test_every_version_of_every_message_is_read_back(name: str) -> None:
    message = schema.message(name)
    if message.kind == "header":
        return
    for version in message.versions.each():
        for seed in range(3):
            sent, data = Encoder(message, version, random.Random(f"{name}{version}{seed}")).body()
            got = full(name, version, b"xx" + data + b"yy", 2, 2 + len(data))
            assert got.exact, (version, got)
            assert same(got.body, sent, name), (version, sent, got.body)


@pytest.mark.parametrize("name", BODIES)
def test_the_notes_are_what_the_whole_body_says(name: str) -> None:
    message = schema.message(name)
    for version in message.versions.each():
        for seed in range(3):
            sent, data = Encoder(message, version, random.Random(f"{name}{version}{seed}")).body()
            notes = walker().note(message_words(name, version), b"xx" + data + b"yy", 2, 2 + len(data))
            assert notes.whole, version
            walk = Walk(message, version)
            walk.struct(message.fields, sent, None, None)
            assert sorted(f.code for f in notes.faults()) == sorted(walk.codes), version
            assert {(f.topic, f.partition) for f in notes.faults() if f.scope == "partition"} == walk.failed, version
            assert [(s.topic, s.partition, s.size) for s in notes.sets()] == walk.sets, version
            if name not in PAIRED:
                assert sorted(map(repr, notes.topics())) == sorted(map(repr, walk.topics)), version
            if "throttleTimeMs" in sent:
                assert notes.throttle_ms == sent["throttleTimeMs"]
            for value in VALUES.get(name, ()):
                if value in sent:
                    assert notes.values()[value] == sent[value], version


class Walk:
    """What the notes should be, the slow way: over the values that were sent."""

    def __init__(self, message: MessageSchema, version: int) -> None:
        self.response = message.kind == "response"
        self.version = version
        self.codes: list[int] = []
        self.failed: set[tuple[Any, Any]] = set()
        self.sets: list[tuple[Any, Any, int]] = []
        self.topics: list[Any] = []

    def struct(self, fields: tuple[SchemaField, ...], values: dict[str, Any], topic: Any, partition: Any) -> None:
        here = {f.name: f for f in fields if f.name in values}
        name = next((values[n] for n, f in here.items() if is_name(f)), None) or None
        id_ = next((raw(values[n]) for n, f in here.items() if f.type == "uuid" and n == "topicId"), None)
        if any(is_name(f) or n == "topicId" for n, f in here.items()):
            topic = name or id_
            if topic is not None:
                self.topics.append(topic)
        placed = [n for n, f in here.items() if n in PARTITIONS and f.type == "int32" and not f.array]
        if placed:
            partition = values[placed[0]]
        for n, f in here.items():
            value = values[n]
            if self.response and f.type == "int16" and n.lower().endswith("errorcode") and value:
                self.codes.append(value)
                if placed:
                    self.failed.add((topic, partition))
            elif f.type == "records" and value:
                self.sets.append((topic, partition, len(value)))
            elif f.array and f.type == "string" and f.entity == "topicName":
                self.topics += [v for v in value or [] if v]
            elif f.struct and value is not None:
                for one in value if f.array else [value]:
                    self.struct(f.fields, one, topic, partition)


PARTITIONS = ("partition", "partitionIndex", "partitionId", "index")


def is_name(field: SchemaField) -> bool:
    return field.entity == "topicName" and field.type == "string" and not field.array


def raw(text: str) -> bytes | None:
    from base64 import urlsafe_b64decode

    value = urlsafe_b64decode(text + "==")
    return value if any(value) else None


@given(st.data())
def test_no_bytes_make_a_decoder_fail_otherwise_than_it_should(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(BODIES))
    message = schema.message(name)
    version = data.draw(st.sampled_from(list(message.versions.each())))
    _, body = Encoder(message, version, random.Random(data.draw(st.integers()))).body()
    noise = bytearray(body + b"\0" * 8)
    for at in data.draw(st.lists(st.integers(0, len(noise) - 1), max_size=6)):
        noise[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(noise)))
    full(name, version, bytes(noise), 0, end)
    walker().note(message_words(name, version), bytes(noise), 0, end)


def test_a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_allocated() -> None:
    got = full("MetadataResponse", 0, b"\x7f\xff\xff\xff" + bytes(20), 0, 24)
    assert got.trouble == "a count beyond the end"


def test_a_body_that_is_cut_gives_what_it_held_before() -> None:
    message = schema.message("FetchRequest")
    sent, data = Encoder(message, 11, random.Random(5)).body()
    got = full("FetchRequest", 11, data[:30], 0, 30)
    assert got.trouble
    assert got.body["replicaId"] == sent["replicaId"]
    assert got.body["maxWaitMs"] == sent["maxWaitMs"]
