"""How packets come from the tasks that read them to those that decode them: through files.

    cut tasks ─ a file each: pieces, one behind the other ─► STAGING/cut/*
              └ an index each ─► the driver joins them ─ an index a part ─► decode tasks, which read their pieces

A piece is what one part, or every part, is told at once: see KINDS. An index is columns, not objects: a large job has
millions of pieces. A task that is run again writes another file, and only the index that it returned counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from dissectors.limits import MIB

SECRETS, ENDS, FRAGMENTS, PACKETS = range(4)  # kinds of pieces, in the order in which a part wants them
EVERY = -1  # in place of a part: the piece is for all of them

_ROW = np.dtype([
    ("part", "<i4"), ("site", "<i4"), ("kind", "<i4"), ("file", "<i4"), ("first", "<i8"), ("at", "<i8"), ("size", "<i8")
])  # fmt: skip
_READ_BYTES = 16 * MIB  # of pieces that a part reads at once
_READ_PIECES = 4096  # and how many, at most

Fetch = Callable[[Sequence[tuple[str, int, int]]], Sequence[bytes | memoryview]]
"""Reads ranges of files: (name, first byte, number of bytes) each."""


class CutPiece(NamedTuple):
    """What a part is told at once. first: time of its first packet, ns."""

    site: str
    kind: int
    first: int
    data: bytes | memoryview


class Index(NamedTuple):
    """Where pieces lie. rows: of _ROW, whose `site` and `file` are positions in the two lists."""

    sites: list[str]
    files: list[str]
    rows: npt.NDArray[np.void]

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return int(self.rows["size"].sum())

    def by_part(self, parts: int) -> Iterator[tuple[int, Index]]:
        """(part, its pieces by site, kind and time) for each part of so many that has any to decode."""
        rank = np.argsort(np.argsort(self.sites)) if self.sites else np.zeros(0, np.int64)
        order = np.lexsort((self.rows["first"], self.rows["kind"], rank[self.rows["site"]], self.rows["part"]))
        rows = self.rows[order]
        starts = np.searchsorted(rows["part"], np.arange(EVERY, parts + 1))
        every = rows[: starts[1]]
        fragments = bool((every["kind"] == FRAGMENTS).any())  # the packets that they are together may go to any part
        for part, (start, end) in enumerate(zip(starts[1:-1].tolist(), starts[2:].tolist(), strict=True)):
            if start < end or fragments:
                mine = np.concatenate([every, rows[start:end]])
                order = np.lexsort((mine["first"], mine["kind"], rank[mine["site"]]))
                yield part, self._of(mine[order])

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
