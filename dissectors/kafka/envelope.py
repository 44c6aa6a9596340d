"""The request and the response inside an envelope (KIP-590), header included: decoded for `--full`.

A broker forwards a client's request to the controller in an Envelope. What is inside may hold secrets, so what is not
decoded is shown by its size.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dissectors.kafka.decode import REQUEST_HEAD, api_version
from dissectors.kafka.nested import INNER, REQUEST, RESPONSE
from dissectors.wire.reader import ReadError


def open_request(body: dict[str, Any]) -> dict[str, Any] | None:
    """Show the request inside `body`, that of an envelope. What the response needs of it."""
    shown: dict[str, Any] | None = body.get(REQUEST)
    raw = body.pop(INNER, b"")
    framed = len(raw).to_bytes(4, "big") + raw
    if shown is None or len(framed) < REQUEST_HEAD.size:
        return shown
    _, key, version, correlation_id, n = REQUEST_HEAD.unpack_from(framed)
    api = api_version(key, version)
    at = REQUEST_HEAD.size + max(0, n)
    client = framed[REQUEST_HEAD.size : at].decode("utf-8", "backslashreplace") if n >= 0 else None
    shown |= {"api": api.name, "key": key, "version": version, "correlationId": correlation_id, "clientId": client}
    if api.known:
        with suppress(ReadError):
            at = api.request_body(framed, at)
            shown["body"] = _without_inner(api.full_request(framed, at, len(framed)).body)
    return shown


def open_response(body: dict[str, Any], request: dict[str, Any]) -> None:
    """Show the response inside `body`. request: what `open_request` found in the request."""
    raw = body.pop(INNER, b"")
    if not raw or "key" not in request:
        return
    api = api_version(request["key"], request["version"])
    if not api.known or len(raw) < 5:
        return
    with suppress(ReadError):
        at = api.response_body(raw, 4)
        body[RESPONSE]["body"] = _without_inner(api.full_response(raw, at, len(raw)).body)


def _without_inner(body: dict[str, Any]) -> dict[str, Any]:
    """No broker puts an envelope into another: such a one stays closed."""
    body.pop(INNER, None)
    return body
