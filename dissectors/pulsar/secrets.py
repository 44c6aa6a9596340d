"""What must never leave, and what leaves only with `--payloads`: one table of fields, by message of the schema.

A field is named by its message, so a message that several commands hold is named once:

    CommandConnect            CONNECT; through a proxy it also carries the data of the proxy's client
    AuthData                  AUTH_CHALLENGE and AUTH_RESPONSE
    CommandLookupTopic,
    CommandPartitionedTopicMetadata   LOOKUP and PARTITIONED_METADATA of a proxy, on behalf of its client
    EncryptionKeys, MessageMetadata   SEND and MESSAGE
    KeyValue                  properties of any of them: secret where the key says so

Texts of brokers and properties of other names may quote a token: what looks like one is cut out.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from dissectors.redaction import REDACTED, CredentialCarriers, without_tokens

SECRET_FIELDS: dict[str, frozenset[str]] = {
    "CommandConnect": frozenset({"auth_data", "original_auth_data"}),
    "AuthData": frozenset({"auth_data"}),
    "CommandLookupTopic": frozenset({"original_auth_data"}),
    "CommandPartitionedTopicMetadata": frozenset({"original_auth_data"}),
    "EncryptionKeys": frozenset({"value"}),
    "MessageMetadata": frozenset({"encryption_param"}),
}
"""Message -> the fields that hold a secret, whatever their value is."""

PAYLOAD_FIELDS: dict[str, frozenset[str]] = {
    "MessageMetadata": frozenset({"partition_key", "ordering_key", "properties"}),
    "SingleMessageMetadata": frozenset({"partition_key", "ordering_key", "properties"}),
}
"""Message -> the fields that hold an application's data: the key and the headers of a message."""

_SENSITIVE_KEY = re.compile(r"passw|secret|token|credential|authorization|api.?key|private.?key", re.I)
_NONE: frozenset[str] = frozenset()


def is_secret(message: str, field: str) -> bool:
    """Whether a field of the schema holds a secret."""
    return field in SECRET_FIELDS.get(message, _NONE)


def is_payload(message: str, field: str) -> bool:
    """Whether a field of the schema holds data of the application."""
    return field in PAYLOAD_FIELDS.get(message, _NONE)


def property_value(key: str, value: str) -> str:
    """The value of a property, or what stands for it."""
    return REDACTED if _SENSITIVE_KEY.search(key) else without_tokens(value)


@cache
def carriers() -> CredentialCarriers:
    """The commands that may carry a credential: a secret field, or properties. Not SEND and MESSAGE, whose properties
    are the application's data.
    """
    from dissectors.pulsar import api  # protobuf is loaded when Pulsar is met
    from dissectors.pulsar.commands import COMMANDS

    found = set()
    for code, name in api.MESSAGES.items():
        if code in COMMANDS and _carries(api.DESCRIPTOR.message_types_by_name[name], set()):
            found.add(COMMANDS[code].name)
    return CredentialCarriers(frozenset(found))


def _carries(message: Any, seen: set[str]) -> bool:
    """Whether a message holds a secret field or a property. seen: those that were looked at."""
    if message.name in SECRET_FIELDS or message.name == "KeyValue":
        return True
    seen.add(message.name)
    inner = [field.message_type for field in message.fields if field.message_type is not None]
    return any(one.name not in seen and one.name != "Schema" and _carries(one, seen) for one in inner)
