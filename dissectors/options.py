"""What a caller may ask of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dissectors.limits import Limits
from dissectors.records import DEFAULT_TABLES

ALL_CORES = 0


class Options(NamedTuple):
    """Which records to make, and what is known from outside about the captures."""

    tables: tuple[str, ...] = DEFAULT_TABLES
    """Tables to build. What no table needs is not decoded."""

    full: bool = False
    """Add the decoded bodies to `exchanges`."""

    bodies_of: tuple[str, ...] = ()
    """The APIs whose bodies `full` adds; of all where none is named. Each costs several times what its row does."""

    payloads: bool = False
    """Add key, value and headers to `messages`."""

    coded: bool = False
    """Give texts that come again as Arrow dictionaries, which files take as they are."""

    site: str = "place"
    """Capture point of a file: `place`, its folder less dates and hours; `folder`; `file`; or a regular expression
    whose first group is the name."""

    joined: Mapping[str, str] | None = None
    """Capture points that are one with another, as their packets say (`capture.sites`), by name; None where nobody has
    looked yet."""

    decode_as: Mapping[int, str] = {}
    """Server port -> protocol, stronger than what the content suggests."""

    keylog: str | None = None
    """NSS key log with TLS secrets."""

    dialects: Mapping[str, str] = {}
    """Protocol -> the dialect that all of its connections use, stronger than what the content suggests."""

    jobs: int = 1
    """Processes that decode, each its share of the connections; ALL_CORES for one a core. Rows do not depend on it."""

    limits: Limits = Limits()
