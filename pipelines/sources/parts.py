"""How captures are shared out to the tasks of a query, and what a task makes of its part.

    files ─ by capture point ─► small ones together, up to 64 MiB ─► a task for some capture points
                            └─► one of more than 256 MiB          ─► tasks for shares of its connections

A connection belongs to one capture point, so all its packets meet in one task, in time order, however many files they
came from; nothing is shuffled. Tasks that share a capture point read the same files, each its own connections: reading
costs a sixth of decoding. Where captures carry TLS secrets, which hold for all of them, every task reads all files.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from dissectors.capture.block import PacketBlock
from dissectors.capture.files import site_of
from dissectors.capture.reader import Reader
from dissectors.errors import InputError, UsageError
from dissectors.limits import KIB, MIB, SHARES, Limits
from dissectors.options import Options
from dissectors.records import Finding
from dissectors.release import RowRelease
from dissectors.run import Run, with_sites
from dissectors.tcp.keys import connection_hashes, shares_of
from pipelines.answers.records import part_of
from pipelines.executors.executor import grouped
from pipelines.jobs.plan import sizes
from pipelines.process import keep_freed_memory
from pipelines.sources.names import Captures, NamesLater
from pipelines.sources.pushdown import Ends
from pipelines.sql.conditions import InvalidFilterError, is_named
from pipelines.sql.selection import Selection
from pipelines.storage import filesystem

_TOGETHER = 64 * MIB  # of captures, of several capture points, that one task decodes
_ALONE = 256 * MIB  # of captures of one capture point that one task decodes, unless there are too many such tasks
_MOST_SHARES = 8  # tasks for one capture point, where nobody says otherwise
_IPV4 = 0xFFFF << 32, 96  # how an IPv4 address begins as one of IPv6, and so many bits that is
_WORD = (1 << 64) - 1
Network = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@dataclass(frozen=True)
class Asked:
    """What a query asks of captures."""

    tables: tuple[str, ...]  # of records
    options: Options
    selection: Selection
    hosts: tuple[str, ...]  # networks; all where there are none
    ports: tuple[int, ...]
    everywhere: bool  # whether topic ids get names that other tasks' captures report
    fails: bool  # whether a file that cannot be read whole is an error
    ends: tuple[Ends, ...] = ()  # what filters of the query say of the ends of connections, all of them

    @classmethod
    def of(cls, given: Mapping[str, Any], tables: Sequence[str]) -> Asked:
        """What options ask of record tables. given: values of options.ROWS. Raises UsageError for a wrong value."""
        names = {"since": "since", "until": "until", "topics": "topic", "protocols": "protocol", "sites": "site"}
        try:
            selection = Selection(**{theirs: given[ours] for ours, theirs in names.items()})
        except InvalidFilterError as error:
            raise UsageError(f"{error.option.lstrip('-')}: {error}") from None
        options = Options(
            tables=selection.tables(tables), full=given["full"], payloads=given["payloads"], site=given["site"],
            decode_as=given["decodeAs"], keylog=given["keylog"], dialects=given["dialects"], limits=given["limits"],
        )  # fmt: skip
        everywhere, fails = given.get("names") == "everywhere", not given["ignoreCorruptFiles"]
        return cls(tuple(tables), options, selection, given["hosts"], given["ports"], everywhere, fails)

    def of_files(self, files: Sequence[str]) -> Asked:
        """What is asked, with the capture points of the files that the query reads: these, and no others."""
        return replace(self, options=with_sites(self.options, files))


@dataclass
class RowsPart(InputPartition):
    """The work of one task: connections of some captures."""

    chosen: tuple[int, ...]  # indices of the files that it reads
    share: int = 0  # of their connections
    shares: int = 1
    is_all: bool = True  # whether there are no other tasks


def plan(files: Sequence[str], asked: Asked, parts: int | None) -> list[RowsPart]:
    """How files are shared out. parts: tasks for one capture point; as many as its size asks for where it is None."""
    weights = sizes(files)
    sites = by_site(files, asked)
    is_small = sum(weights) <= (_TOGETHER if len(sites) > 1 else _ALONE)
    if parts is None and is_small:
        return [RowsPart(tuple(range(len(files))))]
    if len(sites) > 1 and any(filesystem.each(_has_secrets, files)):
        sites = {"": list(range(len(files)))}
    out: list[RowsPart] = []
    alone = []
    for numbers in sites.values():
        size = sum(weights[number] for number in numbers)
        shares = min(parts or min(_MOST_SHARES, math.ceil(size / _ALONE)), SHARES)
        if shares > 1:
            out += [RowsPart(tuple(numbers), share, shares) for share in range(shares)]
        else:
            alone.append(numbers)
    small = grouped(alone, lambda numbers: sum(weights[number] for number in numbers), _TOGETHER)
    out += [RowsPart(tuple(chain.from_iterable(some))) for some in small]
    return [replace(part, is_all=len(out) == 1 and len(part.chosen) == len(files)) for part in out]


def by_site(files: Sequence[str], asked: Asked) -> dict[str, list[int]]:
    """Indices of files by their capture points, of those that are asked for."""
    sites: dict[str, list[int]] = {}
    for number, path in enumerate(files):
        place = site_of(path, asked.options.site, asked.options.joined)
        if asked.selection.site is None or is_named(place, asked.selection.site):
            sites.setdefault(place, []).append(number)
    return sites


def _has_secrets(path: str) -> bool:
    """Whether a capture begins with TLS secrets."""
    try:
        reader = Reader(path, 0, Limits(block_bytes=64 * KIB))
    except InputError:
        return False
    if reader.format == "pcapng":
        next(reader.raw_blocks(), None)
    reader.close()
    return bool(reader.notes.secrets)


def rows(files: Sequence[str], part: RowsPart, asked: Asked) -> Iterator[pa.RecordBatch]:
    """The rows of the one table that a task makes. files: all of the query.

    Raises InputError where files cannot be read, and that is asked to be an error or there are no others.
    """
    keep_freed_memory()
    run = PartRun(files, part, asked)
    with part_of(run.records(), asked.tables, asked.selection) as some:
        for table, batch in some:
            if table in asked.tables:
                yield run.of_connections(batch)
    if asked.fails and run.problems:
        raise InputError(run.problems[0][1])


class PartRun(Run):
    """A run over the connections of a part."""

    def __init__(self, files: Sequence[str], part: RowsPart, asked: Asked) -> None:
        """files: all of the query. Raises InputError where nothing can be read."""
        super().__init__([files[number] for number in part.chosen], asked.options)
        self._part = part
        self._asked = asked
        self._ends = [
            ([_network(text) for text in some.hosts], list(some.ports))
            for some in (Ends(hosts=asked.hosts), Ends(ports=asked.ports), *asked.ends)
            if some != Ends()
        ]
        self._captures = Captures(files, asked.options)

    @property
    def _is_everything(self) -> bool:
        """Whether no connection is left out for its addresses or ports."""
        return not self._ends

    def of_connections(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch, less those of no connection where addresses or ports are asked for."""
        return batch if self._is_everything else batch.filter(batch.column("connection").is_valid())

    def select(self, block: PacketBlock) -> PacketBlock | None:
        """The packets of its connections."""
        keep = np.ones(len(block), bool)
        if self._part.shares > 1:
            keep &= shares_of(connection_hashes(block)) % self._part.shares == self._part.share
        for networks, ports in self._ends:
            if ports:
                keep &= np.isin(block.sport, ports) | np.isin(block.dport, ports)
            if networks:
                keep &= _at(networks, block.src_hi, block.src_lo) | _at(networks, block.dst_hi, block.dst_lo)
        if keep.all():
            return block
        return block.take(np.flatnonzero(keep)) if keep.any() else None

    def release(self) -> RowRelease:
        """Names come from all captures of the query, if they are asked for and there are more than this run reads."""
        if self._asked.everywhere and not (self._part.is_all and self._is_everything):
            return NamesLater(self.options.limits, self._captures)
        return super().release()

    def _findings(self) -> list[Finding]:
        """Findings about files, each reported by one task."""
        if self._part.is_all:
            return super()._findings()
        return [] if self._part.share else self._remarks()


def _at(networks: Sequence[Network], hi: npt.NDArray[np.uint64], lo: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Whether addresses are of one of the networks."""
    found = np.zeros(len(hi), bool)
    for first_hi, first_lo, mask_hi, mask_lo in networks:
        found |= (hi & mask_hi == first_hi) & (lo & mask_lo == first_lo)
    return found


def _network(text: str) -> Network:
    """(address hi, lo, mask hi, lo) of a network, as blocks of packets have addresses."""
    network = ipaddress.ip_network(text)
    address, length = int(network.network_address), network.prefixlen
    if network.version == 4:
        address, length = _IPV4[0] | address, _IPV4[1] + length
    mask = ((1 << length) - 1) << 128 - length
    return (
        np.uint64(address >> 64), np.uint64(address & _WORD), np.uint64(mask >> 64), np.uint64(mask & _WORD)
    )  # fmt: skip
