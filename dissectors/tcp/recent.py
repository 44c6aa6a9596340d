"""Bytes delivered lately on all connections, to compare retransmissions with.

What the directions remember of a block is copied out of it, and half of that is let go with the next one. The rest
goes into bundles then: runs of many directions, one after the other, compressed. Most are never looked at. Runs of like
size share a bundle, for they are let go at like times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from dissectors.packing import compress, decompress
from dissectors.tcp.chunk import Chunk, Span

RECENT_NS = 3_000_000_000  # how long they may be compared with: senders wait some hundred milliseconds, seconds at most
_BUNDLE_BYTES = 32 * 1024  # before compression: what a look at one of its runs costs
_OPEN = 16  # bundles
_RUN = 150  # bytes that a run takes besides
_LATE_NS = 1_000_000_000  # captures re-order: so much later than their time packets may come
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor


class Recent(NamedTuple):
    """As Chunk, without orders."""

    offset: int
    data: bytes
    starts: Sequence[int]
    packet_refs: Sequence[int]
    times: Sequence[int]


class CopiedRun(NamedTuple):
    """A run that a direction remembers of the last block."""

    offset: int  # stream offset of its first byte
    data: bytes
    columns: tuple[Any, Any, Any]  # int64[segments] each: stream offset, packet and time

    @classmethod
    def of(cls, run: Chunk | Span) -> CopiedRun:
        """So that the run's block is needed no longer."""
        if isinstance(run, Chunk):
            starts, packet_refs, times = (np.array(x, np.int64) for x in (run.starts, run.packet_refs, run.times))
            return cls(run.offset, run.data, (starts, packet_refs, times))
        at, _, packet_refs, times = run.segments
        first, last = run.first, run.last
        columns = at[first:last] + (run.offset - at[first]), packet_refs[first:last], times[first:last]
        return _new(cls, (run.offset, bytes(run.data), columns))


class Plain(NamedTuple):
    """Runs, one after the other."""

    bounds: Any  # int64[2, runs + 1]: index of the first byte and segment of each run, and where the last ends
    columns: Any  # int64[3, segments]: stream offset, packet and time
    data: bytes

    @classmethod
    def of(cls, runs: Sequence[CopiedRun]) -> Plain:
        """These runs."""
        bounds = np.zeros((2, len(runs) + 1), np.int64)
        np.cumsum([len(run.data) for run in runs], out=bounds[0, 1:])
        np.cumsum([len(run.columns[0]) for run in runs], out=bounds[1, 1:])
        columns = np.stack([np.concatenate(column) for column in zip(*(run.columns for run in runs), strict=True)])
        return cls(bounds, columns, b"".join([run.data for run in runs]))

    def run(self, i: int) -> Recent:
        """One of the runs."""
        (begin, end), (first, last) = self.bounds[:, i : i + 2].tolist()
        starts, packet_refs, times = (column.data[first:last] for column in self.columns)
        return Recent(starts[0], self.data[begin:end], starts, packet_refs, times)


class Bundle:
    """Some runs, compressed."""

    __slots__ = ("_data", "_runs", "_segments", "left", "newest", "size")

    def __init__(self, runs: Sequence[CopiedRun]) -> None:
        bounds, columns, data = Plain.of(runs)
        self.newest = int(columns[2].max())  # time (ns) of a segment
        self._runs = self.left = len(runs)  # of them are still remembered
        self._segments = columns.shape[1]
        steps = (np.diff(each, axis=1, prepend=0).tobytes() for each in (bounds, columns))
        self._data = compress(b"".join((*steps, data)))
        self.size = len(self._data) + _RUN * len(runs)  # bytes that it takes, about

    def open(self) -> Plain:
        """The runs."""
        plain = decompress(self._data)
        shapes = (2, self._runs + 1), (3, self._segments)
        ends = list(accumulate(8 * rows * columns for rows, columns in shapes))
        bounds, columns = (
            np.cumsum(np.frombuffer(plain[begin:end], np.int64).reshape(shape), axis=1)
            for begin, end, shape in zip((0, *ends), ends, shapes, strict=False)
        )
        return Plain(bounds, columns, plain[ends[-1] :])

    def clear(self) -> None:
        """Nobody remembers any of it."""
        self._data, self.size = b"", 0


