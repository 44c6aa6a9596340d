"""The data source `brokerscope` as a stream: captures of a place to which somebody writes.

    offset  {"files": {path: bytes that count}, "ended": whether the captures are taken to end there,
             "modified": {path: s since the epoch}, with `lookback`}

A micro-batch from one offset to another gives the rows that a query over the later one has and a query over the earlier
one has not. Both are computed anew from the captures, for the capture points that have news, with `lookback` from those
that are not older: nothing is carried along that could be lost, so a stream that is started again goes on exactly where
its checkpoint is. A connection may reach over any number of micro-batches.

While a stream runs, captures have no end: rows of what is still open (a request without its answer, a connection that
nobody has closed) wait for a later micro-batch. With `availableNow` the captures end where the last micro-batch does,
and open rows are given as any query gives them. Where a later run of the stream knows better, it gives such a row once
more, as it is then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from dissectors import records
from dissectors.capture.files import site_of
from dissectors.capture.fragments import Fragments
from dissectors.capture.merge import SitePackets
from dissectors.capture.reader import Reader
from dissectors.capture.source import file_size, is_url
from dissectors.engine import Batches
from dissectors.local_decoder import LocalDecoder
from dissectors.records import Finding
from dissectors.release import DecodedRows, RowRelease
from dissectors.workers import Workers
from pipelines.answers.records import part_of
from pipelines.formats.parquet import ParquetWriter
from pipelines.process import keep_freed_memory
from pipelines.sources.columns import arrow_schema, fitted
from pipelines.sources.files import files_of, modified
from pipelines.sources.parts import Asked, PartRun, RowsPart, by_site, together
from pipelines.storage import filesystem, scratch
from pipelines.tables.on_duckdb import LocalEngine

Offset = dict[str, Any]
NOTHING: Offset = {"files": {}, "ended": False}
_MEMORY = "512MB"  # that comparing rows takes, beyond which temporary files


@dataclass(frozen=True)
class StoreState:
    """Captures as they count at an offset."""

    sizes: Mapping[str, int]  # path -> bytes
    ended: bool


@dataclass
class NewRows(InputPartition):
    """The work of one task: capture points that have news."""

    before: StoreState
    after: StoreState


class RecordsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A record table, as captures come."""

    def __init__(self, given: Mapping[str, Any], schema: StructType) -> None:
        """given: values of options.ROWS and options.STREAM."""
        self._given = given
        self._asked = Asked.of(given, (given["table"],))
        self._most: int | None = given["maxFilesPerTrigger"]
        self._lookback_us: int | None = given["lookback"]
        self._schema = arrow_schema(schema)
        self._target: dict[str, int] | None = None  # what there was when a run began that takes all that is there

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark names it
        return NOTHING

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark names it
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark names it
        self._target = self._there()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark names it
        there = self._there() if self._target is None else self._target
        known: dict[str, int] = start["files"]
        new = [path for path, size in there.items() if known.get(path) != size]
        taken = set(new[: limit.max_files] if isinstance(limit, ReadMaxFiles) else new)
        ended = self._target is not None and len(taken) == len(new)
        if not new and start["ended"] >= ended:
            return start
        counted = {path: there[path] if path in taken else known.get(path) for path in there}
        files = {path: size for path, size in counted.items() if size is not None}
        end: Offset = {"files": files, "ended": ended}
        if self._lookback_us is not None:
            end["modified"] = dict(zip(files, filesystem.each(modified, list(files)), strict=True))
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before, after = start["files"], end["files"]
        files = list(after)
        new = {path for path in files if before.get(path) != after[path]}
        changed = {site_of(path, self._asked.options.site) for path in new}
        ends = end["ended"] and not start["ended"]
        sites = [numbers for site, numbers in by_site(files, self._asked).items() if ends or site in changed]
        since = self._since(end, new)
        made = []
        for numbers in together(sites, list(after.values())):
            sizes = {path: after[path] for path in (files[number] for number in numbers) if since(path)}
            old = {path: min(before[path], size) for path, size in sizes.items() if path in before}
            made.append(NewRows(StoreState(old, start["ended"]), StoreState(sizes, end["ended"])))
        return made

    def _since(self, end: Offset, new: Collection[str]) -> Callable[[str], bool]:
        """Whether a file is young enough to be read. new: the files with news."""
        times: dict[str, float] = end.get("modified", {})
        if self._lookback_us is None or not times:
            return lambda path: True
        first = min(map(times.__getitem__, new), default=max(times.values())) - self._lookback_us / 1e6
        return lambda path: times[path] >= first

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, NewRows)
        keep_freed_memory()
        for batch in _difference(partition, self._asked):
            yield fitted(batch, self._schema)

    def _there(self) -> dict[str, int]:
        """The captures that are there, and their bytes."""
        files = [path for path in files_of(self._given) if is_url(path) or Path(path).is_file()]
        sizes = zip(files, filesystem.each(file_size, files), strict=True)
        return {path: size for path, size in sizes if size}


def _difference(news: NewRows, asked: Asked) -> Iterator[pa.RecordBatch]:
    """The rows of the later state that the earlier one has not, as often as it has them more."""
    if not news.before.sizes:
        yield from _rows(news.after, asked)
        return
    with scratch.folder() as room:
        sources = {name: [str(room / f"{name}.parquet")] for name in ("then", "now")}
        for state, (path,) in zip((news.before, news.after), sources.values(), strict=True):
            _write(_rows(state, asked), asked, path)
        with LocalEngine(str(room), sources, room, memory=_MEMORY) as engine:
            now, then = (f"select * from {engine.relations[f'all_{name}']}" for name in ("now", "then"))
            yield from engine.stream(f"{now} except all {then}")


def _write(batches: Iterator[pa.RecordBatch], asked: Asked, path: str) -> None:
    (table,) = asked.tables
    schema = records.schema(table, full=asked.options.full, payloads=asked.options.payloads)
    with open(path, "wb") as stream:  # noqa: PTH123
        writer = ParquetWriter(schema, stream)
        for batch in batches:
            writer.write(batch)
        writer.close()


def _rows(state: StoreState, asked: Asked) -> Iterator[pa.RecordBatch]:
    """The rows of the one table that is asked for, of a state."""
    run = StreamRun(state, asked)
    with part_of(run.records(), asked.tables, asked.selection) as some:
        for table, batch in some:
            if table in asked.tables:
                yield run.of_connections(batch)


class StreamRun(PartRun):
    """A run over captures as they count at an offset. What other capture points say of names is not known to it."""

    def __init__(self, state: StoreState, asked: Asked) -> None:
        files = list(state.sizes)
        super().__init__(files, RowsPart(tuple(range(len(files))), is_all=False), asked)
        self._state = state

    def reader(self, index: int, path: str, fragments: Fragments) -> Reader:
        return Reader(path, index, self.options.limits, fragments=fragments, size=self._state.sizes[path])

    def release(self) -> RowRelease:
        return RowRelease(self.options.limits) if self._state.ended else _Unfinished(self.options.limits)

    def _decode(self, decoder: LocalDecoder | Workers, packets: Iterator[SitePackets]) -> Iterator[DecodedRows]:
        ends = self._state.ended
        yield from super()._decode(decoder, (some for some in packets if ends or some.block is not None))

    def _findings(self) -> list[Finding]:
        return super()._findings() if self._state.ended else []


class _Unfinished(RowRelease):
    """Of captures that go on: rows that wait for a name wait on."""

    def finish(self) -> Batches:
        yield from ()
