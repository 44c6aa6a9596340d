"""Fields that must never leave, and fields that leave only with `--payloads`: one table, by command.

    SECRET_FIELDS   passwords, tokens and the secrets that bind a session. In layouts.txt their types are secret8 and
                    secret:N, whose readers check the length and never hold the value
    options         settings of a stream, topic or user: not shown where the key speaks of a secret
    texts           of errors: they may quote a token, which is cut out
    PAYLOAD_FIELDS  keys and user headers of messages: an application's data

Bodies between replicas are not shown at all. Of a body that no layout reads to its end, only what lies before the
first field in which the layouts differ is shown: behind it one layout's name is another one's password.
"""

from __future__ import annotations

import re
from typing import Any

from dissectors.redaction import PAYLOAD, REDACTED, CredentialCarriers, without_tokens

SECRET_FIELDS: dict[str, frozenset[str]] = {
    "LOGIN_USER": frozenset({"password"}),
    "LOGIN_REGISTER": frozenset({"bind_secret", "password"}),
    "LOGIN_REGISTER_WITH_PAT": frozenset({"bind_secret", "token"}),
    "LOGIN_WITH_PERSONAL_ACCESS_TOKEN": frozenset({"token"}),
    "BIND_SESSION": frozenset({"bind_secret"}),
    "CREATE_USER": frozenset({"password"}),
    "CHANGE_PASSWORD": frozenset({"current_password", "new_password"}),
    "CREATE_PERSONAL_ACCESS_TOKEN": frozenset({"token"}),
}
"""Command -> the fields that hold a secret, in its request or its response."""

PAYLOAD_FIELDS = frozenset({"user_headers"})
_MESSAGES_KEY = "messages_key"  # the kind of partitioning that names an application's key

_SECRET_OPTION = re.compile(r"passw|secret|token|credential|private|api.?key|encryption_key(_wrapped)?$", re.IGNORECASE)


def option_value(key: str, value: Any) -> Any:
    """The value of an option, or what stands for it."""
    if _SECRET_OPTION.search(key):
        return REDACTED
    return without_tokens(value) if isinstance(value, str) else value


def without_payload(values: dict[str, Any]) -> dict[str, Any]:
    """A body for `--full` without an application's data."""
    partitioning = values.get("partitioning")
    if isinstance(partitioning, dict) and partitioning.get("kind") == _MESSAGES_KEY:
        values = {**values, "partitioning": {**partitioning, "value": PAYLOAD}}
    if "messages" in values:
        values = {**values, "messages": [_message_without_payload(message) for message in values["messages"]]}
    return values


def _message_without_payload(message: dict[str, Any]) -> dict[str, Any]:
    return {name: PAYLOAD if name in PAYLOAD_FIELDS and value else value for name, value in message.items()}


def carriers(with_options: frozenset[str]) -> CredentialCarriers:
    """The commands that may carry a credential: a secret field, or options."""
    return CredentialCarriers(frozenset(SECRET_FIELDS) | with_options)
