"""Records of a capture store that grows: only what is new is decoded, and the lake is as of one run over everything.

    new files ─ cut ─► parts ─ the engine that stopped there goes on ─► rows, which stay
                                     │ pickled: the new state      └─► tail: what the end of the captures makes of it

What is to be read is found by `new_files`, tasks decode it as `engines` says, and this module commits what they made.

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
import secrets as random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from dissectors.capture.files import FILE, PLACE, site_of
from dissectors.capture.sites import joined_sites
from dissectors.capture.source import file_size
from dissectors.capture.split import Input
from dissectors.errors import UsageError
from dissectors.options import ALL_CORES, Options
from dissectors.redaction import public_path
from pipelines.executors.executor import Executor
from pipelines.formats import units
from pipelines.jobs import names
from pipelines.jobs.cutting import FileReport, Sharing
from pipelines.jobs.decode import NAMES, DecodingPart, merge_files, put_in_names, write_problems
from pipelines.jobs.plan import DecodedParts, checked, decoded, read_keylog, share_out
from pipelines.jobs.records import DecodedRecords, named
from pipelines.lake import expire, gone
from pipelines.lake.captures import CapturesNow, Given, enter
from pipelines.lake.engines import SiteJob, UpdateJob, continue_part, inner_stages
from pipelines.lake.gone import Replaced
from pipelines.lake.new_files import Fate, choose, has_returned, present
from pipelines.storage import filesystem, lake_files
from pipelines.storage.code_version import code_version
from pipelines.storage.lake_files import Commit, Manifest, Staged
from pipelines.storage.layout import RECORD_FOLDER
from pipelines.storage.record_files import TableFile, Written, may_hold, share, write_empty
from pipelines.storage.stages import OpenFile, Rows, Site, Stage
from pipelines.storage.tails import Tail

PARTS = 16  # of a lake, for good: engines go on in the part in which they were
MERGED = 16  # files of records, of about the same size, that become one
_LARGE = 5  # sixteenfold: files of half a million rows stay as they are


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


@dataclass
class Update:
    """What has to be done to bring a lake up to date; known before there is a session."""

    lake: str
    options: Options  # as tasks get them
    keylog: Sequence[bytes]  # TLS key logs that the user gave
    before: Commit | None  # what it holds
    after: Manifest  # of the lake as it will be
    inputs: Mapping[str, Sequence[Input]]  # what is to be read, by site
    given: Given
    anew: bool  # whether all of its captures are decoded again
    replaced: Replaced  # what it holds of captures that are decoded again

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
        """Decode what is new, and commit it."""
        after = self.after
        commit = None if self.has_news else lake_files.last(self.lake)
        commit = commit or self._committed(executor)
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
        after, options = self.after, self.options
        clock = max((site.clock for site in after.sites.values()), default=0)
        with lake_files.staging(self.lake) as name:
            lake = Staged(self.before, filesystem.join(self.lake, name))
            executor.check(lake.staging)
            gone.keep(self.replaced, lake, after, options)
            new_names = _add(after, self.inputs, self._decoded(executor, lake), options)
            _resolve(executor, lake, after, new_names, clock, options)
            if self.replaced.gone:
                gone.notice(after, lake)
            expire.drop_rows(after, lake)
            _merge(executor, lake, after)
            _report(lake, after, options)
            after.edition = lake_files.new_edition()
            return lake_files.commit(self.lake, name, self.before, after)

    def _decoded(self, executor: Executor, lake: Staged) -> DecodedParts:
        """Decode what is new: a list of SitePart of each part."""
        if not self.inputs:
            return DecodedParts([], [])
        sites = {name: self._site_job(name, self.after.sites[name], lake) for name in self.inputs}
        own = self.options.site == FILE  # whether each capture is a capture point of its own
        job = UpdateJob(
            lake.staging,
            self.options,
            (),
            Sharing(self.after.parts),
            tuple(self.keylog),
            True,
            by_site=not own,
            sites=sites,
            site_of_point={point: name for name, site in sites.items() for point in site.points} if own else {},
        )
        files = [file for some in self.inputs.values() for file in some]
        return decoded(executor, job, share_out(executor, files, self.options).works, continue_part)

    def _site_job(self, name: str, site: Site, lake: Staged) -> SiteJob:
        files = [file.path for file in site.files]
        points = files if self.options.site == FILE else [name]
        states = {part: lake.state(state) for part, state in site.states().items() if state}
        tails = {part: _tail(lake, rows) for part, rows in site.tails.items()}
        return SiteJob(points, files, site.clock, states, tails, gone.kept_connections(self.after, lake, points))


@contextmanager
def planned(files: Sequence[str], lake: str, options: Options) -> Iterator[Update]:
    """What brings LAKE/records up to date with these capture files, and those that it has read before.

    files: as `capture.expand` gives them. Nobody else updates the lake inside of the block.
    """
    lake = filesystem.absolute(lake)
    with lake_files.locked(lake):
        keylog = read_keylog(options)
        before = lake_files.last(lake)
        options = options._replace(keylog=None, joined=_joined(files, before.manifest if before else None, options))
        lake_files.clean(lake, before)
        made_by = _made_by(options, keylog)
        if before is None and filesystem.folders(lake, RECORD_FOLDER):
            raise UsageError(f"{lake}: holds records that --update did not write; use another OUT")
        given = {public_path(path): path for path in files}
        anew, after, known, expired = True, Manifest(made_by, PARTS), set[str](), set[str]()
        if before is not None:
            manifest = before.manifest
            anew = (manifest.made_by, manifest.format) != (made_by, lake_files.FORMAT)
            anew = anew or _is_joined_otherwise(manifest, options) or has_returned(manifest, options, given)
            if anew:
                known, after.gone, expired = present(manifest, options, given)
                after.since = manifest.since
            else:
                after, known = manifest, manifest.places()
        after.joined = dict(options.joined or {})
        paths = [*sorted(known - set(given)), *(path for path in given if path not in expired)]
        news = choose(after, paths, CapturesNow.of(paths, given, options))
        replaced = Replaced.of_all(before.manifest, after.gone) if before and anew else news.replaced
        if not news.inputs and not news.fates.isdisjoint((Fate.MOVED, Fate.FORGOTTEN)):
            with lake_files.staging(lake) as name:
                if Fate.FORGOTTEN in news.fates:
                    _report(Staged(before, filesystem.join(lake, name)), after, options)
                    after.edition = lake_files.new_edition()
                lake_files.commit(lake, name, before, after)
        yield Update(lake, options, keylog, before, after, news.inputs, given, anew, replaced)


def update_records(executor: Executor, files: Sequence[str], lake: str, options: Options) -> DecodedRecords:
    """Bring LAKE/records up to date. Arguments and errors are those of `planned`."""
    with planned(files, lake, options) as update:
        return update.run(executor)


def _made_by(options: Options, keylog: Sequence[bytes]) -> str:
    """What decides how captures are decoded."""
    secrets = hashlib.sha256(b"".join(keylog)).hexdigest() if keylog else ""
    plain = options._replace(jobs=ALL_CORES, joined=None)  # rows do not depend on jobs; sites are those of each run
    return f"{code_version('dissectors')} {plain} {secrets}"


def _joined(files: Sequence[str], before: Manifest | None, options: Options) -> Mapping[str, str]:
    """Which capture points are one with another: those of which the lake knows it, and what the captures say."""
    if before is None:
        return joined_sites(files, options.site)
    spans = {name: (site.first, site.clock) for name, site in before.sites.items() if site.first is not None}
    known = before.places() - {public_path(path) for path in files}
    return joined_sites([*sorted(known), *files], options.site, before.joined, spans)


def _is_joined_otherwise(before: Manifest, options: Options) -> bool:
    """Whether captures that a lake has read belong to another capture point, as captures show that came since."""
    read = {site_of(path, PLACE) for path in before.paths()}
    return any(before.joined.get(site) != name for site, name in (options.joined or {}).items() if site in read)


def _tail(lake: Staged, rows: Rows) -> Tail:
    records = [TableFile(file.table, lake.record(file)) for file in rows.records]
    return Tail(records, [TableFile(file.table, lake.waiting(file.path)) for file in rows.open])


def _add(after: Manifest, inputs: Mapping[str, Sequence[Input]], made: DecodedParts, options: Options) -> list[str]:
    """Enter what tasks made into the manifest; returns the files of names, below staging/names."""
    new_names = []
    reports: dict[str, list[FileReport]] = defaultdict(list)
    for read in made.reports:
        reports[read.path].append(read)
    stages: dict[str, list[Stage]] = {}
    for name, files in inputs.items():
        site = after.sites[name]
        read_of_site = [read for file in files for read in reports[file.path]]
        ends = [read.clock for read in read_of_site if read.last]
        times = inner_stages(options, site.clock, ends)
        clock = max([site.clock, *(read.clock for read in read_of_site)])
        stages[name] = [Stage(time) for time in [*times, clock]]
        for file in files:
            for read in reports[file.path]:
                enter(site.files[file.number], read)
    for one in (one for sites in made.parts for one in sites):
        for step in one.steps:
            stage = stages[one.site][step.stage]
            stage.states[one.part] = step.state
            _extend(stage.rows, step.rows)
            new_names += step.rows.names
        tail = after.sites[one.site].tails[one.part] = Rows()
        _extend(tail, one.tail)
        new_names += one.tail.names
    for name, files in inputs.items():
        after.sites[name].add(stages[name], _first_time(files, reports))
    return new_names


def _first_time(files: Iterable[Input], reports: Mapping[str, Sequence[FileReport]]) -> int | None:
    """Earliest time (ns) of a packet that was new."""
    times = []
    for file in files:
        before = max(file.since.clock, file.since.after + 1) if file.since else 0
        times += [max(read.first, before) for read in reports[file.path] if read.first is not None]
    return min(times, default=None)


def _extend(rows: Rows, made: DecodingPart) -> None:
    rows.records += made.records
    rows.open += [OpenFile(file.table, file.path) for file in made.open]


def _resolve(
    executor: Executor, lake: Staged, after: Manifest, new_names: Sequence[str], clock: int, options: Options
) -> None:
    """Put names into rows: into new ones, and into old ones of which a name has become known.

    new_names: files of names that this run wrote. clock: the time (ns) of the last packet that the lake had before.
    """
    news: Mapping[str, int] = {}
    if new_names:
        paths = [*map(lake.names, after.names)], [*map(lake.names, new_names)]
        merge = partial(_merge_names, lake.staging, options.limits.name_wait_ns)
        described_as = f"bringing names together: {units.counted(len(new_names), 'file')}"
        (merged,) = executor.map(merge, [paths], described_as)
        news = merged.news
        after.names = after.names if merged.path is None else [merged.path]
    known = [*map(lake.names, after.names)]
    files = [file for rows in after.rows() for file in rows.open]
    changed = {key: time for key, time in news.items() if time // 1000 <= clock // 1000}  # rows have whole µs
    since = min(changed.values(), default=0)
    fresh = [file for file in files if not file.records]
    stale = [file for file in files if changed and file.records and may_hold(file.path, since)]
    for some, only in ((fresh, None), (stale, frozenset(changed))):
        waiting = [TableFile(file.table, lake.waiting(file.path)) for file in some]
        made = named(executor, partial(put_in_names, lake.staging, known, options, only=only), waiting)
        for file, records in zip(some, made, strict=True):
            file.records = file.records if records is None else records


def _merge(executor: Executor, lake: Staged, after: Manifest) -> None:
    """Write small files of rows that stay as larger ones: MERGED files of about the same size become one.

    So a row is written again a few times in all, and a folder holds few files however often the lake was updated.
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
    work = [[TableFile(file.table, lake.record(file)) for file in files] for _, files in chosen]
    gone: dict[tuple[str, int], set[Written]] = defaultdict(set)
    made: dict[tuple[str, int], list[Written]] = defaultdict(list)
    described_as = f"joining small files of records: {units.count(sum(map(len, work)))}"
    merge = partial(merge_files, filesystem.join(lake.staging, RECORD_FOLDER))
    for (key, files), merged in zip(chosen, executor.map(merge, work, described_as), strict=True):
        gone[key].update(files)
        made[key] += merged
    for (name, number), old in gone.items():  # once for each stage, which may hold thousands of groups
        rows = after.sites[name].stages[number].rows
        rows.records = [file for file in rows.records if file not in old] + made[name, number]


def _report(lake: Staged, after: Manifest, options: Options) -> None:
    """Write the findings about all files, and a file without rows for each table that has none."""
    after.notes = write_problems(filesystem.join(lake.staging, RECORD_FOLDER), after.problems(), options)
    filled = {file.table for file in after.records() if file.rows}
    after.empty = [file for file in after.empty if file.table not in filled]
    there = filled | {file.table for file in after.empty}
    after.empty += write_empty(filesystem.join(lake.staging, RECORD_FOLDER), options, there)
