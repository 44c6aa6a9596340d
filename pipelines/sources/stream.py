"""The data source `brokerscope` as a stream: captures of a place to which somebody writes.

A micro-batch decodes what is new, and carries along where it stands (`carried.py`): connections that are open, requests
without their answers, rows that wait for a name. So captures that have been read may go, ids are those of one query
over all captures that there ever were, and a stream that is started again goes on exactly where its checkpoint is.

The state behind a micro-batch is part of its offset, so decoding is a step of the driver: it asks for the latest
offset, and what comes is decoded for that. Its rows go along where they are few or the checkpoint is known; else tasks
decode the same once more, each a capture point.

    packets of before what was read    go back to an earlier state, as an update does, and are decoded from there; rows
                                       that were given are not given again
    and captures between are gone      are decoded by themselves, which a finding says
    captures that went unread          are counted in the offset (`captures_gone`), and a finding says which

While a stream runs, captures have no end: rows of what is still open wait for a later micro-batch. With `availableNow`
the captures end where the last micro-batch does, and open rows are given as any query gives them. Where a later run of
the stream knows better, it gives such a row once more, as it is then.
"""

from __future__ import annotations

import secrets as random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from dissectors.capture.files import PLACE, site_of
from dissectors.capture.sites import joined_sites
from dissectors.capture.source import exists, file_size, is_url
from dissectors.capture.split import Input
from dissectors.errors import InputError
from dissectors.findings import CAPTURES_GONE, UNREADABLE, finding
from dissectors.limits import MIB
from dissectors.options import Options
from dissectors.redaction import public_path
from dissectors.rows.sink import to_batch
from dissectors.wording import first_of
from pipelines.formats.units import counted
from pipelines.jobs.cutting import FileReport
from pipelines.lake.captures import CapturesNow, enter
from pipelines.lake.gone import Replaced
from pipelines.lake.new_files import READ, Fate, Fates, choose
from pipelines.process import keep_freed_memory
from pipelines.sources.carried import NOTHING, Checkpoint, Offset, SiteWork, StreamInput, StreamState
from pipelines.sources.columns import arrow_schema, fitted
from pipelines.sources.files import files_of
from pipelines.sources.going_on import SiteRows, decode_site
from pipelines.sources.parts import Asked
from pipelines.sql.conditions import is_named
from pipelines.storage import filesystem, scratch
from pipelines.storage.code_version import code_version
from pipelines.storage.lake_files import Manifest
from pipelines.storage.stages import Site, Stage

_AT_ONCE = 512 * MIB  # of captures that a micro-batch takes, where nobody says how many files
_NAMED = 3  # captures that a finding names
_PART = 0  # engines of a stream have one part


@dataclass
class GivenRows(InputPartition):
    """Rows that are there: Parquet, or where that is."""

    rows: bytes | str


@dataclass
class NewRows(InputPartition):
    """Rows that a task decodes, of one capture point."""

    work: SiteWork
    names: list[str]  # of captures, by their numbers
    state: bytes | None
    given: bytes  # hashes of rows that were given
    said: list[tuple[str, str]]  # of files that were read before
    joined: dict[str, str]  # capture points that are one with another


class RecordsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A record table, as captures come."""

    def __init__(self, given: Mapping[str, Any], schema: StructType) -> None:
        """given: values of options.ROWS and options.STREAM."""
        self._given = given
        self._asked = Asked.of(given, (given["table"],))
        self._most: int | None = given["maxFilesPerTrigger"]
        self._checkpoint = Checkpoint(given["checkpointLocation"])
        self._schema = arrow_schema(schema)
        self._target: dict[str, int] | None = None  # what there was when a run began that takes all that is there
        self._last: tuple[str, dict[str, int], list[str]] | None = None  # a state, and what it has seen and not read

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark names it
        return NOTHING

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark names it
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark names it
        self._target = self._there()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark names it
        """Decode what is new behind an offset, as much of it as a micro-batch takes."""
        keep_freed_memory()
        there = self._there() if self._target is None else self._target
        if self._last is None or self._last[0] != start.get("state"):
            carried = self._checkpoint.load(start)
            self._last = start["state"], carried.seen, carried.waiting
        _, seen, waiting = self._last
        new = [path for path, size in there.items() if seen.get(public_path(path)) != size]
        taken = _taken(new, there, limit)
        gone = [path for path in waiting if path not in there]
        ended = self._target is not None and len(taken) == len(new)
        if not new and not gone and start["ended"] >= ended:
            return start
        carried = self._checkpoint.load(start)
        step = _Step(carried, self._asked, there, taken, ended=ended)
        with scratch.folder() as room:
            rows = step.decode(room)
            carried.waiting = new[len(taken) :]
            step.say_gone(gone)
            return self._checkpoint.offset(carried, start["batch"] + 1, ended=ended, rows=rows)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        after = self._checkpoint.load(end)
        made: list[InputPartition] = []
        if after.rows is not None:
            made += [GivenRows(self._checkpoint.place(one) if isinstance(one, str) else one) for one in after.rows]
        else:
            before = self._checkpoint.load(start)
            made += [_task(work, before.engines, before.given, after) for work in after.works]
        if after.notices and self._given["table"] == "findings":
            made.append(GivenRows(_findings(after.notices)))
        return made

    def commit(self, end: Offset) -> None:
        self._checkpoint.clean(end["batch"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        keep_freed_memory()
        if isinstance(partition, GivenRows):
            yield from self._fitted(partition.rows)
            return
        if not isinstance(partition, NewRows):  # Spark's own, where there is nothing to read
            return
        with scratch.folder() as room:
            task, asked = partition, self._asked
            asked = replace(asked, options=asked.options._replace(joined=task.joined))
            made = _decoded(task, asked, room)
            if made.problems and not self._given["ignoreMissingFiles"]:
                raise InputError(
                    f"{made.problems[0][1]}, and it was read for the state of the stream: rows of it would be missing; "
                    "set the option checkpointLocation of readStream for the next time, and ignoreMissingFiles to go on"
                )
            for path in made.rows:
                yield from self._fitted(str(path))

    def _fitted(self, rows: bytes | str) -> Iterator[pa.RecordBatch]:
        """The columns that are wanted, of rows as Parquet."""
        with BytesIO(rows) if isinstance(rows, bytes) else filesystem.open_file(rows) as stream:
            for batch in pq.ParquetFile(stream).iter_batches():
                yield fitted(batch, self._schema)

    def _there(self) -> dict[str, int]:
        """The captures that are there, and their bytes."""
        files = [path for path in files_of(self._given) if is_url(path) or Path(path).is_file()]
        sizes = zip(files, filesystem.each(file_size, files), strict=True)
        return {path: size for path, size in sizes if size}


def _taken(new: Sequence[str], sizes: Mapping[str, int], limit: ReadLimit) -> list[str]:
    """Those of the captures with news that a micro-batch takes."""
    if isinstance(limit, ReadMaxFiles):
        return list(new[: limit.max_files])
    held = 0
    for number, path in enumerate(new):
        held += sizes[path]
        if held > _AT_ONCE and number:
            return list(new[:number])
    return list(new)


def _task(work: SiteWork, engines: Mapping[str, bytes], given: Mapping[str, bytes], after: StreamState) -> NewRows:
    """Work with what it needs of the states around a micro-batch. engines, given: of the one before it."""
    site, state = after.sites[work.site], engines[work.state] if work.state is not None else None
    names = [file.path for file in site.files]
    return NewRows(work, names, state, given.get(work.site, b""), _said(site, work), after.joined)


def _decoded(task: NewRows, asked: Asked, room: Path) -> SiteRows:
    """Do the work of a task. room: an empty folder."""
    return decode_site(task.work, task.names, task.state, task.given, task.said, asked, room)


def _said(site: Site, work: SiteWork) -> list[tuple[str, str]]:
    """What is said of the files of a site beside those that are read."""
    read = {one.number for one in work.inputs}
    return [problem for number, file in enumerate(site.files) if number not in read for problem in file.problems]


def _findings(notices: Sequence[str]) -> bytes:
    """What is to be said of captures that are gone, as rows of `findings`."""
    rows = to_batch("findings", [finding(None, CAPTURES_GONE, text) for text in notices], [])
    stream = BytesIO()
    pq.write_table(pa.Table.from_batches([rows]), stream)
    return stream.getvalue()


def _is_unread(report: FileReport) -> bool:
    """Whether a file could not be read at all."""
    return any(kind == UNREADABLE for kind, _ in report.problems)


class _Step:
    """One micro-batch: what is to be read, and what comes of it."""

    def __init__(
        self, carried: StreamState, asked: Asked, there: Mapping[str, int], taken: Sequence[str], *, ended: bool
    ) -> None:
        """carried: is changed. there: captures and their bytes; taken: those that are read."""
        self._carried = carried
        self._there = there
        self._taken = taken
        self._ended = ended
        self._unread: list[str] = []  # captures that could not be read
        self._lost: set[str] = set()  # sites whose captures between what came late and what was read are gone
        plain = replace(asked, options=asked.options._replace(joined=None))
        made_by = f"{code_version('dissectors')} {plain}"
        if carried.made_by != made_by:
            self._forget_engines()
            carried.made_by = made_by
        carried.joined = self._joined(asked.options)
        self._asked = replace(asked, options=asked.options._replace(joined=carried.joined))
        self._before = {
            name: (site.clock, {f.place: (f.size, f.packets) for f in site.files if f.place})
            for name, site in carried.sites.items()
        }

    def decode(self, room: Path) -> list[Path]:
        """Decode what is new, and enter it into what is carried. Returns files of rows."""
        carried = self._carried
        engines = carried.engines
        carried.works = self._works()
        rows = []
        for number, work in enumerate(carried.works):
            folder = room / str(number)
            folder.mkdir()
            made = _decoded(_task(work, engines, carried.given, carried), self._asked, folder)
            rows += made.rows
            self._enter(work, made)
            unread = {number for number, read in made.reports.items() if _is_unread(read)}
            readable = tuple(one for one in work.inputs if one.number not in unread)
            carried.works[number] = work._replace(inputs=readable)  # what tasks do, if they decode it
        carried.seen = {path: size for path, size in carried.seen.items() if path in self._public}
        carried.seen |= {public_path(path): self._there[path] for path in self._taken}
        carried.keep_bounded()
        return rows

    def say_gone(self, paths: Sequence[str]) -> None:
        """Note captures that were there and went before they were read."""
        carried = self._carried
        lost = [*paths, *(path for path in self._unread if not exists(path))]
        carried.gone += len(lost)
        carried.notices = []
        if lost:
            names = first_of(sorted(map(public_path, lost)), _NAMED)
            carried.notices.append(f"{counted(len(lost), 'capture')} went before they were read ({names})")
        if self._lost:
            names = first_of(sorted(self._lost), _NAMED)
            carried.notices.append(
                f"captures came late at {counted(len(self._lost), 'capture point')} ({names}), and those behind them "
                "are gone: they were decoded by themselves"
            )

    # --- what is to be read ---

    @cached_property
    def _public(self) -> dict[str, str]:
        """The captures that are there, by their public names."""
        return {public_path(path): path for path in self._there}

    def _works(self) -> list[SiteWork]:
        carried, options = self._carried, self._asked.options
        after = Manifest(carried.made_by, 1, sites=carried.sites)
        sizes = dict.fromkeys(after.places(), 0) | {public_path(path): size for path, size in self._there.items()}
        captures = CapturesNow(sizes, self._public, options)
        wanted = [public_path(path) for path in self._taken if self._is_asked_for(path)]
        news = choose(after, wanted, captures, self._without_state)
        works = [self._work(name, files, captures) for name, files in news.inputs.items()]
        if self._ended:
            decoded = {work.site for work in works}
            works += [self._ending(name, captures) for name in carried.sites if name not in decoded]
        return works

    def _is_asked_for(self, path: str) -> bool:
        site, options = self._asked.selection.site, self._asked.options
        return site is None or is_named(site_of(path, options.site, options.joined), site)

    def _work(self, name: str, files: Sequence[Input], captures: CapturesNow) -> SiteWork:
        """What is to be read of a site that has news."""
        site = self._carried.sites[name]
        clock, known = self._before.get(name, (-1, {}))
        went_back = site.clock < clock
        inputs, read_before = [], []
        for one in files:
            place = public_path(one.path)
            inputs.append(StreamInput(one.number, one.path, captures.size[place], one.since))
            size, packets = known.get(place, (0, 0))
            if went_back and packets:
                read_before.append(StreamInput(one.number, one.path, min(size, captures.size[place]), one.since))
        late = clock if name in self._lost else None
        return SiteWork(name, self._state(site), tuple(inputs), tuple(read_before), late, self._ended)

    def _ending(self, name: str, captures: CapturesNow) -> SiteWork:
        """The end of the captures of a site without news; where its state could not be written, they are read again."""
        site = self._carried.sites[name]
        state = self._state(site)
        there = [] if state is not None else [(n, f) for n, f in enumerate(site.files) if captures.has(f)]
        inputs = tuple(StreamInput(n, self._public[f.place], captures.size[f.place]) for n, f in there)
        return SiteWork(name, state, inputs, inputs, None, self._ended)

    @staticmethod
    def _state(site: Site) -> str | None:
        """The key of the state of a site at its last stage; None where there is none."""
        return site.states().get(_PART)

    def _without_state(
        self, after: Manifest, name: str, fates: Fates, replaced: Replaced, captures: CapturesNow
    ) -> list[Input]:
        """What is to be read of a site that cannot go back before what came late: it goes on, and that is apart."""
        self._lost.add(name)
        site = after.sites[name]
        inputs, new = [], []
        for path, (fate, file) in fates.items():
            if fate == Fate.GROWN and file is not None:
                inputs.append(captures.rest(site.files.index(file), file, file.reached, -1))
            elif fate in READ:
                if file is not None:
                    file.place = ""
                new.append(path)
        return inputs + captures.add_to(site, new)

    def _forget_engines(self) -> None:
        """Have no states: all is decoded again, as far as captures are there."""
        for site in self._carried.sites.values():
            for stage in site.stages[1:]:
                stage.states = {_PART: None}
        self._carried.engines = {}

    def _joined(self, options: Options) -> dict[str, str]:
        """Which capture points are one with another. Those that have been read keep their names."""
        carried = self._carried
        spans = {name: (site.first, site.clock) for name, site in carried.sites.items() if site.first is not None}
        found = joined_sites(list(self._there), options.site, carried.joined, spans)
        read = {site_of(file.path, PLACE) for site in carried.sites.values() for file in site.files}
        return {site: name for site, name in found.items() if site not in read} | carried.joined

    # --- what came of it ---

    def _enter(self, work: SiteWork, made: SiteRows) -> None:
        """Enter what came of a piece of work."""
        carried = self._carried
        site = carried.sites[work.site]
        for number, report in made.reports.items():
            enter(site.files[number], report)
            if _is_unread(report):
                self._unread.append(report.path)
        if work.ended:
            carried.given[work.site] = made.open_rows
        carried.connections[work.site] = made.connections
        if not work.inputs or work.inputs == work.known:
            return
        times = []
        for one in work.inputs:
            read = made.reports.get(one.number)
            if read is not None and read.first is not None:
                times.append(max(read.first, one.part.clock if one.part else 0))
        key = None
        if made.state is not None:
            key = random.token_hex(8)
            carried.engines = {**carried.engines, key: made.state}
        clock = max([site.clock, *(report.clock for report in made.reports.values())])
        site.add([Stage(clock, {_PART: key})], min(times, default=None))
