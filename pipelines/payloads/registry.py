"""What a schema registry knows, by the API of Confluent's: `GET /schemas` lists all with ids, subjects and versions."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from dissectors.errors import InputError
from dissectors.redaction import public_path
from pipelines.payloads.schemas import MOST_REGISTRY

_SECONDS = 30
_KEPT = ("id", "subject", "version", "schemaType", "schema", "references")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials go to the host that was named and to no other."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none: what was asked for is then an error with the status."""


def fetched(url: str) -> list[dict[str, Any]]:
    """The schemas of a registry. Raises InputError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{public_path(url)}: not the URL of a registry: http://host:port")
    place = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    asked = urllib.request.Request(urlunsplit((parts.scheme, place, f"{parts.path.rstrip('/')}/schemas", "", "")))
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        asked.add_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    try:
        with urllib.request.build_opener(_NoRedirect).open(asked, timeout=_SECONDS) as answer:
            data = answer.read(MOST_REGISTRY + 1)
        if len(data) > MOST_REGISTRY:
            raise InputError(f"{public_path(url)}: more than {MOST_REGISTRY >> 20} MiB of schemas")
        listed = json.loads(data)
        return [{name: each[name] for name in _KEPT if name in each} for each in listed if "schema" in each]
    except (OSError, urllib.error.URLError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{public_path(url)}: no schemas from there: {error}") from None


def text(schemas: list[dict[str, Any]]) -> bytes:
    """The file that `schemas.load` reads."""
    return json.dumps({"schemas": schemas}, ensure_ascii=False, indent=1).encode() + b"\n"
