"""One direction of a connection: what was delivered, what waits behind a hole, what was sent twice."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.tcp.chunk import Chunk, Gap, Resent
from dissectors.tcp.numbers import MASK, SIGN, SIGNATURES, UNKNOWN_ORDER
from dissectors.tcp.stalls import Stalls

_NONE: list[Any] = []  # most halves hold nothing most of the time; never added to


class HeldSegment(NamedTuple):
    """Bytes that wait for delivery. Sorted by offset, then by arrival."""

    offset: int  # stream offset of the first byte
    arrival: int  # number of the packet among all that the tracker saw
    size: int  # on the wire
    data: bytes  # captured: shorter than size where the capture cut the packet
    ack: int  # stream offset of the other direction that it acknowledges; -1 none; UNPLACED - number before it began
    packet_ref: int
    time: int


class Conflict(NamedTuple):
    """Two versions of the same stream bytes, which differ."""

    offset: int
    length: int  # of the stretch from the first to the last differing byte
    differing: int
    first_packet_ref: int
    packet_ref: int
    time: int


@compiled
def _apart(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """Distance of two sequence numbers."""
    return min((a - b) & MASK, (b - a) & MASK)


@final
@carried
@compiled
class Half:
    """State of one direction. Offsets count stream bytes from 0, the first one after SYN or the first one seen."""

    direction: cython.int  # 0 or 1
    started: cython.bint = False
    syn: cython.bint = False
    base: cython.longlong = 0  # sequence number of offset 0
    next: cython.longlong = 0  # offset of the next byte to deliver
    expect: cython.longlong = 0  # sequence number that the next packet carries when nothing is missing
    top: cython.longlong = 0  # offset after the highest byte seen
    held: list[HeldSegment]
    held_bytes: cython.longlong = 0
    acked: cython.longlong = 0  # highest offset that the peer acknowledged
    ack_waived_to: cython.longlong = 0  # acknowledgements up to here no longer hold back the peer's bytes
    fin: cython.longlong  # offset of the FIN
    finished: cython.bint = False  # everything up to the FIN was delivered
    hole_since: tuple[int, int] | None = None  # (packets of the connection, time) since when there is a hole
    ack_wait_since: tuple[int, int] | None = None  # … since when the peer acknowledges bytes that nobody saw
    control_ns: cython.longlong = 0  # when the last SYN or FIN came
    strays: cython.longlong = 0  # packets in a row that are not of this connection
    signatures: Annotated[list[int], "long long[16]"]  # of the last packets: that of packet n at n % SIGNATURES
    noted: cython.longlong = 0  # packets whose signatures were noted
    recent: list[Any]  # what was delivered last: recent.Runs
    out: list[Chunk | Gap]
    resent: list[Resent]
    conflicts: list[Conflict]
    more_conflicts: cython.longlong = 0  # that are not kept
    fin_order: cython.longlong  # order of a delivery with the packet that brought the FIN
    fin_ns: cython.longlong = 0  # when that came
    rst_order: cython.longlong  # … of the first RST
    again_to: cython.longlong = 0  # offset after the highest byte that was sent more than once
    packets: cython.longlong = 0
    bytes: cython.longlong = 0
    retransmissions: cython.longlong = 0
    retransmitted_bytes: cython.longlong = 0
    duplicates: cython.longlong = 0
    out_of_order: cython.longlong = 0
    gaps: cython.longlong = 0
    gap_bytes: cython.longlong = 0
    cut_bytes: cython.longlong = 0  # of packets that the capture cut
    zero_windows: cython.longlong = 0
    keep_alives: cython.longlong = 0
    rival: cython.longlong  # where the stream begins by another SYN-ACK, while it is open which one the peer takes
    stalls: Stalls
    doubted: list[Any]  # segments that were sent again, perhaps needlessly: spurious.Doubted
    spurious: cython.longlong = 0  # those of which this is certain

    def __init__(self, direction: int) -> None:
        self.direction = direction
        self.held = _NONE
        self.fin = -1
        if not cython.compiled:
            self.signatures = [0] * SIGNATURES
        self.recent = _NONE
        self.out = _NONE
        self.resent = _NONE
        self.conflicts = _NONE
        self.fin_order = UNKNOWN_ORDER
        self.rst_order = UNKNOWN_ORDER
        self.rival = -1
        self.stalls = Stalls()
        self.doubted = _NONE

    @compiled
    def start(self, seq: cython.longlong, syn: cython.bint) -> cython.int:
        """Begin the stream: `seq` is the sequence number of offset 0."""
        self.started = True
        self.syn = syn
        self.base = self.expect = seq & MASK
        self.ack_waived_to = 0
        return 0

    @compiled
    def settle(self, number: cython.longlong) -> cython.int:
        """Decide between two SYN-ACKs: by the sequence number of a later packet, or one that the peer acknowledges."""
        if not self.next and not self.held and _apart(number, self.rival) < _apart(number, self.base):
            self.start(self.rival, True)
            self.acked = self.top = 0
        self.rival = -1
        return 0

    @property
    def only_started(self) -> bool:
        """Whether nothing is known of it but a sequence number, which may be that of a keep-alive."""
        return not (self.syn or self.next or self.held)

    @compiled
    def offset(self, seq: cython.longlong) -> cython.longlong:
        """Stream offset of a sequence number: the one nearest to what is expected."""
        distance: cython.longlong = (seq - self.base - self.next) & MASK
        if distance & SIGN:
            distance -= MASK + 1
        return self.next + distance

    @property
    def undelivered(self) -> int:
        """Bytes that were sent and that the peer has not acknowledged."""
        return max(0, self.top - self.acked) if self.started else 0

    @property
    def has_news(self) -> bool:
        """Whether something was delivered or sent again and not taken, or waits for delivery."""
        return bool(self.out or self.held or self.resent)

    @compiled
    def sign(self, signature: cython.longlong) -> cython.int:
        """Remember a packet, to know it again."""
        self.signatures[self.noted & (SIGNATURES - 1)] = signature
        self.noted += 1
        return 0

    @compiled
    def was_last(self, signature: cython.longlong) -> cython.bint:
        """Whether the last packet was this one."""
        return self.noted > 0 and self.signatures[(self.noted - 1) & (SIGNATURES - 1)] == signature

    @compiled
    def knows(self, signature: cython.longlong) -> cython.bint:
        """Whether one of the last packets was this one."""
        i: cython.Py_ssize_t
        for i in range(min(self.noted, SIGNATURES)):  # noqa: SIM110
            if self.signatures[i] == signature:
                return True
        return False

    def put(self, event: Chunk | Gap) -> None:
        """Hand on a chunk or a hole."""
        if not self.out:
            self.out = []
        self.out.append(event)

    def take(self) -> list[Chunk | Gap]:
        """What was delivered since the last call."""
        out = self.out
        self.out = _NONE
        return out
