"""What an error number means, by the releases that may have sent it."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.iggy import tables
from dissectors.iggy.tables import Status

TRANSIENT = frozenset({57, 58})  # the client's library sends the same request again


class Fault(NamedTuple):
    """One error in an answer."""

    code: int
    name: str
    scope: str
    retriable: bool
    message: str | None = None  # what the server says of it


def fault(code: int, allowed: int) -> Fault:
    """An error number, named as the likeliest of the allowed releases names it."""
    meanings = tables.statuses().get(code, ())
    status: Status | None = next((s for s in reversed(meanings) if s.releases & allowed), None)
    if status is None and meanings:
        status = meanings[-1]
    if status is None:
        return Fault(code, f"Unknown{code}", "request", False)
    return Fault(code, status.name, status.scope, status.retriable)


def eviction(reason: int, allowed: int) -> Fault:
    """The reason of an eviction, as the error that a client's library makes of it."""
    name, code = tables.evictions().get(reason, (f"Eviction{reason}", 0))
    if not code:
        return Fault(reason, name, "session", False)
    return fault(code, allowed)._replace(scope="session")
