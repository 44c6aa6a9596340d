"""Names of APIs and error codes in older documents and clients, as a person may ask for them."""

from __future__ import annotations

import re
from functools import cache

from dissectors.session.protocols import protocols

_QUOTED = re.compile(r"\b(?P<column>api|error_name|name)(?P<between>\s*(?:=|<>|!=|\bIN\b|\bNOT\s+IN\b)\s*)"
                     r"(?P<values>\(\s*'[^')]*'(?:\s*,\s*'[^')]*')*\s*\)|'[^']*')", re.I)  # fmt: skip
_LITERAL = re.compile(r"'([^']*)'")


@cache
def _today() -> dict[str, str]:
    return {older.lower(): name for protocol in protocols() for older, name in protocol.older_names().items()}


def todays_name(name: str) -> str:
    """The name that records have for an API or error code; the same name where it has no other."""
    return _today().get(name.lower(), name)


def with_todays_names(where: str) -> str:
    """A condition in SQL in which APIs and error codes that are compared for equality have the names of records."""
    return _QUOTED.sub(_replaced, where)


def _replaced(match: re.Match[str]) -> str:
    values = _LITERAL.sub(lambda value: f"'{todays_name(value[1])}'", match["values"])
    return f"{match['column']}{match['between']}{values}"
