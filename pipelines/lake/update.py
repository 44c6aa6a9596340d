"""Records of a capture store that grows: only what is new is decoded, and the lake is as of one run over everything.

    new files ─ cut ─► parts ─ the engine that stopped there goes on ─► rows, which stay
                                     │ pickled: the new state      └─► tail: what the end of the captures makes of it

An engine is kept for each site and part, as it was before its captures ended; what their end made of open connections
(unanswered requests, their rows in `connections`) is the tail, which the next run replaces: it ends those that got
packets, and copies the rows of the others, which stay the bytes that they are in the state. So a run costs what is new.
Packets from before the end of their site (a file came late, or two grow side by side) cannot be added at the end: the
site goes back to a stage before them (see `storage.stages`) and is decoded again from there. A site whose state holds
TLS secrets has no stages, for these are never written. Nor are passwords in URLs: a lake knows a capture by its public
name, and opens it by the one that the user gives.
"""

from __future__ import annotations

import hashlib
import pickle
import secrets as random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter

from dissectors.capture.block import PacketBlock
from dissectors.capture.fragments import Packet
from dissectors.capture.source import file_size
from dissectors.capture.split import Input
from dissectors.engine import Engine, decode_all, end_all
from dissectors.errors import BrokerscopeError, UsageError
from dissectors.findings import UNREADABLE
from dissectors.options import ALL_CORES, Options
from dissectors.redaction import public_path
from pipelines.executors.executor import Executor
from pipelines.formats import units
from pipelines.jobs import names
from pipelines.jobs.arrival import Arrival
from pipelines.jobs.cutting import FileReport, Sharing
from pipelines.jobs.decode import (
    NAMES,
    OPEN,
    DecodingPart,
    Job,
    Merging,
    Output,
    PartPackets,
    Waiting,
    merge_files,
    put_in_names,
    write_problems,
)
from pipelines.jobs.plan import DecodedParts, checked, decoded, read_keylog, share_out
from pipelines.jobs.records import DecodedRecords, named
from pipelines.lake import expire, gone
from pipelines.lake.gone import Replaced
from pipelines.lake.new_files import Given, choose, has_returned, present
from pipelines.storage import filesystem, lake_files
from pipelines.storage.code_version import code_version
from pipelines.storage.lake_files import Commit, Manifest, Staged
from pipelines.storage.layout import LAKE_FOLDER, RECORD_FOLDER
from pipelines.storage.record_files import Written, may_hold, share, write_empty
from pipelines.storage.stages import UNKNOWN, File, OpenFile, Rows, Site, Stage, times_of_stages
from pipelines.storage.tails import Tail, TailFile, Untouched

STATE = "state"  # folder of a run's staging folder
PARTS = 16  # of a lake, for good: engines go on in the part in which they were
MERGED = 16  # files of records, of about the same size, that become one
_LARGE = 5  # sixteenfold: files of half a million rows stay as they are


@dataclass(frozen=True)
class UpdateJob(Job):
    """What every task of an update is given."""

    numbered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # site -> its files, by their numbers
    clocks: Mapping[str, int] = field(default_factory=dict)  # site -> time of the stage from which it goes on, ns
    states: Mapping[tuple[str, int], str] = field(default_factory=dict)  # site and part -> URL of its state
    tails: Mapping[tuple[str, int], Tail] = field(default_factory=dict)  # and what it left of its open connections
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)  # site -> URLs of connections, as of `gone.used`


@dataclass
class PartStage:
    """What came to one part of a site up to a stage."""

    stage: int  # of those of the run
    state: str | None  # where the part stood: below staging/state; None where it cannot go on from there
    rows: DecodingPart


@dataclass
class SitePart:
    """What became of one part of a site."""

    site: str
    part: int
    steps: list[PartStage]
    tail: DecodingPart


# --- the tasks -------------------------------------------------------------------------------------------------------


