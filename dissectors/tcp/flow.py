"""One connection: its two directions, and what is counted of both."""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.tcp.chunk import Chunk, Gap
from dissectors.tcp.half import Half
from dissectors.tcp.numbers import ACK, BOTH, MASK, SIGN, SYN

Events = list[Chunk | Gap]
Ends = tuple[int, int, int, int, int, int]
"""Address hi, lo and port of endpoint a, then of b."""


@final
@carried
@compiled
class Flow:
    """Both directions between endpoints a and b; direction 0 is a to b."""

    ends: tuple[int, int, int, int, int, int]
    incarnation: int
    reassembler: Any
    halves: tuple[Half, Half]
    opener: int | None = None  # direction of the SYN
    packets: cython.longlong = 0
    first_time: cython.longlong = 0
    last_time: cython.longlong = 0
    before_ns: cython.longlong = 0  # time of the last packet before the one at hand
    first_packet_ref: cython.longlong = 0
    last_packet_ref: cython.longlong = 0
    last_arrival: cython.longlong = 0
    via: cython.longlong = 0
    reset: cython.bint = False
    closed_at: int | None = None
    syn_time: int | None = None
    syn_ack_time: int | None = None
    ack_time: int | None = None
    session: Any = None
    packable: cython.bint  # it holds plain values only, as far as is known
    touched: cython.bint = False
    given_up: cython.bint = False  # closed early: too many were open at once
    delivered: cython.longlong = 0  # at the last packet
    closer: cython.longlong  # direction of the first FIN or RST; BOTH where each sent a FIN before it saw the other's
    stream: cython.longlong
    segment: cython.longlong
    segments: tuple[int, ...]  # of all its packets, where its ends are seen in several

    def __init__(self, ends: Ends, incarnation: int, reassembler: Any, stream: int = 0, segment: int = 0) -> None:
        """reassembler: the Reassembler that all connections of a tracker share.

        stream: which of several connections between these ends at a time; segment: VLAN or VNI of its first packet.
        """
        self.ends = ends
        self.incarnation = incarnation
        self.reassembler = reassembler
        self.stream = stream
        self.segment = segment
        self.segments = ()
        self.halves = (Half(0), Half(1))
        self.packable = True
        self.closer = -1

    @property
    def target_ports(self) -> tuple[int, int]:
        """The ports that directions 0 and 1 send to."""
        return self.ends[5], self.ends[2]

    @property
    def finished(self) -> bool:
        """Both directions ended with FIN and all their bytes were delivered."""
        return self.halves[0].finished and self.halves[1].finished

    @property
    def has_news(self) -> bool:
        """Whether something was delivered or sent again since `take`, or waits for delivery."""
        a, b = self.halves
        return a.has_news or b.has_news

    @compiled
    def begins_anew(
        self,
        half: Half,
        other: Half,
        flags: cython.longlong,
        seq: cython.longlong,
        ack: cython.longlong,
        time: cython.longlong,
        linger_ns: cython.longlong,
    ) -> cython.bint:
        """Whether a packet of a direction belongs to another connection between the same endpoints.

        A SYN-ACK does not that answers this connection's SYN with another number: at most one of two is acknowledged.
        """
        if self.closed_at is not None and time - self.closed_at > linger_ns:
            return True
        if not flags & SYN:
            return False
        if not half.started:
            return not flags & ACK and self.closed_at is not None
        return (seq + 1) & MASK != half.base and not (flags & ACK and other.syn and ack == other.base)

    @compiled
    def note_fin(self, half: Half, other: Half, ack: cython.longlong) -> cython.int:
        """Note that a direction sent its first FIN; ack: the number that it acknowledges."""
        if self.closer < 0:
            self.closer = half.direction
        elif self.closer == other.direction and other.fin >= 0 and (ack - other.base - other.fin - 1) & SIGN:
            self.closer = BOTH
        return 0

    @compiled
    def see(self, time: cython.longlong, packet_ref: cython.longlong, arrival: cython.longlong) -> cython.int:
        """Count a packet."""
        if not self.packets:
            self.first_time = self.last_time = time
            self.first_packet_ref = packet_ref
        self.packets += 1
        self.before_ns = self.last_time
        if time > self.last_time:
            self.last_time = time
        self.last_packet_ref = packet_ref
        self.last_arrival = arrival
        self.delivered = 0
        return 0

    def finish(self) -> None:
        """No packet will come: give up what is missing and deliver the rest."""
        self.reassembler.finish(self)

    def take(self) -> tuple[Events, Events]:
        """What was delivered since the last call, per direction."""
        a, b = self.halves
        return a.take(), b.take()
