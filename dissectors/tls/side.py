"""One direction of a TLS connection: its records, what protects them now, and the plaintext that came of them.

Provenance. AEAD ciphers keep the length, so each plaintext byte lies where its ciphertext byte lay: it has the packet
and time of that byte, the first byte of a record those of the record's first byte, the last those of the record's last
(nobody could read it before the tag was there). The order of all is that of the record's last byte: the record became
complete then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from dissectors.tcp.chunk import Chunk, Gap, Resent, joined
from dissectors.tls.record import Pieces, Record, RecordReader
from dissectors.tls.schedule import PLAIN, Epoch

MAX_MESSAGE = 1 << 18  # bytes of a handshake message: certificate chains take some ten kilobytes
HISTORY = 256  # records whose place in the plaintext is remembered for retransmissions

_HEADER = 4  # of a handshake message: its type, and 3 bytes of length


class Opened(NamedTuple):
    """Where a record lay, and where its plaintext lies; stream offsets."""

    start: int
    end: int
    plain_start: int
    plain_end: int


class TlsSide:
    """Filled by TlsLayer, which alone decides when keys change."""

    def __init__(self) -> None:
        self.reader = RecordReader()
        self.epoch = Epoch(PLAIN)
        self.sequence = 0
        self.lost_at = -1  # stream offset from which on records are lost
        self.gap: Gap | None = None  # the hole that lost them
        self.opened = False  # a record has been opened
        self.failures = 0
        self.dead = False  # nothing more will be read from this direction
        self.messages: bytearray | None = bytearray()  # handshake bytes not parsed; None once some were lost
        self._offset = 0  # plaintext bytes so far, holes included
        self._history: deque[Opened] = deque(maxlen=HISTORY)
        self._resent: list[Resent] = []  # a heap: of bytes not decrypted yet
        self._out: list[Chunk | Gap | Resent] = []

    @property
    def held(self) -> int:
        """Bytes kept for records and handshake messages that are not whole yet."""
        return self.reader.held + len(self.messages or b"")

    def enter(self, epoch: Epoch) -> None:
        """From the next record on, these keys are in force."""
        self.epoch, self.sequence = epoch, 0
        self.messages = bytearray()

    def kill(self) -> None:
        """No plaintext from here on."""
        self.dead = True
        self.messages = None
        self.reader = RecordReader()
        self._resent.clear()

    def handshake(self, fragment: bytes) -> Iterator[tuple[int, bytes]]:
        """Take handshake bytes: type and body of each message that is whole now."""
        if self.messages is None:
            return
        self.messages += fragment
        while self.messages is not None and len(self.messages) >= _HEADER:
            size = _HEADER + int.from_bytes(self.messages[1:_HEADER], "big")
            if size > MAX_MESSAGE:
                self.messages = None
                return
            if len(self.messages) < size:
                return
            kind, body = self.messages[0], bytes(self.messages[_HEADER:size])
            del self.messages[:size]
            yield kind, body

    def emit(self, record: Record, plain: bytes, pieces: Pieces, first: int) -> None:
        """Plaintext with the marks of its ciphertext. first: where in the record that begins."""
        begin, end = self._offset, self._offset + len(plain)
        shift = begin - (record.offset + first)
        order = pieces.orders[-1]
        starts, packet_refs, times = [begin], [pieces.packet_refs[0]], [pieces.times[0]]
        last = end - 1
        for start, packet_ref, time in zip(pieces.starts[1:], pieces.packet_refs[1:], pieces.times[1:], strict=True):
            at = min(max(start + shift, begin + 1), last)
            if at > starts[-1]:
                starts.append(at)
                packet_refs.append(packet_ref)
                times.append(time)
            elif at > begin:  # a second segment within the header, or within the tag
                packet_refs[-1], times[-1] = packet_ref, time
        self._out.append(Chunk.of(begin, plain, starts, [order] * len(starts), packet_refs, times))
        self._offset = end
        self._history.append(Opened(record.offset, record.end, begin, end))
        beyond = []
        while self._resent and self._resent[0].start < record.end:
            resent = heappop(self._resent)
            if resent.end > record.offset:
                self._out.append(Resent(begin, end, resent.order))
            if resent.end > record.end:
                beyond.append(resent)
        for resent in beyond:
            heappush(self._resent, resent)

    def hole(self, gap: Gap, length: int) -> None:
        """Plaintext that is missing. gap: what lost it; length: bytes of plaintext, none where not above 0."""
        if length > 0:
            self._out.append(Gap(self._offset, length, gap.reason, gap.order, gap.packet_ref, gap.time))
            self._offset += length

    def note_resent(self, resent: Resent) -> None:
        """Bytes were sent again: reported in plaintext offsets, now or when their records are opened."""
        for start, end, plain_start, plain_end in self._history:
            if resent.start < end and resent.end > start:
                self._out.append(Resent(plain_start, plain_end, resent.order))
        if not self.dead and (not self._history or resent.end > self._history[-1].end):
            heappush(self._resent, resent)

    def collect(self) -> Iterator[Chunk | Gap | Resent]:
        """What there is to report; chunks that follow each other become one."""
        run: list[Chunk] = []
        for event in self._out:
            if isinstance(event, Chunk):
                run.append(event)
                continue
            if run and isinstance(event, Gap):
                yield joined(run)
                run = []
            yield event
        if run:
            yield joined(run)
        self._out.clear()
