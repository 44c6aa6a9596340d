"""What the tasks of an update do: engines go on where they stopped, and are written as they are then.

packets of a part ─► engine ─► rows of a stage, and its state, pickled
                        └ end of the captures ─► tail
"""

from __future__ import annotations

import pickle
import secrets as random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice

from dissectors.capture.block import PacketBlock
from dissectors.capture.files import FILE
from dissectors.capture.fragments import Packet
from dissectors.compiling.saved_state import read_state
from dissectors.compiling.state import StateError
from dissectors.engine import Engine, decode_all, end_all
from dissectors.errors import BrokerscopeError
from dissectors.options import Options
from pipelines.jobs.arrival import Arrival
from pipelines.jobs.decode import DecodingPart, Job, Output, PartPackets
from pipelines.lake import gone
from pipelines.storage import filesystem
from pipelines.storage.stages import times_of_stages
from pipelines.storage.tails import Tail, Untouched

STATE = "state"  # folder of a run's staging folder


@dataclass(frozen=True)
class SiteJob:
    """What tasks are given of a site that goes on."""

    points: Sequence[str]  # its capture points: itself, or each of its files
    files: Sequence[str]  # by their numbers
    clock: int  # time of the stage from which it goes on, ns
    states: Mapping[int, str]  # part -> URL of its state
    tails: Mapping[int, Tail]  # part -> what it left of its open connections
    kept: Sequence[str]  # URLs of the table `connections`, as of `gone.used`


@dataclass(frozen=True)
class UpdateJob(Job):
    """What every task of an update is given."""

    sites: Mapping[str, SiteJob] = field(default_factory=dict)
    site_of_point: Mapping[str, str] = field(default_factory=dict)  # capture point -> its site, if not of that name

    @property
    def packs(self) -> bool:
        """Whether engines are written with their connections packed: not those of captures that hardly ever go on."""
        return self.options.site != FILE


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


def continue_part(given: PartPackets, job: Job) -> list[SitePart]:
    """Go on with the engines of a part's sites."""
    assert isinstance(job, UpdateJob)
    secrets = list(job.secrets)
    running: dict[str, _Running] = {}
    done: list[SitePart] = []
    last = ""

    def site_of(point: str) -> _Running:
        nonlocal last
        last, name = point, job.site_of_point.get(point, point)
        if name not in running:
            running[name] = _Running(job, name, given.number, secrets)
        return running[name]

    arrival = Arrival(*given, job.sharing, secrets.append, lambda point, _: site_of(point).waiting_fragments(point))
    for site, blocks in groupby(arrival.blocks(), key=lambda read: site_of(read[0])):
        over = [name for name, one in running.items() if one.last < last]  # packets come in the order of their points
        done += [running.pop(name).end(arrival) for name in over]
        site.decode(blocks, arrival)
    return done + [site.end(arrival) for site in running.values()]


class _Running:
    """The engine of a part of a site, which goes on."""

    def __init__(self, job: UpdateJob, name: str, part: int, secrets: Iterable[bytes]) -> None:
        """secrets: TLS key logs."""
        self._job, self._name, self._part = job, name, part
        self._site = job.sites[name]
        self.last = max(self._site.points)
        self._engine, self._fragments = _load(job, self._site, part)
        for secret in secrets:
            self._engine.keylog.add(secret)
        self._before = self._engine.packed(name) if job.packs else {}
        self._steps: list[PartStage] = []
        self._output = self._new_output()

    def waiting_fragments(self, point: str) -> list[Packet]:
        """Fragments of a capture point that wait for others since an earlier run."""
        return self._fragments.pop(point, [])

    def decode(self, blocks: Iterable[tuple[str, PacketBlock]], arrival: Arrival) -> None:
        """Decode packets of the site, with their capture points, up to one stage after the other."""
        times = self._times(arrival)
        for stage, some in _by_stage(blocks, times):
            first = list(islice(some, 1))
            waits = stage < len(times) and arrival.wait_at(self._name, times[stage])
            if first or waits:  # else the part stands where it stood
                self._output.take(self._engine, decode_all(self._engine, chain(first, some)))
                if stage < len(times):
                    self._stand(stage, None if waits else {})

    def end(self, arrival: Arrival) -> SitePart:
        """Reach the last stage, and let the captures end."""
        self._fragments |= {point: arrival.pending[point] for point in self._site.points if point in arrival.pending}
        self._stand(len(self._times(arrival)), self._fragments)
        untouched = Untouched.since(self._before, self._engine, self._name)
        self._engine.leave_out(self._name, untouched.keys)
        self._output.take(self._engine, end_all(self._engine))
        if self._part in self._site.tails:
            self._output.copy(self._site.tails[self._part], untouched)
        return SitePart(self._name, self._part, self._steps, self._output.close())

    def _times(self, arrival: Arrival) -> list[int]:
        """Times (ns) of the stages before the last."""
        return inner_stages(self._job.options, self._site.clock, arrival.ends.get(self._name, ()))

    def _stand(self, stage: int, fragments: dict[str, list[Packet]] | None) -> None:
        """Note that a stage is reached. fragments: those that wait there; None where nothing can go on from there."""
        if self._job.packs:
            self._engine.pack()
        state = None if fragments is None else _save(self._job, self._engine, fragments)
        self._steps.append(PartStage(stage, state, self._output.close()))
        self._output = self._new_output()

    def _new_output(self) -> Output:
        return Output(self._job.staging, by_site=self._job.by_site)


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


def inner_stages(options: Options, since: int, ends: Iterable[int]) -> list[int]:
    """Times (ns) of the stages before the last of a run; none where each capture is decoded by itself."""
    return [] if options.site == FILE else times_of_stages(since, ends)


def _load(job: UpdateJob, site: SiteJob, part: int) -> tuple[Engine, dict[str, list[Packet]]]:
    """The engine of a part of a site, and by capture point the fragments that wait for others."""
    files = list(site.files)
    url = site.states.get(part)
    if url is None:
        begun = Engine(job.options, files)
        for point, ends, number in gone.used(site.kept, job.sharing.parts, part):
            begun.number_on(point, [(ends, number)])
        return begun, {}
    data = filesystem.read(url)
    if data is None:
        raise BrokerscopeError(f"{url}: is missing, and OUT cannot be updated without it; analyze into another OUT")
    try:
        running, fragments = read_state(data)
    except Exception as error:  # a damaged pickle may raise anything
        what = "was written by another release" if isinstance(error, StateError) else "is damaged"
        text = f"{url}: {what}, and OUT cannot be updated without it; analyze into another OUT"
        raise BrokerscopeError(text) from error
    running.sink.files = files
    return running, fragments


def pickled(running: Engine, *beside: object) -> bytes | None:
    """Pickle an engine and what belongs to it; None where it has TLS secrets, which are never written, or a cipher."""
    if len(running.keylog):
        return None
    try:
        return pickle.dumps((running, *beside))
    except (TypeError, AttributeError, pickle.PicklingError, RecursionError):  # a cipher in the middle of a stream
        return None


def _save(job: UpdateJob, running: Engine, fragments: Mapping[str, Sequence[Packet]]) -> str | None:
    """Write an engine's state; None where it holds what cannot or must not be written."""
    data = pickled(running, fragments)
    if data is None:
        return None
    name = f"{random.token_hex(8)}.pickle"
    filesystem.write(filesystem.join(job.staging, STATE, name), data)
    return name
