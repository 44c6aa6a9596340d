"""Frame -> command, and command -> dict for `--full`, without its secrets.

A command is decoded by the protobuf library. Read from the bytes here is what the library does not give: the type of a
command newer than the schema, and as much of a command as lies before a hole.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from dissectors.frame import Frame
from dissectors.pulsar import api, secrets
from dissectors.pulsar.api import MESSAGES
from dissectors.pulsar.commands import COMMANDS, CommandType

_BASE = api.BaseCommand
_FIELDS = {field.number: field.name for field in api.DESCRIPTOR.message_types_by_name["BaseCommand"].fields}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


class DecodedCommand(NamedTuple):
    """A frame's command. `body` is None where it cannot be read; `defect` says why."""

    code: int
    command: CommandType | None  # None for a type that is newer than the table
    body: Any
    after: int  # index in frame.data after the command
    defect: str | None = None
    cut: bool = False  # bytes of the command are missing: `body` holds the fields before the hole


def decode(frame: Frame, limit: int) -> DecodedCommand:
    """The command of a frame; of at most `limit` bytes."""
    data, start = frame.data, frame.start
    begin = start + 8
    after = begin + int.from_bytes(data[start + 4 : begin], "big")
    code = data[start + 9]
    if code & 0x80:
        code = _varint(data, start + 9, min(after, frame.known, frame.end))[0]
    command = COMMANDS.get(code)
    if after > frame.known:
        return DecodedCommand(code, command, _prefix(data, begin, frame.known, code), after, None, True)
    if after - begin > limit:
        return DecodedCommand(code, command, None, after, f"A command of {after - begin} bytes is not decoded")
    try:
        base = _BASE.FromString(data[begin:after])
    except DecodeError:
        return DecodedCommand(code, command, None, after, "The command is no protobuf message")
    if command is None:
        return DecodedCommand(code, None, None, after)
    name = _FIELDS[code]
    if not base.HasField(name):
        return DecodedCommand(code, command, None, after, f"{command.name} without its field {name}")
    return DecodedCommand(code, command, getattr(base, name), after)


def first_number(frame: Frame, after: int) -> int | None:
    """Field 1 of a command that is not in the schema, if it is a number: where most commands carry their request id."""
    data = frame.data
    end = min(after, frame.known)
    _, at = _varint(data, frame.start + 9, end)
    tag, at = _varint(data, at, end)
    if tag & 7 != _BYTES:
        return None
    _, at = _varint(data, at, end)
    tag, at = _varint(data, at, end)
    return _varint(data, at, end)[0] if tag == 1 << 3 and at < end else None


# --- commands that are not all there ---------------------------------------------------------------------------------


def _prefix(data: bytes, begin: int, known: int, code: int) -> Any:
    """The command's field, from its bytes before `known`; None if not even one of its fields is whole."""
    if code not in MESSAGES or known <= begin + 2:
        return None
    at = _varint(data, begin + 1, known)[1]
    tag, at = _varint(data, at, known)
    if tag != code << 3 | _BYTES:
        return None
    at = _varint(data, at, known)[1]
    whole = at
    while whole < known:
        next_ = _skip(data, whole, known)
        if next_ is None:
            break
        whole = next_
    if whole == at:
        return None
    try:
        return getattr(api, MESSAGES[code]).FromString(data[at:whole])
    except DecodeError:
        return None


def _skip(data: bytes, at: int, end: int) -> int | None:
    """Index after the field at `at`, or None if it does not end before `end`."""
    tag, at = _varint(data, at, end)
    kind = tag & 7
    if kind == _VARINT:
        if at >= end:
            return None
        at = _varint(data, at, end)[1]
        return at if data[at - 1] < 0x80 else None
    if kind == _BYTES:
        if at >= end:
            return None
        size, at = _varint(data, at, end)
        at += size
    elif kind == _FIXED64:
        at += 8
    elif kind == _FIXED32:
        at += 4
    else:
        return None
    return at if at <= end else None


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The varint at `at` and the index after it; cut off at `end` or after ten bytes."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, at


# --- bodies ----------------------------------------------------------------------------------------------------------


def to_dict(message: Any, *, payloads: bool) -> dict[str, Any]:
    """The fields that are set, by the schema's names: enums by name, bytes as base64, secrets redacted.

    payloads: with the data of applications.
    """
    out: dict[str, Any] = {}
    name = message.DESCRIPTOR.name
    for field, value in message.ListFields():
        if secrets.is_secret(name, field.name):
            out[field.name] = secrets.REDACTED
        elif not payloads and secrets.is_payload(name, field.name):
            out[field.name] = secrets.PAYLOAD
        elif field.is_repeated:
            out[field.name] = [_value(field, item, payloads) for item in value]
        else:
            out[field.name] = _value(field, value, payloads)
    if name == "KeyValue" and "value" in out:
        out["value"] = secrets.property_value(api.text(message.key), api.text(message.value))
    return out


def _value(field: Any, value: Any, payloads: bool) -> Any:
    if field.message_type is not None:
        return to_dict(value, payloads=payloads)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    if field.type == field.TYPE_STRING:
        return secrets.without_tokens(api.text(value))
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
