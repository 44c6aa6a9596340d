"""What is shuffled: blocks of packets, cut by connection.

    splits ─ cut ─► rows (part, site, kind, first, data) ─ by part, sorted by site, kind, first ─ arrive ─► blocks

A task reads the splits of its work and cuts every block by a hash of the connection. A row holds the packets of one
stretch of the capture that go to one part: columns and bytes of many packets. What concerns every part (TLS secrets,
fragments whose other half another task may have read, the times at which files end) is sent to each; what concerns none
(that a file is damaged) to any one.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dissectors.capture.block import COLUMNS, PacketBlock, address_halves, concat
from dissectors.capture.fragments import TIMEOUT_NS, Fragments, Packet, place
from dissectors.capture.packed import pack, unpack
from dissectors.capture.raw import Census, RawBlock, packets, rejoin
from dissectors.capture.reader import Part, Reached, Reader
from dissectors.capture.split import Split, parts, read_split
from dissectors.errors import InputError
from dissectors.findings import TRUNCATED, UNREADABLE
from dissectors.limits import KIB, MIB, SHARES, Limits
from dissectors.tcp.grouping import connection_keys, shares_of

SCHEMA = pa.schema([
    ("part", pa.int32()),
    ("site", pa.string()),
    ("kind", pa.int32()),
    ("first", pa.int64()),
    ("data", pa.binary()),
])  # fmt: skip
DDL = "part int, site string, kind int, first bigint, data binary"
ORDER = ("site", "kind", "first")  # of the rows of a part

SECRETS, ENDS, FRAGMENTS, NOTE, PACKETS = range(5)  # kinds of rows, in the order in which a part wants them

_HELD_BYTES = 64 * MIB  # of capture that a task holds before it sends what it has cut
_ROW_BYTES = 8 * MIB  # of payload in a row, about
_FEED_PACKETS = 32 * KIB  # packets that are decoded together, at least
_PACKET_BYTES = 64  # what a packet weighs beside its payload

_SAMPLED = 8  # of so many blocks, a survey looks into one

Keys = npt.NDArray[np.uint64]


class Row(NamedTuple):
    """One row of the shuffle; see SCHEMA. first: time of its first packet, ns."""

    part: int
    site: str
    kind: int
    first: int
    data: bytes | memoryview


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
    """What one task cuts."""

    splits: tuple[tuple[int, Split], ...]  # index of the file among all, split
    size: int  # bytes to read, about


@dataclass(frozen=True)
class Sharing:
    """Which part the packets of a connection go to: that of its share.

    Parts of large shares come first: they take longest.
    """

    shared: int  # parts of many shares
    alone: Mapping[int, int] = field(default_factory=dict)  # large share -> a part of its own, from 0
    only: Keys | None = None  # hashes, sorted: packets of other connections are left out

    @property
    def parts(self) -> int:
        """All parts."""
        return self.shared + len(self.alone)

    @cached_property
    def _part_of_share(self) -> npt.NDArray[np.int64]:
        parts = np.arange(SHARES) % self.shared + len(self.alone)
        parts[list(self.alone)] = list(self.alone.values())
        return parts

    def of(self, keys: Keys) -> npt.NDArray[np.int64]:
        """The part of each packet, by the hash of its connection; -1 for none."""
        part = self._part_of_share[shares_of(keys)]
        if self.only is not None:
            part[~np.isin(keys, self.only)] = -1
        return part


def key_of(a_ip: str, a_port: int, b_ip: str, b_port: int) -> int:
    """The hash of a connection between two endpoints, in either order."""
    zeros: dict[str, Any] = {name: np.zeros(1, np.int64) for name in COLUMNS}
    names = ("src_hi", "src_lo", "sport", "dst_hi", "dst_lo", "dport")
    values = (*address_halves(a_ip), a_port, *address_halves(b_ip), b_port)
    known = {n: np.array([v], zeros[n].dtype if "port" in n else np.uint64) for n, v in zip(names, values, strict=True)}
    return int(connection_keys(PacketBlock(b"", **zeros | known))[1][0])


@dataclass
class Survey:
    """What a walk over a large file found."""

    parts: list[Part]
    weights: dict[int, int]  # share of the connections -> about how many bytes of payload


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
            sizes = np.bincount(shares_of(connection_keys(block)[1]), block.have) * _SAMPLED
            weights.update(dict(enumerate(sizes.astype(int).tolist())))

    found = parts(path, split_bytes, limits, look, since)
    return Survey(found, dict(weights))


# --- the sending side ------------------------------------------------------------------------------------------------


def cut(work: Work, sharing: Sharing, limits: Limits, *, reports: bool = False) -> Iterator[Row]:
    """The rows that a task's splits make; with a report of every file, if wanted."""
    held = _Held()
    ends: dict[str, set[int]] = {}
    for index, split in work.splits:
        try:
            reader, blocks = read_split(split, index, limits)
        except InputError as error:
            yield _note(sharing, FileReport(split.site, split.path, [(UNREADABLE, str(error))]))
            continue
        for block in blocks:
            held.add(split.site, block, sharing)
            if held.size >= _HELD_BYTES:
                yield from held.rows()
        yield from _about(reader, split, sharing, reports)
        if reports and split.last:
            ends.setdefault(split.site, set()).add(reader.census.clock)
    yield from held.rows()
    for site, times in ends.items():
        data = pickle.dumps(times)
        yield from (Row(part, site, ENDS, 0, data) for part in range(sharing.parts))


