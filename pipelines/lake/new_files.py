"""What of a capture store is new to a lake: which files, and from which packet on.

A capture is known by its first packets, not by its name alone. So one that has grown is read on from where it ended,
one that was renamed or compressed is not read twice, and one that was written over is another capture, while the
records of what it held stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from dissectors.capture.beginning import Beginning
from dissectors.capture.files import site_of
from dissectors.capture.reader import Part, Reached, Reader
from dissectors.capture.source import file_size
from dissectors.capture.split import Input
from dissectors.errors import InputError
from dissectors.limits import KIB, Limits
from dissectors.options import Options
from pipelines.lake.gone import Replaced
from pipelines.storage import filesystem
from pipelines.storage.lake_files import Manifest
from pipelines.storage.stages import UNKNOWN, File, Site

Given = Mapping[str, str]  # a file's public name -> as the user gives it


@dataclass
class News:
    """What has to be read."""

    inputs: dict[str, list[Input]] = field(default_factory=dict)  # by site
    moved: bool = False  # whether a file lies elsewhere than the lake knew
    dropped: bool = False  # whether a file is not to be complained of any more
    replaced: Replaced = field(default_factory=Replaced)  # rows of sites that begin anew


def choose(after: Manifest, paths: Sequence[str], options: Options, given: Given) -> News:
    """The files that are to be read, which are entered into the manifest; sites go back to the stage they go on from.

    A site that cannot go on from any stage, as a late file needs captures that are gone, begins anew with those that
    are there. paths: public names of those that the user names, behind those that only the manifest knows.
    """
    opened = [given.get(path, path) for path in paths]
    size = dict(zip(paths, filesystem.each(file_size, opened), strict=True))
    store = _Store(size, given, options.limits)
    news = News()
    known = {file.place: file for site in after.sites.values() for file in site.files if file.place}
    changes = filesystem.each(lambda path: _has_changed(path, known.get(path), store), paths)
    changed = [path for path, has_changed in zip(paths, changes, strict=True) if has_changed]
    for file in (file for path, file in known.items() if file.is_unread and path not in given):
        file.place, file.problems, news.dropped = "", [], True  # nobody asks for it any more
    by_site: dict[str, list[str]] = {}
    for path in changed:
        by_site.setdefault(site_of(path, options.site), []).append(path)
    for name, found in by_site.items():
        site = after.sites.setdefault(name, Site())
        before = [file.place for file in site.files]
        inputs = _continued(site, found, store) if site.files else _added(site, found, store)
        if inputs is None:
            again = [file for file in site.files if store.has(file) and not after.has_expired(file)]
            gone = [file for file in _lost(site.files, again) if file.packets]
            news.replaced.add(site, gone)
            after.gone += gone
            after.sites[name] = Site()
            inputs = _added(after.sites[name], store.in_order({*(file.place for file in again), *found}), store)
        if inputs:
            news.inputs[name] = inputs
        else:
            news.moved |= [file.place for file in site.files] != before
    return news


class Present(NamedTuple):
    """Which captures of a lake can be read again."""

    places: set[str]  # where these lie
    gone: list[File]  # the others
    expired: set[str]  # where captures lie that are among the others because the lake holds no rows of their time


def present(before: Manifest, options: Options, given: Given) -> Present:
    """Which captures of a lake that is to be decoded anew can be read again, wherever they lie now."""
    known = [file for site in before.sites.values() for file in site.files if file.packets != 0]
    read = known + before.gone
    store = _store_of({file.place for file in read if file.place} | set(given), options, given)

    there = [file for file in read if file.place and store.size[file.place] == file.size]
    expired = [file for file in there if before.has_expired(file)]
    rest = _lost(read, there)
    begin = _beginnings(store, set(store.size) - {file.place for file in there} if rest else ())
    gone = [file for file in rest if file.beginning not in begin]
    skipped = {file.place for file in expired}
    places = {file.place for file in known if file.place and store.size[file.place]}
    return Present(places - skipped, gone + expired, skipped)


def has_returned(before: Manifest, options: Options, given: Given) -> bool:
    """Whether a capture is there again that was gone when the lake was decoded anew."""
    missed = {file.beginning for file in before.gone if not before.has_expired(file)}
    if not missed:
        return False
    new = [path for path in given if path not in before.places()]
    return not missed.isdisjoint(_beginnings(_store_of(new, options, given), new))


def _store_of(paths: Iterable[str], options: Options, given: Given) -> _Store:
    """Capture files by their public names."""
    names = list(paths)
    sizes = filesystem.each(file_size, [given.get(path, path) for path in names])
    return _Store(dict(zip(names, sizes, strict=True)), given, options.limits)


def _beginnings(store: _Store, paths: Iterable[str]) -> set[tuple[int, str] | None]:
    """What files begin with, with each number of first packets."""
    looks = filesystem.each(store.look, [path for path in paths if store.size[path]])
    return {beginning for look in looks if look is not None for beginning in look.beginnings}


class _Look(NamedTuple):
    """What a capture begins with."""

    first: int | None  # time of its first packet, ns
    beginnings: list[tuple[int, str]]  # as of a file that was read when it had one packet, two, and so on
    is_plain: bool  # whether its packets lie on disk as they are


@dataclass(frozen=True)
class _Store:
    """Capture files as they are now."""

    size: Mapping[str, int]  # bytes, by public name; 0 where it cannot be learnt
    given: Given
    limits: Limits

    def has(self, file: File) -> bool:
        """Whether there is a file where this one was last."""
        return bool(file.place) and self.size[file.place] != 0

    def in_order(self, paths: Collection[str]) -> list[str]:
        """Some files in the order in which those that are new are numbered."""
        return sorted(paths, key=self._rank.__getitem__)

    @cached_property
    def _rank(self) -> Mapping[str, int]:
        return {path: number for number, path in enumerate(self.size)}

    def look(self, path: str) -> _Look | None:
        """What a file begins with; None where this is no capture."""
        first, beginning = None, Beginning()
        try:
            reader = self._reader(path, None)
        except InputError:
            return None
        reader.beginning = beginning
        for raw in reader.raw_blocks():
            first = int(raw.time[0]) if first is None else first
            if beginning.is_whole:
                break
        return _Look(first, list(enumerate(beginning.digests, 1)), reader.packet_header is not None)

    def next_time(self, path: str, rest: Part) -> int | None:
        """Time of the first packet that has not been read, ns; None where there is none."""
        try:
            raw = next(self._reader(path, rest).raw_blocks(), None)
        except InputError:
            return None
        return None if raw is None else max(int(raw.time[0]), rest.clock)

    def _reader(self, path: str, part: Part | None) -> Reader:
        limits = Limits(block_bytes=64 * KIB, packet_bytes=self.limits.packet_bytes)
        return Reader(self.given.get(path, path), 0, limits, part)


def _has_changed(path: str, file: File | None, store: _Store) -> bool:
    """Whether there may be more in a capture than was read. file: what is known of it."""
    size = store.size[path]
    if file is None:
        return True
    if size == file.size:
        return file.breaks_off and store.next_time(path, _unread(file.reached, file.end, size)) is not None
    return size != 0 and (path in store.given or not file.is_unread)


def _unread(reached: Reached, offset: int | None, size: int, after: int = -1) -> Part:
    """What of a file of so many bytes has not been read. offset: where that begins; None in other than plain pcap."""
    return Part(offset, size - (offset or 0), (reached.packets or 0) + 1, reached.clock, after)


def _added(site: Site, paths: Sequence[str], store: _Store) -> list[Input]:
    """Whole files, behind those that a site has."""
    start = len(site.files)
    site.files += [File(path, store.size[path], place=path) for path in paths]
    return [Input(number, store.given.get(path, path)) for number, path in enumerate(paths, start)]


def _continued(site: Site, found: Sequence[str], store: _Store) -> list[Input] | None:
    """What has to be read of a site, which goes back to the last stage before all packets that are new.

    None where captures are gone that every such stage needs.
    """
    looks = dict(zip(found, filesystem.each(store.look, found), strict=True))
    known, new = _known_again(site, looks, store)
    if not known and not new:
        return []
    times = [_next_time(site, file, path, looks[path], store) for path, file in known.items()]
    times += [look.first for look in map(looks.get, new) if look is not None]
    earliest = min((time for time in times if time is not None), default=None)
    lost = {id(file) for file in _lost(site.files, [file for file in site.files if store.has(file)])}
    stage = next((stage for stage in site.stages_before(earliest) if not _misses(site, stage, lost, store)), None)
    if stage is None:
        return None
    have = site.stages[stage].files
    again = {file.place for _, file in _behind(site, stage)} | {*known, *new}
    numbers = [number for number, file in enumerate(site.files[:have]) if file.place in again]
    begun = {file.place for file in site.files[:have]}
    site.go_back(stage)
    site.read_on(numbers)
    del site.files[have:]
    unseen = [path for number in numbers if (path := site.files[number].place) not in looks]
    looks |= zip(unseen, filesystem.each(store.look, unseen), strict=True)
    rests = [_rest(site, number, looks[site.files[number].place], store) for number in numbers]
    whole = [path for path in again - begun if store.size.get(path) or path in new]
    return rests + _added(site, store.in_order(whole), store)


def _next_time(site: Site, file: File, path: str, look: _Look | None, store: _Store) -> int | None:
    """Time (ns) of the first packet of a file that has not been read; None where it follows all that was."""
    assert look is not None
    size = store.size[path]
    if file.packets is None or (file.end is not None and look.is_plain and size < file.end):
        return 0  # what was read of it does not hold: from the origin
    if file.packets == 0 or file.size == UNKNOWN:
        return look.first
    rest = _unread(file.reached, file.end if look.is_plain else None, size)
    return None if _is_latest(file, site) else store.next_time(path, rest)


def _behind(site: Site, stage: int) -> list[tuple[int, File]]:
    """The files, by number, of which packets were read behind a stage."""
    return [(n, file) for n, file in enumerate(site.files) if site.reached(stage, n).packets != file.packets]


def _misses(site: Site, stage: int, lost: Collection[int], store: _Store) -> bool:
    """Whether files are gone that are needed to go on from a stage. lost: ids of what `_lost` gives."""
    begun = site.stages[stage].files
    return any(id(file) in lost or (number < begun and not store.has(file)) for number, file in _behind(site, stage))


def _rest(site: Site, number: int, look: _Look | None, store: _Store) -> Input:
    """What is to be read of a file behind the stage from which its site goes on."""
    file, reached = site.files[number], site.reached(-1, number)
    size = store.size[file.place]
    path = store.given.get(file.place, file.place)
    file.size, file.problems = size, []
    if not file.packets:
        return Input(number, path)
    offset = reached.end if reached.packets and look is not None and look.is_plain else None
    after = -1 if reached.packets == file.packets else site.clock  # what is new may begin at the time of the last
    return Input(number, path, _unread(reached, offset, size, after))


def _known_again(site: Site, looks: Mapping[str, _Look | None], store: _Store) -> tuple[dict[str, File], list[str]]:
    """(files of which more is to be read, files that are new). Enters where the others lie now."""
    known: dict[str, File] = {}
    there = {file.place: file for file in site.files if file.place}
    for path, file in there.items():
        look = looks.get(path)
        if look is None:
            continue
        if file.beginning is None or file.beginning in look.beginnings:
            known[path] = file
        elif look.first is not None and look.first > file.clock:
            file.place = ""  # a ring of files: what this one held is gone
        else:
            known[path] = file
            file.packets = None  # it was made anew
    gone: dict[tuple[int, str] | None, list[File]] = {}
    for file in reversed(site.files):
        if not store.has(file):
            gone.setdefault(file.beginning, []).append(file)
    new = []
    for path, look in looks.items():
        if path in there and there[path].place == path:
            continue
        alike = (gone.get(beginning) for beginning in reversed(look.beginnings if look else ()))
        moved = next((files.pop() for files in alike if files), None)
        if moved is None:
            new.append(path)
            continue
        moved.place = path
        if moved.size != store.size[path]:
            known[path] = moved
    return known, new


def _is_latest(file: File, site: Site) -> bool:
    """Whether whatever follows in this file follows everything that was read of its site."""
    others = (other for other in site.files if other is not file)
    return file.clock == site.clock and all(o.packets is not None and o.clock < site.clock for o in others)


def _lost(files: Sequence[File], there: Sequence[File]) -> list[File]:
    """Files whose packets cannot be read again: they are not among those that are there, nor is one with all of these.

    One has all packets of another where it was compressed from that, and both were read.
    """
    most: dict[tuple[int, str] | None, int] = {}  # packets of the longest file that is there, by its beginning
    for file in there:
        if file.beginning is not None:
            most[file.beginning] = max(most.get(file.beginning, 0), file.packets or 0)
    ids = set(map(id, there))
    return [file for file in files if id(file) not in ids and most.get(file.beginning, -1) < (file.packets or 0)]
