"""Work for many readers: large uncompressed pcap files in parts, everything else whole.

Parts are exact: the packet headers of a large file are walked once (a few million a second), so every part begins at a
packet, knows that packet's number, and knows the latest time before it. The walk reads the file once, from its
beginning to its end, through whatever opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dissectors.capture.block import PacketBlock
from dissectors.capture.files import PLACE, site_of
from dissectors.capture.raw import RawBlock
from dissectors.capture.reader import Part, Reader
from dissectors.capture.sites import joined_sites
from dissectors.capture.source import STDIN, file_size
from dissectors.errors import InputError
from dissectors.limits import SPLIT_BYTES, Limits


class Input(NamedTuple):
    """A capture file to read."""

    number: int  # that its packets carry
    path: str
    since: Part | None = None  # what of it has not been read; all where it is None


class Split(NamedTuple):
    """A file, or a part of one."""

    path: str
    site: str
    part: Part | None = None
    last: bool = True  # the end of the file belongs to it


def plan(
    paths: Sequence[str], site: str = PLACE, split_bytes: int = SPLIT_BYTES, limits: Limits | None = None
) -> list[Split]:
    """Splits of files (as `files.expand` gives them), in order. Never fails: the reader reports what is wrong.

    site: what names their capture points, as of `files.site_of`.
    """
    joined = joined_sites(paths, site)
    limits = limits or Limits()
    out: list[Split] = []
    for path in paths:
        large = path != STDIN and file_size(path) > split_bytes
        out += splits(path, site_of(path, site, joined), parts(path, split_bytes, limits) if large else [])
    return out


def splits(path: str, site: str, parts: Sequence[Part], since: Part | None = None) -> list[Split]:
    """The splits of a file, or of what of it has not been read, whose parts are known; one where there are none."""
    if len(parts) < 2:
        return [Split(path, site, since)]
    return [Split(path, site, part, part is parts[-1]) for part in parts]


def read_split(split: Split, file: int, limits: Limits) -> tuple[Reader, Iterator[PacketBlock]]:
    """The reader (whose `problem` is set at the end) and its blocks. Raises InputError where this is no capture."""
    reader = Reader(split.path, file, limits, split.part)
    return reader, reader.blocks()


def parts(
    path: str,
    split_bytes: int,
    limits: Limits,
    look: Callable[[RawBlock], None] = lambda raw: None,
    since: Part | None = None,
) -> list[Part]:
    """Parts of about `split_bytes`, 1 or more, of an uncompressed pcap file, in order; none for any other file.

    A file to which others were joined has no parts either: their headers stand between packets.

    look: is shown all packets on the way. since: what of the file has not been read; all where it is None.
    """
    try:
        reader = Reader(path, 0, limits, since)
    except InputError:
        return []
    blocks = reader.raw_blocks()
    header = reader.packet_header
    if header is None:
        reader.close()
        return []
    out: list[Part] = []
    at = start = reader.end or 0
    first, clock, after = (since.number, since.clock, since.after) if since else (1, 0, -1)
    before = clock
    for raw in blocks:
        look(raw)
        ends = at + np.cumsum(raw.have + header)
        clocks = np.maximum(np.maximum.accumulate(raw.time), clock)
        while ends[-1] - start >= split_bytes:
            i = int(np.searchsorted(ends, start + split_bytes))
            end = int(ends[i])
            out.append(Part(start, end - start, first, before, after))
            start, first, before = end, raw.number + i + 1, int(clocks[i])
        at, clock = int(ends[-1]), int(clocks[-1])
    if reader.joined:
        return []
    rest = file_size(path) - start  # with what may be damaged behind the last whole packet
    if rest > 0:
        out.append(Part(start, rest, first, before, after))
    return out
