"""The record layer: bytes of one direction, cut into records.

at  size  field
 0     1  type      20 change cipher spec, 21 alert, 22 handshake, 23 application data, 24 heartbeat
 1     2  version   3.1 in a first ClientHello, 3.3 in TLS 1.2 and TLS 1.3
 3     2  length    of what follows; 2**14 of plaintext and at most 2048 bytes of protection
 5        fragment

Source: RFC 5246 §6.2, RFC 8446 §5.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from dissectors.tcp.chunk import Chunk, Gap

HEADER = 5
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = 20, 21, 22, 23, 24
MAX_FRAGMENT = (1 << 14) + 2048
BROKEN = "not TLS"  # reason of a Gap: the bytes are there, but they are no record that verifies
MIN_PROTECTED = HEADER + 8 + 1  # the shortest tag, and a content type


class Record(NamedTuple):
    """A record: header and fragment."""

    type: int
    data: bytes
    offset: int  # stream offset of the header
    whole: bool  # every byte was captured; else zeros stand for what was not

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class Pieces(NamedTuple):
    """Where the bytes of a record came from, as in Chunk: one entry a segment."""

    starts: list[int]
    orders: list[int]
    packet_refs: list[int]
    times: list[int]


def plausible_header(data: Sequence[int], at: int) -> bool:
    """Whether a protected record may start here."""
    return (
        CHANGE_CIPHER_SPEC <= data[at] <= HEARTBEAT
        and data[at + 1] == 3
        and data[at + 2] <= 4
        and 0 < (data[at + 3] << 8 | data[at + 4]) <= MAX_FRAGMENT
    )


class RecordReader:
    """Cuts records. `peek` shows the next item, `pop` goes past it.

    Items: a Record; a Gap, at which the record boundary was lost: its offset and length cover the broken record as
    well, and its length is 0 where all bytes are there but no header is. After a Gap the reader is `lost`: it offers
    every place where a record might start, and the caller, who can verify a tag, says `found` or `skip`.
    """

    def __init__(self) -> None:
        self.lost = False
        self.held = 0  # bytes waiting
        self.final = False  # nothing more will come
        self._buf = bytearray()
        self._base = 0  # stream offset of _buf[0]
        self._pos = 0
        self._mark = 0  # index of the piece that holds _pos
        self._pieces = Pieces([], [], [], [])
        self._queue: deque[Chunk | Gap] = deque()
        self._holes: list[tuple[int, int]] = []  # stream offsets, zero-filled in _buf
        self._item: Record | Gap | None = None

    def put(self, event: Chunk | Gap) -> None:
        """Take the next bytes or hole."""
        self._queue.append(event)
        self.held += len(event.data) if isinstance(event, Chunk) else 0

    def peek(self) -> Record | Gap | None:
        """The next item; None where more bytes are needed."""
        while self._item is None:
            self._item = self._candidate() if self.lost else self._record()
            if self._item is None and not self._fill():
                return None
        return self._item

    def pop(self) -> None:
        """Go past the item that peek showed."""
        item = self._item
        self._item = None
        if isinstance(item, Record):
            self._go(self._pos + len(item.data))
        elif isinstance(item, Gap):
            self.lost = True
            if item.length:
                self._go(len(self._buf))
                self._buf.clear()
                self._base, self._pos, self._mark = item.offset + item.length, 0, 0
                self._pieces = Pieces([], [], [], [])

    def found(self) -> None:
        """The candidate that peek showed is a record."""
        self.lost = False
        self.pop()

    def skip(self) -> None:
        """The candidate that peek showed is none: look further."""
        self._item = None
        self._go(self._pos + 1)

    def pieces(self, record: Record) -> Pieces:
        """Where the record that peek showed came from; the first piece starts at the record."""
        last = bisect_right(self._pieces.starts, record.end - 1, self._mark)
        cut = Pieces(*(values[self._mark : last] for values in self._pieces))
        cut.starts[0] = record.offset
        return cut

    def _record(self) -> Record | Gap | None:
        buf, pos = self._buf, self._pos
        if len(buf) - pos < HEADER:
            return None
        if not plausible_header(buf, pos) and not _empty(buf, pos):
            _, orders, packet_refs, times = self._pieces
            return Gap(self._base + pos, 0, BROKEN, orders[self._mark], packet_refs[self._mark], times[self._mark])
        end = pos + HEADER + (buf[pos + 3] << 8 | buf[pos + 4])
        if end > len(buf):
            return None
        start, stop = self._base + pos, self._base + end
        whole = not any(a < stop and b > start for a, b in self._holes)
        return Record(buf[pos], bytes(memoryview(buf)[pos:end]), start, whole)

    def _candidate(self) -> Record | None:
        """The next place at which a header makes sense, once the record that it announces is at hand."""
        buf = self._buf
        while True:
            at = buf.find(b"\x03\x03", self._pos + 1)
            if at < 0:
                self._go(max(self._pos, len(buf) - 2))
                return None
            self._go(at - 1)
            if len(buf) - self._pos < HEADER:
                return None
            if plausible_header(buf, self._pos):
                record = self._record()
                assert not isinstance(record, Gap)
                if record or self._queue or not self.final:
                    return record
            self._go(at)

    def _fill(self) -> bool:
        """Move the next event into the buffer, or turn it into an item; False where there is none."""
        if not self._queue:
            return False
        event = self._queue.popleft()
        if isinstance(event, Chunk):
            self._append(event)
            return True
        have = len(self._buf) - self._pos
        if not self.lost and have >= HEADER:
            record = HEADER + (self._buf[self._pos + 3] << 8 | self._buf[self._pos + 4])
            if event.length <= record - have:
                self._holes.append((event.offset, event.offset + event.length))
                zeros = Chunk.zeros(event)
                self.held += event.length
                self._append(zeros)
                return True
        offset = self._base + self._pos if have else event.offset
        self._item = Gap(
            offset, event.offset + event.length - offset, event.reason, event.order, event.packet_ref, event.time
        )
        return True

    def _append(self, chunk: Chunk) -> None:
        if self._pos == len(self._buf):
            self._buf.clear()
            self._base, self._pos, self._mark = chunk.offset, 0, 0
            self._pieces = Pieces([], [], [], [])
        elif self._pos:
            del self._buf[: self._pos]
            self._base += self._pos
            self._pos = 0
            for values in self._pieces:
                del values[: self._mark]
            self._mark = 0
        self._buf += chunk.data
        for mine, new in zip(self._pieces, (chunk.starts, chunk.orders, chunk.packet_refs, chunk.times), strict=True):
            mine.extend(new)
        if self._holes:
            self._holes = [hole for hole in self._holes if hole[1] > self._base]

    def _go(self, pos: int) -> None:
        self.held -= pos - self._pos
        self._pos = pos
        if pos < len(self._buf):
            self._mark = bisect_right(self._pieces.starts, self._base + pos, self._mark) - 1


def _empty(buf: bytearray, at: int) -> bool:
    """An application data record of length zero: legal before TLS 1.3, and no sign of trouble."""
    return buf[at : at + 2] == b"\x17\x03" and buf[at + 3 : at + 5] == b"\0\0"
