"""The packets of a block by connection: one sort brings those of a connection together, in their order."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints
from dissectors.capture.block import FIN, SYN, PacketBlock
from dissectors.limits import SHARES
from dissectors.records import PACKET_SHIFT
from dissectors.tcp.flow import Ends
from dissectors.tcp.numbers import NAMED
from dissectors.tcp.packets import Packets

Words = npt.NDArray[np.uint64]
_ENDS = struct.Struct("=6Q")
_KEY = f"V{_ENDS.size}"  # of a connection: its endpoints as bytes, which take a third of the room of numbers
_SHARE_BITS = SHARES.bit_length() - 1  # of a hash, its highest
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD)
MIXED = -1  # of a connection whose packets have several VLANs or VNIs
_AS_THEY_ARE = ("seq", "ack", "flags", "window", "stamps", "duplicate", "at", "size", "have", "via", "time")  # columns


class Grouped:
    """The packets of a block, sorted by connection: each one's stay in their order."""

    def __init__(self, block: PacketBlock, arrivals: int) -> None:
        """arrivals: number of the first packet among all that the tracker saw."""
        forward, unsorted_key, unsorted = connection_keys(block)
        order = np.argsort(unsorted_key, kind="stable")
        ends, key = unsorted.take(order, 1), unsorted_key[order]
        new = np.ones(len(block), bool)
        new[1:] = (ends[:, 1:] != ends[:, :-1]).any(axis=0)
        if (new[1:] & (key[1:] == key[:-1])).any():  # two connections share a hash
            order = np.lexsort((np.arange(len(block)), *unsorted))
            ends = unsorted.take(order, 1)
            new[1:] = (ends[:, 1:] != ends[:, :-1]).any(axis=0)
        self._starts = np.flatnonzero(new)
        self._stops = np.append(self._starts[1:], len(block))
        self._packet_shares = shares_of(unsorted_key)
        self._shares = self._packet_shares[order[self._starts]]
        self._keys = np.ascontiguousarray(ends[:, self._starts].T).view(_KEY).ravel().tolist()
        self._block = block
        self._index = order
        self._direction = ~forward
        columns = {name: getattr(block, name) for name in _AS_THEY_ARE}
        columns["direction"] = self._direction
        columns["packet_ref"] = block.file << PACKET_SHIFT | block.number
        columns["arrival"] = np.arange(arrivals, arrivals + len(block))
        columns["signature"] = _signatures(block, arrivals)
        views = {name: np.ascontiguousarray(column, np.int64).data for name, column in columns.items()}
        self.packets = Packets(memoryview(block.buffer).cast("B"), np.ascontiguousarray(order, np.int64).data, views)

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
        return np.arange(len(self._index)) < ends[self._packet_shares]

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


def ends_of(key: bytes) -> Ends:
    """The endpoints of a connection, by its key."""
    return cast(Ends, _ENDS.unpack_from(key))


def key_of(ends: Ends, stream: int = 0) -> bytes:
    """The key of a connection between these endpoints. stream: 0, or which of several at a time (`tcp/segments.py`)."""
    return _ENDS.pack(*ends) + bytes([stream] * (stream > 0))


def connection_keys(block: PacketBlock) -> tuple[Any, Words, Words]:
    """(whether each packet goes from the lower endpoint to the higher one, a hash of its connection, both endpoints).

    Endpoints are uint64[6, n]: address hi, lo and port of the lower one, then of the higher one.
    """
    forward = (block.src_hi < block.dst_hi) | (
        (block.src_hi == block.dst_hi)
        & ((block.src_lo < block.dst_lo) | ((block.src_lo == block.dst_lo) & (block.sport <= block.dport)))
    )
    source = block.src_hi, block.src_lo, block.sport.astype(np.uint64)
    target = block.dst_hi, block.dst_lo, block.dport.astype(np.uint64)
    ends = np.where(forward, np.stack(source + target), np.stack(target + source))
    a_hi, a_lo, a_port, b_hi, b_lo, b_port = ends
    with np.errstate(over="ignore"):
        key = a_hi * np.uint64(_MIX[0]) ^ a_lo * np.uint64(_MIX[1])
        key = key * np.uint64(_MIX[2]) ^ b_hi * np.uint64(_MIX[3]) ^ b_lo * np.uint64(_MIX[4])
        key = (key ^ key >> np.uint64(29)) * np.uint64(_MIX[0])
        key ^= (a_port << np.uint64(16) | b_port) * np.uint64(_MIX[1])
    return forward, key, ends


def stream_of(key: bytes) -> int:
    """Which of several connections between its endpoints at a time has this key; 0 where there are not several."""
    return key[-1] if len(key) > _ENDS.size else 0


def share_of(key: bytes) -> int:
    """Which of the SHARES the connection of a key belongs to."""
    a_hi, a_lo, a_port, b_hi, b_lo, b_port = ends_of(key)
    word = (1 << 64) - 1
    mixed = (a_hi * _MIX[0] ^ a_lo * _MIX[1]) & word
    mixed = (mixed * _MIX[2] ^ b_hi * _MIX[3] ^ b_lo * _MIX[4]) & word
    mixed = ((mixed ^ mixed >> 29) * _MIX[0] ^ (a_port << 16 | b_port) * _MIX[1]) & word
    return mixed >> 64 - _SHARE_BITS


def shares_of(keys: Words) -> Ints:
    """Which of the SHARES each connection belongs to, by its hash."""
    return (keys >> np.uint64(64 - _SHARE_BITS)).astype(np.int64)


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
