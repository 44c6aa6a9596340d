"""What must never leave: which fields hold secrets, and which configuration values may."""

from __future__ import annotations

import re

from dissectors.kafka.schema import SchemaField

REDACTED = "<redacted>"

_SECRET_FIELDS = frozenset({"authBytes", "hmac", "saltedPassword", "storedKey", "serverKey"})
_SECRET_CONFIGS = re.compile(r"password|secret|jaas|credential|private|\.key$|token$", re.IGNORECASE)


def is_secret(field: SchemaField) -> bool:
    """Whether the field's value is a secret, whatever it is."""
    return field.name in _SECRET_FIELDS


def config_value(name: str | None, value: str | None) -> str | None:
    """A configuration's value, or what stands for it."""
    return REDACTED if value and name and _SECRET_CONFIGS.search(name) else value


CLUSTER_METADATA = "__cluster_metadata"
_CONFIG_RECORD, _SCRAM_RECORD = 4, 11


def payload(topic: str | None, value: bytes | None) -> bytes | None:
    """A message's value as it may be shown: the controllers' own log holds credentials and configurations."""
    if topic == CLUSTER_METADATA and value and len(value) > 1 and value[1] in (_CONFIG_RECORD, _SCRAM_RECORD):
        return REDACTED.encode()
    return value
