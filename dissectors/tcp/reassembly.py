"""Packets of a connection to the bytes of its two directions: one loop, packet by packet, for all that networks do.

Delivery follows two rules. Bytes of one direction are delivered in order, each once, the first version seen. And a
segment is delivered only when everything that it acknowledges has been delivered or is given up for lost: what a server
answers is never handed over before the request that it answers, however the capture shuffled them. Where nothing of the
other direction was captured yet, what a segment acknowledges is not known: it waits for that direction to begin.

A segment is in order (it is delivered at once if nothing waits), ahead (it waits), overlapping (of which the new part
goes on) or old. A hole is given up when the peer has acknowledged it and it outlasts a grace of some packets or some
time (captures re-order, so the acknowledgement may be captured before the bytes), when too much waits behind it, or at
the end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.limits import Limits
from dissectors.tcp import spurious
from dissectors.tcp.chunk import Gap, Resent
from dissectors.tcp.delivered import Delivered
from dissectors.tcp.flow import Flow
from dissectors.tcp.half import Conflict, Half, HeldSegment
from dissectors.tcp.numbers import (
    ACK,
    COPY_NS,
    DELIVERIES,
    FAR,
    FIN,
    MASK,
    NAMED,
    ORDER_SHIFT,
    PSH,
    RST,
    STRAYS,
    SYN,
    UNACKED_GRACE,
    UNKNOWN_ORDER,
    UNPLACED,
    WINDOW,
)  # fmt: skip
from dissectors.tcp.packets import Packets
from dissectors.tcp.recent import RECENT_NS, History
from dissectors.tcp.stalls import Stalls
from dissectors.wire.arrays import AnyBytes

RECENT_BYTES = 16 * 1024  # delivered bytes kept to compare retransmissions with: more than an initial window
CONFLICTS = 1000  # of a direction that are kept, each to be a finding
_NEARBY = 64  # segments before a late one in which its bytes are looked for
_REORDER_NS = 3_000_000  # a late segment within this time was re-ordered, not retransmitted (as Wireshark has it)
_AT_ONCE_NS = 500_000  # a sender that waited sends within this: its kernel does, not the application
_TRIP_NS = 1_000_000  # a round trip, where the handshake was not captured
_LONGEST_TRIP_NS = 300_000_000
_offset = attrgetter("offset")


@final
@compiled
class Reassembler:
    """Puts the segments of connections in order: one for all connections of a tracker."""

    limits: Limits
    history: History
    _linger_ns: cython.longlong
    _of_first: Delivered  # what direction 0 of the connection that is dealt with delivered
    _of_second: Delivered  # … and direction 1
    _time: cython.longlong = 0  # of the packet that is dealt with
    _packet_ref: cython.longlong = 0
    _arrival: cython.longlong = 0

    def __init__(self, limits: Limits, history: History) -> None:
        self.limits = limits
        self.history = history
        self._linger_ns = limits.linger_ns
        self._of_first = Delivered()
        self._of_second = Delivered()

    def __reduce__(self) -> tuple[Any, ...]:
        return Reassembler, (self.limits, self.history)

    @compiled
    def take(self, flow: Flow, packets: Packets, i: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Take packets [i, end) of the order, all between the endpoints of a connection.

        Returns `end`, or the place of the first packet that belongs to another connection.
        """
        one: Half = flow.halves[0]
        two: Half = flow.halves[1]
        while i < end:
            j: cython.Py_ssize_t = packets.index[i]
            half: Half = two if packets.direction[j] else one
            other: Half = one if packets.direction[j] else two
            flags: cython.longlong = packets.flags[j]
            if flow.begins_anew(half, other, flags, packets.seq[j], packets.ack[j], packets.time[j], self._linger_ns):
                break
            self._packet(flow, half, other, packets, j)
            i += 1
        self._flush(one)
        self._flush(two)
        return i

    def finish(self, flow: Flow) -> None:
        """No packet of a connection will come: give up what is missing and deliver the rest."""
        if flow.finished and not flow.halves[0].held and not flow.halves[1].held:
            return
        self._time, self._packet_ref, self._arrival = flow.last_time, flow.last_packet_ref, flow.last_arrival + 1
        one, two = flow.halves
        self._release(flow, one, two, True)
        for half in flow.halves:
            missing = max(half.fin, half.acked) - half.next
            if missing == 1 and half.fin < 0 and half.only_started:
                half.keep_alives += 1  # its first packet was one, of a byte that was sent before
            elif half.started and missing > 0:  # the last bytes: nothing came behind them but a FIN or acknowledgements
                self._skip(flow, half, missing, "not captured", flow.last_packet_ref, flow.last_time)
        self._release(flow, one, two, False)
        for half in flow.halves:
            self._flush(half)

    # --- a packet ---

    @compiled
    def _packet(self, flow: Flow, half: Half, other: Half, packets: Packets, j: cython.Py_ssize_t) -> cython.int:
        """Take packet j, of a direction."""
        self._time, self._packet_ref, self._arrival = packets.time[j], packets.packet_ref[j], packets.arrival[j]
        flow.see(self._time, self._packet_ref, self._arrival)
        flow.via |= packets.via[j]
        half.packets += 1
        if not packets.flags[j] & SYN:
            if half.rival >= 0:
                half.settle(packets.seq[j])
            if other.rival >= 0:
                other.settle(packets.ack[j])
        if half.noted and self._is_copy(half, packets, j):
            half.duplicates += 1
        elif self._is_stray(flow, half, packets.seq[j], packets.flags[j]):
            half.out_of_order += 1
        elif not self._accept(flow, half, other, packets, j):
            return 0
        if half.direction:
            self._release(flow, other, half, False)
        else:
            self._release(flow, half, other, False)
        return 0

    @compiled
    def _is_copy(self, half: Half, packets: Packets, j: cython.Py_ssize_t) -> cython.bint:
        """Whether a packet was captured before: with SYN, FIN or data lately, any other just now."""
        signature: cython.longlong = packets.signature[j]
        size: cython.longlong = packets.size[j]
        flags: cython.longlong = packets.flags[j] & (SYN | FIN | RST)
        if not size and not flags & (SYN | FIN):
            return half.was_last(signature)
        if packets.seq[j] == half.expect and not flags and not half.held:
            return half.was_last(signature)  # no byte of it was seen before
        if not half.knows(signature):
            return False
        if not size:
            return self._time - half.control_ns <= COPY_NS
        have: cython.longlong = packets.have[j]
        if signature & NAMED or not have:
            return True
        return self._came_since(half, half.offset(packets.seq[j]) + have - 1, self._time - COPY_NS)

    def _came_since(self, half: Half, offset: int, time: int) -> bool:
        """Whether a byte that was seen came at `time` or later; true of those that later ones have made forgotten."""
        held = next((s for s in half.held if s.offset <= offset < s.offset + s.size), None)
        if held is not None:
            return held.time >= time
        if not half.next - RECENT_BYTES <= offset < half.next:
            return True
        self._flush(half)
        at = bisect_right(half.recent, offset, key=_offset) - 1
        if at < 0:
            return False  # it came longer ago than anything is remembered
        run = self.history.look(half.recent, at)
        return run.times[bisect_right(run.starts, offset) - 1] >= time

    @compiled
    def _is_stray(self, flow: Flow, half: Half, seq: cython.longlong, flags: cython.longlong) -> cython.bint:
        """Whether a packet is of an earlier connection between these endpoints, and came late."""
        if not half.syn or flags & SYN or not (flags & RST or flow.incarnation):
            return False
        if abs(half.offset(seq) - max(half.next, half.acked)) <= WINDOW:
            half.strays = 0
            return False
        half.strays += 1
        return half.strays <= STRAYS

    @compiled
    def _accept(self, flow: Flow, half: Half, other: Half, packets: Packets, j: cython.Py_ssize_t) -> cython.bint:
        """Take what a packet says; False where it is a SYN that was sent again."""
        seq: cython.longlong = packets.seq[j]
        flags: cython.longlong = packets.flags[j]
        size: cython.longlong = packets.size[j]
        if flags & (SYN | FIN):
            half.control_ns = self._time
        half.sign(packets.signature[j])
        if flags & RST:
            if flow.closer < 0:
                flow.closer = half.direction
            flow.reset = True
            if half.rst_order == UNKNOWN_ORDER:
                half.rst_order = self._arrival << ORDER_SHIFT
            if flow.closed_at is None:
                flow.closed_at = self._time
            return True
        if flags & SYN:
            if not self._syn(flow, half, seq, flags):
                return False
            seq += 1
        elif not half.started:
            probe: cython.bint = size == 1 and not flags & (PSH | FIN)  # with a byte that was sent before
            half.start(seq + probe, False)
        elif half.next == 0 and (size or flags & FIN) and seq == (half.base + 1) & MASK and half.only_started:
            half.start(seq, False)  # the packet before was a keep-alive: it began one byte too early
            half.keep_alives += 1
        window: cython.longlong = packets.window[j]
        stalls: Stalls = other.stalls  # of the bytes that this packet acknowledges, and announces a window for
        if not flags & SYN:
            half.zero_windows += not window
            if not window or stalls.closed_ns:
                stalls.see_window(window, self._time)
        if flow.ack_time is None and flow.syn_ack_time is not None and half.direction == flow.opener:
            flow.ack_time = self._time
        acked: cython.longlong = -1
        if flags & ACK:
            if other.started:
                before: cython.longlong = other.acked
                acked = self._acknowledge(other, packets.ack[j])
                if other.doubted:
                    spurious.judge(other, acked, packets.duplicate[j], packets.stamps[j], self._time)
                if acked > before:
                    stalls.duplicate_acks = 0
                    if acked >= other.top:
                        stalls.arrive()
                    if not size:
                        stalls.see_ack(True, acked >= other.top, self._time)
                elif acked == before and acked < other.top and window == stalls.window and not size:
                    stalls.see_ack(False, False, self._time)
            elif not other.ack_waived_to:
                acked = UNPLACED - packets.ack[j]
        stalls.window = window
        offset: cython.longlong = half.offset(seq)
        if size:
            self._data(flow, half, other, packets, j, offset, acked)
        elif not flags & (SYN | FIN) and offset == (half.next if half.next or half.syn else half.acked) - 1:
            half.keep_alives += 1
        if flags & FIN:
            if half.fin >= 0:
                half.retransmissions += not size
            elif offset + size >= half.next:
                half.fin = offset + size
                half.fin_order, half.fin_ns = self._arrival << ORDER_SHIFT, self._time
                flow.note_fin(half, other, packets.ack[j])
        return True

    def _syn(self, flow: Flow, half: Half, seq: int, flags: int) -> bool:
        """Take a SYN; False where it is a repeated one, or another answer to the peer's SYN."""
        if half.started and half.syn:
            if (seq + 1) & MASK == half.base:
                half.retransmissions += 1
            elif not half.next:
                half.rival = (seq + 1) & MASK
            return False
        if not half.started or not half.next:
            half.start(seq + 1, True)
        if flags & ACK:
            if flow.syn_ack_time is None:
                flow.syn_ack_time = self._time
            if flow.opener is None:
                flow.opener = 1 - half.direction
        elif flow.opener is None:
            flow.opener = half.direction
            flow.syn_time = self._time
        return True

    @compiled
    def _acknowledge(self, other: Half, ack: cython.longlong) -> cython.longlong:
        """Note what the peer has; the offset, without the FIN's own sequence number, or -1 if it is not believed."""
        offset: cython.longlong = other.offset(ack)
        if other.fin >= 0:
            offset = min(offset, other.fin)
        if offset - other.next > FAR:
            return -1
        if offset > other.acked:
            other.acked = offset
        return offset

    @compiled
    def _data(
        self,
        flow: Flow,
        half: Half,
        other: Half,
        packets: Packets,
        j: cython.Py_ssize_t,
        offset: cython.longlong,
        ack: cython.longlong,
    ) -> cython.int:
        """Take the payload of packet j, at a stream offset."""
        size: cython.longlong = packets.size[j]
        end: cython.longlong = offset + size
        is_new: cython.bint = end > half.top
        stalls: Stalls = half.stalls
        if is_new:
            if half.top <= half.acked:
                stalls.depart(self._time - flow.before_ns, self._time, offset)
            if size > stalls.largest_sent:
                stalls.largest_sent = size
        if is_new and (stalls.late_ack_ns or stalls.opened_ns):
            trip_ns = _trip(flow, half.direction)
            stalls.resume(self._time, _soon(flow), trip_ns, offset, size, self._packet_ref)
        if size == 1 and end == half.next:
            half.keep_alives += 1
        elif (
            offset == half.next >= half.top
            and size == packets.have[j]
            and UNPLACED < ack <= max(other.next, other.ack_waived_to)
            and not half.held
            and not other.held
        ):
            half.top = end
            half.hole_since = other.ack_wait_since = None
            self._deliver(flow, half, packets.buffer, packets.at[j], size, self._packet_ref, self._time)
        else:
            start = packets.at[j]
            data = bytes(packets.buffer[start : start + packets.have[j]])
            held = HeldSegment(offset, self._arrival, size, data, ack, self._packet_ref, self._time)
            self._wait(half, held, packets.stamps[j])
        if is_new:
            stalls.advanced_ns = self._time
        return 0

    def _wait(self, half: Half, segment: HeldSegment, stamps: int) -> None:
        """Hold what is new of a segment; note what was sent before. stamps: its TCP timestamps."""
        offset, size, data, time = segment.offset, segment.size, segment.data, segment.time
        end = offset + size
        again = []  # stretches that were sent before
        if offset < half.next:
            known = min(half.next, end) - offset
            again.append((offset, offset + known))
            if data and offset + known > 0:
                self._compare(half, offset, data[:known], segment.packet_ref, time)
            offset, size, data = offset + known, size - known, data[known:]
        if size and offset < half.top:
            again += _sent_before(half, offset, end, time)
            half.out_of_order += not again
        if again:
            self._repeat(half, again, stamps)
        if size:
            half.top = max(half.top, end)
            if not half.held:
                half.held = []
            insort(half.held, segment._replace(offset=offset, size=size, data=data))
            half.held_bytes += len(data)

    def _repeat(self, half: Half, stretches: list[tuple[int, int]], stamps: int) -> None:
        """Count a segment with bytes that were sent before."""
        half.retransmissions += 1
        offset, end = stretches[0][0], stretches[-1][1]
        half.again_to = max(half.again_to, end)
        held = None
        if end > half.acked:
            behind = bisect_left(half.held, end, key=_offset) if offset >= half.next else len(half.held)
            missing_ns = half.held[behind].time if behind < len(half.held) else 0
            held = half.stalls.repeat(missing_ns, self._time, offset, end, half.acked, self._packet_ref)
        spurious.doubt(half, offset, end, self._time, stamps, held)
        order = self._arrival << ORDER_SHIFT
        if not half.resent:
            half.resent = []
        for start, end in stretches:
            half.resent.append(Resent(start, end, order))
            half.retransmitted_bytes += end - start

    # --- delivery ---

    @compiled
    def _release(self, flow: Flow, a: Half, b: Half, force: cython.bint) -> cython.int:
        """Deliver what may be delivered of both directions; with `force`, give up what all else waits for."""
        moved: cython.bint = True
        while moved:
            moved = self._advance(flow, a, b)
            if self._advance(flow, b, a):
                moved = True
            if force and not moved:
                moved = self._force(flow)
        return 0

    @compiled
    def _advance(self, flow: Flow, half: Half, other: Half) -> cython.bint:
        """Deliver what may be delivered of a direction; whether anything has changed."""
        moved: cython.bint = False
        while half.held and self._step(flow, half, other, False):
            moved = True
        if not half.finished and 0 <= half.fin <= half.next:
            half.finished = moved = True
            if other.finished and flow.closed_at is None:
                flow.closed_at = self._time
        half.expect = (half.base + half.next + half.finished) & MASK
        return moved

    def _force(self, flow: Flow) -> bool:
        """Give up one thing, so that the rest keeps its order: a hole rather than a wait, else what came first."""
        waiting = [pair for pair in (flow.halves, flow.halves[::-1]) if pair[0].held]
        if not waiting:
            return False
        half, other = min(waiting, key=lambda p: (p[0].held[0].offset <= p[0].next, p[0].held[0].arrival))
        return self._step(flow, half, other, True)

    @compiled
    def _order(self, flow: Flow) -> cython.longlong:
        """The order of the next delivery."""
        if flow.delivered < DELIVERIES:
            flow.delivered += 1
        return self._arrival << ORDER_SHIFT | flow.delivered

    def _step(self, flow: Flow, half: Half, other: Half, force: bool) -> bool:
        """Deliver or give up one thing at the head of a direction; False where it has to wait."""
        segment = half.held[0]
        if segment.offset > half.next:
            return self._step_over(flow, half, segment, force)
        ack = segment.ack
        if ack <= UNPLACED:
            ack = self._acknowledge(other, UNPLACED - ack) if other.started else FAR
        if ack > other.next and ack > other.ack_waived_to:
            if not force:
                if other.held and other.held[0].offset > other.next:
                    return False  # a hole: it will be given up in its own time
                other.ack_wait_since = other.ack_wait_since or (flow.packets, self._time)
                if not self._is_over(flow, other.ack_wait_since, 1):
                    return False
            other.ack_waived_to = ack
        other.ack_wait_since = None
        half.hole_since = None
        del half.held[0]
        half.held_bytes -= len(segment.data)
        start = half.next - segment.offset
        if start:
            self._compare(half, segment.offset, segment.data[:start], segment.packet_ref, segment.time)
        if start >= segment.size:
            return True  # wholly covered by one that came earlier
        have = len(segment.data)
        missing = segment.size - max(start, have)
        if have > start:
            self._deliver(flow, half, segment.data, start, have - start, segment.packet_ref, segment.time)
        if missing:
            self._skip(flow, half, missing, "snaplen", segment.packet_ref, segment.time)
        return True

    def _step_over(self, flow: Flow, half: Half, segment: HeldSegment, force: bool) -> bool:
        """Give up the hole before a segment; False where it has to wait."""
        limits = self.limits
        crowded = half.held_bytes > limits.reorder_bytes or len(half.held) > limits.reorder_packets
        if not force and not crowded:
            half.hole_since = half.hole_since or (flow.packets, self._time)
            if not self._is_over(flow, half.hole_since, 1 if half.acked > half.next else UNACKED_GRACE):
                return False
        half.hole_since = None
        reason = "limit" if crowded else "not captured"
        self._skip(flow, half, segment.offset - half.next, reason, segment.packet_ref, segment.time)
        return True

    def _is_over(self, flow: Flow, since: tuple[int, int], patience: int) -> bool:
        """Whether the grace has passed, so many times, since (packets of the connection, time)."""
        packets, time = flow.packets - since[0], self._time - since[1]
        return packets >= self.limits.grace_packets * patience or time >= self.limits.grace_ns * patience

    @compiled
    def _deliver(
        self,
        flow: Flow,
        half: Half,
        buffer: AnyBytes,
        at: cython.longlong,
        size: cython.longlong,
        packet_ref: cython.longlong,
        time: cython.longlong,
    ) -> cython.int:
        """The next bytes of a stream are buffer[at : at + size]."""
        side: Delivered = self._of_second if half.direction else self._of_first
        side.add(half.next, self._order(flow), packet_ref, time, buffer, at, size)
        half.next += size
        half.bytes += size
        return 0

    def _skip(self, flow: Flow, half: Half, length: int, reason: str, packet_ref: int, time: int) -> None:
        """The next bytes of a stream will never come."""
        self._flush(half)
        half.put(Gap(half.next, length, reason, self._order(flow), packet_ref, time))
        half.next += length
        if reason == "snaplen":
            half.cut_bytes += length
        else:
            half.gaps += 1
            half.gap_bytes += length

    @compiled
    def _flush(self, half: Half) -> cython.int:
        """Make a chunk of what was delivered since the last one, and remember its end for retransmissions."""
        side: Delivered = self._of_second if half.direction else self._of_first
        if not side.count:
            return 0
        chunk = side.chunk()
        half.put(chunk)
        if not half.recent:
            half.recent = []
        recent = half.recent
        recent.append(chunk if len(chunk.data) <= 2 * RECENT_BYTES else chunk.last(RECENT_BYTES))
        needed = half.next - RECENT_BYTES  # the stream from here on
        while len(recent) > 1 and recent[1].offset <= needed:
            self.history.drop(recent.pop(0))
        self.history.keep(recent)
        return 0

    # --- comparison ---

    def _compare(self, half: Half, offset: int, data: bytes, packet_ref: int, time: int) -> None:
        """Note where bytes sent again differ from those delivered before.

        They are compared with the last RECENT_BYTES of the direction that came within RECENT_NS: so the answer depends
        on this connection and its own time only.
        """
        self._flush(half)
        first = max(0, bisect_right(half.recent, offset, key=_offset) - 1)
        for i in range(first, len(half.recent)):
            if half.recent[i].offset >= offset + len(data):
                return
            run = self.history.look(half.recent, i)
            known, starts = run.offset + len(run.data), run.starts
            for at in range(max(0, bisect_right(starts, offset) - 1), bisect_left(starts, offset + len(data))):
                begin = max(offset, starts[at], half.next - RECENT_BYTES)
                end = min(offset + len(data), starts[at + 1] if at + 1 < len(starts) else known)
                if begin >= end or time - run.times[at] > RECENT_NS:
                    continue
                old = run.data[begin - run.offset : end - run.offset]
                new = data[begin - offset : end - offset]
                if old != new:
                    differ = [i for i, (x, y) in enumerate(zip(old, new, strict=True)) if x != y]
                    length, ref = max(differ) - differ[0] + 1, run.packet_refs[at]
                    _note(half, Conflict(begin + differ[0], length, len(differ), ref, packet_ref, time))


