"""The packets of a block, sorted by connection, and which of them follow on exactly from those before.

One sort brings the packets of a connection together. Two comparisons over all packets at once say which follow on
from the packet before in their direction, and acknowledge nothing that is still to come. Such packets in a row are a
run: what a run does to the state of its connection is worked out here by column, for all runs of the block.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints, slices
from dissectors.capture.block import ACK, FIN, RST, SYN, PacketBlock
from dissectors.limits import SHARES, Limits
from dissectors.records import PACKET_SHIFT
from dissectors.tcp.chunk import Segments
from dissectors.tcp.flow import ORDER_SHIFT, Ends, Flow, Opening
from dissectors.tcp.half import MASK, NAMED, RECENT_PACKETS

Words = npt.NDArray[np.uint64]
HALF = 0x80000000  # what lies farther ahead than half of all sequence numbers lies behind
_ENDS = struct.Struct("=6Q")
_KEY = f"V{_ENDS.size}"  # of a connection: its endpoints as bytes, which take a third of the room of numbers
_SHORT = 2  # a single packet is no run
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor
_SMALL = 1024  # bytes of a payload, on average, up to which the work is in finding it, not in copying it
_NONE = -1  # in a column: no value
_SHARE_BITS = SHARES.bit_length() - 1  # of a hash, its highest
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD)


class Side(NamedTuple):
    """What one direction's packets in a run are."""

    packets: int
    first: int  # index of the first one; the run's end where there is none
    signed: int  # its last packets: signatures [signed, signed_end) of the direction
    signed_end: int
    expect: int  # sequence number that follows
    fin: int  # time of the FIN, or -1
    segment: int  # its data: segments [segment, segment_end), bytes [begin, end)
    segment_end: int
    begin: int
    end: int