class BundledRun(NamedTuple):
    """A run that a direction remembers, once its block is gone: small, for there are many."""

    offset: int  # stream offset of its first byte
    bundle: Bundle
    number: int  # in the bundle


Runs = list[Chunk | Span | CopiedRun | BundledRun]
"""What a direction remembers, oldest first: in bundles, of the last block, of this one."""


class _Kept(NamedTuple):
    """A bundle, and who remembers its runs: once for each."""

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
        self._size = 0
        self._kept: deque[_Kept] = deque()
        self._opened: dict[Bundle, Plain] = {}
        self._fresh: dict[int, Runs] = {}  # by their id: those with runs of this block
        self._copied: list[Runs] = []  # those with runs of the last one

    def keep(self, runs: Runs) -> None:
        """A direction remembers one more run."""
        self._fresh[id(runs)] = runs

    def drop(self, run: Chunk | Span | CopiedRun | BundledRun) -> None:
        """A direction needs a run no more: later ones took its place."""
        if isinstance(run, BundledRun):
            self._leave(run.bundle)

    def look(self, runs: Runs, i: int) -> Recent:
        """What a direction remembers as its i-th run."""
        run = runs[i]
        if isinstance(run, BundledRun):
            return self._open(run.bundle).run(run.number)
        if isinstance(run, CopiedRun):
            return Recent(run.offset, run.data, *(column.tolist() for column in run.columns))
        if isinstance(run, Span):
            run = runs[i] = run.chunk
        return Recent(run.offset, run.data, run.starts, run.packet_refs, run.times)

    def trim(self, now: int) -> None:
        """Let go what is too old at the capture's time `now`, and the oldest where there is too much; what stays no
        longer needs its block."""
        self._bundle()
        self._copy()
        kept, oldest_ns = self._kept, now - RECENT_NS - _LATE_NS
        while kept and (kept[0].bundle.newest < oldest_ns or self._size > self._limit):
            bundle, owners = kept.popleft()
            early = bundle.newest >= now - RECENT_NS
            for runs in owners:
                oldest = runs[0] if runs else None
                if isinstance(oldest, BundledRun) and oldest.bundle is bundle:
                    del runs[0]
                    self._leave(bundle)
                    self.forgotten += early

    def _open(self, bundle: Bundle) -> Plain:
        """What is in a bundle. The last ones stay open: who looks once is likely to look again."""
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
            self._size -= bundle.size
            bundle.clear()

    def _copy(self) -> None:
        """Copy what is left of this block."""
        for runs in self._fresh.values():
            for i in range(len(runs) - 1, -1, -1):
                run = runs[i]
                if isinstance(run, CopiedRun | BundledRun):
                    break
                runs[i] = CopiedRun.of(run)
        self._copied = list(self._fresh.values())
        self._fresh = {}

    def _bundle(self) -> None:
        """Put what is left of the last block into bundles."""
        left = []
        for runs in self._copied:
            copied = [(i, run) for i, run in enumerate(runs) if isinstance(run, CopiedRun)]
            if copied:
                left.append((sum([len(run.data) for _, run in copied]), copied, runs))
        self._copied = []
        left.sort(key=itemgetter(0))
        size, some = 0, []
        for each in left:
            some.append(each[1:])
            size += each[0]
            if size >= _BUNDLE_BYTES:
                self._put(some)
                size, some = 0, []
        if some:
            self._put(some)

    def _put(self, some: list[tuple[list[tuple[int, CopiedRun]], Runs]]) -> None:
        """One more bundle. some: runs of a direction by their place in what it remembers, and all of that."""
        bundle = Bundle([run for copied, _ in some for _, run in copied])
        owners: list[Runs] = []
        for copied, runs in some:
            for i, run in copied:
                runs[i] = _new(BundledRun, (run.offset, bundle, len(owners)))
                owners.append(runs)
        self._size += bundle.size
        self._kept.append(_Kept(bundle, owners))