def _soon(flow: Flow) -> int:
    """How long after a packet to its sender the bytes come at most, ns, that waited for it: where it was captured.

    At the sender's that is at once, at the receiver's a round trip later.
    """
    trip_ns = _between(flow.syn_time, flow.ack_time)
    return _AT_ONCE_NS + (_TRIP_NS if trip_ns is None else trip_ns)


def _trip(flow: Flow, direction: int) -> int:
    """How long an acknowledgement of bytes of a direction takes, ns, as the handshake shows; 0 where it does not."""
    if direction == flow.opener:
        return _between(flow.syn_time, flow.syn_ack_time) or 0
    return _between(flow.syn_ack_time, flow.ack_time) or 0


def _between(begin: int | None, end: int | None) -> int | None:
    """How long it took from one packet of a handshake to another, ns; None where one was not captured."""
    return None if begin is None or end is None else max(0, min(end - begin, _LONGEST_TRIP_NS))


def _note(half: Half, conflict: Conflict) -> None:
    """Keep a conflict, or count it where there are too many."""
    if len(half.conflicts) >= CONFLICTS:
        half.more_conflicts += 1
        return
    if not half.conflicts:
        half.conflicts = []
    half.conflicts.append(conflict)


def _sent_before(half: Half, offset: int, end: int, time: int) -> list[tuple[int, int]]:
    """Of bytes that come after later ones, those that wait already; all, where they were lost and sent again."""
    at = bisect_left(half.held, offset, key=_offset)
    after = half.held[at] if at < len(half.held) else None
    if after is not None and time - after.time > _REORDER_NS:
        return [(offset, end)]
    found = []
    for held in half.held[max(0, at - _NEARBY) :]:
        if held.offset >= end:
            break
        begin, stop = max(offset, held.offset), min(end, held.offset + held.size)
        if begin < stop:
            found.append((begin, stop))
            offset = stop
    return found
