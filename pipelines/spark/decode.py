"""Captures to records on Spark: what the tasks do.

    work ─ cut ─► blocks ─ shuffled ─► parts ─ decode ─► record files
                                                 └────► rows whose names are not known yet, and names ─ resolve ─┘

All packets of a connection meet in one part, in time order, however many files they came from; a part runs many
connections through one engine in a single pass, so memory stays flat however large a connection is. It is the very
engine of the local path. The task that decodes a record writes it. Only rows with a name that their connection does
not know (a Kafka topic id, an Iggy stream number) wait in files of their own until all names are there.
"""

from __future__ import annotations

import secrets as random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dissectors import engine
from dissectors.findings import finding
from dissectors.options import Options
from dissectors.rows.late_names import Names, open_keys, open_rows, resolve
from dissectors.rows.sink import to_batch
from pipelines.spark import names
from pipelines.spark.blocks import Arrival, Row, Sharing, Work, cut, from_arrow, survey, to_arrow
from pipelines.spark.tasks import Batches, Task, each, given, made
from pipelines.storage import filesystem
from pipelines.storage.record_files import RecordWriter, Written, rows_of
from pipelines.storage.tails import Tail, Untouched, copied

RECORDS, OPEN, NAMES = "records", "open", names.FOLDER  # folders of a run's staging folder


@dataclass(frozen=True)
class Job:
    """What every task of a run is given."""

    staging: str  # folder that tasks write to
    options: Options
    files: tuple[str, ...]
    sharing: Sharing
    secrets: tuple[bytes, ...] = ()  # TLS key logs that the user gave
    reports: bool = False  # whether every file is reported, or only those with problems
    by_site: bool = field(default=True, kw_only=True)  # whether each capture point has record files of its own


@dataclass
class DecodingPart:
    """What the decoding of one part left."""

    records: list[Written] = field(default_factory=list)  # below staging/records
    open: list[Written] = field(default_factory=list)  # below staging/open: names in them are not known yet
    names: list[str] = field(default_factory=list)  # below staging/names
    changes: int = 0  # rows in these
    problems: list[tuple[str, str]] = field(default_factory=list)  # kind of finding, message


_WITHOUT_DATA = attrgetter("part", "site", "kind", "first")
Decoding = Callable[[Iterable[Row], Job], Any]  # what is made of the packets of a part


def surveyor(options: Options, split_bytes: int) -> Task:
    """Tasks that find where large files may be split: Input -> Survey."""
    return each(lambda file: survey(file.path, split_bytes, options.limits, since=file.since))


def cutter(job: Job) -> Task:
    """Tasks that cut captures by connection: Work -> rows of `blocks`."""

    def run(batches: Batches) -> Batches:
        for work in given(batches):
            yield from to_arrow(cut(work, job.sharing, job.options.limits, reports=job.reports))

    return run


def decoder(job: Job, function: Decoding) -> Task:
    """Tasks that decode a part: rows of `blocks` -> [what the function gives]."""
    return lambda batches: made([[function(from_arrow(batches), job)]])


def single(job: Job, function: Decoding) -> Task:
    """One task that does both, for captures that it can hold: Work -> what the function gives for each part."""

    def run(work: Work) -> list[Any]:
        rows = sorted(cut(work, job.sharing, job.options.limits, reports=job.reports), key=_WITHOUT_DATA)
        return [function(some, job) for _, some in groupby(rows, key=attrgetter("part"))]

    return each(run)


def reducer(staging: str, paths: Sequence[str]) -> Task:
    """Tasks that bring the names of all parts together: bucket -> file below staging/names."""

    def reduce(bucket: int) -> str:
        path = filesystem.join(staging, NAMES, f"reduced-{random.token_hex(8)}.parquet")
        names.save(names.load(paths, bucket=bucket), path)
        return path

    return each(reduce)


def reader() -> Task:
    """Tasks that read records where Spark itself cannot: URL of a file -> its rows."""

    def run(batches: Batches) -> Batches:
        for url in given(batches):
            yield from rows_of(url)

    return run


@dataclass(frozen=True)
class Waiting:
    """A file of rows in which names are not known yet."""

    table: str
    url: str


RESOLVED_AT_ONCE = 8
"""Files of rows that a task puts names into, which it looks up once for all of them."""


