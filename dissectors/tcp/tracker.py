"""Packets to flows: blocks are grouped by connection, and each connection's packets are put in order one by one."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dissectors.capture.block import ACK, SYN, PacketBlock
from dissectors.limits import SHARES, Limits
from dissectors.tcp.flow import Ends, Flow
from dissectors.tcp.grouping import MIXED, Grouped
from dissectors.tcp.keys import ends_of, key_of, share_of, stream_of
from dissectors.tcp.packed import Packed, Packer
from dissectors.tcp.reassembly import Reassembler
from dissectors.tcp.recent import History, Runs
from dissectors.tcp.segments import Lanes

_AWAY_NS = 60_000_000_000  # how long a connection that was closed early is not followed again
_EASE = 8  # of the connections kept ready beyond the limit, one in so many is not, after each step of decoding
_FEWEST = 256  # packets of a block that are sorted at once where many of its connections do not fit, at least
_WIDER = 4  # times as many as could be taken the time before


class Overflow(NamedTuple):
    """What became of it that more connections of a share were open at once than `Limits.flows` leaves it."""

    connections: int = 0  # that were closed early
    running: int = 0  # those of them that had not ended
    unrecognised: int = 0  # and of these, those whose protocol was not known yet
    packets: int = 0  # that came later and were left out
    size: int = 0  # their bytes

    @classmethod
    def total(cls, parts: Iterable[Overflow]) -> Overflow:
        """The sums over several trackers."""
        return cls(*map(sum, zip(*parts, strict=True)))


class Tracker:
    """All connections of one site. Feed it blocks in time order."""

    def __init__(self, limits: Limits, shared: Sequence[object] = ()) -> None:
        """shared: what the sessions of all flows refer to, and keep no state of their own in."""
        self.limits = limits
        self.overflow: dict[int, Overflow] = defaultdict(Overflow)  # by share
        self._flows: dict[bytes, Flow | bytes] = {}  # by their key; as bytes those that are packed
        self._recent: dict[bytes, tuple[Runs, Runs]] = {}  # what those remember of their halves, packed longest first
        self._unpacked = 0  # those that are not packed
        self._most_unpacked = limits.unpacked
        self._clock = 0  # time (ns) that the capture has come to
        self._most = -(-limits.flows // SHARES)  # connections of a share
        self._shares: dict[int, set[bytes]] = defaultdict(set)  # share -> keys of those that are followed
        self._incarnations = Incarnations(limits.endpoints)
        self._lanes = Lanes()
        self._tagged = False  # whether a packet of a VLAN or VNI has come
        self._closing: list[tuple[int, bytes, int, int]] = []
        """A heap of what has closed: clock (ns) at which it ends, key, incarnation, time (ns) of its last packet."""
        self._away: dict[bytes, int] = {}  # key -> when its connection was closed early; oldest first
        self._arrivals = 0
        self._history = History(limits.recent_bytes)
        self._reassembler = Reassembler(limits, self._history)
        self._packer = Packer([limits, self._reassembler, *shared])

    @property
    def forgotten(self) -> int:
        """Pieces of streams let go before a retransmission could be compared with them."""
        return self._history.forgotten

    def feed(self, block: PacketBlock, clock: int | None = None) -> Iterator[tuple[Flow, bool]]:
        """Take a block; yields each flow that has something new, and whether it has ended.

        clock: the time (ns) that the site's capture has come to; by default that of the last packet. What was delivered
        stands in the flow's halves until `Flow.take`.
        """
        if clock is None and len(block):
            clock = int(block.clock[-1])
        waiting, window = block, len(block)
        while len(waiting):
            some = waiting.take(slice(window)) if window < len(waiting) else waiting
            grouped = Grouped(some, self._arrivals)
            full = self._full(grouped)
            if not full:
                yield from self._packets(grouped)
                waiting = waiting.take(slice(len(some), None))
                continue
            fits = grouped.before(full)  # taken first, so that it does not matter how the capture is cut into blocks
            early = some.take(np.flatnonzero(fits))
            if len(early):
                yield from self._packets(Grouped(early, self._arrivals))
            for share, at in full.items():
                yield from self._make_room(share, int(some.clock[at]))
            waiting = waiting.take(np.append(np.flatnonzero(~fits), np.arange(len(some), len(waiting))))
            window = max(_FEWEST, _WIDER * len(early))
        if len(block):
            self._history.trim(int(block.clock[-1]))
        if clock is not None:
            self._clock = clock
            yield from self._sweep(clock)

    def finish(self) -> Iterator[tuple[Flow, bool]]:
        """The capture has ended: every flow ends with it."""
        for key in list(self._flows):  # one at a time: what a flow holds is free before the next one ends
            yield self._end(self._unpack(key)), True

    def pack(self, busy: Container[Any]) -> None:
        """Keep idle flows as bytes, where more than `Limits.unpacked` are not; those whose session is busy stay."""
        self._forget()
        self._most_unpacked -= (self._most_unpacked - self.limits.unpacked) // _EASE
        excess = self._unpacked - self._most_unpacked
        if excess <= 0:
            return
        before = self._clock - self.limits.idle_ns
        idle = [
            flow
            for flow in self._flows.values()
            if isinstance(flow, Flow) and flow.packable and (flow.closed_at is not None or flow.last_time <= before)
            if flow.session is None or flow.session not in busy
        ]
        worth_while = self._most_unpacked // 10
        if len(idle) <= worth_while:
            return  # few would have to be looked for again and again, and show little of what others are like
        self._pack(sorted(idle, key=_worth)[: excess + worth_while])

    def pack_all(self, busy: Container[Any]) -> None:
        """Keep all flows as bytes that can be; those whose session is busy stay."""
        self._forget()
        flows = (flow for flow in self._flows.values() if isinstance(flow, Flow) and flow.packable)
        self._pack([flow for flow in flows if flow.session is None or flow.session not in busy])

    @property
    def packed(self) -> dict[bytes, bytes]:
        """The packed connection of a key; the same object until a packet comes for it."""
        return {key: flow for key, flow in self._flows.items() if isinstance(flow, bytes)}

    def leave_out(self, keys: Iterable[bytes]) -> None:
        """Let go of connections as if they had never been."""
        gone = set(keys)
        for key in gone:
            del self._flows[key]
            self._recent.pop(key, None)
        for share in self._shares.values():
            share -= gone

    def _pack(self, flows: Sequence[Flow]) -> None:
        for flow, packed in zip(flows, self._packer.pack(flows), strict=True):
            if packed is None:
                flow.packable = False
                continue
            key = key_of(flow.ends, flow.stream)
            self._flows[key] = packed
            self._unpacked -= 1
            a, b = flow.halves
            if a.recent or b.recent:
                self._recent[key] = a.recent, b.recent
            if flow.session is not None:
                flow.session.release()
                flow.session = None

    def _forget(self) -> None:
        """Let go what packed flows remember, once the history has emptied it: first what was packed first."""
        done = []
        for key, (a, b) in self._recent.items():
            if a or b:
                break
            done.append(key)
        for key in done:
            del self._recent[key]

    def _full(self, grouped: Grouped) -> dict[int, int]:
        """Share -> place in the block of its first packet that may open one connection too many.

        Connections that ended long ago may still be counted: `_make_room` lets go of them first.
        """
        room = np.full(SHARES, self._most)
        room[list(self._shares)] -= np.fromiter(map(len, self._shares.values()), np.int64, len(self._shares))
        crowded = (grouped.connections() > room).tolist()
        if not any(crowded):
            return {}
        opened = defaultdict[int, list[int]](list)
        for start, end, key, share in grouped.groups():
            if crowded[share] and key not in self._flows:
                i = self._followed_from(grouped, start, end, key)
                if i < end:
                    opened[share].append(grouped.index(i))
        return {share: sorted(places)[room[share]] for share, places in opened.items() if len(places) > room[share]}

    def _packets(self, grouped: Grouped) -> Iterator[tuple[Flow, bool]]:
        self._arrivals += grouped.size
        segments = grouped.segments()
        self._tagged = self._tagged or any(segments)
        for (start, end, key, share), segment in zip(grouped.groups(), segments, strict=True):
            if self._tagged and self._is_split(key, segment):
                for first, last, stream in self._lanes.split(grouped, start, end, key, self._found):
                    yield from self._connection(grouped, first, last, stream, share)
                    flow = self._found(stream)
                    if flow is not None:
                        flow.segments = self._lanes.segments(key, stream)
            else:
                yield from self._connection(grouped, start, end, key, share)

    def _is_split(self, key: bytes, segment: int) -> bool:
        """Whether packets between these ends, of one segment or MIXED, may be of several connections."""
        if segment == MIXED or key in self._lanes:
            return True
        flow = self._found(key)
        return flow is not None and flow.segment != segment

    def _connection(
        self, grouped: Grouped, start: int, end: int, key: bytes, share: int
    ) -> Iterator[tuple[Flow, bool]]:
        """Take the sorted packets [start, end) of the connection with this key, or of those that follow it."""
        i = start
        if key not in self._flows:
            i = self._return(grouped, start, end, key, share)
            if i == end:
                return
            self._shares[share].add(key)
        flow = self._found(key) or self._begin(key, grouped.segment(i))
        while (i := self._reassembler.take(flow, grouped.packets, i, end)) < end:  # the next one begins another
            yield self._end(flow), True
            flow = self._begin(key, grouped.segment(i))
            self._shares[share].add(key)
        if flow.closed_at is not None and not flow.touched:
            flow.touched = True
            self._end_later(flow, key, grouped.clock(end - 1))
        if flow.has_news:
            yield flow, False

    def __len__(self) -> int:
        """Connections that are followed."""
        return len(self._flows)

    def number_on(self, used: Iterable[tuple[Ends, int]]) -> None:
        """Count new connections on behind numbers that others between the same endpoints have had."""
        for ends, number in used:
            self._incarnations.end(ends, number)

    def used(self) -> Iterator[tuple[Ends, int]]:
        """(endpoints, number) of the last connection between each two, open ones among them."""
        yield from self._incarnations.used()
        yield from ((ends_of(key), self._brief(key).incarnation) for key in self._flows)

    def _found(self, key: bytes) -> Flow | None:
        """The connection with this key, if there is one; unpacked, for packets have come for it."""
        flow = self._flows.get(key)
        if flow is None or isinstance(flow, Flow):
            return flow
        flow = self._unpack(key)
        if flow.closed_at is None:
            self._most_unpacked += 1  # what is busy now and then is packed once: the limit adapts
        return flow

    def _begin(self, key: bytes, segment: int) -> Flow:
        """A new connection with this key; segment: the VLAN or VNI of its first packet."""
        self._unpacked += 1
        ends = ends_of(key)
        number = self._incarnations.next(ends)
        if self._tagged:
            beside = (self._brief(each) for each in self._lanes.keys(key_of(ends)) if each in self._flows)
            number = max([number, *(each.incarnation + 1 for each in beside)])
        flow = self._flows[key] = Flow(ends, number, self._reassembler, stream_of(key), segment)
        return flow

    def _unpack(self, key: bytes) -> Flow:
        flow = self._flows[key]
        if isinstance(flow, bytes):
            flow = self._flows[key] = self._packer.unpack(flow, ends_of(key), self._recent.pop(key, None))
            self._unpacked += 1
        return flow

    def _followed_from(self, grouped: Grouped, start: int, end: int, key: bytes) -> int:
        """The first of the packets [start, end), of a connection that nobody follows, from which it is to be followed.

        A connection that was closed early begins anew with a SYN, or after a while. If each packet brought it back,
        it would take the place of another one that comes back: all would cost much, and none would be read.
        """
        since = self._away.get(key)
        if since is not None:
            while start < end and grouped.time(start) - since < _AWAY_NS and grouped.flags(start) & (SYN | ACK) != SYN:
                start += 1
        return start

    def _return(self, grouped: Grouped, start: int, end: int, key: bytes, share: int) -> int:
        """The first packet of [start, end) that is followed, `end` for none; counts those before it as left out."""
        i = self._followed_from(grouped, start, end, key)
        if i > start:
            before = self.overflow[share]
            self.overflow[share] = before._replace(
                packets=before.packets + i - start, size=before.size + grouped.carried(start, i)
            )
        if i < end:
            self._away.pop(key, None)
        return i

    def _end(self, flow: Flow) -> Flow:
        flow.finish()
        self._incarnations.end(flow.ends, flow.incarnation)
        key = key_of(flow.ends, flow.stream)
        if self._tagged:
            self._lanes.forget(key_of(flow.ends), key)
        if self._flows.get(key) is flow:
            del self._flows[key]
            self._unpacked -= 1
            self._shares[share_of(key)].discard(key)
        return flow

    def _sweep(self, now: int) -> Iterator[tuple[Flow, bool]]:
        """End flows that closed long ago. now: time (ns)."""
        while self._closing and self._closing[0][0] < now:
            _, key, incarnation, last_time = heapq.heappop(self._closing)
            flow = self._brief(key) if key in self._flows else None
            if flow is None or flow.incarnation != incarnation or flow.closed_at is None:
                continue
            if flow.last_time == last_time:
                yield self._end(self._unpack(key)), True
            else:
                self._end_later(flow, key, now)
        while self._away and (
            len(self._away) > self.limits.endpoints or now - next(iter(self._away.values())) > _AWAY_NS
        ):
            del self._away[next(iter(self._away))]

    def _end_later(self, flow: Flow | Packed, key: bytes, clock: int) -> None:
        """End a closed flow unless packets come for it up to a while after this clock (ns), which never steps back."""
        entry = clock + self.limits.linger_ns, key, flow.incarnation, flow.last_time
        heapq.heappush(self._closing, entry)

    def _is_past(self, flow: Flow | Packed, now: int) -> bool:
        """Whether a flow closed so long before a time (ns) that it gets no more packets."""
        return flow.closed_at is not None and max(flow.closed_at, flow.last_time) + self.limits.linger_ns < now

    def _make_room(self, number: int, now: int) -> Iterator[tuple[Flow, bool]]:
        """If a share is full at a time (ns), end its flows that closed long ago, or else a tenth before their time."""
        share = self._shares[number]
        briefs = {key: self._brief(key) for key in share}
        past = [key for key, flow in briefs.items() if self._is_past(flow, now)]
        for key in sorted(past):
            yield self._end(self._unpack(key)), True
        if len(share) < self._most:
            return
        running = 0
        chosen = heapq.nsmallest(max(1, self._most // 10), share, key=lambda key: (*_worth(briefs[key]), key))
        for key in chosen:
            flow = self._unpack(key)
            if flow.closed_at is None:
                running += 1
                flow.given_up = True
                self._away[key] = now
            yield self._end(flow), True
        before = self.overflow[number]
        self.overflow[number] = before._replace(
            connections=before.connections + len(chosen), running=before.running + running
        )

    def _brief(self, key: bytes) -> Flow | Packed:
        """A flow, or what is asked of it while it is packed."""
        flow = self._flows[key]
        return Packed.of(flow) if isinstance(flow, bytes) else flow


class Incarnations:
    """The number of each connection between the same endpoints.

    The longest unused endpoints are forgotten where they are too many; then whoever is not known begins above all that
    were forgotten.
    """

    def __init__(self, limit: int) -> None:
        """limit: endpoints remembered at least; twice as many at most."""
        self._limit = limit
        self._recent: dict[bytes, int] = {}  # key -> number of the next connection
        self._older: dict[bytes, int] = {}
        self._floor = 0  # number of the first connection between endpoints that are not known

    def next(self, ends: Ends) -> int:
        """The number of a new connection."""
        key = key_of(ends)
        number = self._recent.get(key)
        return self._older.get(key, self._floor) if number is None else number

    def end(self, ends: Ends, number: int) -> None:
        """A connection has ended."""
        if len(self._recent) >= self._limit:
            self._floor = max(self._floor, max(self._older.values(), default=0))
            self._older, self._recent = self._recent, {}
        self._recent[key_of(ends)] = max(number + 1, self.next(ends))

    def used(self) -> Iterator[tuple[Ends, int]]:
        """(endpoints, number) of the last connection that has ended between each two."""
        yield from ((ends_of(key), number - 1) for key, number in (self._older | self._recent).items() if number)


def _worth(flow: Flow | Packed) -> tuple[int, int]:
    """What ends first where flows are too many: what has closed, what carried nothing, what is idle longest."""
    carried = flow.has_session if isinstance(flow, Packed) else flow.session is not None
    return (0 if flow.closed_at is not None else 1 + carried), flow.last_time
