"""One direction of a connection: what was delivered, what waits behind a hole, what was sent twice."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from dissectors.tcp.chunk import Chunk, Gap, Resent, Segments, Span
from dissectors.tcp.recent import RECENT_NS, History, Runs

MASK = 0xFFFFFFFF
_SIGN = 0x80000000
RECENT_BYTES = 16 * 1024  # delivered bytes kept to compare retransmissions with: more than an initial window
RECENT_PACKETS = 16  # packets in which a copy of a packet is looked for
UNPLACED = -2  # less an acknowledgement number whose direction has not begun: its stream offset is not known yet
CONFLICTS = 1000  # of a direction that are kept, each to be a finding
_NEARBY = 64  # segments before a late one in which its bytes are looked for
COPY_NS = 100_000_000  # what has no IP id is sent again later than this, and captured twice sooner
NAMED = 1  # set in the signature of a packet with data that has an IP id
_offset = attrgetter("offset")
_NONE: list[Any] = []  # most halves hold nothing most of the time; never added to
_NO_SIGNATURES = array("q")  # the same
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor


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
    """The same stream bytes were seen twice and differ."""

    offset: int
    length: int  # of the stretch from the first to the last differing byte
    differing: int
    first_packet_ref: int
    packet_ref: int
    time: int


class Half:
    """State of one direction. Offsets count stream bytes from 0, the first one after SYN or the first one seen."""

    __slots__ = (
        "started",
        "syn",
        "base",
        "next",
        "expect",
        "top",
        "held",
        "held_bytes",
        "acked",
        "ack_waived_to",
        "fin",
        "finished",
        "hole_since",
        "ack_wait_since",
        "control_ns",
        "strays",
        "signatures",
        "recent",
        "out",
        "resent",
        "conflicts",
        "more_conflicts",
        "packets",
        "bytes",
        "retransmissions",
        "retransmitted_bytes",
        "duplicates",
        "out_of_order",
        "gaps",
        "gap_bytes",
        "zero_windows",
        "keep_alives",
        "_pieces",
        "_history",
    )

    def __init__(self, history: History) -> None:
        self.started = False
        self.syn = False
        self.base = 0  # sequence number of offset 0
        self.next = 0  # offset of the next byte to deliver
        self.expect = 0  # sequence number that the next packet carries when nothing is missing
        self.top = 0  # offset after the highest byte seen
        self.held: list[HeldSegment] = _NONE
        self.held_bytes = 0
        self.acked = 0  # highest offset that the peer acknowledged
        self.ack_waived_to = 0  # acknowledgements up to here no longer hold back the peer's bytes
        self.fin = -1  # offset of the FIN
        self.finished = False  # everything up to the FIN was delivered
        self.hole_since: tuple[int, int] | None = (
            None  # (packets of the connection, time) since when a hole is acknowledged
        )
        self.ack_wait_since: tuple[int, int] | None = (
            None  # the same for bytes that the peer acknowledges and nobody saw
        )
        self.control_ns = 0  # when the last SYN or FIN came
        self.strays = 0  # packets in a row that are not of this connection
        self.signatures = _NO_SIGNATURES  # of the last packets
        self.recent: Runs = _NONE
        self.out: list[Chunk | Span | Gap] = _NONE
        self.resent: Sequence[Resent] = ()
        self.conflicts: Sequence[Conflict] = ()
        self.more_conflicts = 0  # that are not kept
        self.packets = 0
        self.bytes = 0
        self.retransmissions = 0
        self.retransmitted_bytes = 0
        self.duplicates = 0
        self.out_of_order = 0
        self.gaps = 0
        self.gap_bytes = 0
        self.zero_windows = 0
        self.keep_alives = 0
        self._pieces: list[tuple[int, int, int, int, bytes]] = _NONE  # offset, order, packet, time, bytes
        self._history = history

    def start(self, seq: int, *, syn: bool) -> None:
        """Sequence numbers begin: `seq` is that of stream offset 0."""
        self.started = True
        self.syn = syn
        self.base = self.expect = seq & MASK
        self.ack_waived_to = 0

    def open(self, seq: int, signature: int, time: int) -> None:
        """Take the SYN, after which sequence numbers begin."""
        self.start(seq, syn=True)
        self.control_ns = time
        self.packets = 1
        self.signatures = array("q", (signature,))

    @property
    def only_started(self) -> bool:
        """Whether nothing is known of it but a sequence number, which may be that of a keep-alive."""
        return not (self.syn or self.next or self.held)

    def offset(self, seq: int) -> int:
        """Stream offset of a sequence number: the one nearest to what is expected."""
        distance = (seq - self.base - self.next) & MASK
        return self.next + (distance - (MASK + 1) if distance & _SIGN else distance)

    @property
    def has_news(self) -> bool:
        """Whether something was delivered or sent again and not taken, or waits for delivery."""
        return bool(self.out or self._pieces or self.held or self.resent)

    def sign(self, signatures: Iterable[int]) -> None:
        """Remember packets, to know them again."""
        known = self.signatures
        if not known:
            known = self.signatures = array("q")
        known.extend(signatures)
        if len(known) > 2 * RECENT_PACKETS:
            self.shorten()

    def shorten(self) -> None:
        """Forget packets that are known no more."""
        del self.signatures[:-RECENT_PACKETS]

    def knows(self, signature: int) -> bool:
        """Whether one of the last packets was this one."""
        return signature in self.signatures[-RECENT_PACKETS:]

    def came_since(self, offset: int, time: int) -> bool:
        """Whether a byte that was seen came at `time` or later; true of those that later ones have made forgotten."""
        held = next((s for s in self.held if s.offset <= offset < s.offset + s.size), None)
        if held is not None:
            return held.time >= time
        if not self.next - RECENT_BYTES <= offset < self.next:
            return True
        self.flush()
        at = bisect_right(self.recent, offset, key=_offset) - 1
        if at < 0:
            return False  # it came longer ago than anything is remembered
        chunk = self._history.look(self.recent, at)
        return chunk.times[bisect_right(chunk.starts, offset) - 1] >= time

    def hold(self, segment: HeldSegment) -> None:
        if self.held:
            insort(self.held, segment)
        else:
            self.held = [segment]
        self.held_bytes += len(segment.data)

    def deliver(self, data: bytes, order: int, packet_ref: int, time: int) -> None:
        """The next bytes of the stream."""
        if not self._pieces:
            self._pieces = []
        self._pieces.append((self.next, order, packet_ref, time, data))
        self.next += len(data)
        self.bytes += len(data)

    def waiting(self, start: int, end: int) -> list[tuple[int, int]]:
        """The stretches of [start, end) that wait for delivery."""
        first = max(0, bisect_left(self.held, start, key=_offset) - _NEARBY)
        found, at = [], start
        for i in range(first, len(self.held)):
            held = self.held[i]
            if held.offset >= end:
                break
            begin, stop = max(at, held.offset), min(end, held.offset + held.size)
            if begin < stop:
                found.append((begin, stop))
                at = stop
        return found

    def repeat(self, stretches: Iterable[tuple[int, int]], order: int) -> None:
        """A segment came with bytes that were sent before."""
        self.retransmissions += 1
        if not isinstance(self.resent, list):
            self.resent = []
        for start, end in stretches:
            self.retransmitted_bytes += end - start
            self.resent.append(Resent(start, end, order))

    def follow(self, packets: int, signatures: Iterable[int], expect: int) -> None:
        """Packets came that follow on exactly; what they carry is added apart."""
        self.packets += packets
        self.expect = expect
        self.sign(signatures)

    def add(self, data: memoryview, segments: Segments, first: int, last: int) -> None:
        """The next bytes of the stream: segments [first, last)."""
        if self._pieces:
            self.flush()
        offset, size = self.next, len(data)
        self._put(_new(Span, (offset, data, segments, first, last)))
        self.next = offset + size
        self.bytes += size
        if self.next > self.top:
            self.top = self.next
        if size > 2 * RECENT_BYTES:
            offset, data, first = _end_of(offset, data, segments, first)
        self.remember(_new(Span, (offset, data, segments, first, last)))

    def take(self) -> list[Chunk | Span | Gap]:
        """What was delivered since the last call."""
        if self._pieces:
            self.flush()
        out = self.out
        self.out = _NONE
        return out

    def _put(self, event: Chunk | Span | Gap) -> None:
        if not self.out:
            self.out = []
        self.out.append(event)

    def skip(self, length: int, reason: str, order: int, packet_ref: int, time: int) -> None:
        """The next bytes of the stream will never come."""
        self.flush()
        self._put(Gap(self.next, length, reason, order, packet_ref, time))
        self.next += length
        self.gaps += 1
        self.gap_bytes += length

    def flush(self) -> None:
        """Make a chunk of what was delivered since the last one."""
        if self._pieces:
            starts, orders, packet_refs, times, data = zip(*self._pieces, strict=True)
            whole = data[0] if len(data) == 1 else b"".join(data)
            chunk = Chunk(starts[0], whole, list(starts), list(orders), list(packet_refs), list(times))
            self._put(chunk)
            self.remember(chunk if len(whole) <= 2 * RECENT_BYTES else _chunk_end(chunk))
            self._pieces = _NONE

    def remember(self, run: Chunk | Span) -> None:
        """Keep the end of what was delivered, to compare retransmissions with it."""
        recent = self.recent
        if not recent:
            recent = self.recent = []
        recent.append(run)
        if len(recent) > 1:
            needed = self.next - RECENT_BYTES  # the stream from here on
            while len(recent) > 1 and recent[1].offset <= needed:
                self._history.drop(recent.pop(0))
        self._history.keep(recent)

    def compare(self, offset: int, data: bytes, packet_ref: int, time: int) -> None:
        """Note where bytes sent again differ from those delivered before.

        Compared is with the last RECENT_BYTES of the direction that came within RECENT_NS: so the answer depends on
        this connection and its own time only.
        """
        self.flush()
        first = max(0, bisect_right(self.recent, offset, key=_offset) - 1)
        for i in range(first, len(self.recent)):
            if self.recent[i].offset >= offset + len(data):
                return
            chunk = self._history.look(self.recent, i)
            known = chunk.offset + len(chunk.data)
            starts = chunk.starts
            for at in range(max(0, bisect_right(starts, offset) - 1), bisect_left(starts, offset + len(data))):
                begin = max(offset, starts[at], self.next - RECENT_BYTES)
                end = min(offset + len(data), starts[at + 1] if at + 1 < len(starts) else known)
                if begin >= end or time - chunk.times[at] > RECENT_NS:
                    continue
                old = chunk.data[begin - chunk.offset : end - chunk.offset]
                new = data[begin - offset : end - offset]
                if old != new:
                    differ = [i for i, (x, y) in enumerate(zip(old, new, strict=True)) if x != y]
                    length, ref = differ[-1] - differ[0] + 1, chunk.packet_refs[at]
                    self._conflict(Conflict(begin + differ[0], length, len(differ), ref, packet_ref, time))

    def _conflict(self, conflict: Conflict) -> None:
        if len(self.conflicts) >= CONFLICTS:
            self.more_conflicts += 1
            return
        if not isinstance(self.conflicts, list):
            self.conflicts = []
        self.conflicts.append(conflict)


def _end_of(offset: int, data: memoryview, segments: Segments, first: int) -> tuple[int, memoryview, int]:
    """The last segments of a span, with RECENT_BYTES or somewhat more."""
    begin = int(segments.at[first])
    last = int(segments.at.searchsorted(begin + len(data) - RECENT_BYTES, "right")) - 1
    start = int(segments.at[last]) - begin
    return offset + start, data[start:], last


def _chunk_end(chunk: Chunk) -> Chunk:
    """The last pieces of a chunk, with RECENT_BYTES or somewhat more."""
    first = bisect_right(chunk.starts, chunk.offset + len(chunk.data) - RECENT_BYTES) - 1
    offset, lists = chunk.starts[first], (column[first:] for column in chunk[2:])
    return Chunk(offset, chunk.data[offset - chunk.offset :], *lists)
