"""One connection, packet by packet: the careful path, for whatever is not plainly in order.

Delivery follows two rules. Bytes of one direction are delivered in order, each once, the first version seen. And a
segment is delivered only when everything that it acknowledges has been delivered or is given up for lost: what a server
answers is never handed over before the request that it answers, however the capture shuffled them. Where nothing of the
other direction was captured yet, what a segment acknowledges is not known: it waits for that direction to begin.

A hole is given up when the peer has acknowledged it and it outlasts a grace of some packets or some time (captures
re-order, so the acknowledgement may be captured before the bytes), when too much waits behind it, or at the end.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Any, NamedTuple

from dissectors.capture.block import ACK, FIN, PSH, RST, SYN
from dissectors.limits import Limits
from dissectors.tcp.chunk import Chunk, Gap, Span
from dissectors.tcp.half import COPY_NS, MASK, NAMED, UNPLACED, Half, HeldSegment
from dissectors.tcp.recent import History

Events = list[Chunk | Span | Gap]
Ends = tuple[int, int, int, int, int, int]
"""Address hi, lo and port of endpoint a, then of b."""
_offset = attrgetter("offset")
ORDER_SHIFT = 16  # order = arrival << ORDER_SHIFT | delivery within that packet
_FAR = 1 << 30  # an acknowledgement farther ahead than any window is not believed
_WINDOW = 1 << 26  # bytes; what lies farther off is not of this connection, where another may have been before it …
_STRAYS = 16  # … but so many in a row of one direction are: the capture lacks what was between
_REORDER_NS = 3_000_000  # a late segment within this time was re-ordered, not retransmitted (as Wireshark has it)
UNACKED_GRACE = 8  # times the grace, for a hole that nobody acknowledges: its other direction may not be captured


class Opening(NamedTuple):
    """The first two packets of a connection: SYN, and SYN with ACK."""

    direction: int  # of the SYN
    seq: int
    answer: int  # sequence number of the SYN with ACK
    time: int
    answered: int
    packet_ref: int
    last_packet_ref: int
    last_arrival: int
    via: int
    signature: int
    last_signature: int


class Flow:
    """Both directions between endpoints a and b; direction 0 is a to b."""

    __slots__ = (
        "ends",
        "incarnation",
        "halves",
        "opener",
        "packets",
        "first_time",
        "last_time",
        "first_packet_ref",
        "via",
        "reset",
        "closed_at",
        "syn_time",
        "syn_ack_time",
        "ack_time",
        "last_arrival",
        "last_packet_ref",
        "packable",
        "session",
        "touched",
        "given_up",
        "_delivered",
        "_fin_time",
    )

    def __init__(self, ends: Ends, incarnation: int, history: History) -> None:
        self.ends = ends
        self.incarnation = incarnation
        self.halves = (Half(history), Half(history))
        self.opener: int | None = None  # direction of the SYN
        self.packets = 0
        self.first_time = 0
        self.last_time = 0
        self.first_packet_ref = 0
        self.last_packet_ref = 0
        self.last_arrival = 0
        self.via = 0
        self.reset = False
        self.closed_at: int | None = None
        self.syn_time: int | None = None
        self.syn_ack_time: int | None = None
        self.ack_time: int | None = None
        self.session: Any = None
        self.packable = True  # it holds plain values only, as far as is known
        self.touched = False
        self.given_up = False  # closed early: too many were open at once
        self._delivered = 0
        self._fin_time = 0

    @property
    def target_ports(self) -> tuple[int, int]:
        """The ports that directions 0 and 1 send to."""
        return self.ends[5], self.ends[2]

    @property
    def finished(self) -> bool:
        """Both directions ended with FIN and all their bytes were delivered."""
        return self.halves[0].finished and self.halves[1].finished

    def begins_anew(self, direction: int, flags: int, seq: int, time: int, limits: Limits) -> bool:
        """Whether this packet belongs to another connection between the same endpoints."""
        if self.closed_at is not None and time - self.closed_at > limits.linger_ns:
            return True
        half = self.halves[direction]
        if not flags & SYN or not half.started:
            return bool(flags & SYN) and not flags & ACK and self.closed_at is not None
        return (seq + 1) & MASK != half.base

    def see(self, time: int, packet_ref: int, arrival: int) -> None:
        """Count a packet."""
        if not self.packets:
            self.first_time, self.first_packet_ref = time, packet_ref
        self.packets += 1
        self.last_time = max(self.last_time, time)
        self.last_packet_ref = packet_ref
        self.last_arrival = arrival
        self._delivered = 0

    def packet(
        self,
        direction: int,
        seq: int,
        ack: int,
        flags: int,
        window: int,
        size: int,
        data: bytes,
        signature: int,
        arrival: int,
        packet_ref: int,
        time: int,
        limits: Limits,
    ) -> None:
        """Take one packet. size: payload bytes on the wire; data: those captured."""
        self.see(time, packet_ref, arrival)
        half, other = self.halves[direction], self.halves[1 - direction]
        half.packets += 1
        if half.signatures and self._is_copy(half, seq, signature, flags, size, len(data), time):
            half.duplicates += 1
            self.release(limits, time, packet_ref, arrival)
            return
        if self._is_stray(half, seq, flags):
            half.out_of_order += 1
            self.release(limits, time, packet_ref, arrival)
            return
        if flags & (SYN | FIN):
            half.control_ns = time
        half.sign([signature])
        if flags & RST:
            self.reset = True
            if self.closed_at is None:
                self.closed_at = time
        else:
            if flags & SYN:
                if self._syn(half, direction, seq, flags, time):
                    return
                seq += 1
            elif not half.started:
                probe = size == 1 and not flags & (PSH | FIN)  # with a byte that was sent before
                half.start(seq + probe, syn=False)
            elif half.only_started and (size or flags & FIN) and seq == (half.base + 1) & MASK:
                half.start(seq, syn=False)  # the packet before was a keep-alive: it began one byte too early
                half.keep_alives += 1
            if not window and not flags & SYN:
                half.zero_windows += 1
            if self.syn_ack_time is not None and self.ack_time is None and direction == self.opener:
                self.ack_time = time
            acked = self._acknowledged(other, ack) if flags & ACK else -1
            offset = half.offset(seq)
            known = half.next if half.next or half.syn else half.acked
            if not size and not flags & (SYN | FIN) and offset == known - 1:
                half.keep_alives += 1
            if size:
                self._data(half, offset, size, data, acked, arrival, packet_ref, time)
            if flags & FIN and half.fin >= 0 and not size:
                half.retransmissions += 1
            elif flags & FIN and half.fin < 0 and offset + size >= half.next:
                half.fin = offset + size
        self.release(limits, time, packet_ref, arrival)

    @staticmethod
    def _is_copy(half: Half, seq: int, signature: int, flags: int, size: int, have: int, time: int) -> bool:
        """Whether a packet was captured before: with SYN, FIN or data lately, any other just now."""
        if not size and not flags & (SYN | FIN):
            return signature == half.signatures[-1]
        if not half.knows(signature):
            return False
        if not size:
            return time - half.control_ns <= COPY_NS
        return bool(signature & NAMED or not have) or half.came_since(half.offset(seq) + have - 1, time - COPY_NS)

    def _is_stray(self, half: Half, seq: int, flags: int) -> bool:
        """Whether a packet is of an earlier connection between these endpoints, and came late."""
        if not half.syn or flags & SYN or not (self.incarnation or flags & RST):
            return False
        if abs(half.offset(seq) - max(half.next, half.acked)) <= _WINDOW:
            half.strays = 0
            return False
        half.strays += 1
        return half.strays <= _STRAYS

    def open(self, opening: Opening) -> None:
        """Take SYN and its answer, as the first packets."""
        (direction, seq, answer, self.syn_time, self.syn_ack_time, self.first_packet_ref, self.last_packet_ref,
         self.last_arrival, self.via, signature, last_signature) = opening  # fmt: skip
        self.opener = direction
        self.packets = 2
        self.first_time = self.syn_time
        self.last_time = max(self.syn_time, self.syn_ack_time)
        self.halves[direction].open(seq + 1, signature, self.syn_time)
        self.halves[1 - direction].open(answer + 1, last_signature, self.syn_ack_time)

    def count(self, packets: int, time: int, packet_ref: int, arrival: int) -> None:
        """Packets were taken by column; time is the latest of theirs, packet and arrival are those of the last one."""
        self.packets += packets
        if time > self.last_time:
            self.last_time = time
        self.last_packet_ref = packet_ref
        self.last_arrival = arrival

    def end(self, direction: int, time: int) -> None:
        """All bytes of a direction were delivered, and its FIN came at `time`."""
        half = self.halves[direction]
        half.fin = half.next
        half.finished = True
        half.control_ns = time
        self._fin_time = max(self._fin_time, time)
        if self.finished:
            self.closed_at = self._fin_time

    def _syn(self, half: Half, direction: int, seq: int, flags: int, time: int) -> bool:
        """Take a SYN; True where it is a repeated one."""
        if half.started and half.syn:
            half.retransmissions += 1
            return True
        if not half.started or not half.next:
            half.start(seq + 1, syn=True)
        if flags & ACK:
            if self.syn_ack_time is None:
                self.syn_ack_time = time
            if self.opener is None:
                self.opener = 1 - direction
        elif self.opener is None:
            self.opener = direction
            self.syn_time = time
        return False

    @staticmethod
    def _acknowledged(other: Half, ack: int) -> int:
        """What HeldSegment keeps of an acknowledgement number."""
        if other.started:
            return Flow._acknowledge(other, ack)
        return -1 if other.ack_waived_to else UNPLACED - ack

    @staticmethod
    def _acknowledge(other: Half, ack: int) -> int:
        """Note what the peer has; the offset, without the FIN's own sequence number."""
        offset = other.offset(ack)
        if other.fin >= 0:
            offset = min(offset, other.fin)
        if offset - other.next > _FAR:
            return -1
        if offset > other.acked:
            other.acked = offset
        return offset

    def _data(
        self, half: Half, offset: int, size: int, data: bytes, ack: int, arrival: int, packet_ref: int, time: int
    ) -> None:
        end = offset + size
        if size <= 1 and end == half.next:
            half.keep_alives += 1
            return
        again = []  # stretches that were sent before
        if offset < half.next:
            known = min(half.next, end) - offset
            again.append((offset, offset + known))
            if data and offset + known > 0:
                half.compare(offset, data[:known], packet_ref, time)
            offset, size, data = offset + known, size - known, data[known:]
        if size and offset < half.top:
            again += self._sent_before(half, offset, end, time)
            half.out_of_order += not again
        if again:
            half.repeat(again, arrival << ORDER_SHIFT)
        if size:
            half.top = max(half.top, end)
            half.hold(HeldSegment(offset, arrival, size, data, ack, packet_ref, time))

    @staticmethod
    def _sent_before(half: Half, offset: int, end: int, time: int) -> list[tuple[int, int]]:
        """Of bytes that come after later ones, those that wait already; all, where they were lost and sent again."""
        at = bisect_left(half.held, offset, key=_offset)
        after = half.held[at] if at < len(half.held) else None
        if after is not None and time - after.time > _REORDER_NS:
            return [(offset, end)]
        return half.waiting(offset, end)

    # --- delivery ---

    def release(self, limits: Limits, time: int, packet_ref: int, arrival: int, force: bool = False) -> None:
        """Deliver what may be delivered."""
        moved = True
        while moved:
            moved = False
            for half, other in (self.halves, self.halves[::-1]):
                while half.held and self._step(half, other, limits, time, packet_ref, arrival, False):
                    moved = True
                if 0 <= half.fin <= half.next and not half.finished:
                    half.finished = moved = True
                    if self.finished and self.closed_at is None:
                        self.closed_at = time
                half.expect = (half.base + half.next + half.finished) & MASK
            if force and not moved:
                moved = self._force(limits, time, packet_ref, arrival)

    def _force(self, limits: Limits, time: int, packet_ref: int, arrival: int) -> bool:
        """Give up one thing, so that the rest keeps its order: a hole rather than a wait, else what came first."""
        waiting = [pair for pair in (self.halves, self.halves[::-1]) if pair[0].held]
        if not waiting:
            return False
        half, other = min(waiting, key=lambda p: (p[0].held[0].offset <= p[0].next, p[0].held[0].arrival))
        return self._step(half, other, limits, time, packet_ref, arrival, True)

    def _order(self, arrival: int) -> int:
        self._delivered = min(self._delivered + 1, (1 << ORDER_SHIFT) - 1)
        return arrival << ORDER_SHIFT | self._delivered

    def _step(
        self, half: Half, other: Half, limits: Limits, time: int, packet_ref: int, arrival: int, force: bool
    ) -> bool:
        """Deliver or give up one thing at the head of a direction; False where it has to wait."""
        segment = half.held[0]
        if segment.offset > half.next:
            patience = 1 if half.acked > half.next else UNACKED_GRACE
            crowded = half.held_bytes > limits.reorder_bytes or len(half.held) > limits.reorder_packets
            if not force and not crowded:
                half.hole_since, over = self._outlasted(half.hole_since, patience, limits, time)
                if not over:
                    return False
            reason = "limit" if crowded else "not captured"
            half.hole_since = None
            half.skip(segment.offset - half.next, reason, self._order(arrival), segment.packet_ref, segment.time)
            return True
        ack = segment.ack
        if ack <= UNPLACED:
            ack = self._acknowledge(other, UNPLACED - ack) if other.started else _FAR
        if ack > other.next and ack > other.ack_waived_to:
            if not force:
                if other.held and other.held[0].offset > other.next:
                    return False  # a hole: it will be given up in its own time
                other.ack_wait_since, over = self._outlasted(other.ack_wait_since, 1, limits, time)
                if not over:
                    return False
            other.ack_waived_to = ack
        other.ack_wait_since = None
        half.hole_since = None
        half.held.pop(0)
        half.held_bytes -= len(segment.data)
        start = half.next - segment.offset
        if start:
            half.compare(segment.offset, segment.data[:start], segment.packet_ref, segment.time)
        if start >= segment.size:
            return True  # wholly covered by one that came earlier
        data = segment.data[start:] if start else segment.data
        missing = segment.size - max(start, len(segment.data))
        if data:
            half.deliver(data, self._order(arrival), segment.packet_ref, segment.time)
        if missing:
            half.skip(missing, "snaplen", self._order(arrival), segment.packet_ref, segment.time)
        return True

    def _outlasted(
        self, since: tuple[int, int] | None, patience: int, limits: Limits, time: int
    ) -> tuple[tuple[int, int], bool]:
        since = since or (self.packets, time)
        over = (
            self.packets - since[0] >= limits.grace_packets * patience or time - since[1] >= limits.grace_ns * patience
        )
        return since, over

    def finish(self, limits: Limits) -> None:
        """No packet will come: give up what is missing and deliver the rest."""
        if self.finished and not self.halves[0].held and not self.halves[1].held:
            return
        self.release(limits, self.last_time, self.last_packet_ref, self.last_arrival + 1, force=True)
        for half in self.halves:
            missing = max(half.fin, half.acked) - half.next
            if missing == 1 and half.fin < 0 and half.only_started:
                half.keep_alives += 1  # its first packet was one, of a byte that was sent before
            elif half.started and missing > 0:  # the last bytes: nothing came behind them but a FIN or acknowledgements
                order = self._order(self.last_arrival + 1)
                half.skip(missing, "not captured", order, self.last_packet_ref, self.last_time)
        self.release(limits, self.last_time, self.last_packet_ref, self.last_arrival + 1)

    @property
    def has_news(self) -> bool:
        """Whether something was delivered or sent again since `take`, or waits for delivery."""
        a, b = self.halves
        return a.has_news or b.has_news

    def take(self) -> tuple[Events, Events]:
        """What was delivered since the last call, per direction."""
        a, b = self.halves
        return a.take(), b.take()
