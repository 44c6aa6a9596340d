"""Error numbers by name, as the releases that may have sent them name them."""

from __future__ import annotations

from functools import lru_cache

from dissectors.iggy import tables
from dissectors.iggy.tables import Status
from dissectors.session.exchange import ErrorCode

_REMEMBERED = 1024  # errors


@lru_cache(_REMEMBERED)
def error(code: int, allowed: int) -> ErrorCode:
    """An error number, named as the likeliest of the allowed releases names it."""
    meanings = tables.statuses().get(code, ())
    status: Status | None = next((s for s in reversed(meanings) if s.releases & allowed), None)
    if status is None and meanings:
        status = meanings[-1]
    if status is None:
        return ErrorCode(code, f"Unknown{code}", "request", False)
    return ErrorCode(code, status.name, status.scope, status.retriable)


def meaning(code: int, name: str | None) -> str | None:
    """What an error number says by the name that it has in some releases, in one line; None where it is not known."""
    return next((status.meaning for status in tables.statuses().get(code, ()) if status.name == name), None)


def eviction(reason: int, allowed: int) -> ErrorCode:
    """The reason of an eviction, as the error that a client's library makes of it."""
    name, code = tables.evictions().get(reason, (f"Eviction{reason}", 0))
    if not code:
        return ErrorCode(reason, name, "session", False)
    return error(code, allowed)._replace(scope="session")
