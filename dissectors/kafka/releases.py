"""Which versions of which APIs the brokers of each release serve: proto/kafka/releases.tsv as Python values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from dissectors.kafka.schema import Versions, apis, versions
from dissectors.session.conversation import Removal
from dissectors.wire.proto import proto


@cache
def _table() -> tuple[tuple[str, ...], Mapping[int, tuple[Versions, ...]]]:
    """Releases, oldest first; API key -> the versions that each of them serves."""
    head, *lines = proto("kafka", "releases.tsv").read_text().splitlines()
    rows = (line.split("\t") for line in lines)
    return tuple(head.split("\t")[2:]), {int(key): tuple(map(versions, served)) for key, _, *served in rows}


def releases() -> tuple[str, ...]:
    """The releases of brokers that are told apart, oldest first."""
    return _table()[0]


def removals() -> Iterator[Removal]:
    """Versions that some release serves and a later one does not, each with these two."""
    names, table = _table()
    for key, served in table.items():
        for at in range(1, len(names)):
            gone = sorted(set(served[at - 1].each()) - set(served[at].each()))
            if gone:
                yield Removal(apis()[key].name, None, gone[0], gone[-1], names[at - 1], names[at])


def first_served() -> Iterator[tuple[int, int, int]]:
    """Each version of each API: key, version, and the number of the first release that serves it."""
    for key, served in _table()[1].items():
        seen: set[int] = set()
        for at, known in enumerate(served):
            for version in sorted(set(known.each()) - seen):
                yield key, version, at
            seen.update(known.each())


@cache
def refused_since(release: str) -> Mapping[int, Versions]:
    """API key -> the versions that earlier releases serve and this one does not."""
    names, table = _table()
    at = names.index(release)
    found = {}
    for key, served in table.items():
        gone = {version for known in served[:at] for version in known.each()} - set(served[at].each())
        if gone:
            found[key] = Versions(((min(gone), max(gone)),))
    return found
