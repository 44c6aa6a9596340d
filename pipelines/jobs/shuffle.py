"""How packets come from the tasks that read them to those that decode them: through files.

    cut tasks ─ X.packets: pieces, those of a part one behind the other ─────────────────┐
              └ X.index: where they lie ─► sort tasks ─ Y.places: an index a part ─► decode tasks

A piece is what one part, or every part, is told at once: see KINDS. An index is columns, not objects: a large job has
millions of pieces. All of it lies in STAGING/cut; the driver knows names of files and bounds of parts only. A task
that is run again writes other files, and only those count whose names it returned.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from dissectors.limits import MIB

SECRETS, ENDS, FRAGMENTS, PACKETS = range(4)  # kinds of pieces, in the order in which a part wants them
EVERY = -1  # in place of a part: the piece is for all parts of its capture point; SECRETS are for all parts

_ROW = np.dtype([
    ("part", "<i4"), ("site", "<i4"), ("kind", "<i4"), ("file", "<i4"), ("first", "<i8"), ("at", "<i8"), ("size", "<i8")
])  # fmt: skip
_READ_BYTES = 16 * MIB  # of pieces that a part reads at once
_READ_PIECES = 4096  # and how many, at most
PIECE_BYTES = 8 * MIB  # of a piece of packets, about
_FRAME = struct.Struct("<I")  # before each block of a piece of packets: its bytes

Fetch = Callable[[Sequence[tuple[str, int, int]]], Sequence[bytes | memoryview]]
"""Reads ranges of files: (name, first byte, number of bytes) each."""
PartsOf = Callable[[str], range]
"""The parts of a capture point."""


class CutPiece(NamedTuple):
    """What a part is told at once. first: time of its first packet, ns. data: of PACKETS as `framed` gives it."""

    site: str
    kind: int
    first: int
    data: bytes | memoryview


def framed(block: bytes) -> bytes:
    """A packed block of packets as it stands in a piece, beside others."""
    return _FRAME.pack(len(block)) + block


def blocks_of(data: bytes | memoryview) -> Iterator[memoryview]:
    """The packed blocks of packets in a piece."""
    view, at = memoryview(data), 0
    while at < len(view):
        (size,) = _FRAME.unpack_from(view, at)
        at += _FRAME.size
        yield view[at : at + size]
        at += size


class Index(NamedTuple):
    """Where pieces lie. rows: of _ROW, whose `site` and `file` are positions in the two lists."""

    sites: list[str]
    files: list[str]
    rows: npt.NDArray[np.void]

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return int(self.rows["size"].sum())

    def sorted(self) -> Index:
        """An index of the same pieces, ordered by part, site, kind and time."""
        return self._replace(rows=self.rows[self._order(self.rows)])

    def by_part(self, parts: range, of_site: PartsOf) -> Iterator[tuple[int, Index]]:
        """(part, its pieces by site, kind and time) for each of these parts that has any to decode."""
        rows = self.sorted().rows
        starts = np.searchsorted(rows["part"], [*parts, parts.stop])
        every = rows[: np.searchsorted(rows["part"], EVERY, side="right")]
        for_all = [
            parts if kind == SECRETS else of_site(self.sites[site])
            for site, kind in zip(every["site"].tolist(), every["kind"].tolist(), strict=True)
        ]
        for part, (start, end) in zip(parts, zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True), strict=True):
            shared = every[[part in some for some in for_all]] if len(every) else every
            fragments = bool((shared["kind"] == FRAGMENTS).any())  # what they are together may go to any of the parts
            if start < end or fragments:
                mine = np.concatenate([shared, rows[start:end]])
                mine["part"] = part
                yield part, self._of(mine[self._order(mine)])

    def _order(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
        rank = np.argsort(np.argsort(self.sites)) if self.sites else np.zeros(0, np.int64)
        return np.lexsort((rows["first"], rows["kind"], rank[rows["site"]], rows["part"]))

    def _of(self, rows: npt.NDArray[np.void]) -> Index:
        """Some of the pieces, with only the names that these need."""
        sites, rows["site"] = np.unique(rows["site"], return_inverse=True)
        files, rows["file"] = np.unique(rows["file"], return_inverse=True)
        return Index([self.sites[n] for n in sites.tolist()], [self.files[n] for n in files.tolist()], rows)

    def pieces(self, fetch: Fetch) -> Iterator[CutPiece]:
        """The pieces, in the order of the index. Neighbours in a file are read as one range."""
        read = np.cumsum(self.rows["size"])
        start = 0
        while start < len(self.rows):
            end = int(np.searchsorted(read, _READ_BYTES + (read[start - 1] if start else 0), side="right"))
            end = min(max(end, start + 1), start + _READ_PIECES)
            yield from self._fetched(self.rows[start:end], fetch)
            start = end

    def _fetched(self, rows: npt.NDArray[np.void], fetch: Fetch) -> Iterator[CutPiece]:
        order = np.lexsort((rows["at"], rows["file"]))
        lying = rows[order]
        ends = lying["at"] + lying["size"]
        begins = np.ones(len(rows), bool)  # whether a range begins here
        begins[1:] = (lying["file"][1:] != lying["file"][:-1]) | (lying["at"][1:] != ends[:-1])
        heads = lying[begins]
        sizes = ends[np.append(begins[1:], True)] - heads["at"]
        places = zip(heads["file"].tolist(), heads["at"].tolist(), sizes.tolist(), strict=True)
        ranges = fetch([(self.files[file], at, size) for file, at, size in places])
        views = [memoryview(data) for data in ranges]
        which = np.empty(len(rows), np.int64)
        which[order] = np.cumsum(begins) - 1
        offsets = (rows["at"] - heads["at"][which]).tolist()
        columns = (rows[name].tolist() for name in ("site", "kind", "first", "size"))
        for site, kind, first, size, one, offset in zip(*columns, which.tolist(), offsets, strict=True):
            yield CutPiece(self.sites[site], kind, first, views[one][offset : offset + size])


def joined(indexes: Sequence[Index]) -> Index:
    """One index of several."""
    sites: dict[str, int] = {}
    files: list[str] = []
    rows = []
    for index in indexes:
        some = index.rows.copy()
        places = np.array([sites.setdefault(site, len(sites)) for site in index.sites], np.int32)
        some["site"] = places[some["site"]]
        some["file"] += len(files)
        files += index.files
        rows.append(some)
    return Index(list(sites), files, np.concatenate(rows) if rows else np.zeros(0, _ROW))


class PieceFile:
    """Writes pieces to a file, one behind the other, and knows where each of them lies."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._sites: dict[str, int] = {}
        self._rows: list[tuple[int, int, int, int, int, int, int]] = []

    def write(self, part: int, piece: CutPiece) -> None:
        """Add a piece for a part, or for EVERY."""
        site = self._sites.setdefault(piece.site, len(self._sites))
        size = len(piece.data)
        self._file.write(piece.data)
        self._rows.append((part, site, piece.kind, 0, piece.first, self._at, size))
        self._at += size

    def index(self, name: str) -> Index:
        """Where the pieces lie in the file, which has this name."""
        return Index(list(self._sites), [name], np.array(self._rows, _ROW))


