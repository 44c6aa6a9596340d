"""What a lake has of a capture point: its files, and where it stood after each of some runs.

    packets of the site, by time ──────────────────────────────────────────────►
    origin        stage             stage      stage  stage
    nothing read  rows, states ───► rows … ──► rows … rows … + tails

A stage has everything up to its time: how far each file had been read, the states of the engines, and the rows that
came since the stage before. A run goes on from the last one; where packets come that are older than its end, it goes
back to the last stage before them, and needs only the files that have packets behind it. There are stages where files
end, as other files of the site may then go on from there; the older, the fewer: what is decoded again is about four
times as long as what came late was late, at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """What rows of one origin lie in."""

    records: list[Written] = field(default_factory=list)
    open: list[OpenFile] = field(default_factory=list)


@dataclass
class File:
    """A capture file that has been read."""

    path: str  # which its records name
    size: int
    problems: list[tuple[str, str]] = field(default_factory=list)  # kind of finding, message
    place: str = ""  # where it lies now; "" where another capture was written over it
    packets: int | None = 0  # so many were read; None where it was made anew
    end: int | None = None  # of a plain pcap: where the next packet header lies, or will lie
    first: int | None = None  # earliest time of a packet, ns
    clock: int = 0  # latest time of a packet, ns
    beginning: tuple[int, str] | None = None  # so many first packets, and their digest

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


@dataclass
class Stage:
    """Where a site stood at some time: all packets up to then had been read, and none behind."""

    clock: int = -1  # that time, ns
    files: int = 0  # of the site's files, so many had been begun
    grown: dict[int, Reached] = field(default_factory=dict)  # those of them with packets behind it: how far they were
    states: dict[int, str | None] = field(default_factory=dict)  # of parts: below LAKE/.lake/state; None: cannot go on
    rows: Rows = field(default_factory=Rows)


@dataclass
class Site:
    """What the lake has of a capture point."""

    files: list[File] = field(default_factory=list)  # in the order of the numbers that packets carry
    stages: list[Stage] = field(default_factory=lambda: [Stage()])  # the first: nothing has been read
    tails: dict[int, Rows] = field(default_factory=dict)  # what the end of the captures made of each part

    @property
    def clock(self) -> int:
        """Latest time of a packet, ns; -1 where there is none."""
        return self.stages[-1].clock

    def rows(self) -> Iterator[Rows]:
        """All of its rows, by their origin."""
        yield from (stage.rows for stage in self.stages)
        yield from self.tails.values()

    def states(self, stage: int = -1) -> dict[int, str | None]:
        """The state of each part at a stage; that of the first is None of any."""
        before = self.stages[: stage % len(self.stages) + 1]
        return {part: state for one in before for part, state in one.states.items()}

    def reached(self, stage: int, number: int) -> Reached:
        """How far a file had been read at a stage, or less far: packets of before the stage are to be left out."""
        one = self.stages[stage]
        return NOTHING if number >= one.files else one.grown.get(number, self.files[number].reached)

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

    def read_on(self, numbers: Iterable[int]) -> None:
        """Files are about to be read on: remember how far they were at each stage."""
        for number in numbers:
            for stage, one in enumerate(self.stages):
                if number < one.files:
                    one.grown.setdefault(number, self.reached(stage, number))

    def thin(self) -> None:
        """Keep only stages that are worth to be gone back to."""
        for number in reversed(range(1, len(self.stages) - 1)):
            if None in self.states(number).values():
                self._drop(number)
        kept = _spread([stage.clock for stage in self.stages])
        for number in reversed(range(len(self.stages))):
            if number not in kept:
                self._drop(number)

    def forget(self, time: int) -> None:
        """Forget how to go on from a time (ns) before this one, but for the origin and where the site stands."""
        for number in reversed(range(1, len(self.stages) - 1)):
            if self.stages[number].clock < time:
                self._drop(number)

    def _drop(self, stage: int) -> None:
        """A stage goes: its rows are the next one's."""
        gone, after = self.stages.pop(stage), self.stages[stage]
        after.states = gone.states | after.states
        after.rows = Rows(gone.rows.records + after.rows.records, gone.rows.open + after.rows.open)


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
    tails = {int(part): _rows(tail) for part, tail in data["tails"].items()}
    return Site([file_of_json(file) for file in data["files"]], [_stage(stage) for stage in data["stages"]], tails)


def _stage(data: Mapping[str, Any]) -> Stage:
    grown = {int(number): Reached(*reached) for number, reached in data["grown"].items()}
    states = {int(part): state for part, state in data["states"].items()}
    return Stage(data["clock"], data["files"], grown, states, _rows(data["rows"]))


def _rows(data: Mapping[str, Any]) -> Rows:
    opened = [OpenFile(o["table"], o["path"], [Written(*file) for file in o["records"]]) for o in data["open"]]
    return Rows([Written(*file) for file in data["records"]], opened)


def file_of_json(data: Mapping[str, Any]) -> File:
    """A capture file as the manifest has it."""
    known = dict(data)
    known["problems"] = [(kind, message) for kind, message in data["problems"]]
    known["beginning"] = tuple(data["beginning"]) if data.get("beginning") else None
    return File(**known)
