"""The record batches in many record sets at once: where they lie, what their headers say, whether their checksums hold.

Batches of magic 2 only, and only those that are whole and right: a set in which anything else stands is given up
(`plain` is False), and is looked into batch by batch (batches.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dissectors.arrow import Bools, Ints, Octets
from dissectors.checksum import CRC32C, function
from dissectors.frame_columns import integers
from dissectors.kafka.batches import CODEC_BITS, CONTROL_BIT, HEADER, KEEPS_LENGTH, SMALLEST
from dissectors.kafka.record_batch import CODECS
from dissectors.wire import codecs
from dissectors.wire.codecs import decompressed_sizes
from dissectors.wire.structs import Structs, structs

_FEW = 8  # so many sets are searched one by one
_HEAD = 17  # bytes up to the magic, and it
_MAGIC = 2


class BatchColumns(NamedTuple):
    """Batches, by record set and in it in wire order."""

    set: Ints  # index of the record set
    start: Ints  # index in the octets
    header: Structs  # batches.HEADER
    plain: Bools  # by record set

    def field(self, name: str) -> Ints:
        """A field of the headers."""
        values: Ints = self.header[name].astype(np.int64)
        return values

    @property
    def end(self) -> Ints:
        return self.start + self.field("length") + KEEPS_LENGTH

    @property
    def control(self) -> Bools:
        return (self.field("attributes") & CONTROL_BIT).astype(bool)

    @property
    def records(self) -> Ints:
        """As the application counts them."""
        return np.where(self.control, 0, np.maximum(self.field("count"), 0))

    @property
    def codec(self) -> Ints:
        """Index in CODECS."""
        return self.field("attributes") & CODEC_BITS

    def at(self, which: Bools | Ints) -> BatchColumns:
        """Some of the batches."""
        return self._replace(set=self.set[which], start=self.start[which], header=self.header[which])


def find(octets: Octets, start: Ints, size: Ints, lenient: Bools) -> BatchColumns:
    """The batches of record sets. A lenient set may end within a batch, which is left out."""
    plain = np.ones(len(start), bool)
    pos, stop = start.copy(), start + size
    found: list[tuple[Ints, Ints]] = []
    active = np.arange(len(start))
    while len(active) > _FEW:
        at = pos[active]
        left, length = stop[active] - at, integers(octets, at + 8, 4)
        batch = (left >= _HEAD) & (integers(octets, at + 16, 1) == _MAGIC) & (length >= SMALLEST[_MAGIC])
        whole = batch & (length + KEEPS_LENGTH <= left)
        plain[active[~whole & ~(lenient[active] & (batch | (left < _HEAD)))]] = False
        active = active[whole]
        found.append((active, at[whole]))
        pos[active] = at[whole] + KEEPS_LENGTH + length[whole]
        active = active[pos[active] < stop[active]]
    alone = [
        one for i in active.tolist() for one in _alone(octets, i, int(pos[i]), int(stop[i]), bool(lenient[i]), plain)
    ]
    found.append((np.array([i for i, _ in alone], np.int64), np.array([at for _, at in alone], np.int64)))
    sets, starts = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((starts, sets))
    return BatchColumns(sets[order], starts[order], structs(octets, HEADER, starts[order]), plain)


def single(octets: Octets, start: Ints) -> BatchColumns:
    """The batches that begin at some indices, each a set of its own."""
    return BatchColumns(np.arange(len(start)), start, structs(octets, HEADER, start), np.ones(len(start), bool))


def _alone(octets: Octets, i: int, at: int, stop: int, lenient: bool, plain: Bools) -> list[tuple[int, int]]:
    """The same for one set."""
    found = []
    data = memoryview(octets.data)
    while at < stop:
        length = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        batch = stop - at >= _HEAD and data[at + 16] == _MAGIC and length >= SMALLEST[_MAGIC]
        if not batch or at + KEEPS_LENGTH + length > stop:
            plain[i] &= lenient and (batch or stop - at < _HEAD)
            break
        found.append((i, at))
        at += KEEPS_LENGTH + length
    return found


def broken(buf: bytes, batches: BatchColumns) -> Bools:
    """Whether the checksum of each batch does not hold."""
    crc, view = function(CRC32C), memoryview(buf)
    spans = zip((batches.start + 21).tolist(), batches.end.tolist(), strict=True)
    computed = [crc(view[start:end]) for start, end in spans]
    return np.not_equal(computed, batches.field("crc"))


def uncompressed(buf: bytes, batches: BatchColumns, limit: int) -> Ints:
    """Bytes of the records of each batch once decompressed; -1 where they do not decompress."""
    sizes = batches.end - batches.start - HEADER.itemsize
    packed = np.flatnonzero(batches.codec)
    sizes[packed] = decompressed_sizes(*_compressed(buf, batches.at(packed)), limit=limit)
    return sizes


def notify(buf: bytes, batches: BatchColumns, limit: int) -> None:
    """Batches that were decompressed become rows: those who count them are told."""
    if codecs.listeners:
        for codec, data in zip(*_compressed(buf, batches.at(np.flatnonzero(batches.codec))), strict=True):
            codecs.notify(codec, data, limit)


def _compressed(buf: bytes, batches: BatchColumns) -> tuple[list[str], list[memoryview]]:
    """Codecs and records of batches that are compressed."""
    view = memoryview(buf)
    spans = zip((batches.start + HEADER.itemsize).tolist(), batches.end.tolist(), strict=True)
    return [CODECS[number] for number in batches.codec.tolist()], [view[start:end] for start, end in spans]
