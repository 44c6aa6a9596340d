"""What has become of the captures of a lake, and what is therefore to be read.

    fate       how it is known                                              what follows
    UNCHANGED  its size is that of before, or no capture can be read there  nothing: its rows stay
    FORGOTTEN  it could never be read, and nobody names it any more         its findings go
    UNREAD     no packet of it has been read, or some part could not be     it is read whole
    GROWN      it begins with the packets that were read                    it is read on from where it ended
    REWRITTEN  it begins with others, or ends before where it ended         its site is decoded anew
    REPLACED   it begins with others, all of them later: a ring of files    its rows stay; what lies there is another
    MOVED      a new name, and begins as a file that is gone                it is that file, and may have GROWN
    NEW        any other new name                                           it is read whole

A site goes on behind its last stage (see `storage.stages`) where all that is to be read follows what was read of its
capture point, else behind a stage before; where captures are gone that each such stage needs, it begins anew with those
that are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from dissectors.capture.files import FILE, site_of
from dissectors.capture.split import Input
from dissectors.options import Options
from pipelines.lake.captures import NO_CAPTURE, Alike, CapturesNow, Given, Look
from pipelines.lake.gone import Replaced
from pipelines.storage import filesystem
from pipelines.storage.lake_files import Manifest
from pipelines.storage.stages import UNKNOWN, File, Site

TOGETHER = 2000  # captures of which each is a capture point of its own, that are one site: tasks hold all at once


class Fate(Enum):
    """What has become of a file: see above."""

    UNCHANGED = auto()
    FORGOTTEN = auto()
    UNREAD = auto()
    GROWN = auto()
    REWRITTEN = auto()
    REPLACED = auto()
    MOVED = auto()
    NEW = auto()


READ = (Fate.UNREAD, Fate.GROWN, Fate.REWRITTEN, Fate.NEW)
"""Fates of files of which there is something to read."""
Fates = dict[str, tuple[Fate, File | None]]
"""Name -> what has become of a file, and which of those of its site it is; None of one that is NEW."""


@dataclass
class News:
    """What has to be read."""

    inputs: dict[str, list[Input]] = field(default_factory=dict)  # by site
    fates: set[Fate] = field(default_factory=set)  # that files had
    replaced: Replaced = field(default_factory=Replaced)  # rows of sites that begin anew


Anew = Callable[[Manifest, str, Fates, Replaced, CapturesNow], list[Input]]
"""What is to be read of a site (its name) that cannot go on from a stage, as captures are gone."""


def choose(after: Manifest, paths: Sequence[str], captures: CapturesNow, anew: Anew | None = None) -> News:
    """Find what is to be read, enter it into the manifest, and bring sites back to the stage that they go on from.

    paths: public names of the captures that may have changed. captures: these and all that the manifest knows. anew: by
    default such a site begins anew with the captures that are there.
    """
    options, given = captures.options, captures.given
    news = News()
    known = {file.place: file for site in after.sites.values() for file in site.files if file.place}
    changed = filesystem.each(lambda path: captures.has_changed(path, known.get(path)), paths)
    for file in known.values():
        if file.is_unread and file.place not in given:
            file.place, file.problems = "", []
            news.fates.add(Fate.FORGOTTEN)
    found = _by_site([path for path, has_changed in zip(paths, changed, strict=True) if has_changed], after, options)
    in_known_sites = [path for name, some in found.items() if name in after.sites for path in some]
    looks = defaultdict(lambda: NO_CAPTURE, captures.looks(in_known_sites))
    for name, some in found.items():
        site = after.sites.setdefault(name, Site())
        fates = _fates(site, {path: looks[path] for path in some}, captures)
        news.fates.update(fate for fate, _ in fates.values())
        inputs = _continued(site, fates, looks, captures)
        if inputs is None:
            inputs = (anew or _begun_anew)(after, name, fates, news.replaced, captures)
        if inputs:
            news.inputs[name] = inputs
    return news


def _by_site(paths: Sequence[str], after: Manifest, options: Options) -> dict[str, list[str]]:
    """Captures by the name of the site with which they are decoded.

    Where each capture is a capture point of its own, up to TOGETHER of those that are new are one site: what a lake
    keeps of each site would else be more than the packets of small captures.
    """
    if options.site == FILE:
        names = {name: site for site, one in after.sites.items() for f in one.files for name in (f.path, f.place)}
        new = sorted(path for path in paths if path not in names)
        names |= {path: new[n - n % TOGETHER] for n, path in enumerate(new)}
    else:
        names = {path: site_of(path, options.site, options.joined) for path in paths}
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        found[names[path]].append(path)
    return found


# --- what has become of each file ------------------------------------------------------------------------------------


def _fates(site: Site, looks: Mapping[str, Look], captures: CapturesNow) -> Fates:
    """What has become of files of a site, and which file of it each is. Enters where files lie now."""
    fates: Fates = {}
    for file in site.files:
        if file.place in looks:
            fate = _fate(file, looks[file.place], captures.size[file.place])
            if fate == Fate.REPLACED:
                file.place = ""
            else:
                fates[file.place] = fate, file
    gone: dict[Alike, list[File]] = defaultdict(list)
    for file in reversed(site.files):
        if not captures.has(file):
            gone[file.beginning].append(file)
    for path, look in looks.items():
        if path not in fates:
            alike = [gone[beginning] for beginning in reversed(look.beginnings) if gone.get(beginning)]
            moved = alike[0].pop() if alike else None
            fates[path] = (Fate.NEW if moved is None else _fate_of_moved(moved, look, captures.size[path])), moved
            if moved is not None:
                moved.place = path
    for path, (_, known) in fates.items():
        if known is not None and not looks[path].is_plain:
            known.forget_offsets()
    return fates


def _fate(file: File, look: Look, size: int) -> Fate:
    """What has become of a file where it lay before, by a look at what lies there."""
    if not look.is_capture:
        return Fate.UNCHANGED
    if file.beginning is not None and file.beginning not in look.beginnings:
        return Fate.REPLACED if look.first is not None and look.first > file.clock else Fate.REWRITTEN
    if file.size == UNKNOWN or not file.packets:
        return Fate.UNREAD
    return Fate.REWRITTEN if look.is_plain and file.end is not None and size < file.end else Fate.GROWN


def _fate_of_moved(file: File, look: Look, size: int) -> Fate:
    return Fate.MOVED if file.size == size else _fate(file, look, size)


# --- what is to be read ----------------------------------------------------------------------------------------------


def _continued(site: Site, fates: Fates, looks: Mapping[str, Look], captures: CapturesNow) -> list[Input] | None:
    """What has to be read of a site, which goes back to the last stage before all packets that are new.

    None where captures are gone that every such stage needs.
    """
    read = {path: (fate, file) for path, (fate, file) in fates.items() if fate in READ}
    if not read:
        return []
    lost = set(map(id, _lost(site.files, [file for file in site.files if captures.has(file)])))
    usable = site.stages_before(_earliest(site, read, looks, captures))
    stage = next((stage for stage in usable if not _misses(site, stage, lost, captures)), None)
    if stage is None:
        return None
    clock, is_last, begun = site.stages[stage].clock, stage == len(site.stages) - 1, site.begun(stage)
    anew = [file.place for file in site.files[begun:] if captures.has(file)]
    anew += [path for path, (_, file) in read.items() if file is None]
    site.go_back(stage)
    del site.files[begun:]
    rests = [
        captures.rest(number, file, file.reached if is_last else file.reached_at(clock), -1 if is_last else clock)
        for number, file in enumerate(site.files)
        if file.place in read or file.goes_beyond(clock)
    ]
    return rests + captures.add_to(site, anew)


def _earliest(site: Site, read: Fates, looks: Mapping[str, Look], captures: CapturesNow) -> int | None:
    """Time (ns) of the first packet that is to be read and does not follow all that was read of its capture point."""
    ends: dict[str, list[int]] = defaultdict(lambda: [-1, -1])  # of the files of each capture point, in order
    for one in site.files:
        ends[captures.point_of(one.path)].append(one.clock)
    for some in ends.values():
        some.sort()
    times = []
    for path, (fate, file) in read.items():
        before = ends[captures.point_of(file.path if file else path)]
        is_last = fate == Fate.GROWN and file is not None and file.clock == before[-1]
        latest = before[-2 if is_last else -1]  # of the others, where it goes on
        times += [time for time in _first_times(fate, file, looks[path], captures) if time <= latest]
    return min(times, default=None)


def _first_times(fate: Fate, file: File | None, look: Look, captures: CapturesNow) -> list[int]:
    """Time (ns) of the first packet of a file that is to be read; nothing where there is none."""
    if fate == Fate.REWRITTEN:
        return [0]  # before all that was read
    if fate == Fate.GROWN and file is not None:
        return captures.next_times(file)
    return [] if look.first is None else [look.first]


def _misses(site: Site, stage: int, lost: Collection[int], captures: CapturesNow) -> bool:
    """Whether files are gone that are needed to go on from a stage. lost: ids of what `_lost` gives."""
    clock, begun = site.stages[stage].clock, site.begun(stage)
    behind = ((number, file) for number, file in enumerate(site.files) if file.goes_beyond(clock))
    return any(id(file) in lost or (number < begun and not captures.has(file)) for number, file in behind)


def _begun_anew(after: Manifest, name: str, fates: Fates, replaced: Replaced, captures: CapturesNow) -> list[Input]:
    """What has to be read of a site that begins anew, with the captures that are there. The rows of the others stay."""
    site = after.sites[name]
    again = [file for file in site.files if captures.has(file) and not after.has_expired(file)]
    gone = [file for file in _lost(site.files, again) if file.packets]
    replaced.add(site, gone)
    after.gone += gone
    after.sites[name] = Site()
    paths = {*(file.place for file in again), *(path for path, (fate, _) in fates.items() if fate in READ)}
    return captures.add_to(after.sites[name], paths)


def _lost(files: Sequence[File], there: Sequence[File]) -> list[File]:
    """Files whose packets cannot be read again: they are not among those that are there, nor is one with all of these.

    One has all packets of another where it was compressed from that, and both were read.
    """
    most: dict[Alike, int] = {}  # packets of the longest file that is there, by its beginning
    for file in there:
        if file.beginning is not None:
            most[file.beginning] = max(most.get(file.beginning, 0), file.packets)
    ids = set(map(id, there))
    return [file for file in files if id(file) not in ids and most.get(file.beginning, -1) < file.packets]


# --- a lake that is decoded anew -------------------------------------------------------------------------------------


class Present(NamedTuple):
    """Which captures of a lake can be read again."""

    places: set[str]  # where these lie
    gone: list[File]  # the others
    expired: set[str]  # where captures lie that are among the others because the lake holds no rows of their time


def present(before: Manifest, options: Options, given: Given) -> Present:
    """Which captures of a lake that is to be decoded anew can be read again, wherever they lie now."""
    known = [file for site in before.sites.values() for file in site.files]
    read = [file for file in known + before.gone if file.packets]
    captures = CapturesNow.of({file.place for file in read if file.place} | set(given), given, options)
    there = [file for file in read if file.place and captures.size[file.place] == file.size]
    expired = [file for file in there if before.has_expired(file)]
    rest = _lost(read, there)
    begin = captures.beginnings(set(captures.size) - {file.place for file in there} if rest else ())
    gone = [file for file in rest if file.beginning not in begin]
    skipped = {file.place for file in expired}
    places = {file.place for file in known if file.packets and file.place and captures.size[file.place]}
    return Present(places - skipped, gone + expired, skipped)


def has_returned(before: Manifest, options: Options, given: Given) -> bool:
    """Whether a capture is there again that was gone when the lake was decoded anew."""
    missed = {file.beginning for file in before.gone if not before.has_expired(file)}
    if not missed:
        return False
    new = set(given) - before.places()
    return not missed.isdisjoint(CapturesNow.of(new, given, options).beginnings(new))
