"""Command -> JSON for `--full`, by the protobuf library: without its secrets, and payloads only where asked for.

Bytes are base64, but for two fields whose meaning the protocol knows:

    schema_version   a number of eight bytes, big-endian; null where it is empty: data without a schema
    schema_data      text, as JSON and Avro schemas are; of a KeyValue schema its two parts (u32 size | schema, twice)
"""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.message import DecodeError

from dissectors.pulsar import api, secrets
from dissectors.pulsar.batches import PulsarEntry
from dissectors.pulsar.decode import PulsarCommand
from dissectors.pulsar.schemas import VERSION_BYTES, schema_version
from dissectors.redaction import PAYLOAD, REDACTED, without_tokens
from dissectors.wire.protobuf import MessageFields

_KEY_VALUE = {name: number for number, name in api.enum("Schema.Type").items()}["KeyValue"]


def body_of(command: PulsarCommand, entry: PulsarEntry | None, *, payloads: bool) -> str | None:
    """A command as JSON: its fields, and the metadata that came with it. None where it cannot be read."""
    if command.layout is None or not command.readable:
        return None
    shown = _shown(api.MESSAGES[command.code], command.fields, payloads)
    if entry is not None and entry.has_broker:
        shown["broker_entry_metadata"] = _shown("BrokerEntryMetadata", entry.broker, payloads)
    if entry is not None and entry.has_meta:
        shown["metadata"] = _shown("MessageMetadata", entry.meta, payloads)
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)


def _shown(name: str, read: MessageFields, payloads: bool) -> dict[str, Any]:
    """A message that the reader of rows has read, as far as it is whole."""
    try:
        message = getattr(api, name).FromString(read.data[read.begin : read.end])
    except DecodeError:
        return {}
    return to_dict(message, payloads=payloads)


def to_dict(message: Any, *, payloads: bool) -> dict[str, Any]:
    """The fields that are set, by the schema's names: enums by name, bytes as above, secrets redacted.

    payloads: with the data of applications.
    """
    out: dict[str, Any] = {}
    name = message.DESCRIPTOR.name
    for field, value in message.ListFields():
        if secrets.is_secret(name, field.name):
            out[field.name] = REDACTED
        elif not payloads and secrets.is_payload(name, field.name):
            out[field.name] = PAYLOAD
        elif field.name == "schema_version":
            out[field.name] = _version(value)
        elif field.name == "schema_data":
            out[field.name] = _schema(value, key_value=message.type == _KEY_VALUE)
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
    return _base64(value) if isinstance(value, bytes) else value


def _version(value: bytes) -> int | str | None:
    """The version of a schema; base64 where it has another form than brokers give it."""
    return _base64(value) if value and len(value) != VERSION_BYTES else schema_version(value)


def _schema(data: bytes, *, key_value: bool) -> str | dict[str, str]:
    """What a schema says: text, base64 where it is none, or both parts of a KeyValue schema."""
    if key_value and (parts := _key_and_value(data)) is not None:
        return {"key": _text(parts[0]), "value": _text(parts[1])}
    return _text(data)


def _key_and_value(data: bytes) -> tuple[bytes, bytes] | None:
    """The two schemas of a KeyValue schema; None where the sizes are not those of its bytes. A size of -1: none."""
    parts, at = [], 0
    for _ in range(2):
        if at + 4 > len(data):
            return None
        size = max(0, int.from_bytes(data[at : at + 4], "big", signed=True))
        parts.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return (parts[0], parts[1]) if at == len(data) else None


def _text(data: bytes) -> str:
    """UTF-8 text without its credentials; base64 of what is no text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _base64(data)
    return without_tokens(text) if all(c.isprintable() or c in "\t\r\n" for c in text) else _base64(data)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
