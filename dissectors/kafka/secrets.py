"""What must never leave: which fields hold secrets, and which configuration values may."""

from __future__ import annotations

import re

from dissectors.kafka.schema import Field

REDACTED = "<redacted>"

_SECRET_FIELDS = frozenset({"authBytes", "hmac", "saltedPassword", "storedKey", "serverKey"})
_SECRET_CONFIGS = re.compile(r"password|secret|jaas|credential|private|\.key$|token$", re.IGNORECASE)


def is_secret(field: Field) -> bool:
    """Whether the field's value is a secret, whatever it is."""
    return field.name in _SECRET_FIELDS


def config_value(name: str | None, value: str | None) -> str | None:
    """A configuration's value, or what stands for it."""
    return REDACTED if value and name and _SECRET_CONFIGS.search(name) else value
