"""The captures that a lake is asked about, as they are now: their sizes, and what they begin with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dissectors.capture.beginning import Beginning
from dissectors.capture.files import FILE
from dissectors.capture.reader import Part, Reached, Reader
from dissectors.capture.source import file_size
from dissectors.capture.split import Input
from dissectors.errors import InputError
from dissectors.findings import UNREADABLE
from dissectors.limits import KIB, Limits
from dissectors.options import Options
from pipelines.jobs.cutting import FileReport
from pipelines.storage import filesystem
from pipelines.storage.stages import UNKNOWN, File, Site

Given = Mapping[str, str]  # a file's public name -> as the user gives it
Alike = tuple[int, str] | None  # so many first packets of a file, and their digest


class Look(NamedTuple):
    """What a capture begins with."""

    first: int | None = None  # time of its first packet, ns
    beginnings: Sequence[tuple[int, str]] = ()  # as of a file that was read when it had one packet, two, and so on
    is_plain: bool = True  # whether its packets lie on disk as they are
    is_capture: bool = True


NO_CAPTURE = Look(is_capture=False)
"""Of what is no capture, or was not looked at."""


@dataclass(frozen=True)
class CapturesNow:
    """Capture files as they are now, by their public names."""

    size: Mapping[str, int]  # bytes; 0 where it cannot be learnt
    given: Given
    options: Options

    @classmethod
    def of(cls, paths: Iterable[str], given: Given, options: Options) -> CapturesNow:
        """Those with these public names."""
        names = list(paths)
        sizes = filesystem.each(file_size, [given.get(path, path) for path in names])
        return cls(dict(zip(names, sizes, strict=True)), given, options)

    def has(self, file: File) -> bool:
        """Whether there is a file where this one was last."""
        return bool(file.place) and self.size[file.place] != 0

    def has_changed(self, path: str, file: File | None) -> bool:
        """Whether there may be more in a file than was read. file: what is known of it."""
        size = self.size[path]
        if file is None:
            return True
        if size == file.size:
            return file.breaks_off and bool(self.next_times(file))
        return size != 0 and (path in self.given or not file.is_unread)

    def point_of(self, path: str) -> str:
        """The capture point of a file, among those of its site."""
        return path if self.options.site == FILE else ""

    def looks(self, paths: Collection[str]) -> dict[str, Look]:
        """What files begin with."""
        return dict(zip(paths, filesystem.each(self._look, list(paths)), strict=True))

    def beginnings(self, paths: Iterable[str]) -> set[Alike]:
        """What files begin with, with each number of first packets."""
        looks = self.looks([path for path in paths if self.size[path]]).values()
        return {beginning for look in looks for beginning in look.beginnings}

    def next_times(self, file: File) -> list[int]:
        """Time of the first packet of a file that has not been read, ns; nothing where there is none."""
        rest = _unread(file.reached, self.size[file.place])
        try:
            raw = next(self._reader(file.place, rest).raw_blocks(), None)
        except InputError:
            return []
        return [] if raw is None else [max(int(raw.time[0]), rest.clock)]

    def rest(self, number: int, file: File, reached: Reached, after: int) -> Input:
        """What is to be read of a file behind a place in it, as this run reads it. after: as of Part."""
        size, path = self.size[file.place], self.given.get(file.place, file.place)
        whole = not file.packets
        file.marks += [] if whole else [file.reached]
        file.size, file.problems = size, []
        return Input(number, path, None if whole else _unread(reached, size, after))

    def add_to(self, site: Site, paths: Collection[str]) -> list[Input]:
        """Whole files, behind those that a site has, in the order in which they were given."""
        start = len(site.files)
        ordered = sorted(set(paths), key=self._places.__getitem__)
        site.files += [File(path, self.size[path], place=path) for path in ordered]
        return [Input(number, self.given.get(path, path)) for number, path in enumerate(ordered, start)]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The place of each file in the order in which they were given."""
        return {path: place for place, path in enumerate(self.size)}

    def _look(self, path: str) -> Look:
        first, beginning = None, Beginning()
        try:
            reader = self._reader(path, None)
        except InputError:
            return NO_CAPTURE
        reader.beginning = beginning
        for raw in reader.raw_blocks():
            first = int(raw.time[0]) if first is None else first
            if beginning.is_whole:
                break
        return Look(first, list(enumerate(beginning.digests, 1)), reader.packet_header is not None)

    def _reader(self, path: str, part: Part | None) -> Reader:
        limits = Limits(block_bytes=64 * KIB, packet_bytes=self.options.limits.packet_bytes)
        return Reader(self.given.get(path, path), 0, limits, part)


def _unread(reached: Reached, size: int, after: int = -1) -> Part:
    """What of a file of so many bytes lies behind a place in it."""
    return Part(reached.end, size - (reached.end or 0), (reached.packets or 0) + 1, reached.clock, after)


def enter(file: File, read: FileReport) -> None:
    """Enter what was read of a file, or of a part of it."""
    file.problems += read.problems
    if any(kind == UNREADABLE for kind, _ in read.problems):
        file.size = UNKNOWN
    file.packets = max(file.packets, read.packets)
    file.clock = max(file.clock, read.clock)
    file.first = min((time for time in (file.first, read.first) if time is not None), default=None)
    file.end = read.end if file.end is None or read.end is None else max(file.end, read.end)
    file.beginning = read.beginning or file.beginning
    file.marks += read.marks