def checked(problems: Iterable[tuple[str, str]], files: int) -> list[tuple[str, str]]:
    """What is wrong with so many capture files, in order. Raises InputError where none of them could be read.

    problems: kind of finding, message.
    """
    found = sorted(problems)
    if files and sum(kind == UNREADABLE for kind, _ in found) == files:
        raise InputError("; ".join(message for _, message in found))
    return found


class _Held:
    """Packets by site and part, that wait to be sent."""

    def __init__(self) -> None:
        self.size = 0
        self._blocks: dict[tuple[str, int], list[PacketBlock]] = {}

    def add(self, site: str, block: PacketBlock, sharing: Sharing) -> None:
        self.size += len(block.buffer)
        part = sharing.of(connection_keys(block)[1])
        order = np.argsort(part, kind="stable")
        parts, starts = np.unique(part[order], return_index=True)
        for one, index in zip(parts.tolist(), np.split(order, starts[1:]), strict=True):
            if one >= 0:
                self._blocks.setdefault((site, one), []).append(block.take(index))

    def rows(self) -> Iterator[Row]:
        for (site, part), blocks in self._blocks.items():
            for some in _grouped(blocks):
                yield Row(part, site, PACKETS, min(int(b.clock.min()) for b in some), pack(some))
        self._blocks.clear()
        self.size = 0


def _grouped(blocks: Sequence[PacketBlock]) -> Iterator[list[PacketBlock]]:
    """Blocks in groups that fit a row."""
    group: list[PacketBlock] = []
    size = 0
    for block in blocks:
        group.append(block)
        size += int(block.have.sum()) + _PACKET_BYTES * len(block)
        if size >= _ROW_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _about(reader: Reader, split: Split, sharing: Sharing, reports: bool) -> Iterator[Row]:
    """Findings about a file, once it has been read."""
    problems = [(TRUNCATED, reader.problem)] if reader.problem else []
    problems += reader.remarks()
    if problems or reports:
        census, digests = reader.census, reader.beginning.digests
        beginning = (len(digests), digests[-1]) if digests else None
        read = (census.clock, census.first_ns, reader.packets, reader.end, beginning, reader.marks, split.last)
        yield _note(sharing, FileReport(split.site, split.path, problems, *read))
    for secrets in reader.notes.secrets:
        yield from (Row(part, "", SECRETS, 0, bytes(secrets)) for part in range(sharing.parts))
    pending = reader.fragments.pending()
    if pending:
        data = pickle.dumps(pending)
        yield from (Row(part, split.site, FRAGMENTS, pending[0].clock, data) for part in range(sharing.parts))


def _note(sharing: Sharing, report: FileReport) -> Row:
    part = zlib.crc32(report.path.encode("utf-8", "surrogateescape")) % sharing.parts
    return Row(part, report.site, NOTE, 0, pickle.dumps(report))


# --- the receiving side ----------------------------------------------------------------------------------------------


