"""Whether clients go on working with brokers of a release: the table `upgrades`, read against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from dissectors.errors import UsageError
from dissectors.session.protocols import protocols

Row = Mapping[str, Any]


class Readiness(NamedTuple):
    """How much of what a capture shows goes on working: libraries with their versions, and addresses."""

    libraries: int
    ready_libraries: int
    hosts: int
    ready_hosts: int


def targets(asked: str | None) -> dict[str, str]:
    """Protocol -> the release that its brokers are to have. asked: `4.0`, `iggy=0.7`, several apart by commas.

    The newest release that is known where nothing is asked. Raises UsageError for a release that nobody knows.
    """
    known = {protocol.name: protocol.releases() for protocol in protocols() if protocol.releases()}
    if asked is None:
        return {name: releases[-1] for name, releases in known.items()}
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, asked.split(","))):
        name, equals, release = part.rpartition("=")
        fitting = [each for each, releases in known.items() if release in releases and name in ("", each)]
        if not fitting or (equals and not name):
            there = "; ".join(f"{each}: {', '.join(releases)}" for each, releases in known.items())
            raise UsageError(f"no release {part!r}; there are {there}")
        found |= dict.fromkeys(fitting, release)
    return found


def against(rows: pa.Table, to: Mapping[str, str]) -> tuple[pa.Table, Readiness]:
    """Rows of `upgrades` that break at these releases, and how much goes on working.

    Protocols of which no release is asked for are left out.
    """
    order = {protocol.name: {name: at for at, name in enumerate(protocol.releases())} for protocol in protocols()}
    every: Sequence[Row] = [row for row in rows.to_pylist() if row["protocol"] in to]
    breaks = [
        row["breaks_at"] is not None
        and order[row["protocol"]][row["breaks_at"]] <= order[row["protocol"]][to[row["protocol"]]]
        for row in every
    ]
    broken = [row for row, is_broken in zip(every, breaks, strict=True) if is_broken]
    libraries, hosts = {_library(row) for row in every}, {row["client_ip"] for row in every}
    bad_libraries, bad_hosts = {_library(row) for row in broken}, {row["client_ip"] for row in broken}
    ready = Readiness(len(libraries), len(libraries - bad_libraries), len(hosts), len(hosts - bad_hosts))
    return pa.Table.from_pylist([dict(row) for row in broken], rows.schema), ready


def _library(row: Row) -> tuple[Any, ...]:
    """What counts as one library: its name and version, else the id of a client that names none."""
    named = (row["protocol"], row["software"], row["software_version"])
    return named if row["software"] or row["software_version"] else (row["protocol"], None, row["client_id"])
