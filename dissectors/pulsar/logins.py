"""Who logs in on a connection of Pulsar, and by which method: what CONNECT says of it beyond secrets.

    basic    user:password, of which the user is told
    others   name nobody, or only inside a token, of which nothing is told

Behind a proxy that speaks for a client, the principal is the client's, as the proxy names it.

Source: AuthenticationProviderBasic; PulsarApi.proto.
"""

from __future__ import annotations

from typing import Any

from dissectors.pulsar.fields import (
    CONNECT_AUTH_DATA,
    CONNECT_AUTH_METHOD_NAME,
    CONNECT_ORIGINAL_AUTH_METHOD,
    CONNECT_ORIGINAL_PRINCIPAL,
)
from dissectors.redaction import without_tokens

_NONE = "none"
_BASIC = "basic"
_LONGEST_NAME = 255


def login_of(command: Any) -> tuple[str | None, str] | None:
    """Of a CONNECT: name, where it says one, and method; None of a client that does not log in."""
    fields = command.fields
    method = fields.text(CONNECT_ORIGINAL_AUTH_METHOD) or fields.text(CONNECT_AUTH_METHOD_NAME)
    original = fields.text(CONNECT_ORIGINAL_PRINCIPAL)
    if not original and (not method or method == _NONE):
        return None
    method = (method or _NONE)[:_LONGEST_NAME]
    if original:
        return _printable(without_tokens(original)), method
    if method == _BASIC:
        user, colon, _ = (fields.octets(CONNECT_AUTH_DATA) or b"").partition(b":")
        return _printable(user.decode("utf-8", "ignore")) if colon else None, method
    return None, method


def _printable(name: str) -> str | None:
    return name if name and name.isprintable() and len(name) <= _LONGEST_NAME else None
