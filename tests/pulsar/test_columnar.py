"""What is read by column is what the protobuf library finds; what may not be is left to the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.frame_columns import PADDING
from dissectors.pulsar import api, columnar
from tests.pulsar import wire
from tests.pulsar.test_schema import MESSAGES, contents


def read(name: str, each: list[bytes]) -> tuple[columnar.Messages, bytes]:
    buf = b"".join(each) + bytes(PADDING)
    end = np.cumsum([len(data) for data in each])
    start = end - [len(data) for data in each]
    (found,) = columnar.read([name], [len(each)], np.frombuffer(buf, np.uint8), start, end)
    return found, buf


def assert_agrees(name: str, each: list[bytes]) -> int:
    """Compare with the library; how many of the messages were read by column."""
    found, buf = read(name, each)
    for i in np.flatnonzero(found.ok).tolist():
        _assert_equal(getattr(api, name).FromString(each[i]), found, i, buf)
    return int(found.ok.sum())


def _assert_equal(message: Any, found: columnar.Messages, i: int, buf: bytes) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated or field.name not in {
            f.name for f in columnar.plan(message.DESCRIPTOR.name).fields.values()
        }:
            continue
        assert bool(found.has(field.name)[i]) == message.HasField(field.name)
        if not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.message_type is not None:
            parent, inner = found.nested[field.name]
            (row,) = np.flatnonzero(parent == i)
            _assert_equal(value, inner, int(row), buf)
        elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            (raw,) = found.texts(field.name, buf, np.array([i]))
            assert raw == (value.encode() if isinstance(value, str) else value)
        else:
            assert int(found.number(field.name)[i]) == (value - (1 << 64) if value >= 1 << 63 else value)


@settings(max_examples=200)
@given(st.sampled_from(MESSAGES), st.data())
def test_messages_of_the_schema_have_the_fields_that_the_library_finds(name: str, draw: st.DataObject) -> None:
    message = api.DESCRIPTOR.message_types_by_name[name]
    each = [wire.message(contents(message, draw)[0]) for _ in range(draw.draw(st.integers(1, 5)))]
    assert_agrees(name, each)


@settings(max_examples=300)
@given(st.sampled_from(MESSAGES), st.data())
def test_damaged_messages_are_left_to_the_library_or_read_alike(name: str, draw: st.DataObject) -> None:
    message = api.DESCRIPTOR.message_types_by_name[name]
    data = bytearray(wire.message(contents(message, draw)[0]))
    for _ in range(draw.draw(st.integers(1, 3))):
        if data:
            data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        assert_agrees(name, [bytes(data)])
    except DecodeError:
        pytest.fail("what the library refuses was read by column")


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_any_bytes_are_left_to_the_library_or_read_alike(each: list[bytes]) -> None:
    assert_agrees("MessageMetadata", each)
    assert_agrees("CommandAck", each)


GOOD: list[Any] = [(1, 7), (2, [(1, 1), (2, 2)])]  # of CommandMessage


@pytest.mark.parametrize(
    "fields",
    [
        [(1, 7)],  # a required field is missing
        [*GOOD, (1, 8)],  # one comes twice
        [*GOOD, (77, 1)],  # one has a number beyond those of the schema
        [*GOOD, (3, b"\1\2")],  # one has another wire type than in the schema
        [*GOOD, (3, 1 << 32)],  # a number is too large for its type
        [(1, 7), (2, [(1, 1)])],  # a required field of an inner message is missing
        [*GOOD, *[(4, 1)] * 60],  # there are many
    ],
)
def test_what_is_not_plain_is_left_to_the_library(fields: list[Any]) -> None:
    found, _ = read("CommandMessage", [wire.message(GOOD), wire.message(fields), wire.message(GOOD)])
    assert found.ok.tolist() == [True, False, True]


# tags of a field that is not in the schema
VARINT, EIGHT, SIZED, FOUR = (bytes([12 << 3 | wire_type]) for wire_type in (0, 1, 2, 5))
GROUP = bytes([12 << 3 | 3, 12 << 3 | 4])


@pytest.mark.parametrize(
    ("field", "ok"),
    [
        (VARINT + b"\xff" * 9 + b"\1", True),
        (EIGHT + b"\xff" * 8, True),
        (SIZED + b"\3new", True),
        (FOUR + bytes(4), True),
        (EIGHT + bytes(8) + FOUR + bytes(4) + VARINT + b"\0" + SIZED + b"\0", True),
        (EIGHT + bytes(7), False),
        (FOUR + bytes(3), False),
        (SIZED + b"\4new", False),
        (VARINT + b"\xff" * 11, False),
        (GROUP, False),
    ],
)
def test_fields_that_the_schema_does_not_have_are_passed_over(field: bytes, ok: bool) -> None:
    good = wire.message(GOOD)
    for odd in (good + field, field + good):
        found, buf = read("CommandMessage", [good, odd, good])
        assert found.ok.tolist() == [True, ok, True]
        for i in np.flatnonzero(found.ok).tolist():
            _assert_equal(api.CommandMessage.FromString(good), found, i, buf)


def test_messages_within_messages_are_read_to_a_bounded_depth() -> None:
    inner: list[wire.Field] = [(1, 1), (2, 2)]
    for _ in range(1000):
        inner = [(1, 1), (2, 2), (7, wire.message(inner))]
    found, _ = read("CommandMessage", [wire.message([(1, 7), (2, wire.message(inner))])])
    assert found.ok.tolist() == [False]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(MESSAGES), min_size=2, max_size=5), st.data())
def test_messages_of_many_types_are_read_together_as_each_alone(names: list[str], draw: st.DataObject) -> None:
    each = [
        [wire.message(contents(api.DESCRIPTOR.message_types_by_name[name], draw)[0]) for _ in range(2)]
        for name in names
    ]
    flat = [data for messages in each for data in messages]
    buf = b"".join(flat) + bytes(PADDING)
    end = np.cumsum([len(data) for data in flat])
    start = end - [len(data) for data in flat]
    together = columnar.read(names, [2] * len(names), np.frombuffer(buf, np.uint8), start, end)
    for name, messages, found in zip(names, each, together, strict=True):
        assert found.ok.tolist() == read(name, messages)[0].ok.tolist()
        for i in np.flatnonzero(found.ok).tolist():
            _assert_equal(getattr(api, name).FromString(messages[i]), found, i, buf)