def resolver(
    staging: str,
    paths: Sequence[str],
    options: Options,
    only: frozenset[str] | None = None,
    *,
    by_site: bool = True,
) -> Task:
    """Tasks that put names into records: a list of Waiting -> for each a list of Written.

    paths: files of names. only: keys; None is made of a file in which none of them stands. by_site: as of Job.
    """

    def put_in(files: Sequence[Waiting]) -> list[list[Written] | None]:
        keys = [{key for batch in rows_of(file.url) for key in open_keys(batch)} for file in files]
        wanted = pa.array(sorted(set().union(*keys)), pa.string())
        known = names.load(paths, keys=wanted, wait_ns=options.limits.name_wait_ns)
        return [
            None if only is not None and only.isdisjoint(own) else _with_names(file, known, staging, by_site=by_site)
            for file, own in zip(files, keys, strict=True)
        ]

    return each(put_in)


def _with_names(file: Waiting, known: Names, staging: str, *, by_site: bool) -> list[Written]:
    writer = RecordWriter(filesystem.join(staging, RECORDS), f"part-{random.token_hex(8)}", by_site=by_site)
    for batch in rows_of(file.url):
        writer.write(file.table, resolve(batch, known))
    return writer.close()


@dataclass(frozen=True)
class Merging:
    """Files of records that are to be one."""

    table: str
    urls: tuple[str, ...]


def merger(staging: str) -> Task:
    """Tasks that write small files as one: Merging -> list of Written."""

    def merge(files: Merging) -> list[Written]:
        writer = RecordWriter(filesystem.join(staging, RECORDS), f"merged-{random.token_hex(8)}")
        for url in files.urls:
            for batch in rows_of(url):
                writer.write(files.table, batch)
        return writer.close()

    return each(merge)


class Output:
    """Where a task puts what it decodes."""

    def __init__(self, staging: str, *, by_site: bool = True) -> None:
        self._staging = staging
        self._name = f"part-{random.token_hex(8)}"  # a task that is tried again writes other files
        self._finished = RecordWriter(filesystem.join(staging, RECORDS), self._name, by_site=by_site)
        self._waiting = RecordWriter(filesystem.join(staging, OPEN), self._name, by_site=by_site)
        self._names = Names()

    def take(self, running: engine.Engine, batches: engine.Batches) -> None:
        """Write what an engine makes, and remember the names that it reports."""
        for table, batch in batches:
            self._names.update(running.sink.take_names())
            unknown = open_rows(batch)
            if pc.any(unknown).as_py():
                self._waiting.write(table, batch.filter(unknown))
                batch = batch.filter(pc.invert(unknown))
            self._finished.write(table, batch)
        self._names.update(running.sink.take_names())

    def copy(self, tail: Tail, untouched: Untouched) -> None:
        """Write rows of an earlier tail again."""
        for files, writer in ((tail.records, self._finished), (tail.open, self._waiting)):
            for table, batch in copied(files, untouched):
                writer.write(table, batch)

    def report(self, problems: Sequence[tuple[str, str]]) -> None:
        """Write findings about files."""
        if problems:
            self._finished.write("findings", to_batch("findings", [finding(None, *one) for one in problems], []))

    def close(self) -> DecodingPart:
        """What was written."""
        part = DecodingPart(self._finished.close(), self._waiting.close())
        if self._names:
            part.names.append(f"{self._name}.parquet")
            part.changes = names.save(self._names, filesystem.join(self._staging, NAMES, part.names[0]))
        return part


def decode_part(rows: Iterable[Row], job: Job) -> DecodingPart:
    """Decode the packets of a part and write its records."""
    output = Output(job.staging, by_site=job.by_site)
    arrival, running, batches = decode_rows(rows, job)
    output.take(running, batches)
    if "findings" in job.options.tables:
        output.report(arrival.problems)
    part = output.close()
    part.problems = arrival.problems
    return part


def decode_rows(rows: Iterable[Row], job: Job) -> tuple[Arrival, engine.Engine, engine.Batches]:
    """The packets of a part on their way through an engine, and the record batches that come of them."""
    arrival = Arrival(rows, job.sharing, lambda secret: running.keylog.add(secret))
    running, batches = engine.decode(arrival.blocks(), job.options, list(job.files))
    for secret in job.secrets:
        running.keylog.add(secret)
    return arrival, running, batches
