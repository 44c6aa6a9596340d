"""The entries of many SEND and MESSAGE frames at once: batches.read and what Entries finds out, by column.

An entry is left to the one-by-one way (`ok` is False) where it needs more care than that: a wrong checksum, a payload
that is a chunk, a marker, compacted or does not decompress, sizes that do not fit, metadata that is not plain
(columnar.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dissectors import checksum
from dissectors.arrow import Bools, Ints, Octets
from dissectors.frame_columns import integers
from dissectors.limits import Limits
from dissectors.pulsar import columnar
from dissectors.pulsar.batches import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC, CODECS
from dissectors.pulsar.columnar import Messages
from dissectors.pulsar.command_columns import unsigned_32
from dissectors.wire import codecs
from dissectors.wire.codecs import CodecError

NO_CHECKSUM = -1
_IRREGULAR = ("num_chunks_from_msg", "marker_type", "compacted_batch_indexes")
_LATEST_MS = 1 << 43  # a publish time beyond it has no place in a column of ns
_BROKER_MAGIC, _CRC_MAGIC = int.from_bytes(BROKER_ENTRY_MAGIC, "big"), int.from_bytes(CHECKSUM_MAGIC, "big")


class EntryColumns(NamedTuple):
    """Entries, as columns over the frames that carry them."""

    ok: Bools
    at: Ints  # index of the first byte that the broker stores
    end: Ints
    covered: Ints  # index of the first byte that the checksum covers
    payload: Ints  # index of the payload
    stored: Ints  # the checksum, or NO_CHECKSUM
    meta: Messages

    @property
    def payload_bytes(self) -> Ints:
        """Bytes of the payload, as on the wire."""
        return self.end - self.payload

    @property
    def encrypted(self) -> Bools:
        """Whether the client encrypted the payload."""
        return self.meta.has("encryption_keys")

    @property
    def replicated(self) -> Bools:
        """Whether the entry comes from another cluster, whose broker is its producer here."""
        replicated: Bools = self.meta.size("replicated_from") != 0  # old clients set it to nothing
        return replicated

    @property
    def uncompressed_bytes(self) -> Ints:
        """Bytes of the payload, decompressed. Of one that is encrypted they are not known."""
        return np.where(self.meta.number("compression") != 0, self.meta.number("uncompressed_size"), self.payload_bytes)

    @property
    def records(self) -> Ints:
        """Messages, as the application counts them."""
        return np.maximum(self.meta.number("num_messages_in_batch", 1), 0)


def read(octets: Octets, after: Ints, end: Ints, limits: Limits) -> EntryColumns:
    """The entries that follow the commands which end at `after`."""
    broker = (integers(octets, after, 2) == _BROKER_MAGIC) & (after + 6 <= end)
    size = np.where(broker, unsigned_32(octets, after + 2), 0)
    ok = after + 6 + size <= end
    at = np.where(broker & ok, after + 6 + size, after)
    which = np.flatnonzero(broker & ok)
    (metadata,) = columnar.read(["BrokerEntryMetadata"], [len(which)], octets, after[which] + 6, at[which])
    ok[which] = metadata.ok

    marked = integers(octets, at, 2) == _CRC_MAGIC
    covered = np.where(marked, at + 6, at)
    stored = np.where(marked, unsigned_32(octets, at + 2), NO_CHECKSUM)
    size = unsigned_32(octets, np.minimum(covered, end))
    payload = covered + 4 + size
    ok &= (payload <= end) & (size <= limits.command_bytes)
    payload = np.where(ok, payload, covered + 4)
    (meta,) = columnar.read(["MessageMetadata"], [len(payload)], octets, covered + 4, payload)
    ok &= meta.ok
    for name in _IRREGULAR:
        ok &= ~meta.has(name)
    published = meta.number("publish_time")
    ok &= (published >= 0) & (published < _LATEST_MS)
    return EntryColumns(ok, at, end, covered, payload, stored, meta)


def verify(buf: bytes, entries: EntryColumns, limits: Limits) -> None:
    """Leave out the entries whose checksum is wrong or whose payload does not decompress as announced."""
    view = memoryview(buf)
    summed = np.flatnonzero(entries.ok & (entries.stored != NO_CHECKSUM))
    compute = checksum.function(checksum.CRC32C)
    spans = zip(entries.covered[summed].tolist(), entries.end[summed].tolist(), strict=True)
    computed = np.array([compute(view[start:end]) for start, end in spans], np.int64)
    entries.ok[summed[computed != entries.stored[summed]]] = False
    with codecs.without_listeners():
        for i, codec, payload, size in _compressed(buf, entries, entries.ok):
            try:
                codecs.decompress(codec, payload, limit=limits.decompressed_bytes, size=size)
            except CodecError:
                entries.ok[i] = False


def notify(buf: bytes, entries: EntryColumns, which: Bools) -> None:
    """Entries that were decompressed become rows: those who count them are told."""
    if codecs.listeners:
        for _, codec, payload, size in _compressed(buf, entries, which):
            codecs.notify(codec, payload, size)


def _compressed(buf: bytes, entries: EntryColumns, which: Bools) -> Iterator[tuple[int, str, memoryview, int]]:
    """(number of the entry, codec, payload, its bytes once decompressed) of those that are compressed."""
    view, codec = memoryview(buf), entries.meta.number("compression")
    packed = np.flatnonzero(which & (codec != 0) & ~entries.encrypted)
    columns = (packed, codec[packed], entries.payload[packed], entries.end[packed], entries.uncompressed_bytes[packed])
    for i, number, start, end, size in zip(*(column.tolist() for column in columns), strict=True):
        yield i, CODECS[number], view[start:end], size