class Sorted:
    """The packets of a block, sorted by connection: each one's stay in their order.

    Columns are over the sorted packets: `run_end` says where the run ends that a packet is in, or is the packet itself;
    `runs` is the number of the run that begins with a packet, or -1. `openings` says where connections begin with SYN
    and its answer.
    """

    def __init__(self, block: PacketBlock, arrivals: int) -> None:
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
        self._buffer = memoryview(block.buffer)
        self._index = order
        self._columns(block, order, forward, new, arrivals)

    @property
    def packets(self) -> int:
        """How many there are."""
        return len(self._index)

    def connections(self) -> Ints:
        """int64[SHARES]: connections of each share."""
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

    def index(self, i: int) -> int:
        """Where sorted packet i lies in the block."""
        return int(self._index[i])

    def clock(self, i: int) -> int:
        """The time (ns) that the capture has come to with packet i."""
        return int(self._block.clock[self._index[i]])

    def carried(self, start: int, end: int) -> int:
        """Payload bytes on the wire of the packets [start, end)."""
        return int(self._size[start:end].sum())

    def via(self, start: int, end: int) -> int:
        """What the packets [start, end) came through."""
        return int(np.bitwise_or.reduce(self._via[start:end])) if self._tunnels else 0

    def latest(self, start: int, end: int) -> int:
        """Latest time of the packets [start, end)."""
        return int(self._time[start:end].max()) if self._steps_back else self.time[end - 1]

    def sides_at(self, i: int) -> tuple[Side, Side]:
        """The run that begins with packet i."""
        row = self.runs[i]
        return self._sides[0][row], self._sides[1][row]

    def rest(self, i: int) -> tuple[Side, Side]:
        """The rest of the run that packet i is in."""
        (one,), (two,) = self._work_out(np.array([i]), np.array([self.run_end[i]]))
        return one, two

    def step(self, flow: Flow, i: int, limits: Limits) -> None:
        """Give one packet to its flow."""
        block, index = self._block, self._index.item(i)
        at, have = block.at.item(index), block.have.item(index)
        flow.via |= self._via.item(i)
        flow.packet(
            self.direction[i],
            self.seq[i],
            self.ack[i],
            self.flags[i],
            block.window.item(index),
            self._size.item(i),
            bytes(self._buffer[at : at + have]),
            self.signature[i],
            self.arrival[i],
            self.packet_ref[i],
            self.time[i],
            limits,
        )

    def _columns(self, block: PacketBlock, order: Any, forward: Any, new: Any, arrivals: int) -> None:
        n = len(order)
        at = np.arange(n)
        direction = np.where(forward[order], 0, 1)
        seq, ack, flags = block.seq[order], block.ack[order], block.flags[order]
        size, have, time = block.size[order], block.have[order], block.time[order]
        signature = _signatures(block, arrivals)[order]
        follow = (seq + size + (flags & SYN != 0) + (flags & FIN != 0)) & MASK
        self._group = np.repeat(np.arange(len(self._starts)), self._stops - self._starts)
        start_of, stop_of = self._starts[self._group], self._stops[self._group]
        before = [_previous(direction == d, at, start_of) for d in (0, 1)]
        mine = np.where(direction == 0, before[0], before[1])
        theirs = np.where(direction == 0, before[1], before[0])
        expected = (mine < 0) | (seq == follow[mine])
        ahead = (ack - follow[theirs]) & MASK
        known = (theirs < 0) | (ahead == 0) | (ahead >= HALF)
        copy = (mine >= 0) & (signature == signature[mine])
        fin = flags & FIN != 0
        ended = _previous(fin & (direction == 0), at, start_of), _previous(fin & (direction == 1), at, start_of)
        over = np.where(direction == 0, ended[0], ended[1]) >= 0  # nothing but acknowledgements may follow a FIN
        plain = (flags & (SYN | RST) == 0) & (flags & ACK != 0) & (size == have) & (block.window[order] != 0)
        good = expected & known & plain & ~copy & ~(over & (fin | (size > 0)))
        run_end = np.minimum(np.minimum.accumulate(np.where(good, n, at)[::-1])[::-1], stop_of)
        self._via, self._size = block.via[order], size
        self._tunnels = bool(self._via.any())
        packet_ref = (block.file << PACKET_SHIFT | block.number)[order]
        arrival = arrivals + order
        self.direction = _view(direction)
        self.seq, self.ack, self.flags = _view(seq), _view(ack), _view(flags)
        self.time, self.packet_ref, self.arrival = _view(time), _view(packet_ref), _view(arrival)
        self.signature, self.run_end = _view(signature), _view(run_end)
        self._follow, self._time = follow, time
        self._steps_back = bool(((time[1:] < time[:-1]) & ~new[1:]).any())  # the clock of the capturer
        begin = np.flatnonzero(_handshakes(new, direction, seq, ack, flags, size))
        then = begin + 1
        via = self._via[begin] | self._via[then]
        columns = (direction[begin], seq[begin], seq[then], time[begin], time[then], packet_ref[begin],
                   packet_ref[then], arrival[then], via, signature[begin], signature[then])  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.openings = dict(zip(begin.tolist(), (_new(Opening, row) for row in rows), strict=True))
        self._directions = [_Direction(direction == d, size, fin) for d in (0, 1)]
        self.signatures = [array("q", signature[d.packets].tobytes()) for d in self._directions]
        self._segments(block, direction, block.have[order], packet_ref, arrival)
        begins = good & (run_end - at >= _SHORT)
        begins[1:] &= ~good[:-1] | new[1:]
        begin = np.flatnonzero(begins)
        row = np.full(n, _NONE)
        row[begin] = np.arange(len(begin))
        self.runs = _view(row)
        self._sides = self._work_out(begin, run_end[begin])

    def _segments(self, block: PacketBlock, direction: Ints, have: Ints, packet_ref: Ints, arrival: Ints) -> None:
        """Bring the data of each direction of each connection together."""
        data = np.flatnonzero(self._size > 0)
        data = data[np.argsort(self._group[data] << 1 | direction[data], kind="stable")]
        have = have[data]
        self.data = _payloads(block, self._index[data], have)
        at = np.concatenate(([0], np.cumsum(have)))
        self.segments = Segments(at, arrival[data] << ORDER_SHIFT, packet_ref[data], self._time[data])
        ours, theirs = (d.data_before for d in self._directions)
        self._others = theirs[self._starts], ours[self._stops]  # segments of the other direction that lie before

    def _work_out(self, start: Ints, end: Ints) -> tuple[list[Side], list[Side]]:
        """The runs of packets [start, end), by direction."""
        group, at = self._group[start], self.segments.at
        out = []
        for direction, others in zip(self._directions, self._others, strict=True):
            a, b = direction.before[start], direction.before[end]
            some = b > a
            last = direction.packets_and_none[b - 1]
            fins = direction.fins_before[end]
            over = fins > direction.fins_before[start]
            segment, segment_end = (direction.data_before[i] + others[group] for i in (start, end))
            columns = (
                b - a,
                np.where(some, direction.packets_and_none[a], end),
                np.maximum(a, b - RECENT_PACKETS),
                b,
                self._follow[last],
                np.where(over, self._time[direction.fins_and_none[fins - 1]], _NONE),
                segment,
                segment_end,
                at[segment],
                at[segment_end],
            )
            rows = zip(*(column.tolist() for column in columns), strict=True)
            out.append([_new(Side, row) for row in rows])
        return out[0], out[1]


