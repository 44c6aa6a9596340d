"""Record batches whose surroundings were lost: found by their own bytes.

    a hole in a body        record sets whose heads were captured are read on behind it: a batch's length leads to the
                            next, and where a head is missing the next whole batch is searched. What such a set holds
                            is of its topic and partition.
    a body without a head   of the frame, or of a record set: a batch is searched, and its topic is not known

A batch that was searched is whole, of magic 2, and its CRC32C is right: a chance of one in 2^32 for each place with a
header that makes sense. What it costs is bounded by a budget a byte (dissectors/session/search.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka import batches
from dissectors.kafka.batches import KEEPS_LENGTH, SMALLEST, BatchError
from dissectors.kafka.body_notes import BodyNotes, RecordSet
from dissectors.kafka.record_batch import RecordBatch, checksum, header_places
from dissectors.session.frame import Frame
from dissectors.session.search import Judgement, SearchBudget, first_start
from dissectors.tcp.chunk import Chunk, Piece
from dissectors.wire.reader import WireReader, reader

HEAD = KEEPS_LENGTH + SMALLEST[2]  # bytes of the header of a batch of magic 2
_GATHERED = 1 << 16  # bytes that are searched at once
_WINDOW = 1 << 14  # bytes whose places are looked for at once
_CRC = 17  # where the checksum stands
_START = attrgetter("start")


class CapturedRanges:
    """Which bytes of a frame were captured: all of [start, end) but some holes."""

    __slots__ = ("_starts", "base", "end", "holes")

    def __init__(self, holes: Sequence[tuple[int, int]], end: int, base: int) -> None:
        """holes: [start, end) as indices into the frame's data, ascending. base: stream offset of index 0."""
        self.holes = holes
        self.end = end
        self.base = base
        self._starts = [start for start, _ in holes]

    def until(self, at: int) -> int:
        """The index of the first missing byte from `at` on."""
        i = bisect_right(self._starts, at)
        if i and at < self.holes[i - 1][1]:
            return at
        return self._starts[i] if i < len(self._starts) else max(at, self.end)

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The captured parts of [start, end), in order."""
        for hole_start, hole_end in self.holes[max(0, bisect_right(self._starts, start) - 1) :]:
            if hole_start >= end:
                break
            if start < hole_start:
                yield start, hole_start
            start = max(start, hole_end)
        if start < end:
            yield start, end


def readable(notes: BodyNotes, captured: CapturedRanges, end: int) -> int:
    """Up to where a body was read from captured bytes alone, though holes were read as zeros.

    What a reader steps over are the records of a set. Their places are right as long as every hole before them lies in
    the records of another set.
    """
    sets = iter(notes.sets())
    carried = next(sets, None)
    for start, stop in captured.holes:
        while carried is not None and carried.start + carried.size <= start:
            carried = next(sets, None)
        if carried is None or start < carried.start or stop > carried.start + carried.size:
            return min(start, end)
    return end


def units(
    data: bytes, records: RecordSet, captured: CapturedRanges, limit: int, search: BatchSearch, *, old: int
) -> Iterator[RecordBatch]:
    """The batches of a record set with holes. Raises nothing: what is missing cannot be told from what is malformed."""
    at, end = records.start, records.start + records.size
    while at < end:
        after, known = at, captured.until(at)
        try:
            for unit in batches.units(data, at, end - at, known, limit, lenient=True, old=old):
                yield unit
                after = unit.end
        except BatchError as trouble:
            known = min(known, trouble.at + 1)
        if after >= end:
            return
        if after < known or captured.until(after) == after:  # the next head is not there
            found = search.first(data, captured, max(after, known), end)
            if found is None:
                return
            after = found
        at = after


class LostBatch(NamedTuple):
    """A batch in bytes that are in no frame."""

    data: bytes
    first: Piece  # of its first byte

    def frame(self, direction: int) -> Frame:
        """A frame that holds the batch and nothing else."""
        (offset, packet_ref, time), size = self.first, len(self.data)
        return Frame(direction, self.data, 0, size, size, size, offset, 0, time, time, packet_ref)


@final
@carried
@compiled
class BatchSearch:
    """The search in one direction of a connection."""

    budget: SearchBudget
    _largest: cython.longlong
    _parts: list[bytes]  # bytes that lie side by side in the stream, searched in part or not at all
    _pieces: list[Piece]  # where they came from
    _size: cython.Py_ssize_t = 0
    _end: cython.longlong = 0  # stream offset of their end
    _wanted: cython.longlong  # so many are needed for the search to come further

    def __init__(self, largest: int) -> None:
        """largest: bytes of a batch beyond which it is not waited for."""
        self.budget = SearchBudget()
        self._largest = largest
        self._parts = []
        self._pieces = []
        self._wanted = _GATHERED

    @property
    def held(self) -> int:
        """Bytes kept."""
        return self._size

    # --- in a frame at hand ---

    def first(self, data: bytes, captured: CapturedRanges, start: int, end: int) -> int | None:
        """Index of the first whole batch in [start, end) of a frame's data."""
        return next((at for at, _ in self.whole(data, captured, start, end, 1)), None)

    @compiled
    def whole(
        self,
        data: bytes,
        captured: CapturedRanges,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        most: cython.Py_ssize_t = 0,
    ) -> list[tuple[int, int]]:
        """[start, end) of the whole batches there, of the first `most` or of all, as search.first_start finds them."""
        budget: SearchBudget = self.budget
        found: list[tuple[int, int]] = []
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        a: cython.Py_ssize_t
        b: cython.Py_ssize_t
        budget.base = captured.base
        for a, b in captured.within(start, end):
            for places in _places(data, a, b):
                for at in places:
                    if at < a or not budget.allows(at):
                        continue
                    budget.begin()
                    stop = _end(data, at)
                    if self._judge(data, at, stop, b) is not Judgement.YES:
                        budget.settle()
                        continue
                    found.append((at, stop))
                    if len(found) == most:
                        return found
                    a = stop
        return found

    # --- in bytes that no frame holds, as they come ---

    def add(self, chunk: Chunk) -> Iterator[LostBatch]:
        """More bytes; the batches that are whole by now."""
        if self._size and chunk.offset != self._end:
            yield from self.finish()
        self._parts.append(chunk.data)
        self._pieces += map(Piece, chunk.starts, chunk.packet_refs, chunk.times)
        self._size += len(chunk.data)
        self._end = chunk.offset + len(chunk.data)
        if self._size >= self._wanted:
            yield from self._search(final=False)

    def finish(self) -> Iterator[LostBatch]:
        """No bytes follow side by side: the batches in what is left."""
        if self._size:
            yield from self._search(final=True)

    def _search(self, final: bool) -> Iterator[LostBatch]:
        data, base, at = b"".join(self._parts), self._end - self._size, 0
        self.budget.base = base
        while True:
            at, found = self._next(data, at, final)
            if not found:
                break
            stop = _end(data, at)
            piece = self._pieces[self._piece(base + at)]
            yield LostBatch(data[at:stop], piece._replace(start=base + at))
            at = stop
        self._size = len(data) - at
        self._parts = [data[at:]] if self._size else []
        self._pieces = self._pieces[self._piece(base + at) :] if self._size else []
        self._wanted = max(self.budget.needs, self._size + _GATHERED)

    def _next(self, data: bytes, pos: int, final: bool) -> tuple[int, bool]:
        """Where the next batch begins: see `search.first_start`."""
        end = len(data)
        found = _places(data, pos, end)
        return first_start(
            found, lambda at: self._judge(data, at, _end(data, at), end), self.budget, pos, end, HEAD, final
        )

    def _piece(self, offset: int) -> int:
        return bisect_right(self._pieces, offset, key=_START) - 1

    # --- both ---

    @compiled
    def _judge(self, data: bytes, at: cython.Py_ssize_t, stop: cython.Py_ssize_t, end: cython.Py_ssize_t) -> Judgement:
        """Whether [at, stop) is a whole batch, where `data` is known up to `end`."""
        if stop - at > self._largest:
            return Judgement.NO
        if stop > end:
            return self.budget.wait_for(stop - at)
        self.budget.spend(stop - at)
        r: WireReader = reader()
        r.open(data, at + _CRC, at + _CRC + 4)
        return Judgement.YES if checksum(data, at, stop) == r.u32() else Judgement.NO


@compiled
def _end(data: bytes, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The index behind the batch whose header stands at an index, by its length."""
    r: WireReader = reader()
    r.open(data, at + 8, at + KEEPS_LENGTH)
    return at + KEEPS_LENGTH + r.i32()


def _places(data: bytes, start: int, end: int) -> Iterator[list[int]]:
    """The places in data[start:end] at which the header of a batch may begin, in order, some at a time."""
    for at in range(start, end - HEAD + 1, _WINDOW):
        yield header_places(data, at, min(end, at + _WINDOW + HEAD - 1))
