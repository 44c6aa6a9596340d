"""When rows go out, in which order, and with which names.

What is decoded between two points of a capture is released together, in time order; where many connections end with
the capture, their rows come in several parts. A row in which a name is missing (see `late_names`) is held back until
the name is known or `Limits.name_wait_ns` of capture time have passed: beyond `Limits.spill_bytes` in a temporary file.
All other rows go out at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

import pyarrow as pa

from dissectors import arrow
from dissectors.engine import Batches, Decoded
from dissectors.limits import Limits
from dissectors.records import ORDER, ordered_by
from dissectors.rows.late_names import FOREVER, Name, Names, resolve, row_times, waiting


class DecodedRows(NamedTuple):
    """What was decoded up to one point of the capture."""

    clock: int  # every packet before this time (ns) is decoded
    decoded: list[Decoded]  # by each process
    whole: bool = True  # nothing else was decoded up to there


class WaitingRows(NamedTuple):
    """What a release needs to go on in another process: plain values."""

    names: list[Name]
    rows: list[tuple[str, set[str], bytes]]  # table, keys of the names that are missing, an Arrow stream


class RowRelease:
    """Takes what was decoded and gives the rows that may go out."""

    def __init__(self, limits: Limits, before: WaitingRows | None = None) -> None:
        """before: what waited where another one stopped."""
        self.names = Names(before.names if before else (), wait_ns=limits.name_wait_ns, most=limits.names)
        self._held = HeldRows(limits.spill_bytes)
        for table, keys, data in before.rows if before else ():
            self._held.put(table, pa.ipc.open_stream(data).read_next_batch(), keys)

    def waiting(self, clock: int) -> WaitingRows:
        """What waits at a time (ns) of the capture, with the names that later rows may have. It waits on here, too."""
        return WaitingRows(list(self.names.since(clock - self.names.wait_ns)), list(self._held.all()))

    def take(self, release: DecodedRows) -> Batches:
        """The rows that may go out now: for each table one batch, in time order."""
        reported = [name for decoded in release.decoded for name in decoded.names]
        known = {name.key for name in reported if name.key not in self.names}
        self.names.update(reported)
        tables: dict[str, list[pa.RecordBatch]] = {}
        for table, batch in self._held.due(known, release.clock - self.names.wait_ns):
            tables.setdefault(table, []).append(batch)
        for decoded in release.decoded:
            for table, batch in decoded.batches:
                tables.setdefault(table, []).append(batch)
            decoded.batches.clear()  # they go as soon as they are in order
        for table in ORDER:
            if table in tables:
                batch = self._named(table, in_order(table, tables.pop(table)), release.clock)
                if batch.num_rows:
                    yield table, batch

    def finish(self) -> Batches:
        """The rows that still wait: no more names will come."""
        for table, batch in self._held.due(set(), FOREVER):
            yield table, resolve(batch, self.names)

    def _named(self, table: str, batch: pa.RecordBatch, clock: int) -> pa.RecordBatch:
        """The rows that need not wait, with their names; the others are held back."""
        rows, keys = waiting(batch, self.names, clock)
        if keys:
            self._held.put(table, arrow.keep(batch, rows), keys)
            batch = arrow.keep(batch, ~rows)
        return resolve(batch, self.names)


class _Held(NamedTuple):
    """Rows of one release that wait for names."""

    table: str
    keys: set[str]  # of the names
    oldest: int  # time of the first row, ns
    batch: pa.RecordBatch | None
    at: int  # where it lies in the file, if it is not here
    size: int


class HeldRows:
    """Record batches that wait, in memory or, beyond a limit, in a temporary file."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[_Held] = []
        self._size = 0  # bytes in memory
        self._file: IO[bytes] | None = None

    def put(self, table: str, batch: pa.RecordBatch, keys: set[str]) -> None:
        """Keep rows until one of the keys has a name."""
        oldest = int(row_times(batch).min())
        self._size += batch.nbytes
        if self._size <= self._limit:
            self._held.append(_Held(table, keys, oldest, batch, 0, batch.nbytes))
            return
        self._size -= batch.nbytes
        if self._file is None:
            from tempfile import TemporaryFile  # which brings random numbers and hashes with it

            self._file = TemporaryFile()  # noqa: SIM115 (it lives as long as this object)
        data = _serialized(batch)
        at = self._file.seek(0, 2)
        self._file.write(data)
        self._held.append(_Held(table, keys, oldest, None, at, len(data)))

    def all(self) -> Iterator[tuple[str, set[str], bytes]]:
        """(table, keys, an Arrow stream) of all that is kept; it stays."""
        for held in self._held:
            yield held.table, held.keys, _serialized(self._read(held)).to_pybytes()

    def due(self, known: set[str], before: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take out what waits for one of the keys that are known now, or has rows from before that time (ns)."""
        stay: list[_Held] = []
        out: list[_Held] = []
        for held in self._held:
            (out if held.oldest < before or not known.isdisjoint(held.keys) else stay).append(held)
        self._held = stay
        for held in out:
            yield held.table, self._fetch(held)
        if self._file is not None and not self._held:
            self._file.close()
            self._file = None

    def _fetch(self, held: _Held) -> pa.RecordBatch:
        if held.batch is not None:
            self._size -= held.size
        return self._read(held)

    def _read(self, held: _Held) -> pa.RecordBatch:
        if held.batch is not None:
            return held.batch
        assert self._file is not None
        self._file.seek(held.at)
        return pa.ipc.open_stream(self._file.read(held.size)).read_next_batch()


def in_order(table: str, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several, each of them in order; rows without a time come last."""
    if len(batches) == 1:
        return batches[0]
    batch = pa.concat_batches(batches)
    return arrow.take(batch, arrow.order(batch, ordered_by(table)))


def _serialized(batch: pa.RecordBatch) -> pa.Buffer:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return out.getvalue()
