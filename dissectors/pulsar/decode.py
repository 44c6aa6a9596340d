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
from dissectors.redaction import PAYLOAD, REDACTED, without_tokens
from dissectors.wire import varint
from dissectors.wire.protobuf import BYTES, VARINT, fields

_BASE = api.BaseCommand
_FIELDS = {field.number: field.name for field in api.DESCRIPTOR.message_types_by_name["BaseCommand"].fields}


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
        code, _ = varint.within(data, start + 9, min(after, frame.known, frame.end)) or (code, 0)
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
    data, end = frame.data, min(after, frame.known)
    own = _second_field(data, frame.start + 8, end)
    first = None if own is None else next(fields(data, own[1], end), None)
    return first.value if first is not None and (first.number, first.kind) == (1, VARINT) else None


# --- commands that are not all there ---------------------------------------------------------------------------------


def _prefix(data: bytes, begin: int, known: int, code: int) -> Any:
    """The command's field, from its bytes before `known`; None if not even one of its fields is whole."""
    own = _second_field(data, begin, known)
    if own is None or own[0] != code or code not in MESSAGES:
        return None
    at = own[1]
    whole = max((field.end for field in fields(data, at, known)), default=at)
    if whole == at:
        return None
    try:
        return getattr(api, MESSAGES[code]).FromString(data[at:whole])
    except DecodeError:
        return None


def _second_field(data: bytes, begin: int, end: int) -> tuple[int, int] | None:
    """Number and begin of what stands behind the type of a command: its own field, which may not be whole."""
    type_ = next(fields(data, begin, end), None)
    tag = None if type_ is None else varint.within(data, type_.end, end)
    size = None if tag is None or tag[0] & 7 != BYTES else varint.within(data, tag[1], end)
    return None if tag is None or size is None else (tag[0] >> 3, size[1])


# --- bodies ----------------------------------------------------------------------------------------------------------


def to_dict(message: Any, *, payloads: bool) -> dict[str, Any]:
    """The fields that are set, by the schema's names: enums by name, bytes as base64, secrets redacted.

    payloads: with the data of applications.
    """
    out: dict[str, Any] = {}
    name = message.DESCRIPTOR.name
    for field, value in message.ListFields():
        if secrets.is_secret(name, field.name):
            out[field.name] = REDACTED
        elif not payloads and secrets.is_payload(name, field.name):
            out[field.name] = PAYLOAD
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
        return without_tokens(api.text(value))
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
