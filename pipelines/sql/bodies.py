"""Fields of decoded bodies in SQL: `request.max_wait_ms` finds Kafka's `maxWaitMs`.

Bodies have the protocols' own names, of which each has its own spelling. In a query or condition, a field is found
whatever its case, with `_` or without; where protocols spell it differently, in each spelling.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa

from dissectors.session.protocols import protocols
from dissectors.wording import did_you_mean, nearest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BODIES = ("request", "response")
"""The columns of `exchanges` that hold bodies, as JSON."""

AS_JSON = f"* REPLACE ({', '.join(f'{name}::JSON AS {name}' for name in BODIES)})"
"""All columns, of which those with bodies are JSON, whose fields are named by dots."""

_NAMED = r"\s*\.\s*(?P<dotted>[A-Za-z_]\w*)"  # .name
_QUOTED = r"\s*->>?\s*'(?P<quoted>[A-Za-z_]\w*)'"  # ->'name', which may be one that the wire names
_PLACED = r"\s*\[[^\[\]]*\]"  # [0]
_STEP = re.compile(f"{_NAMED}|{_QUOTED}|{_PLACED}")
_STEPS = re.sub(r"\?P<\w+>", "?:", f"(?:{_NAMED}|{_QUOTED}|{_PLACED})")
_TOKEN = re.compile(
    rf"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | (?P<body>\b(?:request|response)\b)(?P<path>{_STEPS}+)(?!\s*\()""",
    re.X | re.I,
)
_MOST = 16  # spellings of one path


class UnknownFieldError(ValueError):
    """A field that no body of any protocol has."""


def plain(name: str) -> str:
    """A name without what spellings differ in."""
    return name.replace("_", "").lower()


def spelled(text: str, only: Collection[str] = ()) -> str:
    """SQL in which fields of bodies have the protocols' spelling. Raises UnknownFieldError for what is none.

    only: the protocols whose spelling matters; all where none is named.
    """

    def replaced(match: re.Match[str]) -> str:
        if match["body"] is None:
            return match[0]
        ways = list(dict.fromkeys(_ways(match["path"], only)))[:_MOST]
        paths = [match["body"] + way for way in ways]
        return paths[0] if len(paths) == 1 else f"coalesce({', '.join(paths)})"

    return _TOKEN.sub(replaced, text)


def spelled_for(connection: DuckDBPyConnection, text: str) -> str:
    """SQL spelled as `spelled` does, for the protocols that the table `exchanges` of a database has.

    Raises UnknownFieldError for a field that no body has.
    """
    if not _names_field(text):
        return text
    found = connection.execute("SELECT DISTINCT protocol FROM exchanges WHERE protocol IS NOT NULL").fetchall()
    return spelled(text, [name for (name,) in found])


def _names_field(text: str) -> bool:
    return any(match["body"] is not None for match in _TOKEN.finditer(text))


def _ways(path: str, only: Collection[str]) -> Iterator[str]:
    """A path in each spelling that a protocol may have for all its names; as it is where no protocol has them all."""
    asked = [step["dotted"] or step["quoted"] for step in _STEP.finditer(path) if step["dotted"] or step["quoted"]]
    every = _spellings()
    for step in _STEP.finditer(path):
        name = step["dotted"]
        if name and not any(plain(name) in known for known in every.values()):
            raise UnknownFieldError(f"no body has a field {name!r}; {_meant(name)}")
    found = False
    for protocol, known in every.items():
        if protocol in (only or every) and all(plain(name) in known for name in asked):
            found = True
            for names in product(*(known[plain(name)] for name in asked)):
                yield _with_names(path, names)
    if not found:
        yield path


def _with_names(path: str, names: tuple[str, ...]) -> str:
    """A path with other names in the places of its own."""
    left = iter(names)

    def named(step: re.Match[str]) -> str:
        own = step["dotted"] or step["quoted"]
        return step[0].replace(own, next(left)) if own else step[0]

    return _STEP.sub(named, path)


@cache
def _spellings() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Protocol -> plain name of a field -> how the protocol spells it, mostly in one way."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for protocol in protocols():
        known = found.setdefault(protocol.name, {})
        for name in sorted(protocol.body_names()):
            known[plain(name)] = (*known.get(plain(name), ()), name)
    return found


def _meant(name: str) -> str:
    """The field that was probably meant, or that docs say which there are."""
    near = nearest(name, (one for known in _spellings().values() for names in known.values() for one in names))
    return did_you_mean(name, [near]) if near else "`show` shows all fields of one exchange"


def has_bodies(schema: pa.Schema) -> bool:
    """Whether a table has decoded bodies."""
    return all(name in schema.names for name in BODIES)
