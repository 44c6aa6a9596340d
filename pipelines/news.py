"""What of a capture store is new to a lake: which files, and from which packet on.

A capture is known by its first packets, not by its name alone. So one that has grown is read on from where it ended,
one that was renamed or compressed is not read twice, and one that was written over is another capture, while the
records of what it held stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dissectors.capture.files import site_of
from dissectors.capture.reader import Part, Reader
from dissectors.capture.source import file_size
from dissectors.capture.split import Input
from dissectors.errors import InputError
from dissectors.limits import KIB, Limits
from dissectors.options import Options
from pipelines import storage
from pipelines.lake import File, Manifest, Site

Given = Mapping[str, str]  # a file's public name -> as the user gives it


@dataclass
class News:
    """What has to be read."""

    inputs: dict[str, list[Input]] = field(default_factory=dict)  # by site
    moved: bool = False  # whether a file lies elsewhere than the lake knew


def choose(after: Manifest, paths: Sequence[str], options: Options, given: Given) -> News:
    """The files that are to be read, which are entered into the manifest; sites to be decoded anew are emptied.

    paths: public names of those that the user names, behind those that only the manifest knows. Raises InputError where
    a file that is needed again is gone.
    """
    opened = [given.get(path, path) for path in paths]
    size = dict(zip(paths, storage.each(file_size, opened), strict=True))
    store = _Store(size, given, options.limits)
    known = {file.place: file.size for site in after.sites.values() for file in site.files if file.place}
    changed = [path for path in paths if known.get(path) != size[path] and (path not in known or size[path])]
    by_site: dict[str, list[str]] = {}
    for path in changed:
        by_site.setdefault(site_of(path, options.site), []).append(path)
    news = News()
    for name, found in by_site.items():
        site = after.sites.setdefault(name, Site())
        before = [file.place for file in site.files]
        inputs = _added(site, found, store) if site.files else None
        if inputs is None:
            found = _everything(site, found, paths, size)
            after.sites[name] = Site([File(path, size[path], place=path) for path in found])
            inputs = [Input(number, given.get(path, path)) for number, path in enumerate(found)]
        else:
            news.moved |= [file.place for file in site.files[: len(before)]] != before
        if inputs:
            news.inputs[name] = inputs
    return news


class _Look(NamedTuple):
    """What a capture begins with."""

    first: int | None  # time of its first packet, ns
    digests: list[str]  # see Beginning
    is_plain: bool  # whether its packets lie on disk as they are

    def is_of(self, file: File) -> bool:
        """Whether this is the capture that was read as `file`."""
        if file.beginning is None:
            return False
        count, digest = file.beginning
        return self.digests[count - 1 : count] == [digest]


class _Store(NamedTuple):
    """Capture files as they are now."""

    size: Mapping[str, int]
    given: Given
    limits: Limits

    def look(self, path: str) -> _Look | None:
        """What a file begins with; None where this is no capture."""
        first = None
        try:
            reader = self._reader(path, None)
        except InputError:
            return None
        for raw in reader.raw_blocks():
            first = int(raw.time[0]) if first is None else first
            if reader.beginning.is_whole:
                break
        return _Look(first, reader.beginning.digests, reader.packet_header is not None)

    def next_time(self, path: str, rest: Part) -> int | None:
        """Time of the first packet that has not been read, ns; None where there is none."""
        raw = next(self._reader(path, rest).raw_blocks(), None)
        return None if raw is None else max(int(raw.time[0]), rest.clock)

    def _reader(self, path: str, part: Part | None) -> Reader:
        limits = Limits(block_bytes=64 * KIB, packet_bytes=self.limits.packet_bytes)
        return Reader(self.given.get(path, path), 0, limits, part)


def _added(site: Site, found: Sequence[str], store: _Store) -> list[Input] | None:
    """What has to be read at the end of a site; None where it has to be decoded anew."""
    looks = dict(zip(found, storage.each(store.look, found), strict=True))
    known, new = _known_again(site, looks, store.size)
    if any(part.state is None for part in site.parts.values()):
        return None
    inputs = []
    times: list[int | None] = []  # of the first packet of each
    for path, file in known.items():
        look, size = looks[path], store.size[path]
        assert look is not None
        if file.packets is None or (file.end is not None and look.is_plain and size < file.end):
            return None
        if file.packets == 0:
            rest, time = None, look.first
        else:
            offset = file.end if look.is_plain else None
            rest = Part(offset, size - (offset or 0), file.packets + 1, file.clock)
            time = None if _is_latest(file, site) else store.next_time(path, rest)
        times.append(time)
        inputs.append(Input(site.files.index(file), store.given.get(path, path), rest))
    for number, path in enumerate(new, len(site.files)):
        look = looks[path]
        times.append(None if look is None else look.first)
        inputs.append(Input(number, store.given.get(path, path)))
    if any(time is not None and time <= site.clock for time in times):
        return None
    for path, file in known.items():
        file.size, file.problems = store.size[path], []
    site.files += [File(path, store.size[path], place=path) for path in new]
    return inputs


def _known_again(
    site: Site, looks: Mapping[str, _Look | None], size: Mapping[str, int]
) -> tuple[dict[str, File], list[str]]:
    """(files of which more is to be read, files that are new). Enters where the others lie now."""
    known: dict[str, File] = {}
    there = {file.place: file for file in site.files if file.place}
    for path, file in there.items():
        look = looks.get(path)
        if look is None:
            continue
        if file.beginning is None or look.is_of(file):
            known[path] = file
        elif look.first is not None and look.first > file.clock:
            file.place = ""  # a ring of files: what this one held is gone
        else:
            known[path] = file
            file.packets = None  # it was made anew
    new = []
    for path, look in looks.items():
        if path in there and there[path].place == path:
            continue
        gone = (file for file in site.files if not file.place or not size[file.place])
        moved = next((file for file in gone if look is not None and look.is_of(file)), None)
        if moved is None:
            new.append(path)
            continue
        moved.place = path
        if moved.size != size[path]:
            known[path] = moved
    return known, new


def _is_latest(file: File, site: Site) -> bool:
    """Whether whatever follows in this file follows everything that was read of its site."""
    others = (other for other in site.files if other is not file)
    return file.clock == site.clock and all(o.packets is not None and o.clock < site.clock for o in others)


def _everything(site: Site, found: Sequence[str], paths: Sequence[str], size: Mapping[str, int]) -> list[str]:
    """All files of a site that is to be decoded anew."""
    there = {file.place: file for file in site.files if file.place and size[file.place]}
    for file in site.files:
        if file.place not in there and not any(_holds(other, file) for other in there.values()):
            what = "is gone" if file.place else "was written over"
            raise InputError(
                f"{file.place or file.path}: {what}, and needed again: {found[0]} has packets from before the end of "
                "what was read"
            )
    return [path for path in paths if path in there or path in found]


def _holds(file: File, other: File) -> bool:
    """Whether a capture has all packets of another: one was compressed from the other, and both were read."""
    same = file.beginning is not None and file.beginning == other.beginning
    return same and (file.packets or 0) >= (other.packets or 0)