def continue_part(given: PartPackets, job: Job) -> list[SitePart]:
    """Go on with the engines of a part's sites."""
    assert isinstance(job, UpdateJob)
    secrets = list(job.secrets)
    engines: dict[str, tuple[int, Engine, Mapping[bytes, bytes]]] = {}

    def carried(site: str, part: int) -> list[Packet]:
        running, fragments = _load(job, site, part)
        engines[site] = part, running, running.packed(site)
        return fragments

    def ended(site: str, blocks: Iterable[tuple[str, PacketBlock]]) -> SitePart:
        part, running, before = engines.pop(site)
        for secret in secrets:
            running.keylog.add(secret)
        times = times_of_stages(job.clocks[site], arrival.ends.get(site, ()))
        steps = []
        for stage, some in _by_stage(blocks, times):
            first = list(islice(some, 1))
            is_last = stage == len(times)
            waits = not is_last and arrival.wait_at(site, times[stage])
            if not first and not is_last and not waits:
                continue  # it stands where it stood
            stay = Output(job.staging)
            stay.take(running, decode_all(running, chain(first, some)))
            running.pack()
            state = None if waits else _save(job, running, arrival.pending.get(site, []) if is_last else [])
            steps.append(PartStage(stage, state, stay.close()))
        tail = Output(job.staging)
        untouched = Untouched.since(before, running, site)
        running.leave_out(site, untouched.keys)
        tail.take(running, end_all(running))
        if (site, part) in job.tails:
            tail.copy(job.tails[site, part], untouched)
        return SitePart(site, part, steps, tail.close())

    arrival = Arrival(*given, job.sharing, secrets.append, carried)
    sites = [ended(site, blocks) for site, blocks in groupby(arrival.blocks(), key=itemgetter(0))]
    sites += [ended(site, ()) for site in list(engines)]  # those of which there are fragments only
    return sites


def _by_stage(
    blocks: Iterable[tuple[str, PacketBlock]], times: Sequence[int]
) -> Iterator[tuple[int, Iterator[tuple[str, PacketBlock]]]]:
    """(stage, what comes up to its time) for each stage of a run; times: of all but the last, ns."""
    waiting = iter(blocks)
    rest: list[tuple[str, PacketBlock]] = []

    def until(time: int) -> Iterator[tuple[str, PacketBlock]]:
        for site, block in chain([rest.pop()] if rest else [], waiting):
            before, behind = block.cut_at(time)
            if before is not None:
                yield site, before
            if behind is not None:
                rest.append((site, behind))
                return

    for stage, time in enumerate(times):
        yield stage, until(time)
    yield len(times), chain(rest, waiting)


def _load(job: UpdateJob, site: str, part: int) -> tuple[Engine, list[Packet]]:
    """The engine of a part of a site, and the fragments that wait for others."""
    files = list(job.numbered[site])
    url = job.states.get((site, part))
    if url is None:
        begun = Engine(job.options, files)
        if site in job.kept:
            begun.number_on(site, gone.used(job.kept[site], job.sharing.parts, part))
        return begun, []
    data = filesystem.read(url)
    if data is None:
        raise BrokerscopeError(f"{url}: is missing, and OUT cannot be updated without it; analyze into another OUT")
    try:
        running, fragments = pickle.loads(data)
    except Exception as error:  # a damaged pickle may raise anything
        text = f"{url}: is damaged, and OUT cannot be updated without it; analyze into another OUT"
        raise BrokerscopeError(text) from error
    running.sink.files = files
    return running, fragments


def _save(job: UpdateJob, running: Engine, fragments: list[Packet]) -> str | None:
    """Write an engine's state; None where it holds what cannot or must not be written."""
    if len(running.keylog):
        return None
    try:
        data = pickle.dumps((running, fragments))
    except (TypeError, AttributeError, pickle.PicklingError, RecursionError):  # a cipher in the middle of a stream
        return None
    name = f"{random.token_hex(8)}.pickle"
    filesystem.write(filesystem.join(job.staging, STATE, name), data)
    return name


@dataclass
class MergedNames:
    """The names of a lake with those of a run."""

    path: str | None  # below staging/names; None where nothing is new
    news: Mapping[str, int]  # keys that rows are called otherwise by -> the earliest time (ns) of such a row


def _merge_names(staging: str, wait_ns: int, paths: tuple[Sequence[str], Sequence[str]]) -> MergedNames:
    old, new = paths
    before, after = names.load(old, wait_ns=wait_ns), names.load([*old, *new], wait_ns=wait_ns)
    if set(before) == set(after):
        return MergedNames(None, {})
    name = f"names-{random.token_hex(8)}.parquet"
    names.save(after, filesystem.join(staging, NAMES, name))
    return MergedNames(name, after.news(before))


# --- the driver ------------------------------------------------------------------------------------------------------


