"""Packets of captures, cut by connection: what a task that reads captures does.

A task reads the splits of its work and cuts every block by a hash of the connection. A piece (see `shuffle`) holds the
packets of one stretch of the capture that go to one part: columns and bytes of many packets. What concerns every part
of a capture point (fragments whose other half another task may have read, the times at which files end) goes to each,
and TLS secrets go to all parts.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dissectors.capture.beginning import Beginning
from dissectors.capture.block import COLUMNS, PacketBlock, address_halves
from dissectors.capture.fragments import Fragments
from dissectors.capture.packed import pack
from dissectors.capture.raw import Census, RawBlock, packets
from dissectors.capture.reader import Part, Reached, Reader
from dissectors.capture.split import Split, parts, read_split
from dissectors.errors import InputError
from dissectors.findings import TRUNCATED, UNREADABLE
from dissectors.limits import MIB, SHARES, Limits
from dissectors.tcp.keys import connection_hashes, shares_of
from pipelines.jobs.shuffle import (
    ENDS,
    EVERY,
    FRAGMENTS,
    PACKETS,
    PIECE_BYTES,
    SECRETS,
    CutPiece,
    PieceFile,
    Spill,
    framed,
)

_HELD_BYTES = 64 * MIB  # of capture that a task holds before it writes what it has cut
PACKET_BYTES = 64  # what a packet weighs beside its payload

_SAMPLED = 8  # of so many blocks, a survey looks into one
_HEAVIEST = 16  # shares that it tells of

Keys = npt.NDArray[np.uint64]


class FileReport(NamedTuple):
    """What reading a file, or a part of one, was like."""

    site: str
    path: str
    problems: list[tuple[str, str]]  # kind of finding, message
    clock: int = 0  # latest time in it, ns
    first: int | None = None  # earliest time in it, ns; None without packets
    packets: int = 0  # number of the last packet that was read
    end: int | None = None  # of a plain pcap: where the next packet header lies, or will lie
    beginning: tuple[int, str] | None = None  # so many first packets, and their digest; None of a part behind them
    marks: Sequence[Reached] = ()  # places from which the rest can be read
    last: bool = False  # whether the file ends there


@dataclass(frozen=True, slots=True)
class Work:
    """What one task reads."""

    splits: tuple[tuple[int, Split], ...]  # index of the file among all, split
    size: int  # bytes to read, about
    uncut: bool = False  # whether it is one uncompressed pcap file, whole, whose packets all go to one part


class Spread(NamedTuple):
    """The parts that the connections of a capture point go to: first those of large shares, one each."""

    first: int  # number of the first part
    shared: int = 1  # parts of many shares
    alone: tuple[int, ...] = ()  # large shares

    @property
    def parts(self) -> range:
        """All of them."""
        return range(self.first, self.first + len(self.alone) + self.shared)


@dataclass(frozen=True)
class Sharing:
    """Which part the packets of a connection go to: that of its capture point and share."""

    parts: int
    sites: Mapping[str, Spread] = field(default_factory=dict)  # of those that do not go to all parts
    only: Keys | None = None  # hashes, sorted: packets of other connections are left out

    def parts_of(self, site: str) -> range:
        """The parts of a capture point."""
        return self._spread(site).parts

    def of(self, site: str, keys: Keys) -> npt.NDArray[np.int64]:
        """The part of each packet of a capture point, by the hash of its connection; -1 for none."""
        part = _part_of_share(self._spread(site))[shares_of(keys)]
        if self.only is not None:
            part[~np.isin(keys, self.only)] = -1
        return part

    def _spread(self, site: str) -> Spread:
        return self.sites.get(site) or Spread(0, self.parts)


@lru_cache(maxsize=64)
def _part_of_share(spread: Spread) -> npt.NDArray[np.int64]:
    parts = np.arange(SHARES) % spread.shared + spread.first + len(spread.alone)
    parts[list(spread.alone)] = spread.first + np.arange(len(spread.alone))
    return parts


def key_of(a_ip: str, a_port: int, b_ip: str, b_port: int) -> int:
    """The hash of a connection between two endpoints, in either order."""
    zeros: dict[str, Any] = {name: np.zeros(1, np.int64) for name in COLUMNS}
    names = ("src_hi", "src_lo", "sport", "dst_hi", "dst_lo", "dport")
    values = (*address_halves(a_ip), a_port, *address_halves(b_ip), b_port)
    known = {n: np.array([v], zeros[n].dtype if "port" in n else np.uint64) for n, v in zip(names, values, strict=True)}
    return int(connection_hashes(PacketBlock(b"", **zeros | known))[0])


@dataclass
class Survey:
    """What a walk over a large file found."""

    parts: list[Part]
    weights: dict[int, int]  # share of the connections -> about how many bytes of payload, of the heaviest
    carried: int = 0  # bytes of payload in all, about


def survey(
    path: str,
    split_bytes: int,
    limits: Limits,
    go_on: Callable[[], None] = lambda: None,
    since: Part | None = None,
) -> Survey:
    """Where a large file may be split, and which shares of its connections are large.

    go_on: called now and then; what it raises ends the walk. since: what of the file has not been read; all where it is
    None.
    """
    weights: Counter[int] = Counter()
    seen = 0

    def look(raw: RawBlock) -> None:
        nonlocal seen
        go_on()
        seen += 1
        if seen % _SAMPLED == 0 and (block := packets(raw, 0, Census(), Fragments())) is not None:
            sizes = np.bincount(shares_of(connection_hashes(block)), block.have) * _SAMPLED
            weights.update(dict(enumerate(sizes.astype(int).tolist())))

    found = parts(path, split_bytes, limits, look, since)
    return Survey(found, dict(weights.most_common(_HEAVIEST)), weights.total())


def cut(
    work: Work, sharing: Sharing, limits: Limits, out: PieceFile | Spill, *, all_reports: bool = False
) -> list[FileReport]:
    """Write the pieces of a task's splits. Returns reports of the files with problems, or of all of them."""
    held = _Held()
    ends: dict[str, set[int]] = {}
    reports = []
    for index, split in work.splits:
        try:
            reader, blocks = read_split(split, index, limits)
        except InputError as error:
            reports.append(FileReport(split.site, split.path, [(UNREADABLE, str(error))]))
            continue
        reader.beginning = Beginning() if all_reports else None
        for block in blocks:
            held.add(split.site, block, sharing)
            if held.size >= _HELD_BYTES:
                held.write(out)
        report = report_of(reader, split.site, last=split.last)
        if report.problems or all_reports:
            reports.append(report)
        _write_shared(reader, split, out)
        ends.setdefault(split.site, set()).update([reader.census.clock] if split.last else [])
    held.write(out)
    for site, times in ends.items() if all_reports else ():
        out.write(EVERY, CutPiece(site, ENDS, 0, pickle.dumps(times)))
    return reports


