"""Command -> JSON for `--full`, by the protobuf library: without its secrets, and payloads only where asked for."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.message import DecodeError

from dissectors.pulsar import api, secrets
from dissectors.pulsar.batches import PulsarEntry
from dissectors.pulsar.decode import PulsarCommand
from dissectors.redaction import PAYLOAD, REDACTED, without_tokens
from dissectors.wire.protobuf import MessageFields


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