@dataclass
class Update:
    """What has to be done to bring a lake up to date; known before there is a session."""

    lake: str
    options: Options  # as tasks get them
    keylog: Sequence[bytes]  # TLS key logs that the user gave
    before: Commit | None  # what it holds
    had: frozenset[str]  # the files inside of that
    after: Manifest  # of the lake as it will be
    inputs: Mapping[str, Sequence[Input]]  # what is to be read, by site
    given: Given
    anew: bool  # whether all of its captures are decoded again
    replaced: Replaced  # what it holds of captures that are decoded again
    edition: str  # of its records; "" where there are none

    @property
    def has_news(self) -> bool:
        """Whether the records change."""
        return self.anew or bool(self.inputs)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Kind of finding, message: files that were not read whole. Raises InputError where none was."""
        read = sum(len(site.files) for site in self.after.sites.values()) + len(self.after.gone)
        return checked(self.after.problems(), read)

    def run(self, executor: Executor) -> DecodedRecords:
        """Decode what is new."""
        after = self.after
        commit = self._committed(executor) if self.has_news or self.before is None else self.before
        known = {
            self.given.get(file.place, file.place): file
            for site in after.sites.values()
            for file in site.files
            if file.place
        }
        paths = list(known)
        there = [path for path, size in zip(paths, filesystem.each(file_size, paths), strict=True) if size]
        spans = {path: (file.first, file.clock) for path, file in known.items() if file.first is not None}
        return DecodedRecords(
            commit.records, list(after.records()), there, self.problems, self.options, list(self.keylog), spans
        )

    def _committed(self, executor: Executor) -> Commit:
        """Decode what is new and commit it."""
        after, options = self.after, self.options
        home = self.before.home if self.before else self.lake
        with lake_files.staging(self.lake) as name:
            staging = filesystem.join(self.lake, name)
            executor.check(staging)
            lake = Staged(home, staging, self.had)
            gone.keep(self.replaced, lake, after, options)
            kept = gone.kept_connections(after, lake, self.inputs)
            made = _decode(executor, home, staging, after, self.inputs, options, self.keylog, kept)
            clock = max((site.clock for site in after.sites.values()), default=0)
            new_names = _add(after, self.inputs, made)
            _resolve(executor, home, staging, after, new_names, clock, options)
            if self.replaced.gone:
                gone.notice(after, lake)
            expire.drop_rows(after, lake)
            _report(staging, after, options)
            _merge(executor, home, staging, after, self.had)
            _fill_up(staging, after, options)
            after.edition = lake_files.new_edition()
            return lake_files.commit(self.lake, name, self.before, self.had, after)


@contextmanager
def planned(files: Sequence[str], lake: str, options: Options) -> Iterator[Update]:
    """What brings LAKE/records up to date with these capture files, and those that it has read before.

    files: as `capture.expand` gives them. Nobody else updates the lake inside of the block.
    """
    lake = filesystem.absolute(lake)
    with lake_files.locked(lake):
        keylog = read_keylog(options)
        options = replace(options, keylog=None)
        before = lake_files.last(lake)
        lake_files.clean(lake, before)
        made_by = _made_by(options, keylog)
        if before is None and filesystem.folders(lake, RECORD_FOLDER):
            raise UsageError(f"{lake}: holds records that --update did not write; use another OUT")
        had = frozenset(before.manifest.inside()) if before else frozenset[str]()
        edition = lake_files.edition_of(before.manifest) if before else ""
        given = {public_path(path): path for path in files}
        anew, after, known, expired = True, Manifest(made_by, PARTS), set[str](), set[str]()
        replaced = Replaced()
        if before is not None:
            manifest = before.manifest
            anew = (manifest.made_by, manifest.format) != (made_by, lake_files.FORMAT)
            anew = anew or has_returned(manifest, options, given)
            if anew:
                known, after.gone, expired = present(manifest, options, given)
                after.since = manifest.since
                replaced = Replaced.of_all(manifest, after.gone)
            else:
                after, known = manifest, manifest.places()
        paths = [*sorted(known - set(given)), *(path for path in given if path not in expired)]
        news = choose(after, paths, options, given)
        for site in news.renewed:
            replaced.add(site, news.gone)
            after.gone += news.gone
        if (news.moved or news.dropped) and not news.inputs:
            with lake_files.staging(lake) as staging:
                if news.dropped:
                    _report(filesystem.join(lake, staging), after, options)
                    after.edition = lake_files.new_edition()
                    _fill_up(filesystem.join(lake, staging), after, options)
                before = lake_files.commit(lake, staging, before, had, after)
        yield Update(lake, options, keylog, before, had, after, news.inputs, given, anew, replaced, edition)


def update_records(executor: Executor, files: Sequence[str], lake: str, options: Options) -> DecodedRecords:
    """Bring LAKE/records up to date. Arguments and errors are those of `planned`."""
    with planned(files, lake, options) as update:
        return update.run(executor)


def _made_by(options: Options, keylog: Sequence[bytes]) -> str:
    """What decides how captures are decoded."""
    secrets = hashlib.sha256(b"".join(keylog)).hexdigest() if keylog else ""
    return f"{code_version('dissectors')} {replace(options, jobs=ALL_CORES)} {secrets}"  # rows do not depend on jobs


def _decode(
    executor: Executor,
    home: str,
    staging: str,
    after: Manifest,
    inputs: Mapping[str, Sequence[Input]],
    options: Options,
    keylog: Sequence[bytes],
    kept: Mapping[str, Sequence[str]],
) -> DecodedParts:
    """Decode what is new: a list of SitePart of each part."""
    if not inputs:
        return DecodedParts([], [])
    states = {
        (name, part): filesystem.join(home, LAKE_FOLDER, STATE, state)
        for name in inputs
        for part, state in after.sites[name].states().items()
        if state
    }
    tails = {(name, part): _tail(home, rows) for name in inputs for part, rows in after.sites[name].tails.items()}
    clocks = {name: after.sites[name].clock for name in inputs}
    numbered = {name: tuple(file.path for file in after.sites[name].files) for name in inputs}
    works = share_out(executor, [file for files in inputs.values() for file in files], options).works
    job = UpdateJob(
        staging, options, (), Sharing(after.parts), tuple(keylog), True, numbered, clocks, states, tails, kept
    )
    return decoded(executor, job, works, continue_part)


def _tail(home: str, rows: Rows) -> Tail:
    records = [TailFile(file.table, filesystem.join(home, RECORD_FOLDER, file.path)) for file in rows.records]
    waiting = [TailFile(file.table, filesystem.join(home, LAKE_FOLDER, OPEN, file.path)) for file in rows.open]
    return Tail(records, waiting)


def _add(after: Manifest, inputs: Mapping[str, Sequence[Input]], made: DecodedParts) -> list[str]:
    """Enter what tasks made into the manifest; returns the files of names, below staging/names."""
    new_names = []
    reports: dict[str, list[FileReport]] = {}
    for read in made.reports:
        reports.setdefault(read.path, []).append(read)
    stages = {
        name: _stages(after.sites[name], {file.number: reports.get(file.path, []) for file in files})
        for name, files in inputs.items()
    }
    for one in (one for sites in made.parts for one in sites):
        site = after.sites[one.site]
        for step in one.steps:
            stage = stages[one.site][step.stage]
            stage.states[one.part] = step.state
            _extend(stage.rows, step.rows)
            new_names += step.rows.names
        tail = site.tails[one.part] = Rows()
        _extend(tail, one.tail)
        new_names += one.tail.names
    for name, some in stages.items():
        after.sites[name].stages += some
        after.sites[name].thin()
    return new_names


def _stages(site: Site, reports: Mapping[int, Sequence[FileReport]]) -> list[Stage]:
    """Enter what was read of files into their site; returns the stages that this makes, still without rows.

    reports: of the parts of each file, by its number.
    """
    marks = {number: [site.reached(-1, number)] for number in reports}
    for number, parts in reports.items():
        for read in parts:
            _enter(site.files[number], read)
            marks[number] += read.marks
    ends = {number: max((read.clock for read in parts), default=0) for number, parts in reports.items()}
    stages = []
    for time in times_of_stages(site.clock, (read.clock for parts in reports.values() for read in parts if read.last)):
        begun = [number for number in reports if (first := site.files[number].first) is not None and first <= time]
        files = max([site.stages[-1].files, *(number + 1 for number in begun)])
        behind = [number for number in reports if number < files and ends[number] > time]
        before = {number: [mark for mark in marks[number] if mark.clock <= time] for number in behind}
        grown = {number: max(some, key=attrgetter("clock")) for number, some in before.items()}
        stages.append(Stage(time, files, grown))
    return [*stages, Stage(max([site.clock, *ends.values()]), len(site.files))]


def _enter(file: File, read: FileReport) -> None:
    """Enter what was read of a file, or of a part of it."""
    file.problems += read.problems
    if any(kind == UNREADABLE for kind, _ in read.problems):
        file.size = UNKNOWN
    file.packets = max(file.packets or 0, read.packets)
    file.clock = max(file.clock, read.clock)
    if read.first is not None:
        file.first = read.first if file.first is None else min(file.first, read.first)
    if file.end is None or read.end is None:
        file.end = read.end
    else:
        file.end = max(file.end, read.end)
    if read.beginning is not None:
        file.beginning = read.beginning


def _extend(rows: Rows, made: DecodingPart) -> None:
    rows.records += made.records
    rows.open += [OpenFile(file.table, file.path) for file in made.open]


def _resolve(
    executor: Executor,
    home: str,
    staging: str,
    after: Manifest,
    new_names: Sequence[str],
    clock: int,
    options: Options,
) -> None:
    """Put names into rows: into new ones, and into old ones of which a name has become known.

    clock: the time (ns) of the last packet that the lake had before.
    """
    old = [filesystem.join(home, LAKE_FOLDER, NAMES, path) for path in after.names]
    merged = MergedNames(None, {})
    if new_names:
        new = [filesystem.join(staging, NAMES, path) for path in new_names]
        merge = partial(_merge_names, staging, options.limits.name_wait_ns)
        (merged,) = executor.map(merge, [(old, new)], f"bringing names together: {units.counted(len(new), 'file')}")
    if merged.path is not None:
        after.names, old = [merged.path], [filesystem.join(staging, NAMES, merged.path)]
    files = [file for rows in after.rows() for file in rows.open]
    fresh = [file for file in files if not file.records]
    changed = {key: time for key, time in merged.news.items() if time // 1000 <= clock // 1000}  # rows have whole µs
    since = min(changed.values(), default=0)
    stale = [file for file in files if file.records and may_hold(file.path, since)] if changed else []
    for some, folder, only in (
        (fresh, filesystem.join(staging, OPEN), None),
        (stale, filesystem.join(home, LAKE_FOLDER, OPEN), frozenset(changed)),
    ):
        waiting = [Waiting(file.table, filesystem.join(folder, file.path)) for file in some]
        made = named(executor, partial(put_in_names, staging, old, options, only=only), waiting)
        for file, records in zip(some, made, strict=True):
            file.records = file.records if records is None else records


def _merge(executor: Executor, home: str, staging: str, after: Manifest, had: Collection[str]) -> None:
    """Write small files of rows that stay as larger ones: MERGED files of about the same size become one.

    So a row is written again a few times in all, and a folder holds few files however often the lake was updated.
    had: the files that are in the lake already, and not in staging.
    """
    groups: dict[tuple[str, int, str, int], list[Written]] = {}
    for name, site in after.sites.items():
        for number, stage in enumerate(site.stages):
            for file in stage.rows.records:
                if (size := file.rows.bit_length() // 4) < _LARGE:
                    groups.setdefault((name, number, share(file.path), size), []).append(file)
    chosen = [(key[:2], files) for key, files in groups.items() if len(files) >= MERGED]
    if not chosen:
        return

    def place(file: Written) -> str:
        inside = f"{RECORD_FOLDER}/{file.path}"
        return filesystem.join(home if inside in had else staging, inside)

    work = [Merging(files[0].table, tuple(map(place, files))) for _, files in chosen]
    gone: dict[tuple[str, int], set[Written]] = defaultdict(set)
    made: dict[tuple[str, int], list[Written]] = defaultdict(list)
    described_as = f"joining small files of records: {units.count(sum(len(files) for _, files in chosen))}"
    for (key, files), merged in zip(
        chosen, executor.map(partial(merge_files, staging), work, described_as), strict=True
    ):
        gone[key].update(files)
        made[key] += merged
    for (name, number), old in gone.items():  # once for each stage, which may hold thousands of groups
        rows = after.sites[name].stages[number].rows
        rows.records = [file for file in rows.records if file not in old] + made[name, number]


def _report(staging: str, after: Manifest, options: Options) -> None:
    """Write the findings about all files."""
    after.notes = write_problems(staging, after.problems(), options)


def _fill_up(staging: str, after: Manifest, options: Options) -> None:
    """Write a file without rows for each table that has none."""
    filled = {file.table for file in after.records() if file.rows}
    after.empty = [file for file in after.empty if file.table not in filled]
    there = filled | {file.table for file in after.empty}
    after.empty += write_empty(filesystem.join(staging, RECORD_FOLDER), options, there)
