"""What a lake has of a site: its files, and where it stood after each of some runs.

    packets of the site, by time ──────────────────────────────────────────────►
    origin        stage             stage      stage  stage
    nothing read  rows, states ───► rows … ──► rows … rows … + tails

A stage has every packet up to its time and none behind: the states of the engines then, and the rows that came since
the stage before. A run goes on from the last stage; where packets come that are older than its end, it goes back to the
last stage before them, and needs only the files that have packets behind it. There are stages where files end, as other
files of the site may then go on from there; the older, the fewer: what is decoded again is about four times as long as
what came late was late, at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from dissectors.capture.reader import NOTHING, Reached
from dissectors.findings import TRUNCATED
from pipelines.storage.record_files import Written

UNKNOWN = -1  # size of a file that could not be read, or not some of its parts: the next run reads it again
_APART = 4  # a stage goes where its neighbours' ages, counted from the end, differ by no more than this factor
_AT_ONCE = 3  # stages that a run makes before its end, at most


@dataclass
class OpenFile:
    """Rows in which names are not known for good, and the record files in which they stand with the names of today."""

    table: str
    path: str  # below LAKE/.lake/open
    records: list[Written] = field(default_factory=list)


@dataclass
class Rows:
    """The files that hold the rows of a stage or of a tail."""

    records: list[Written] = field(default_factory=list)
    open: list[OpenFile] = field(default_factory=list)


@dataclass
class File:
    """A capture file that has been read."""

    path: str  # which its records name
    size: int
    problems: list[tuple[str, str]] = field(default_factory=list)  # kind of finding, message
    place: str = ""  # where it lies now; "" where another capture was written over it
    packets: int = 0  # so many were read
    end: int | None = None  # of a plain pcap: where the next packet header lies, or will lie
    first: int | None = None  # earliest time of a packet, ns
    clock: int = 0  # latest time of a packet, ns
    beginning: tuple[int, str] | None = None  # so many first packets, and their digest
    marks: list[Reached] = field(default_factory=list)  # places before its end from which the rest can be read

    @property
    def is_unread(self) -> bool:
        """Whether it could not be read at all."""
        return self.size == UNKNOWN and not self.packets and self.beginning is None

    @property
    def breaks_off(self) -> bool:
        """Whether more of it lay there than could be read, and where that begins is known."""
        return self.end is not None and self.end < self.size and any(kind == TRUNCATED for kind, _ in self.problems)

    @property
    def reached(self) -> Reached:
        """How far it has been read."""
        return Reached(self.packets, self.end, self.clock)

    def reached_at(self, time: int) -> Reached:
        """The last known place in it before which no packet is later than a time (ns)."""
        places = [place for place in (*self.marks, self.reached) if place.clock <= time]
        return max(places, key=attrgetter("clock"), default=NOTHING)

    def forget_offsets(self) -> None:
        """Know the places in it by their packets only: it is compressed now."""
        self.end, self.marks = None, [mark._replace(end=None) for mark in self.marks]

    def goes_beyond(self, time: int) -> bool:
        """Whether packets of it that were read are later than a time (ns)."""
        return self.packets > 0 and self.clock > time


@dataclass
class Stage:
    """Where a site stood at some time: all packets up to then had been read, and none behind."""

    clock: int = -1  # that time, ns
    states: dict[int, str | None] = field(default_factory=dict)  # of parts: below LAKE/.lake/state; None: cannot go on
    rows: Rows = field(default_factory=Rows)


@dataclass
class Site:
    """Captures that are decoded as one: those of a capture point."""

    files: list[File] = field(default_factory=list)  # in the order of the numbers that packets carry
    stages: list[Stage] = field(default_factory=lambda: [Stage()])  # the first: nothing has been read
    tails: dict[int, Rows] = field(default_factory=dict)  # what the end of the captures made of each part

    @property
    def clock(self) -> int:
        """Latest time of a packet, ns; -1 where there is none."""
        return self.stages[-1].clock

    @property
    def first(self) -> int | None:
        """Earliest time of a packet, ns; None where there is none."""
        return min((file.first for file in self.files if file.first is not None), default=None)

    def rows(self) -> Iterator[Rows]:
        """All of its rows, by their origin."""
        yield from (stage.rows for stage in self.stages)
        yield from self.tails.values()

    def states(self, stage: int = -1) -> dict[int, str | None]:
        """The state of each part at a stage; that of the first is None of any."""
        before = self.stages[: stage % len(self.stages) + 1]
        return {part: state for one in before for part, state in one.states.items()}

    def begun(self, stage: int) -> int:
        """How many of its files, counted from the first, it takes to have all packets up to a stage."""
        if stage == len(self.stages) - 1:
            return len(self.files)
        clock = self.stages[stage].clock
        return max((n for n, f in enumerate(self.files, 1) if f.first is not None and f.first <= clock), default=0)

    def stages_before(self, time: int | None) -> Iterator[int]:
        """Stages before a time (ns) from which a run can go on, the last one first; all such where it is None."""
        for number in reversed(range(len(self.stages))):
            early = number == 0 or time is None or self.stages[number].clock < time
            if early and None not in self.states(number).values():
                yield number

    def go_back(self, stage: int) -> None:
        """Forget what was made after a stage. What the end made of open connections stays until it is replaced."""
        del self.stages[stage + 1 :]
        if stage == 0:
            self.tails.clear()

    def add(self, stages: Sequence[Stage], first: int | None) -> None:
        """Enter what a run made. first: earliest time (ns) of a packet that it read; None where there was none.

        Only stages stay that no packet is missing from, that a run can go on from, and that are worth it.
        """
        whole = [n for n, stage in enumerate(self.stages) if n == 0 or first is None or stage.clock < first]
        whole += range(len(self.stages), len(self.stages) + len(stages))
        self.stages += stages
        self._keep(whole)
        self._keep([n for n in range(len(self.stages)) if None not in self.states(n).values()])
        self._keep(_spread([stage.clock for stage in self.stages]))

    def forget(self, time: int) -> None:
        """Forget how to go on from a time (ns) before this one, but for the origin and where the site stands."""
        self._keep([n for n, stage in enumerate(self.stages) if stage.clock >= time])

    def _keep(self, numbers: Collection[int]) -> None:
        """Keep these stages, the first and the last; the rows and states of another one become those of the next."""
        for number in reversed(range(1, len(self.stages) - 1)):
            if number not in numbers:
                gone, after = self.stages.pop(number), self.stages[number]
                after.states = gone.states | after.states
                after.rows = Rows(gone.rows.records + after.rows.records, gone.rows.open + after.rows.open)
        clocks = [stage.clock for stage in self.stages[1:-1]]
        for file in (file for file in self.files if file.marks):
            wanted = {file.reached_at(clock) for clock in clocks if file.goes_beyond(clock)}
            file.marks = [mark for mark in file.marks if mark in wanted]


def times_of_stages(since: int, ends: Iterable[int]) -> list[int]:
    """When a run from `since` on makes stages before its last: at some of the times at which files end. All in ns."""
    clocks = [since, *sorted({end for end in ends if end > since})]
    return [clocks[number] for number in _spread(clocks)][1:-1][-_AT_ONCE:]


def _spread(clocks: Sequence[int]) -> list[int]:
    """Indices of times, in order, of which there are the more the later it is; the first and the last stay."""
    last = len(clocks) - 1
    kept = [last]
    for number in range(last - 1, 0, -1):
        before, at, after = clocks[number - 1], clocks[number], clocks[kept[-1]]
        if at < after and clocks[last] - before > _APART * (clocks[last] - after):
            kept.append(number)
    return [*([0] if last else []), *reversed(kept)]


def site_of_json(data: Mapping[str, Any]) -> Site:
    """A site as the manifest has it."""
    stages = [
        Stage(one["clock"], {int(part): state for part, state in one["states"].items()}, _rows(one["rows"]))
        for one in data["stages"]
    ]
    tails = {int(part): _rows(tail) for part, tail in data["tails"].items()}
    return Site([file_of_json(file) for file in data["files"]], stages, tails)


def _rows(data: Mapping[str, Any]) -> Rows:
    opened = [OpenFile(o["table"], o["path"], [Written(*file) for file in o["records"]]) for o in data["open"]]
    return Rows([Written(*file) for file in data["records"]], opened)


def file_of_json(data: Mapping[str, Any]) -> File:
    """A capture file as the manifest has it."""
    problems = [(kind, message) for kind, message in data["problems"]]
    beginning = tuple(data["beginning"]) if data.get("beginning") else None
    marks = [Reached(*mark) for mark in data.get("marks", ())]
    return File(**{**data, "problems": problems, "beginning": beginning, "marks": marks})
