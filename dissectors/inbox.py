"""The bytes of one direction of a conversation that are not framed yet, and where they came from."""

from __future__ import annotations

from bisect import bisect_right

from dissectors.tcp.chunk import Chunk, Gap, Piece, Resent, Span, whole

MORE = 0  # size of a frame: the length is not there yet
INVALID = -1  # size of a frame: this is no frame
_NO_PIECES: list[int] = []  # of an empty buffer; never added to


class Inbox:
    """Bytes of one direction that are not framed yet."""

    __slots__ = (
        "buf",
        "base",
        "pos",
        "starts",
        "orders",
        "places",
        "times",
        "mark",
        "size",
        "holes",
        "queue",
        "queued",
        "gaps",
        "lost",
        "resent",
        "searched",
        "discard",
        "parts",
        "parts_size",
        "looked",
    )

    def __init__(self, midstream: bool) -> None:
        self.buf = b""
        self.base = 0  # stream offset of buf[0]
        self.pos = 0  # index of the first byte not framed
        self.starts = self.orders = self.places = self.times = _NO_PIECES  # the pieces in buf, as in Chunk
        self.mark = 0  # index of the piece that holds pos
        self.size = MORE  # of the frame at pos, once measured
        self.holes: tuple[tuple[int, int], ...] = ()  # stream offsets [start, end), zero-filled in buf
        self.queue: list[Chunk | Span | Gap] = []  # delivered, not yet in buf
        self.queued = 0  # bytes in queue
        self.gaps = 0  # holes in queue
        self.lost = midstream  # looking for a frame start
        self.searched = 0  # bytes skipped in this search
        self.looked = 0  # stream offset up to which this search has looked
        self.resent: tuple[Resent, ...] = ()
        self.discard = 0  # bytes of a frame that was given up: dropped as they come
        self.parts: list[Chunk] | tuple[()] = ()  # what follows buf while the frame at pos is not whole
        self.parts_size = 0

    @property
    def have(self) -> int:
        """Bytes at hand of what starts at pos."""
        return len(self.buf) - self.pos + self.parts_size

    def trim(self) -> None:
        """Let go of bytes that were handed over."""
        left = len(self.buf) - self.pos
        if self.pos > left:
            at = self.mark if left else len(self.starts)
            self.base += self.pos
            self.buf = self.buf[self.pos :]
            self.starts, self.orders = self.starts[at:], self.orders[at:]
            self.places, self.times = self.places[at:], self.times[at:]
            self.pos = self.mark = 0

    def detach(self) -> None:
        """What still waits is kept without the rest of its block."""
        if self.queue:
            self.queue = [whole(event) for event in self.queue]

    def clear(self) -> None:
        """Let go of bytes that were all handed over."""
        self.base += self.pos
        self.buf, self.pos, self.mark = b"", 0, 0
        self.starts = self.orders = self.places = self.times = _NO_PIECES

    def may_hold_frames(self) -> bool:
        """Whether the frame at hand, if any, may be whole. If not, what was delivered waits with it."""
        if self.parts or self.size > self.have + self.queued:
            self.absorb()
            return not self.parts and self.size <= self.have
        return self.pos < len(self.buf) or bool(self.queue)

    def skip(self) -> None:
        """Let go of all that was delivered: it was handed over, and nothing is left in buf."""
        last = self.queue[-1]
        assert not isinstance(last, Gap)
        self.base, self.pos, self.size = last.offset + len(last.data), 0, MORE
        self.queue, self.queued = [], 0
        if self.resent:
            self._forget()

    def drop(self, size: int) -> None:
        """Let go of so many bytes at hand, which were handed over without coming into buf."""
        left = len(self.buf) - self.pos
        if size < left:
            self.pos += size
            self.mark = self.piece(self.base + self.pos)
        else:
            size -= left
            self.pos += left
            self.clear()
            gone = 0
            for event in self.queue:
                if isinstance(event, Gap) or len(event.data) > size:
                    break
                size -= len(event.data)
                self.base = event.offset + len(event.data)
                self.queued -= len(event.data)
                gone += 1
            del self.queue[:gone]
            if self.queue:
                self.absorb()
                self.pos = size
                self.mark = self.piece(self.base + size)
            elif self.resent:
                self._forget()

    def put(self, *chunks: Chunk) -> None:
        """Append chunks to buf; while a frame of known size is under way, only once it is whole."""
        for chunk in chunks:
            if self.pos >= len(self.buf) and not self.parts:
                self.base, self.buf = chunk.offset, chunk.data
                self.starts, self.orders = chunk.starts, chunk.orders
                self.places, self.times = chunk.places, chunk.times
                self.pos = self.mark = 0
                self._forget()
                continue
            if isinstance(self.parts, tuple):
                self.parts = []
            self.parts.append(chunk)
            self.parts_size += len(chunk.data)
        if self.parts and self.have >= self.size:
            self.join()

    def absorb(self) -> None:
        """Bring what was delivered into buf; no hole is among it."""
        queue, self.queue, self.queued = self.queue, [], 0
        self.put(*[whole(event) for event in queue if not isinstance(event, Gap)])

    def join(self) -> None:
        """Bring what follows buf into it."""
        if not self.parts:
            return
        at = self.mark
        self.buf = b"".join([self.buf[self.pos :], *(part.data for part in self.parts)])
        self.base += self.pos
        self.starts, self.orders = self.starts[at:], self.orders[at:]
        self.places, self.times = self.places[at:], self.times[at:]
        for part in self.parts:
            self.starts += part.starts
            self.orders += part.orders
            self.places += part.places
            self.times += part.times
        self.pos = self.mark = 0
        self.parts, self.parts_size = (), 0
        self._forget()

    def _forget(self) -> None:
        """Holes and repeats before buf concern nobody any more."""
        if self.holes:
            self.holes = tuple(h for h in self.holes if h[1] > self.base)
        if self.resent:
            self.resent = tuple(r for r in self.resent if r.end > self.base)

    def put_zeros(self, gap: Gap) -> None:
        """Stand in for missing bytes inside a frame."""
        zeros = Chunk(gap.offset, bytes(gap.length), [gap.offset], [gap.order], [gap.place], [gap.time])
        self.put(zeros)
        self.holes += ((gap.offset, gap.offset + gap.length),)

    def piece(self, offset: int) -> int:
        """Index of the piece that holds a stream offset."""
        return bisect_right(self.starts, offset, self.mark) - 1

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Where the bytes [start, end) of the stream came from, as far as they are at hand."""
        found: list[Piece] = []
        if self.buf:
            own = Chunk(self.base, self.buf, self.starts, self.orders, self.places, self.times)
            found += own.pieces(start, end)
        for event in self.queue:
            if not isinstance(event, Gap):
                found += event.pieces(start, end)
        return found

    def was_resent(self, start: int, end: int, order: int) -> bool:
        """Whether, by the delivery `order`, a byte of [start, end) had been sent more than once."""
        return any(r.start < end and r.end > start and r.order <= order for r in self.resent)

    def missing(self, start: int, end: int) -> int:
        """Bytes of [start, end) that are holes."""
        return sum(max(0, min(end, b) - max(start, a)) for a, b in self.holes)
