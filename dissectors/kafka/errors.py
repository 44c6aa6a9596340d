"""Error codes: what they are called, and whether the same request may be sent again."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from dissectors.wire.proto import proto


class ErrorCode(NamedTuple):
    """One error code."""

    name: str
    retriable: bool | None  # None: a code that the tables do not have


@cache
def _table() -> dict[int, ErrorCode]:
    lines = proto("kafka", "errors.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {int(code): ErrorCode(name, retriable == "true") for code, name, retriable in rows}


def is_known(code: int) -> bool:
    """Whether the tables have this code."""
    return code in _table()


def error(code: int) -> ErrorCode:
    """What is known of a code: of one that is not in the tables, its number."""
    return _table().get(code) or ErrorCode(f"ERROR_{code}", None)
