"""The tables of proto/iggy as Python values: releases, commands, operations, errors.

A set of releases is an int with one bit a release, oldest lowest: ranges of the tables become such sets, and what the
bytes of a connection still allow is one of them, narrowed by `&`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from dissectors.wire.proto import proto


class Release(NamedTuple):
    """A release of the server at which the wire format changed."""

    name: str
    dialect: str
    framing: str  # "legacy" (8-byte prefix) or "vsr" (256-byte header)
    protocol: str  # the version that its clients give in their login; empty where they give none
    weight: int


class Command(NamedTuple):
    """Meaning of a command code in a range of releases."""

    code: int
    name: str
    releases: int
    waits: bool
    silent: bool


class Operation(NamedTuple):
    """An operation of a VSR frame."""

    name: str
    code: int  # the command that it carries, 0 for none
    result: bool  # its answer begins with a result section
    request: int  # the operation that the client requested


class Status(NamedTuple):
    """Meaning of an error number in a range of releases."""

    code: int
    name: str
    releases: int
    scope: str
    retriable: bool
    meaning: str  # in one line


class Plane(NamedTuple):
    """A command byte of a VSR frame."""

    name: str
    replica: bool
    frozen: bool  # the header's checksum leaves out `view`


def rows(table: str) -> list[list[str]]:
    """The rows of a tab-separated table, without comments and heading."""
    lines = proto("iggy", table).read_text("utf-8").splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    width = kept[0].count("\t") + 1
    return [(line.split("\t") + [""] * width)[:width] for line in kept[1:]]


@cache
def releases() -> tuple[Release, ...]:
    """All releases, oldest first."""
    return tuple(
        Release(name, dialect, framing, protocol, int(weight))
        for name, dialect, framing, protocol, weight, _ in rows("releases.tsv")
    )


@cache
def _positions() -> dict[str, int]:
    return {release.name: i for i, release in enumerate(releases())}


def span(since: str, until: str) -> int:
    """The set of releases from one to another, both included; empty ends are open."""
    first = _positions()[since] if since else 0
    last = _positions()[until] if until else len(releases()) - 1
    return (1 << (last + 1)) - (1 << first)


@cache
def of_framing(framing: str) -> int:
    """The releases that use a framing."""
    return sum(1 << i for i, release in enumerate(releases()) if release.framing == framing)


@cache
def names(allowed: int) -> tuple[str, ...]:
    """Names of a set of releases, oldest first."""
    return tuple(release.name for i, release in enumerate(releases()) if allowed >> i & 1)


@cache
def settled(allowed: int) -> bool:
    """Whether a set of releases speaks one dialect."""
    return len({release.dialect for i, release in enumerate(releases()) if allowed >> i & 1}) == 1


@cache
def asked_for(era: str) -> int:
    """The releases that a user names: a dialect, a release, or either without `iggy-` or `vsr-`; 0 for none."""
    wanted = _bare(era.lower())
    dialect = sum(1 << i for i, release in enumerate(releases()) if wanted == _bare(release.dialect))
    return dialect or sum(1 << i for i, release in enumerate(releases()) if wanted == _bare(release.name))


def _bare(name: str) -> str:
    return name.removeprefix("iggy-").removeprefix("vsr-")


@cache
def of_protocol(protocol: str) -> int:
    """The releases whose clients log in with this version, `major.minor.patch`; 0 where it decides nothing.

    A version above all that are known is of the newest dialect; one between them may read like either neighbour.
    """
    numbered = [(_version(release.protocol), i) for i, release in enumerate(releases()) if release.protocol]
    version = _version(protocol)
    exact = sum(1 << i for known, i in numbered if known == version)
    newest = max(numbered)
    if exact or version < newest[0]:
        return exact
    return asked_for(releases()[newest[1]].dialect)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


@cache
def commands() -> dict[int, tuple[Command, ...]]:
    """Command code -> what it means, release by release."""
    found: dict[int, tuple[Command, ...]] = {}
    for code, name, since, until, waits, silent in rows("commands.tsv"):
        command = Command(int(code), name, span(since, until), waits == "1", silent == "1")
        found[command.code] = (*found.get(command.code, ()), command)
    return found


@cache
def meaning(code: int, best: int) -> Command | None:
    """Meaning of a command code to a release (its index), or to the last that knew it."""
    known = commands().get(code, ())
    return next((command for command in known if command.releases >> best & 1), known[-1] if known else None)


@cache
def operations() -> dict[int, Operation]:
    """Operation byte of a VSR frame -> what it is."""
    return {
        int(number): Operation(name, int(code), result == "1", int(request or number))
        for number, name, code, result, request in rows("operations.tsv")
    }


@cache
def statuses() -> dict[int, tuple[Status, ...]]:
    """Error number -> what it means, release by release."""
    found: dict[int, tuple[Status, ...]] = {}
    for code, name, since, until, scope, retriable, meaning in rows("errors.tsv"):
        status = Status(int(code), name, span(since, until), scope, retriable == "1", meaning)
        found[status.code] = (*found.get(status.code, ()), status)
    return found


@cache
def planes() -> dict[int, Plane]:
    """Command byte of a VSR frame -> what it is."""
    return {int(n): Plane(name, plane == "replica", frozen == "1") for n, name, plane, frozen in rows("planes.tsv")}


@cache
def evictions() -> dict[int, tuple[str, int]]:
    """Reason of an eviction -> its name, and the error that a client's library makes of it."""
    return {int(reason): (name, int(code)) for reason, name, code in rows("evictions.tsv")}


@cache
def servers() -> tuple[tuple[str, int], ...]:
    """Beginning of the version that a server gives of itself -> the releases that it may be."""
    return tuple((prefix, span(since, until)) for prefix, since, until in rows("servers.tsv"))


@cache
def clients() -> tuple[tuple[str, int], ...]:
    """Beginning of a client library's version -> the releases that were current with it."""
    return tuple((prefix, span(since, until)) for prefix, since, until in rows("clients.tsv"))
