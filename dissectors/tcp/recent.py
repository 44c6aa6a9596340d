"""Bytes delivered lately on all connections, to compare retransmissions with.

What the directions remember of one block becomes a bundle: their runs, one after the other. Most of them soon give way
to later ones, so bundles stay plain for a while; what of the oldest is still remembered then is compressed, in smaller
bundles. Runs of like size share one of those, for they are let go at like times.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple, cast

import numpy as np
import zstandard

from dissectors.arrow import Ints
from dissectors.tcp.chunk import Chunk
from dissectors.tcp.numbers import SEGMENT_FIELDS, SEGMENT_PACKET, SEGMENT_START, SEGMENT_TIME

RECENT_NS = 3_000_000_000  # how long they may be compared with: senders wait some hundred milliseconds, seconds at most
_BUNDLE_BYTES = 64 * 1024  # before compression: what a look at one of its runs costs
_OPEN = 16  # compressed bundles
_PLAIN = 2  # one part in so many of the limit may be plain
_RUN = 150  # bytes that a run takes besides
_LATE_NS = 1_000_000_000  # captures re-order: so much later than their time packets may come
_COMPRESSOR = zstandard.ZstdCompressor(1)
_offset = attrgetter("offset")
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor


def _compress(data: bytes) -> bytes:
    """The data in less room; `_decompress` gives it back."""
    return bytes(memoryview(_COMPRESSOR.compress(data)))  # a copy: what it gives has as much room as the input needs


_decompress = zstandard.ZstdDecompressor().decompress


class Recent(NamedTuple):
    """Contiguous bytes of one direction and their segments, by column."""

    offset: int
    data: bytes
    starts: Sequence[int]
    packet_refs: Sequence[int]
    times: Sequence[int]


class Plain(NamedTuple):
    """Runs, one after the other."""

    bounds: Ints  # [2, runs + 1]: index of the first byte and the first segment of each run, and where the last ends
    columns: Ints  # [3, segments]: stream offset, packet and time
    data: bytes

    @classmethod
    def of(cls, runs: Sequence[Chunk]) -> Plain:
        """Runs with columns of their own."""
        segments = array("q")
        for run in runs:
            segments += run.segments
        rows = np.frombuffer(segments, np.int64).reshape(-1, SEGMENT_FIELDS)
        columns = np.ascontiguousarray(rows[:, [SEGMENT_START, SEGMENT_PACKET, SEGMENT_TIME]].T)
        lengths = np.array([len(run.segments) // SEGMENT_FIELDS for run in runs])
        return cls(_bounds([len(run.data) for run in runs], lengths), columns, b"".join([run.data for run in runs]))

    def some(self, numbers: Sequence[int]) -> Plain:
        """Some of the runs."""
        (begin, first), (sizes, lengths) = self.bounds[:, numbers], np.diff(self.bounds)[:, numbers]
        data = memoryview(self.data)
        parts = [data[at : at + size] for at, size in zip(begin.tolist(), sizes.tolist(), strict=True)]
        return Plain(_bounds(sizes, lengths), self.columns[:, _ranges(first, lengths)], b"".join(parts))

    def run(self, i: int) -> Recent:
        """One of the runs."""
        (begin, end), (first, last) = self.bounds[:, i : i + 2].tolist()
        starts, packet_refs, times = (column.data[first:last] for column in self.columns)
        return Recent(starts[0], self.data[begin:end], starts, packet_refs, times)


class Bundle:
    """Some runs, plain or compressed."""

    __slots__ = ("_data", "_segments", "left", "newest", "plain", "runs", "size")

    def __init__(self, plain: Plain) -> None:
        self.plain: Plain | None = plain  # until it is compressed
        self.newest = int(plain.columns[2].max())  # time (ns) of a segment
        self.runs = self.left = plain.bounds.shape[1] - 1  # of them are still remembered
        self._segments = plain.columns.shape[1]
        self._data = b""
        self.size = (
            len(plain.data) + plain.bounds.nbytes + plain.columns.nbytes + _RUN * self.runs
        )  # bytes that it takes, about

    @classmethod
    def compressed(cls, plain: Plain) -> Bundle:
        """The runs, in less room."""
        bundle = cls(plain)
        steps = (np.diff(each, axis=1, prepend=0).tobytes() for each in (plain.bounds, plain.columns))
        bundle._data, bundle.plain = _compress(b"".join((*steps, plain.data))), None
        bundle.size = len(bundle._data) + _RUN * bundle.runs
        return bundle

    def open(self) -> Plain:
        """The runs of a compressed one."""
        plain = _decompress(self._data)
        shapes = (2, self.runs + 1), (3, self._segments)
        ends = list(accumulate(8 * rows * columns for rows, columns in shapes))
        bounds, columns = (
            np.cumsum(np.frombuffer(plain[begin:end], np.int64).reshape(shape), axis=1)
            for begin, end, shape in zip((0, *ends), ends, shapes, strict=False)
        )
        return Plain(bounds, columns, plain[ends[-1] :])

    def clear(self) -> None:
        """Nobody remembers any of it."""
        self._data, self.plain, self.size = b"", None, 0


class BundledRun(NamedTuple):
    """A run that a direction remembers, once its block is gone: small, for there are many."""

    offset: int  # stream offset of its first byte
    bundle: Bundle
    number: int  # in the bundle


Runs = list[Chunk | BundledRun]
"""What a direction remembers, oldest first."""


class _Kept(NamedTuple):
    """A bundle, and who remembers its runs: once for each. Those of one direction follow each other."""

    bundle: Bundle
    owners: list[Runs]


class History:
    """Of each direction the last bytes, while retransmissions may be compared with them.

    What is let go for its age could not be compared with any more; so only where all that is fresh is more than the
    limit does one connection's traffic decide what is known of another's, and `forgotten` counts that.
    """

    def __init__(self, limit: int) -> None:
        """limit: bytes."""
        self.forgotten = 0  # runs let go before their time
        self._limit = limit
        self._size = self._plain_size = 0  # of all bundles; of the plain ones
        self._plain: deque[_Kept] = deque()
        self._compressed: deque[_Kept] = deque()  # all of them older than the plain ones
        self._opened: dict[Bundle, Plain] = {}
        self._fresh: dict[int, Runs] = {}  # by their id: those with runs that are in no bundle

    def keep(self, runs: Runs) -> None:
        """A direction remembers one more run."""
        self._fresh[id(runs)] = runs

    def drop(self, run: Chunk | BundledRun) -> None:
        """A direction needs a run no more: later ones took its place."""
        if isinstance(run, BundledRun):
            self._leave(run.bundle)

    def look(self, runs: Runs, i: int) -> Recent:
        """What a direction remembers as its i-th run."""
        run = runs[i]
        if isinstance(run, BundledRun):
            return (run.bundle.plain or self._open(run.bundle)).run(run.number)
        return Recent(run.offset, run.data, run.starts, run.packet_refs, run.times)

    def trim(self, now: int) -> None:
        """Let go what is too old at the capture's time `now`, and the oldest where there is too much; what stays no
        longer needs its block."""
        self._bundle()
        oldest_ns = now - RECENT_NS - _LATE_NS
        while (kept := self._compressed or self._plain) and kept[0].bundle.newest < oldest_ns:
            self._let_go(kept.popleft(), now)
        while self._plain and (self._size > self._limit or self._plain_size > self._limit // _PLAIN):
            self._compress(self._plain.popleft())
        while self._compressed and self._size > self._limit:
            self._let_go(self._compressed.popleft(), now)

    def _open(self, bundle: Bundle) -> Plain:
        """The segments of a bundle. The last bundles stay open, as they are likely to be read again."""
        plain = self._opened.get(bundle)
        if plain is None:
            if len(self._opened) >= _OPEN:
                del self._opened[next(iter(self._opened))]
            plain = self._opened[bundle] = bundle.open()
        return plain

    def _leave(self, bundle: Bundle) -> None:
        """A run of a bundle is remembered no more."""
        bundle.left -= 1
        if not bundle.left:
            self._clear(bundle)

    def _clear(self, bundle: Bundle) -> None:
        self._size -= bundle.size
        if bundle.plain is not None:
            self._plain_size -= bundle.size
        bundle.clear()

    def _let_go(self, kept: _Kept, now: int) -> None:
        """Nobody is to remember a bundle: the oldest one."""
        bundle = kept.bundle
        early = bundle.newest >= now - RECENT_NS
        for runs in kept.owners:
            oldest = runs[0] if runs else None
            if isinstance(oldest, BundledRun) and oldest.bundle is bundle:
                del runs[0]
                self._leave(bundle)
                self.forgotten += early

    def _bundle(self) -> None:
        """Put what is fresh into a bundle."""
        fresh = [(runs, i) for runs in self._fresh.values() for i in _fresh(runs)]
        self._fresh = {}
        if fresh:
            self._put(Bundle(Plain.of([cast(Chunk, runs[i]) for runs, i in fresh])), fresh)

    def _compress(self, kept: _Kept) -> None:
        """Keep of the oldest plain bundle what is still remembered, in less room."""
        plain = kept.bundle.plain
        if plain is None:
            return
        sizes = np.diff(plain.bounds[0]).tolist()
        remembered = []
        for runs, places in _remembered(kept, plain):
            numbers = [cast(BundledRun, runs[i]).number for i in places]
            if numbers:
                remembered.append((sum([sizes[n] for n in numbers]), numbers, [(runs, i) for i in places]))
        remembered.sort(key=itemgetter(0))
        bundles = [end // _BUNDLE_BYTES for end in accumulate(size for size, _, _ in remembered)]
        for _, some in groupby(zip(bundles, remembered, strict=True), itemgetter(0)):
            together = [each for _, each in some]
            bundled = plain.some([number for _, numbers, _ in together for number in numbers])
            self._put(Bundle.compressed(bundled), [place for _, _, places in together for place in places])
        self._clear(kept.bundle)

    def _put(self, bundle: Bundle, places: Sequence[tuple[Runs, int]]) -> None:
        """One more bundle. places: where its runs are remembered."""
        for number, (runs, i) in enumerate(places):
            runs[i] = _new(BundledRun, (runs[i].offset, bundle, number))
        kept = _Kept(bundle, [runs for runs, _ in places])
        self._size += bundle.size
        if bundle.plain is None:
            self._compressed.append(kept)
        else:
            self._plain_size += bundle.size
            self._plain.append(kept)


def _fresh(runs: Runs) -> range:
    """Which runs are in no bundle: the last ones."""
    first = len(runs)
    while first and not isinstance(runs[first - 1], BundledRun):
        first -= 1
    return range(first, len(runs))


def _remembered(kept: _Kept, plain: Plain) -> Iterator[tuple[Runs, range]]:
    """Who remembers runs of a plain bundle, and as which of theirs."""
    offsets = plain.columns[0, plain.bounds[1, :-1]].tolist()
    number = 0
    for _, same in groupby(kept.owners, id):
        runs, *more = same
        first = last = bisect_left(runs, offsets[number], key=_offset)
        while last < len(runs) and getattr(runs[last], "bundle", None) is kept.bundle:
            last += 1
        number += 1 + len(more)
        yield runs, range(first, last)


def _bounds(sizes: Sequence[int] | Ints, lengths: Ints) -> Ints:
    """Bytes (row 0) and segments (row 1) before each run and behind the last, as Plain.bounds gives them."""
    bounds = np.zeros((2, len(lengths) + 1), np.int64)
    np.cumsum(sizes, out=bounds[0, 1:])
    np.cumsum(lengths, out=bounds[1, 1:])
    return bounds


def _ranges(first: Ints, lengths: Ints) -> Ints:
    """The numbers from each of `first` on, so many, one range after the other."""
    ends = np.cumsum(lengths)
    places: Ints = np.arange(ends[-1]) + np.repeat(first - (ends - lengths), lengths)
    return places
