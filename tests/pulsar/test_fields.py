"""The reader of rows finds in a message what the protobuf library finds, and refuses what it refuses."""

import random
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.pulsar import api, fields
from dissectors.wire.protobuf import INTEGERS, MESSAGE, OCTETS, OTHER, MessageFields
from dissectors.wire.reader import WireReader
from tests.fuzz.pulsar import absurd

MESSAGES = sorted({*api.MESSAGES.values(), "MessageIdData", "MessageMetadata", "SingleMessageMetadata"})


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def has_field_zero(message: Any) -> bool:
    """Whether the library met the field number 0 in a message, or in one within it."""
    within = [
        one
        for field, value in message.ListFields()
        if field.message_type is not None
        for one in (value if field.is_repeated else [value])
    ]
    unknown: Any = UnknownFieldSet(message)
    return any(field.field_number == 0 for field in unknown) or any(map(has_field_zero, within))


def assert_as_the_library(name: str, raw: bytes) -> None:
    """The fields of a message are those that the library finds, where it finds a message at all."""
    read = MessageFields(WireReader())
    shape = api.shape(name)
    whole = read.read(shape, b"??" + raw, 2, 2 + len(raw))
    try:
        want: Any = getattr(api, name).FromString(raw)
    except DecodeError:
        assert not whole
        return
    if not whole and has_field_zero(want):
        return  # no field has the number 0; since release 7.36 the library takes such bytes for an unknown field
    assert whole
    for field in want.DESCRIPTOR.fields:
        number, value, kind = field.number, getattr(want, field.name), api._kind(field)
        if field.is_repeated:
            if kind == INTEGERS:
                assert [item & 0xFFFFFFFF for item in read.integers(number)] == [item & 0xFFFFFFFF for item in value]
            else:
                found = [read.data[start:end] for start, end in read.each(number)]
                assert len(found) == len(value)
                if kind == OCTETS:
                    assert [item.decode("utf-8", "backslashreplace") for item in found] == list(map(api.text, value))
        elif field.type == field.TYPE_ENUM:
            assert not want.HasField(field.name) or read.number(number, -1) == value  # the library knows names only
        elif kind not in (OTHER, MESSAGE):
            assert read.has(number) == want.HasField(field.name)
            if read.has(number) and kind == OCTETS:
                assert (value if isinstance(value, bytes) else read.text(number)) == (
                    read.octets(number) if isinstance(value, bytes) else api.text(value)
                )
            elif read.has(number):
                assert read.number(number, -1) == signed(int(value))


@pytest.mark.parametrize("name", MESSAGES)
def test_the_fields_of_a_message_are_those_that_the_library_finds(name: str) -> None:
    rng = random.Random(name)
    for _ in range(60):
        raw = absurd(rng, api.DESCRIPTOR.message_types_by_name[name])
        assert_as_the_library(name, raw)
        at = rng.randrange(len(raw) + 1)
        assert_as_the_library(name, raw[:at] + rng.randbytes(rng.randrange(3)) + raw[at + rng.randrange(3) :])


@settings(max_examples=300)
@given(st.sampled_from(MESSAGES), st.binary(max_size=40))
def test_any_bytes_are_read_as_the_library_reads_them(name: str, raw: bytes) -> None:
    assert_as_the_library(name, raw)


@pytest.mark.parametrize("opening", [b"\x3a", b"\x43"], ids=["messages", "groups"])
def test_messages_within_messages_have_an_end(opening: bytes) -> None:
    raw = b""
    for _ in range(110):
        raw = opening + (bytes([len(raw) & 0x7F | 0x80, len(raw) >> 7]) + raw if opening == b"\x3a" else raw + b"\x44")
        assert_as_the_library("MessageIdData", raw)


def test_the_constants_of_the_compiler_are_those_of_the_schema() -> None:
    declared = Path(fields.__file__).with_suffix(".pxd").read_text()
    assert declared == fields.declaration(), "run: python -m dissectors.pulsar.fields > dissectors/pulsar/fields.pxd"
