"""Packets to flows: whole runs of packets that are plainly in order are taken by column, the rest one by one.

One sort brings the packets of a block together by connection. Then two comparisons over all packets at once say which
of them follow on exactly from the packet before in their direction and acknowledge nothing that is still to come. Runs
of such packets need no per-packet work: their payload is joined once. A packet that is anything else goes to
`Flow.packet`, after which the next run is tried again. Both paths deliver the same bytes with the same orders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dissectors.capture.block import ACK, FIN, RST, SYN, PacketBlock
from dissectors.limits import Limits
from dissectors.records import PLACE_SHIFT
from dissectors.tcp.chunk import Chunk
from dissectors.tcp.flow import ORDER_SHIFT, Flow
from dissectors.tcp.half import RECENT_PACKETS, History

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
_MASK = 0xFFFFFFFF
_HALF = 0x80000000  # what lies farther ahead than half of all sequence numbers lies behind
_RUN = 4  # a shorter run is not worth the columns
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD)


class Tracker:
    """All connections of one site. Feed it blocks in time order."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.fast = True  # tests turn the column path off, to compare
        self.evicted = 0
        self._flows: dict[tuple[int, int, int, int, int, int], Flow] = {}
        self._incarnations: dict[tuple[int, int, int, int, int, int], int] = {}
        self._closing: deque[Flow] = deque()
        self._arrivals = 0
        self._history = History(limits.recent_bytes)

    def feed(self, block: PacketBlock) -> Iterator[tuple[Flow, bool]]:
        """Take a block; yields each flow that has something new, and whether it has ended.

        What was delivered stands in the flow's halves until `Flow.take`.
        """
        columns = _Sorted(block, self._arrivals)
        self._arrivals += len(block)
        for start, end, ends in columns.groups():
            i = start
            flow = self._flow(ends)
            if self.fast and not flow.packets and columns.opens[i]:
                columns.open(flow, i)
                i += 2
            while i < end:
                run = int(columns.run_end[i])
                if self.fast and run - i >= _RUN and self._take_run(flow, columns, i, min(run, end)):
                    i = min(run, end)
                    continue
                direction, flags = columns.direction[i], columns.flags[i]
                if flow.begins_anew(direction, flags, columns.seq[i], columns.time[i], self.limits):
                    yield self._end(flow), True
                    flow = self._flow(ends)
                columns.step(flow, i, self.limits)
                i += 1
            if flow.closed_at is not None and not flow.touched:
                flow.touched = True
                self._closing.append(flow)
            if flow.has_news:
                yield flow, False
        if len(block):
            yield from self._sweep(int(block.clock[-1]))

    def finish(self) -> Iterator[tuple[Flow, bool]]:
        """The capture has ended: every flow ends with it."""
        for ends in list(self._flows):  # one at a time: what a flow holds is free before the next one ends
            yield self._end(self._flows[ends]), True

    def _flow(self, ends: tuple[int, int, int, int, int, int]) -> Flow:
        flow = self._flows.get(ends)
        if flow is None:
            flow = self._flows[ends] = Flow(ends, self._incarnations.get(ends, 0), self._history)
        return flow

    def _end(self, flow: Flow) -> Flow:
        flow.finish(self.limits)
        self._incarnations[flow.ends] = flow.incarnation + 1
        if self._flows.get(flow.ends) is flow:
            del self._flows[flow.ends]
        return flow

    def _sweep(self, now: int) -> Iterator[tuple[Flow, bool]]:
        """End flows that closed long ago; too many flows, and the longest idle ones end before their time."""
        while self._closing:
            flow = self._closing[0]
            if self._flows.get(flow.ends) is not flow:
                self._closing.popleft()
            elif flow.closed_at is not None and now - max(flow.closed_at, flow.last_time) > self.limits.linger_ns:
                self._closing.popleft()
                yield self._end(flow), True
            else:
                break
        excess = len(self._flows) - self.limits.flows
        if excess > 0:
            idle = sorted(self._flows.values(), key=lambda f: f.last_time)[: excess + self.limits.flows // 10]
            self.evicted += len(idle)
            for flow in idle:
                yield self._end(flow), True

    def _take_run(self, flow: Flow, c: _Sorted, i: int, end: int) -> bool:
        """Take packets [i, end) of one flow at once, if they follow on from its state."""
        if flow.closed_at is not None:
            return False
        spans = []  # of each direction's packets, those in the run
        for direction, half in enumerate(flow.halves):
            before = c.packets_before[direction]
            a, b = before[i], before[end]
            spans.append((a, b))
            if half.held or half.blocked is not None or half.barred is not None:
                return False
            if a == b:
                continue
            if not half.started or half.fin >= 0 or c.seq[c.packets[direction][a]] != half.expect:
                return False
            if half.signatures and half.signatures[-1] == c.signatures[direction][a]:
                return False  # a copy of the last packet of the block before
        for direction, half in enumerate(flow.halves):
            # the columns compare with the packet before in the other direction; without one, the state knows
            a, b = spans[direction]
            alone = c.packets[direction][a] if a < b else end
            if i < alone and half.started:
                expect = half.expect
                for ack in c.ack[i:alone]:
                    if 0 < (ack - expect) & _MASK < _HALF:
                        return False
        for direction, half in enumerate(flow.halves):
            a, b = spans[direction]
            if a == b:
                continue
            half.packets += b - a
            half.sign(c.signatures[direction][max(a, b - RECENT_PACKETS) : b])
            first, stop = c.data_before[direction][i], c.data_before[direction][end]
            if first < stop:
                half.add(c.chunk(direction, first, stop, half.next))
            half.expect = c.follow[c.packets[direction][b - 1]]
            if c.fins_before[direction][end] > c.fins_before[direction][i]:
                at = next(k for k in reversed(c.packets[direction][a:b]) if c.flags[k] & FIN)
                flow.end(direction, c.time[at])
        flow.packets += end - i
        flow.last_time = max(flow.last_time, c.time[end - 1])
        flow.last_place, flow.last_arrival = c.place[end - 1], c.arrival[end - 1]
        if flow.syn_ack_time is not None and flow.ack_time is None and flow.opener is not None:
            a, b = spans[flow.opener]
            if a < b:
                flow.ack_time = c.time[c.packets[flow.opener][a]]
        return True


class _Sorted:
    """The packets of a block, sorted by connection (each one's stay in their order), and what can be said of all."""

    def __init__(self, block: PacketBlock, arrivals: int) -> None:
        forward, key = _connections(block)
        order = np.argsort(key, kind="stable")
        ends = _ends(block, forward, order)
        new = np.ones(len(block), bool)
        new[1:] = key[order][1:] != key[order][:-1]
        inside = ~new[1:]
        if (np.diff(ends, axis=1)[:, inside] != 0).any():  # two connections share a hash
            order = np.lexsort((np.arange(len(block)), *_ends(block, forward, slice(None))))
            ends = _ends(block, forward, order)
            new[1:] = (np.diff(ends, axis=1) != 0).any(axis=0)
        self._starts = np.flatnonzero(new)
        self._stops = np.append(self._starts[1:], len(block))
        self._ends = ends[:, self._starts].T.tolist()
        self._block = block
        self._buffer = memoryview(block.buffer)
        self._columns(block, order, forward, new, arrivals)

    def _columns(self, block: PacketBlock, order: Any, forward: Any, new: Any, arrivals: int) -> None:
        n = len(order)
        at = np.arange(n)
        direction = np.where(forward[order], 0, 1)
        seq, ack, flags = block.seq[order], block.ack[order], block.flags[order]
        size, have = block.size[order], block.have[order]
        signature = _signatures(block, arrivals)[order]
        follow = (seq + size + (flags & SYN != 0) + (flags & FIN != 0)) & _MASK
        start_of = np.repeat(self._starts, self._stops - self._starts)
        before = [_previous(direction == d, at, start_of) for d in (0, 1)]
        mine = np.where(direction == 0, before[0], before[1])
        theirs = np.where(direction == 0, before[1], before[0])
        expected = (mine < 0) | (seq == follow[mine])
        ahead = (ack - follow[theirs]) & _MASK
        known = (theirs < 0) | (ahead == 0) | (ahead >= _HALF)
        copy = (mine >= 0) & (signature == signature[mine])
        fin = flags & FIN != 0
        ended = _previous(fin & (direction == 0), at, start_of), _previous(fin & (direction == 1), at, start_of)
        over = np.where(direction == 0, ended[0], ended[1]) >= 0  # nothing but acknowledgements may follow a FIN
        plain = (flags & (SYN | RST) == 0) & (flags & ACK != 0) & (size == have) & (block.window[order] != 0)
        good = expected & known & plain & ~copy & ~(over & (fin | (size > 0)))
        self.opens = _handshakes(new, direction, seq, ack, flags, size).tolist()
        # index after the run of good packets that begins at each one, within its connection
        stop = np.where(good, n, at)
        stop_of = np.repeat(self._stops, self._stops - self._starts)
        run = np.minimum.accumulate(stop[::-1])[::-1]
        self.run_end = np.minimum(run, stop_of)
        place = (block.file << PLACE_SHIFT | block.number)[order]
        arrival = arrivals + order
        self._signature = signature
        self._via = block.via[order]
        self._size = size
        self.direction = _view(direction)
        self.seq = _view(seq)
        self.ack = _view(ack)
        self.flags = _view(flags)
        self.time = _view(block.time[order])
        self.place = _view(place)
        self.arrival = _view(arrival)
        self.follow = _view(follow)
        self._index = order
        self.packets_before, self.data_before, self.fins_before = [], [], []
        self.packets, self.signatures = [], []
        self._data = []
        for d in (0, 1):
            of = direction == d
            data = of & (size > 0)
            self.packets_before.append(_count_before(of))
            self.data_before.append(_count_before(data))
            self.fins_before.append(_count_before(of & fin))
            self.packets.append(_view(np.flatnonzero(of)))
            self.signatures.append(_view(signature[of]))
            index = np.flatnonzero(data)
            sizes = size[index]
            cumulative = np.cumsum(sizes) - sizes
            payload = block.at[order][index]
            self._data.append(
                (
                    payload.tolist(),
                    (payload + sizes).tolist(),
                    cumulative.tolist(),
                    (arrival[index] << ORDER_SHIFT).tolist(),
                    place[index].tolist(),
                    block.time[order][index].tolist(),
                )
            )

    def groups(self) -> Iterator[tuple[int, int, tuple[int, int, int, int, int, int]]]:
        """(start, end, endpoints) of each connection."""
        for start, stop, ends in zip(self._starts.tolist(), self._stops.tolist(), self._ends, strict=True):
            yield start, stop, tuple(ends)

    def chunk(self, direction: int, a: int, b: int, offset: int) -> Chunk:
        """Data packets a to b of a direction, which follow each other, as one chunk."""
        begin, end, cumulative, orders, places, times = self._data[direction]
        buffer = self._buffer
        if b - a == 1:
            data = bytes(buffer[begin[a] : end[a]])
            return _new(Chunk, (offset, data, [offset], [orders[a]], [places[a]], [times[a]]))
        data = b"".join([buffer[x:y] for x, y in zip(begin[a:b], end[a:b], strict=True)])
        shift = offset - cumulative[a]
        starts = [c + shift for c in cumulative[a:b]]
        return _new(Chunk, (offset, data, starts, orders[a:b], places[a:b], times[a:b]))

    def open(self, flow: Flow, i: int) -> None:
        """Give the first two packets to a new flow: SYN, and SYN with ACK."""
        for k in (i, i + 1):
            flow.see(self.time[k], self.place[k], self.arrival[k])
            flow.via |= int(self._via[k])
            half = flow.halves[self.direction[k]]
            half.packets += 1
            half.sign([int(self._signature[k])])
        flow.open(self.direction[i], self.seq[i], self.seq[i + 1], self.time[i], self.time[i + 1])

    def step(self, flow: Flow, i: int, limits: Limits) -> None:
        """Give one packet to its flow."""
        block, index = self._block, int(self._index[i])
        at, have = int(block.at[index]), int(block.have[index])
        flow.via |= int(self._via[i])
        flow.packet(
            self.direction[i],
            self.seq[i],
            self.ack[i],
            self.flags[i],
            int(block.window[index]),
            int(self._size[i]),
            bytes(self._buffer[at : at + have]),
            int(self._signature[i]),
            self.arrival[i],
            self.place[i],
            self.time[i],
            limits,
        )


def _connections(block: PacketBlock) -> tuple[Any, Words]:
    """(whether each packet goes from the lower endpoint to the higher one, a hash of its connection)."""
    forward = (block.src_hi < block.dst_hi) | (
        (block.src_hi == block.dst_hi)
        & ((block.src_lo < block.dst_lo) | ((block.src_lo == block.dst_lo) & (block.sport <= block.dport)))
    )
    a_hi, a_lo, a_port, b_hi, b_lo, b_port = _ends(block, forward, slice(None))
    with np.errstate(over="ignore"):
        key = a_hi * np.uint64(_MIX[0]) ^ a_lo * np.uint64(_MIX[1])
        key = key * np.uint64(_MIX[2]) ^ b_hi * np.uint64(_MIX[3]) ^ b_lo * np.uint64(_MIX[4])
        key = (key ^ key >> np.uint64(29)) * np.uint64(_MIX[0])
        key ^= (a_port << np.uint64(16) | b_port) * np.uint64(_MIX[1])
    return forward, key


def _ends(block: PacketBlock, forward: Any, index: Any) -> npt.NDArray[np.uint64]:
    """uint64[6, n]: address hi, lo and port of the lower endpoint, then of the higher one."""
    f = forward[index]
    s = (block.src_hi[index], block.src_lo[index], block.sport[index].astype(np.uint64))
    d = (block.dst_hi[index], block.dst_lo[index], block.dport[index].astype(np.uint64))
    low = [np.where(f, x, y) for x, y in zip(s, d, strict=True)]
    high = [np.where(f, y, x) for x, y in zip(s, d, strict=True)]
    return np.stack(low + high)


def _signatures(block: PacketBlock, arrivals: int) -> Ints:
    """What two captures of one packet have in common, and a retransmission has not: the IP id and the checksum.

    A bare acknowledgement without an IP id could be sent twice just so: such packets are never taken for copies.
    """
    with np.errstate(over="ignore"):
        mixed = (
            block.seq * np.int64(0x9E3779B97F4A7C1)
            ^ block.ack * np.int64(0x2545F4914F6CDD1D)
            ^ (block.ip_id << 40 | block.check << 24 | block.flags << 16)
            ^ block.size * np.int64(0x1B873593)
            ^ block.window << 48
        )
    unique = (block.size == 0) & (block.ip_id == 0)
    return np.where(unique, -1 - arrivals - np.arange(len(block)), mixed & np.int64(0x7FFFFFFFFFFFFFFF))


def _handshakes(new: Any, direction: Any, seq: Ints, ack: Ints, flags: Any, size: Ints) -> Any:
    """Whether a connection begins at each packet, with SYN and its answer and no data."""
    kind = np.where(size == 0, flags & (SYN | ACK | FIN | RST), 0)
    there = np.zeros(len(new), bool)
    there[:-1] = new[:-1] & ~new[1:] & (kind[:-1] == SYN) & (kind[1:] == SYN | ACK)
    there[:-1] &= (direction[:-1] != direction[1:]) & (ack[1:] == (seq[:-1] + 1) & _MASK)
    return there


def _previous(mask: Any, at: Any, start_of: Any) -> Any:
    """Index of the last packet before each one for which mask holds, within the connection; -1 for none."""
    last = np.maximum.accumulate(np.where(mask, at, -1))
    before = np.concatenate(([-1], last[:-1]))
    return np.where(before >= start_of, before, -1)


def _count_before(mask: Any) -> memoryview[int]:
    return _view(np.concatenate(([0], np.cumsum(mask))))


def _view(column: Any) -> memoryview[int]:
    """A column as a sequence of Python's ints, each made when it is asked for: most never are."""
    view: memoryview[int] = np.ascontiguousarray(column, np.int64).data
    return view