class Spill:
    """Pieces that wait in a file of this machine, until all of a task are there and can lie in order."""

    def __init__(self, file: BinaryIO) -> None:
        """file: an empty one, for reading too."""
        self._file = file
        self._pieces = PieceFile(file)
        self.write = self._pieces.write

    def into(self, out: PieceFile) -> None:
        """Write the pieces, those of a part one behind the other, blocks of packets joined to larger pieces."""
        index = self._pieces.index("").sorted()
        waiting: list[CutPiece] = []
        before, size = (0, ""), 0
        for row in index.rows:
            part, site, kind, at = int(row["part"]), index.sites[row["site"]], int(row["kind"]), int(row["at"])
            self._file.seek(at)
            piece = CutPiece(site, kind, int(row["first"]), self._file.read(int(row["size"])))
            if waiting and (before != (part, site) or kind != PACKETS or size >= PIECE_BYTES):
                out.write(before[0], _together(waiting))
                waiting, size = [], 0
            if kind == PACKETS:
                waiting.append(piece)
                before, size = (part, site), size + len(piece.data)
            else:
                out.write(part, piece)
        if waiting:
            out.write(before[0], _together(waiting))


def _together(pieces: Sequence[CutPiece]) -> CutPiece:
    """Pieces of packets, in order of time, as one."""
    return pieces[0]._replace(data=b"".join(piece.data for piece in pieces))


