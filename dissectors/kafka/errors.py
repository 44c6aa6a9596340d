"""Error codes: what they are called, and whether the same request may be sent again."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from dissectors.wire.proto import proto


class ErrorMeaning(NamedTuple):
    """One error code."""

    name: str
    retriable: bool | None  # None: a code that the tables do not have


@cache
def _lines() -> dict[int, list[str]]:
    lines = proto("kafka", "errors.tsv").read_text().splitlines()[1:]
    return {int(code): rest for code, *rest in (line.split("\t") for line in lines)}


@cache
def _table() -> dict[int, ErrorMeaning]:
    return {code: ErrorMeaning(name, retriable == "true") for code, (name, retriable, _, _) in _lines().items()}


def meaning(code: int) -> str | None:
    """What a code says, in one line; None for one that is not in the tables."""
    line = _lines().get(code)
    return None if line is None else line[3]


def older_names() -> dict[str, str]:
    """Names that error codes had in older documents -> their names of today."""
    return {older: name for name, _, olders, _ in _lines().values() for older in olders.split(",") if older}


def is_known(code: int) -> bool:
    """Whether the tables have this code."""
    return code in _table()


def known_codes() -> Iterable[int]:
    """The codes that the tables have."""
    return _table().keys()


EXPECTED = frozenset(
    {
        ("JoinGroup", 79),  # MEMBER_ID_REQUIRED: the answer to every first join (KIP-394)
        ("ApiVersions", 35),  # UNSUPPORTED_VERSION: how a client finds the version that the broker has (KIP-511)
        ("Metadata", 5),  # LEADER_NOT_AVAILABLE: a topic that is just being created
        ("Fetch", 70),  # FETCH_SESSION_ID_NOT_FOUND: the broker dropped an idle session; the client makes a new one
    }
)
"""(API, error code) that are part of normal work."""


def error(code: int) -> ErrorMeaning:
    """Name and kind of an error code; one that is not in the table is named by its number."""
    return _table().get(code) or ErrorMeaning(f"ERROR_{code}", None)