@dataclass
class Arrival:
    """The rows of one part, as they come: blocks of packets, and what was reported of files on the way."""

    rows: Iterable[Row]
    sharing: Sharing
    secret: Callable[[bytes], Any]  # takes TLS secrets
    carried: Callable[[str, int], list[Packet]] = lambda site, part: []  # fragments that wait from earlier
    reports: list[FileReport] = field(default_factory=list)
    pending: dict[str, list[Packet]] = field(default_factory=dict)  # site -> fragments that still wait
    ends: dict[str, set[int]] = field(default_factory=dict)  # site -> latest times of its files, ns, if reported
    _fragments: dict[str, list[int]] = field(default_factory=dict)  # site -> times of those read apart, ns

    @property
    def problems(self) -> list[tuple[str, str]]:
        """(kind of finding, message): what was wrong with files."""
        return [problem for report in self.reports for problem in report.problems]

    def blocks(self) -> Iterator[tuple[str, PacketBlock]]:
        """(site, packets), each site's in time order. Holds no more than what overlaps in time."""
        site: str | None = None
        waiting = _Waiting()
        fragments: list[Packet] = []
        part = 0
        for row in self.rows:
            if row.kind == SECRETS:
                self.secret(bytes(row.data))
                continue
            if row.kind == ENDS:
                self.ends.setdefault(row.site, set()).update(pickle.loads(row.data))
                continue
            if row.kind == NOTE:
                self.reports.append(pickle.loads(row.data))
                continue
            if row.site != site:
                yield from self._rest(site, waiting, fragments, part)
                site, part, fragments = row.site, row.part, self.carried(row.site, row.part)
            if row.kind == FRAGMENTS:
                fragments += pickle.loads(row.data)
                continue
            if fragments:
                waiting.add(self._rejoined(row.site, fragments, part))
                fragments = []
            if waiting.packets >= _FEED_PACKETS:
                yield from ((row.site, block) for block in waiting.before(row.first))
            waiting.add(unpack(row.data))
        yield from self._rest(site, waiting, fragments, part)

    def wait_at(self, site: str, time: int) -> bool:
        """Whether a packet behind this time (ns) may complete a datagram that began before, in what others read."""
        return any(time - TIMEOUT_NS < clock <= time for clock in self._fragments.get(site, ()))

    def _rest(
        self, site: str | None, waiting: _Waiting, fragments: list[Packet], part: int
    ) -> Iterator[tuple[str, PacketBlock]]:
        if site is not None:
            waiting.add(self._rejoined(site, fragments, part))
            yield from ((site, block) for block in waiting.before(None))

    def _rejoined(self, site: str, fragments: list[Packet], part: int) -> PacketBlock | None:
        """The packets of this part that fragments read by several tasks are together."""
        if not fragments:
            return None
        self._fragments.setdefault(site, []).extend(packet.clock for packet in fragments)
        block, self.pending[site] = rejoin(sorted(fragments, key=place))
        return None if block is None else block.take(self.sharing.of(connection_keys(block)[1]) == part)


class _Waiting:
    """Blocks that have come, and may overlap in time with one that will."""

    def __init__(self) -> None:
        self.packets = 0
        self._blocks: list[PacketBlock] = []

    def add(self, block: PacketBlock | None) -> None:
        if block is not None and len(block):
            self._blocks.append(block)
            self.packets += len(block)

    def before(self, bound: int | None) -> Iterator[PacketBlock]:
        """The packets of before `bound` (ns), all where it is None, as at most one block."""
        ready: list[PacketBlock] = []
        rest: list[PacketBlock] = []
        for block in self._blocks:
            now, later = (block, None) if bound is None else block.cut_at(bound - 1)
            ready += filter(None, [now])
            rest += filter(None, [later])
        self._blocks = rest
        self.packets = sum(len(block) for block in rest)
        if ready:
            yield concat(ready)


# --- rows and Arrow --------------------------------------------------------------------------------------------------


def to_arrow(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """A record batch a row: rows are large."""
    for row in rows:
        columns = [pa.array([value], type) for value, type in zip(row, SCHEMA.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def from_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows again, over the bytes of the batches."""
    for batch in batches:
        part, site, kind, first = (column.to_pylist() for column in batch.columns[:4])
        data = (memoryview(value.as_buffer()) for value in batch.column(4))
        yield from map(Row, part, site, kind, first, data)