class WholeBlock(NamedTuple):
    """Packets of a file that is not cut, behind those of the block before in time."""

    site: str
    packets: PacketBlock


def uncut(work: Work, limits: Limits, reports: list[FileReport]) -> Iterator[WholeBlock]:
    """The packets of an uncompressed pcap file as they are read, for the one part that gets them all.

    work: the whole file. reports: gets a report of the file, once it is read, where it has problems.
    """
    ((index, split),) = work.splits
    try:
        reader, blocks = read_split(split, index, limits)
    except InputError as error:
        reports.append(FileReport(split.site, split.path, [(UNREADABLE, str(error))]))
        return
    for block in blocks:
        yield WholeBlock(split.site, block)
    report = report_of(reader, split.site, last=split.last)
    if report.problems:
        reports.append(report)


class _Held:
    """Packets by part and site, that wait to be written."""

    def __init__(self) -> None:
        self.size = 0
        self._blocks: dict[tuple[int, str], list[PacketBlock]] = {}

    def add(self, site: str, block: PacketBlock, sharing: Sharing) -> None:
        self.size += len(block.buffer)
        part = sharing.of(site, connection_hashes(block))
        order = np.argsort(part, kind="stable")
        parts, starts = np.unique(part[order], return_index=True)
        for one, index in zip(parts.tolist(), np.split(order, starts[1:]), strict=True):
            if one >= 0:
                self._blocks.setdefault((one, site), []).append(block.take(index))

    def write(self, out: PieceFile | Spill) -> None:
        """Write all that waits, and let go of it."""
        for (part, site), blocks in sorted(self._blocks.items(), key=itemgetter(0)):
            for some in _grouped(blocks):
                out.write(part, CutPiece(site, PACKETS, min(int(b.clock.min()) for b in some), framed(pack(some))))
        self._blocks.clear()
        self.size = 0


def _grouped(blocks: Sequence[PacketBlock]) -> Iterator[list[PacketBlock]]:
    """Blocks in groups that fit a piece."""
    group: list[PacketBlock] = []
    size = 0
    for block in blocks:
        group.append(block)
        size += int(block.have.sum()) + PACKET_BYTES * len(block)
        if size >= PIECE_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def report_of(reader: Reader, site: str, *, last: bool) -> FileReport:
    """A report of a file that has been read, as far as its reader went. last: whether the file ends there."""
    problems = [(TRUNCATED, reader.problem)] if reader.problem else []
    problems += reader.remarks()
    census, digests = reader.census, reader.beginning.digests if reader.beginning else []
    beginning = (len(digests), digests[-1]) if digests else None
    read = (census.clock, census.first_ns, reader.packets, reader.end, beginning, reader.marks, last)
    return FileReport(site, reader.path, problems, *read)


def _write_shared(reader: Reader, split: Split, out: PieceFile | Spill) -> None:
    """Write what every part needs of a file that has been read."""
    for secrets in reader.notes.secrets:
        out.write(EVERY, CutPiece("", SECRETS, 0, bytes(secrets)))
    pending = reader.fragments.pending()
    if pending:
        out.write(EVERY, CutPiece(split.site, FRAGMENTS, pending[0].clock, pickle.dumps(pending)))
