"""Work for many readers: large uncompressed pcap files in parts, everything else whole.

Parts are exact: the packet headers of a large file are walked once (a few million a second), so every part begins at a
packet, knows that packet's number, and knows the latest time before it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dissectors.capture import pcap
from dissectors.capture.block import PacketBlock
from dissectors.capture.files import site_of
from dissectors.capture.reader import Part, Reader
from dissectors.capture.source import STDIN, is_url
from dissectors.limits import MIB, Limits

SPLIT_BYTES = 128 * MIB


@dataclass(frozen=True, slots=True)
class Split:
    """A file, or a part of one."""

    path: str
    site: str
    part: Part | None = None
    last: bool = True  # the end of the file belongs to it


def plan(paths: Sequence[str], site: str = "folder", split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """Splits of files (as `files.expand` gives them), in order. Never fails: what is wrong, the reader will tell."""
    out: list[Split] = []
    for path in paths:
        parts = _parts(path, split_bytes)
        if len(parts) < 2:
            out.append(Split(path, site_of(path, site)))
        else:
            out += [Split(path, site_of(path, site), part, part is parts[-1]) for part in parts]
    return out


def read_split(split: Split, file: int, limits: Limits) -> tuple[Reader, Iterator[PacketBlock]]:
    """The reader (whose `problem` is set at the end) and its blocks. Raises InputError where this is no capture."""
    reader = Reader(split.path, file, limits, split.part)
    return reader, reader.blocks()


def _parts(path: str, split_bytes: int) -> list[Part]:
    if path == STDIN or is_url(path) or not Path(path).is_file() or Path(path).stat().st_size <= split_bytes:
        return []
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        format = pcap.MAGICS.get(data[:4])
        if format is None:
            return []
        head = struct.Struct(format.order + "IIII").unpack_from
        most = Limits().packet_bytes
        at, number, clock, end = pcap.FILE_HEADER, 1, 0, len(data)
        parts: list[Part] = []
        start, first, before = at, number, clock
        while at + format.header <= end:
            seconds, fraction, captured, _ = head(data, at)
            if captured > most:
                break
            if at - start >= split_bytes:
                parts.append(Part(start, at - start, first, before))
                start, first, before = at, number, clock
            clock = max(clock, seconds * 1_000_000_000 + fraction * format.unit)
            at += format.header + captured
            number += 1
        parts.append(Part(start, end - start, first, before))
    return parts
