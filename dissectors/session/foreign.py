"""Peers that speak something else than a broker's protocol: known by their first bytes.

tls        a ClientHello whose server answers nothing that is TLS: its port is a plaintext one
tls-alert  a server's answer to plaintext, or to a ClientHello that it refuses: 21, version (3.0 to 3.4), length 2,
           level, description
http       a request line, or a status line
"""

from __future__ import annotations

import re

TLS, TLS_ALERT, HTTP = "tls", "tls-alert", "http"
_ALERT = re.compile(rb"\x15\x03[\x00-\x04]\x00\x02[\x01\x02]")
_STATUS = b"HTTP/1."
_METHODS = rb"GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|TRACE"
_REQUEST = re.compile(rb"(" + _METHODS + rb") [/*h][\x21-\x7e]* HTTP/1\.|PRI \* HTTP/2\.0\r\n")


def asks(data: bytes) -> str | None:
    """What a client speaks whose first bytes these are; None where it is nothing that is known here."""
    return HTTP if _REQUEST.match(data) else None


def answers(data: bytes) -> str | None:
    """What a server speaks whose first bytes these are; None where it is nothing that is known here."""
    if _ALERT.match(data):
        return TLS_ALERT
    return HTTP if data.startswith(_STATUS) else None
