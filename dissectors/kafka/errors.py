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
def _table() -> dict[int, ErrorMeaning]:
    lines = proto("kafka", "errors.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {int(code): ErrorMeaning(name, retriable == "true") for code, name, retriable in rows}


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
    """What is known of a code: of one that is not in the tables, its number."""
    return _table().get(code) or ErrorMeaning(f"ERROR_{code}", None)
