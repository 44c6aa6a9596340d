"""The packets of a block by connection, those of each in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints
from dissectors.capture.block import FIN, SYN, PacketBlock
from dissectors.limits import SHARES
from dissectors.records import PACKET_SHIFT
from dissectors.tcp.keys import by_connection, shares_of
from dissectors.tcp.numbers import NAMED
from dissectors.tcp.packets import Packets

MIXED = -1  # of a connection whose packets have several VLANs or VNIs
_AS_THEY_ARE = ("seq", "ack", "flags", "window", "stamps", "duplicate", "at", "size", "have", "via", "time")  # columns


class Grouped:
    """The packets of a block, sorted by connection: each one's stay in their order."""

    def __init__(self, block: PacketBlock, arrivals: int) -> None:
        """arrivals: number of the first packet among all that the tracker saw."""
        found = by_connection(block)
        self._index, self._direction = found.order, found.direction
        self._starts, self._stops = found.starts, found.stops
        self._shares, self._of, self._keys = shares_of(found.hashes), found.of, found.keys
        self._block = block
        columns = {name: getattr(block, name) for name in _AS_THEY_ARE}
        columns["direction"] = self._direction
        columns["packet_ref"] = block.file << PACKET_SHIFT | block.number
        columns["arrival"] = np.arange(arrivals, arrivals + len(block))
        columns["signature"] = _signatures(block, arrivals)
        views = {name: np.ascontiguousarray(column, np.int64).data for name, column in columns.items()}
        self.packets = Packets(memoryview(block.buffer).cast("B"), self._index.data, views)

    @property
    def size(self) -> int:
        """How many packets there are."""
        return len(self._index)

    def connections(self) -> Ints:
        """Connections of each share, int64[SHARES]."""
        return np.bincount(self._shares, minlength=SHARES)

    def before(self, places: Mapping[int, int]) -> npt.NDArray[np.bool_]:
        """Whether each packet of the block lies before the place of its share; one without a place has no end.

        places: share -> index in the block.
        """
        ends = np.full(SHARES, len(self._index))
        ends[list(places)] = list(places.values())
        return np.arange(len(self._index)) < ends[self._shares[self._of]]

    def groups(self) -> Iterator[tuple[int, int, bytes, int]]:
        """(start, end, key, share) of each connection: `ends_of` its key are its endpoints."""
        yield from zip(self._starts.tolist(), self._stops.tolist(), self._keys, self._shares.tolist(), strict=True)

    def segments(self) -> list[int]:
        """The VLAN or VNI (`PacketBlock.segment`) of the packets of each connection; MIXED where they have several."""
        segment = self._block.segment
        if not segment.any():
            return [0] * len(self._starts)
        segment = segment[self._index]
        first = segment[self._starts]
        changes = segment != np.repeat(first, self._stops - self._starts)
        found: list[int] = np.where(np.logical_or.reduceat(changes, self._starts), MIXED, first).tolist()
        return found

    def lanes(self, start: int, end: int) -> list[int]:
        """`segment << 1 | direction` of the sorted packets [start, end)."""
        index = self._index[start:end]
        found: list[int] = (self._block.segment[index] << 1 | self._direction[index]).tolist()
        return found

    def segment(self, i: int) -> int:
        """The VLAN or VNI of sorted packet i."""
        return int(self._block.segment[self._index[i]])

    def numbers(self, i: int) -> tuple[int, int, int]:
        """TCP sequence and acknowledgement number, and flags, of sorted packet i."""
        block, at = self._block, self._index[i]
        return int(block.seq[at]), int(block.ack[at]), int(block.flags[at])

    def index(self, i: int) -> int:
        """Where sorted packet i lies in the block."""
        return int(self._index[i])

    def time(self, i: int) -> int:
        """When sorted packet i came, ns."""
        return int(self._block.time[self._index[i]])

    def clock(self, i: int) -> int:
        """The time that the capture has come to with sorted packet i, ns."""
        return int(self._block.clock[self._index[i]])

    def flags(self, i: int) -> int:
        """TCP flags of sorted packet i."""
        return int(self._block.flags[self._index[i]])

    def carried(self, start: int, end: int) -> int:
        """Payload bytes on the wire of the sorted packets [start, end)."""
        return int(self._block.size[self._index[start:end]].sum())


def _signatures(block: PacketBlock, arrivals: int) -> Ints:
    """What two captures of one packet have in common, and a retransmission has not: the IP id and the checksum.

    A bare acknowledgement without an IP id could be sent twice just so: such packets are never taken for copies. So
    could a SYN, a FIN or data, but not soon (COPY_NS).
    """
    with np.errstate(over="ignore"):
        mixed = (
            block.seq * np.int64(0x9E3779B97F4A7C1)
            ^ block.ack * np.int64(0x2545F4914F6CDD1D)
            ^ (block.ip_id << 40 | block.check << 24 | block.flags << 16)
            ^ block.size * np.int64(0x1B873593)
            ^ block.window << 48
        )
    unique = (block.size == 0) & (block.ip_id == 0) & (block.flags & (SYN | FIN) == 0)
    mixed = mixed & np.int64(0x7FFFFFFFFFFFFFFF & ~NAMED) | np.where((block.size > 0) & (block.ip_id != 0), NAMED, 0)
    return np.where(unique, -1 - arrivals - np.arange(len(block)), mixed)