class _Direction:
    """Which packets go in one direction, and how many there are before each packet."""

    def __init__(self, mine: Any, size: Ints, fin: Any) -> None:
        packets = np.flatnonzero(mine)
        self.packets = packets
        self.before = _before(mine)
        self.data_before = _before(mine & (size > 0))
        self.fins_before = _before(mine & fin)
        # one more at the end: what is read for a run without such packets, and not used
        self.packets_and_none = np.append(packets, 0)
        self.fins_and_none = np.append(np.flatnonzero(mine & fin), 0)


def _payloads(block: PacketBlock, index: Ints, have: Ints) -> memoryview:
    """The payloads of some packets, one after the other. have: their bytes."""
    if have.sum() < _SMALL * len(have):
        return slices(block.buffer, block.at, block.have, index)
    buffer, begin = memoryview(block.buffer), block.at[index]
    return memoryview(b"".join([buffer[x:y] for x, y in zip(begin.tolist(), (begin + have).tolist(), strict=True)]))


def ends_of(key: bytes) -> Ends:
    """The endpoints of a connection, by its key."""
    return cast(Ends, _ENDS.unpack(key))


def key_of(ends: Ends) -> bytes:
    """The key of a connection between these endpoints."""
    return _ENDS.pack(*ends)


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
    could a SYN, a FIN or data, but not soon (flow.py).
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


def _handshakes(new: Any, direction: Any, seq: Ints, ack: Ints, flags: Any, size: Ints) -> Any:
    """Whether a connection begins at each packet, with SYN and its answer and no data."""
    kind = np.where(size == 0, flags & (SYN | ACK | FIN | RST), 0)
    there = np.zeros(len(new), bool)
    there[:-1] = new[:-1] & ~new[1:] & (kind[:-1] == SYN) & (kind[1:] == SYN | ACK)
    there[:-1] &= (direction[:-1] != direction[1:]) & (ack[1:] == (seq[:-1] + 1) & MASK)
    return there


def _previous(mask: Any, at: Any, start_of: Any) -> Any:
    """Index of the last packet before each one for which mask holds, within the connection; -1 for none."""
    last = np.maximum.accumulate(np.where(mask, at, -1))
    before = np.concatenate(([-1], last[:-1]))
    return np.where(before >= start_of, before, -1)


def _before(mask: Any) -> Ints:
    """How many packets before each one, and in all, the mask holds for."""
    return np.concatenate(([0], np.cumsum(mask)))


def _view(column: Any) -> memoryview[int]:
    """A column as a sequence of Python's ints, each made when it is asked for: most never are."""
    view: memoryview[int] = np.ascontiguousarray(column, np.int64).data
    return view