# --- indexes in files ------------------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """What a cut task tells of its index."""

    name: str  # of its files, without what tells them apart
    head: int  # bytes before the rows of its index
    pieces: int
    first: int  # of the parts that its pieces are for
    last: int  # less than `first` where they are for no single part
    is_for_all: bool = False  # whether some are for EVERY part


class _Head(NamedTuple):
    """How a file with an index begins; its rows come behind it, by part."""

    sites: list[str]
    starts: list[int]  # row at which each part begins, from the first of `Bounds` on, and at which the last one ends


def index_bytes(name: str, index: Index) -> tuple[Bounds, bytes]:
    """The index of a cut task as a file, and what it tells of it."""
    index = index.sorted()
    parts = index.rows["part"][index.rows["part"] != EVERY]
    first, last = (int(parts[0]), int(parts[-1])) if len(parts) else (0, -1)
    starts = np.searchsorted(index.rows["part"], np.arange(first, last + 2)).tolist()
    head = pickle.dumps(_Head(index.sites, starts))
    return Bounds(
        name, len(head), len(index.rows), first, last, len(parts) < len(index.rows)
    ), head + index.rows.tobytes()


def read_indexes(some: Sequence[Bounds], parts: range, fetch: Fetch, ending: tuple[str, str]) -> Index:
    """What indexes of cut tasks say of a range of parts, and of what is for every part.

    ending: of the files with indexes, and of those with pieces.
    """
    heads = fetch([(bounds.name + ending[0], 0, bounds.head) for bounds in some])
    ranges, wanted = [], []
    for bounds, data in zip(some, heads, strict=True):
        sites, starts = pickle.loads(data)
        low, high = (max(bounds.first, parts.start) - bounds.first, min(bounds.last + 1, parts.stop) - bounds.first)
        spans = [(0, starts[0])] + ([(starts[low], starts[high])] if low < high else [])
        for start, end in spans:
            if start < end:
                at, size = bounds.head + start * _ROW.itemsize, (end - start) * _ROW.itemsize
                ranges.append((bounds.name + ending[0], at, size))
                wanted.append((sites, bounds.name + ending[1]))
    found = zip(wanted, fetch(ranges), strict=True)
    return joined([Index(sites, [name], np.frombuffer(data, _ROW)) for (sites, name), data in found])


class Place(NamedTuple):
    """Where the index of a part lies."""

    part: int
    name: str  # of the file
    at: int
    length: int
    size: int  # bytes of its pieces


def write_places(name: str, file: BinaryIO, parts: Iterable[tuple[int, Index]]) -> list[Place]:
    """Write indexes of parts to a file of this name."""
    at, found = 0, []
    for part, index in parts:
        data = pickle.dumps(tuple(index))
        file.write(data)
        found.append(Place(part, name, at, len(data), index.size))
        at += len(data)
    return found


def read_place(place: Place, fetch: Fetch) -> Index:
    """The index of a part."""
    (data,) = fetch([(place.name, place.at, place.length)])
    return Index(*pickle.loads(data))
