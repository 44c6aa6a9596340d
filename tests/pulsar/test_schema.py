"""Every message of the schema, written by an encoder of our own and read by the decoder."""

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.pulsar import api
from dissectors.pulsar.bodies import to_dict
from dissectors.pulsar.secrets import SECRET_FIELDS, is_secret, property_value
from dissectors.redaction import REDACTED
from tests.pulsar import wire

MESSAGES = sorted(api.DESCRIPTOR.message_types_by_name)
INTEGERS = {
    3: (-(1 << 63), (1 << 63) - 1),
    4: (0, (1 << 64) - 1),
    5: (-(1 << 31), (1 << 31) - 1),
    13: (0, (1 << 32) - 1),
}
DOUBLE, BOOL, STRING, BYTES = 1, 8, 9, 12
BY_MEANING: dict[str, list[tuple[bytes, Any]]] = {
    "schema_version": [(b"", None), (bytes(8), 0), (b"\0\0\0\0\0\0\1\2", 258), (b"\xff" * 8, -1), (b"abc", "YWJj")],
    "schema_data": [(b"", ""), (b'{"type": "int"}', '{"type": "int"}'), (b"\xff\0", "/wA="), (b"a\0", "YQA=")],
}
"""Fields of bytes that are not shown as base64 alone: (what is written, what is shown)."""


def value(field: Any, draw: st.DataObject, depth: int) -> tuple[Any, Any]:
    """(what the encoder writes, what the decoder shows)."""
    if field.message_type is not None:
        return contents(field.message_type, draw, depth + 1)
    if field.enum_type is not None:
        number = draw.draw(st.sampled_from(sorted(field.enum_type.values_by_number)))
        return number, field.enum_type.values_by_number[number].name
    if field.type in INTEGERS:
        number = draw.draw(st.integers(*INTEGERS[field.type]))
        return number, number
    if field.type == BOOL:
        flag = draw.draw(st.booleans())
        return flag, flag
    if field.type == STRING:
        words = draw.draw(st.sampled_from(["", "orders", "tenant/ns", "größe", "x" * 200]))
        return words, words
    data = draw.draw(st.binary(max_size=12))
    return data, base64.b64encode(data).decode()


def contents(message: Any, draw: st.DataObject, depth: int = 0) -> tuple[list[wire.Field], dict[str, Any]]:
    written: list[wire.Field] = []
    shown: dict[str, Any] = {}
    chosen = set()
    for field in message.fields:
        oneof = field.containing_oneof
        if field.type == DOUBLE or (oneof and oneof.name in chosen) or (depth > 2 and field.message_type is not None):
            continue
        if not draw.draw(st.booleans()):
            continue
        if oneof:
            chosen.add(oneof.name)
        if field.name in BY_MEANING:
            pair = draw.draw(st.sampled_from(BY_MEANING[field.name]))
            written.append((field.number, pair[0]))
            shown[field.name] = pair[1]
            continue
        pairs = [value(field, draw, depth) for _ in range(draw.draw(st.integers(1, 3)) if field.is_repeated else 1)]
        written += [(field.number, pair[0]) for pair in pairs]
        values = [pair[1] for pair in pairs]
        shown[field.name] = values if field.is_repeated else values[0]
        if is_secret(message.name, field.name):
            shown[field.name] = REDACTED
    if message.name == "KeyValue" and "value" in shown:
        shown["value"] = property_value(shown.get("key", ""), shown["value"])
    return written, shown


@settings(max_examples=300)
@given(st.sampled_from(MESSAGES), st.data())
def test_what_is_written_is_what_is_shown(name: str, draw: st.DataObject) -> None:
    written, shown = contents(api.DESCRIPTOR.message_types_by_name[name], draw)
    assert to_dict(getattr(api, name).FromString(wire.message(written)), payloads=True) == shown


def test_fields_that_the_schema_marks_secret_are_redacted() -> None:
    from dissectors.wire.proto import proto

    message, marked = "", set()
    for line in proto("pulsar", "PulsarApi.proto").read_text().splitlines():
        if line.startswith("message "):
            message = line.split()[1]
        elif "// secret" in line:
            marked.add((message, line.split()[2]))
    assert marked <= {(message, field) for message, fields in SECRET_FIELDS.items() for field in fields}
    assert marked


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b'\0\0\0\5"int"\0\0\0\4null', {"key": '"int"', "value": "null"}),
        (b"\0\0\0\1k\0\0\0\0", {"key": "k", "value": ""}),
        (b"\xff\xff\xff\xff\0\0\0\1v", {"key": "", "value": "v"}),
        (b"\0\0\0\1k\0\0\0\5v", "AAAAAWsAAAAFdg=="),  # the second is shorter than its size says
        (b"\0\0\0\1k", "AAAAAWs="),
        (b"plain text", "plain text"),
    ],
)
def test_a_key_value_schema_is_shown_in_its_two_parts(data: bytes, shown: Any) -> None:
    schema = api.Schema(name="s", schema_data=data, type=15)
    assert to_dict(schema, payloads=False)["schema_data"] == shown
