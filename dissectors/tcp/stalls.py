"""Times in which one direction of a connection made no progress, although more bytes were to come, and why.

    resend_timeout   its last bytes were lost, and its sender waited for its timer to send them again
    fast_retransmit  bytes were lost, and three duplicate acknowledgements (or a loss probe) told its sender so
    zero_window      the receiver announced a window of zero, and bytes came as soon as it opened again
    delayed_ack      a small piece waited for the acknowledgement of the one before (Nagle), which its receiver delayed
    undelivered      bytes were sent again and never acknowledged, to the end of the connection or of the capture

Each begins with the last new bytes of the direction, or where later bytes show that some are missing, or where the
window closes; and ends with the bytes that were waited for. Those of one direction do not overlap, but for
`undelivered`, which begins when its bytes were sent first and holds the resends that were in vain. A stall is noted
only where the packets show its cause: a sender that has nothing to say is none.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.tcp.numbers import DUPLICATE_ACKS, FULL, LATE_ACK_NS, LATEST_ACK_NS, SHORTEST_STALL_NS, TIMER_NS

RESEND_TIMEOUT, FAST_RETRANSMIT = "resend_timeout", "fast_retransmit"
ZERO_WINDOW, DELAYED_ACK, UNDELIVERED = "zero_window", "delayed_ack", "undelivered"
MOST = 100_000  # stalls of a direction that are noted in its whole life
_NONE: list[Any] = []  # most directions note nothing; never added to


class HeldBack(NamedTuple):
    """A time in which a direction made no progress."""

    kind: str
    start: int  # ns since the epoch
    end: int
    offset: int  # stream offset of the bytes that were waited for
    packet_ref: int  # the packet that ended it; where none did, the first that sent the bytes again
    size: int | None = None  # payload of the segment that was waited for, sent again
    largest_delivered: int | None = None  # largest payload of a segment of the direction that was acknowledged by then
    idle_ns: int | None = None  # how long both sides were silent before the bytes were sent that were in flight
    spurious: bool | None = None  # whether the other side had the bytes that were sent again; None where not known


@final
@carried
@compiled
class Stalls:
    """What is kept of one direction to tell its stalls. Times are ns since the epoch, 0 for none."""

    advanced_ns: cython.longlong = 0  # when bytes came last that were new
    late_ack_ns: cython.longlong = 0  # when a late acknowledgement of all bytes came, if no bytes have come since
    duplicate_acks: cython.longlong = 0  # in a row
    duplicate_ack_ns: cython.longlong = 0  # the last of them
    window: cython.longlong  # that the receiver announced last
    closed_ns: cython.longlong = 0  # since when it announces a window of zero
    opened_ns: cython.longlong = 0  # when it stopped to, if no bytes have come since
    until_ns: cython.longlong = 0  # end of the last stall
    count: cython.longlong = 0  # stalls so far
    noted: list[HeldBack]  # since `take`
    flight_ns: cython.longlong = 0  # when the first byte in flight was sent, since all before were acknowledged
    flight_offset: cython.longlong = 0  # its stream offset
    idle_ns: cython.longlong = 0  # silence of both sides before it
    largest_sent: cython.longlong = 0  # payload of a segment, since all bytes were acknowledged last
    largest_delivered: cython.longlong = 0  # … that was acknowledged
    vain: HeldBack | None = None  # the first bytes that were sent again and have not been acknowledged

    def __init__(self) -> None:
        self.window = -1
        self.noted = _NONE

    @compiled
    def see_window(self, window: cython.longlong, time: cython.longlong) -> cython.int:
        """Take a window of zero, or any window while the one before was zero."""
        if window:
            if not self.opened_ns:
                self.opened_ns = time
        else:
            self.opened_ns = 0
            if not self.closed_ns:
                self.closed_ns = time
        return 0

    @compiled
    def see_ack(self, is_new: cython.bint, is_all: cython.bint, time: cython.longlong) -> cython.int:
        """Take an acknowledgement without data: of more bytes than before, or a duplicate while bytes are in flight.

        is_all: whether no byte that came is left without acknowledgement.
        """
        if not is_new:
            self.duplicate_acks += 1
            self.duplicate_ack_ns = time
        elif is_all and self.advanced_ns > self.until_ns and LATE_ACK_NS <= time - self.advanced_ns <= LATEST_ACK_NS:
            self.late_ack_ns = time
        return 0

    def resume(self, time: int, soon_ns: int, trip_ns: int, offset: int, size: int, packet_ref: int) -> None:
        """New bytes come behind a late acknowledgement, or since a window opened.

        soon_ns: how long after either they come at most, if they waited for it.
        trip_ns: how long an acknowledgement takes that nobody delays, from the capture point to its sender and back.
        size: bytes of the segment. A sender holds none that is full for an acknowledgement, but for a window.
        """
        if self.opened_ns:
            if time - self.opened_ns <= soon_ns:
                self.put(self._found(ZERO_WINDOW, self.closed_ns, time, offset, packet_ref))
            self.closed_ns = self.opened_ns = 0
        elif (
            time - self.late_ack_ns <= soon_ns
            and self.late_ack_ns - self.advanced_ns - trip_ns >= LATE_ACK_NS
            and size < max(FULL, self.largest_delivered)
        ):
            self.put(self._found(DELAYED_ACK, self.advanced_ns, time, offset, packet_ref))
        self.late_ack_ns = 0

    @compiled
    def depart(self, idle_ns: cython.longlong, time: cython.longlong, offset: cython.longlong) -> cython.int:
        """New bytes are sent while none are in flight. idle_ns: silence of both sides before them."""
        self.flight_ns, self.flight_offset, self.idle_ns = time, offset, idle_ns
        return 0

    @compiled
    def arrive(self) -> cython.int:
        """All bytes are acknowledged."""
        if self.largest_sent > self.largest_delivered:
            self.largest_delivered = self.largest_sent
        self.largest_sent = 0
        return 0

    def repeat(self, missing_ns: int, time: int, offset: int, end: int, acked: int, packet_ref: int) -> HeldBack | None:
        """The bytes [offset, end) come again, and only those before `acked` are acknowledged.

        Returns the stall that this ends, if any, which whoever knows whether it was spurious notes by `put`.
        missing_ns: since when later bytes show that they are missing; 0 where they were captured before.
        """
        if self.vain is None or self.vain.offset < acked:
            sent_ns = self.flight_ns if self.flight_offset >= acked else self.advanced_ns
            self.vain = HeldBack(UNDELIVERED, sent_ns, time, offset, packet_ref, end - offset, None, self.idle_ns)
        start = max(missing_ns or self.advanced_ns, self.until_ns)
        told = self.duplicate_ack_ns if self.duplicate_acks >= DUPLICATE_ACKS else 0
        kind = RESEND_TIMEOUT if time - max(start, told) >= TIMER_NS else FAST_RETRANSMIT
        self.duplicate_acks = 0
        found = self._found(kind, start, time, offset, packet_ref)
        if found is None:
            return None
        return found._replace(size=end - offset, largest_delivered=self.largest_delivered or None, idle_ns=self.idle_ns)

    def end(self, acked: int, time: int) -> None:
        """No packet will come, and bytes before `acked` were acknowledged: note those that were sent again in vain.

        What was sent again just before the end may still have arrived.
        """
        vain, self.vain = self.vain, None
        if vain is None or acked > vain.offset or time - vain.end < TIMER_NS or not vain.start:
            return
        self.put(vain._replace(end=time, largest_delivered=self.largest_delivered or None))

    def put(self, held: HeldBack | None) -> None:
        """Note a stall."""
        if held is not None:
            if not self.noted:
                self.noted = []
            self.noted.append(held)

    def take(self) -> list[HeldBack]:
        """What was noted since the last call."""
        noted = self.noted
        self.noted = _NONE
        return noted

    def _found(self, kind: str, start: int, end: int, offset: int, packet_ref: int) -> HeldBack | None:
        """What ends at `end`; None where it is too short, or one too many."""
        start = max(start, self.until_ns)
        self.until_ns = max(self.until_ns, end)
        if not start or end - start < SHORTEST_STALL_NS:
            return None
        self.count += 1
        return HeldBack(kind, start, end, offset, packet_ref) if self.count <= MOST else None
