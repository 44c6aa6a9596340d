"""Captures to records by tasks: what the tasks do.

    work ─ cut ─► pieces in files ─► parts ─ decode ─► record files     `plan.decoded` says when nothing is cut
                                             └───────► rows whose names are not known yet, and names ─ put in ─┘

All packets of a connection meet in one part, in time order, however many files they came from; a part runs many
connections through one engine in a single pass, so memory stays flat however large a connection is. It is the very
engine of `dissectors.run`. The task that decodes a record writes it. Only rows with a name that their connection does
not know (a Kafka topic id, an Iggy stream number) wait in files of their own until all names are there.
"""

from __future__ import annotations

import secrets as random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa

from dissectors import arrow, engine
from dissectors.capture.split import Input
from dissectors.findings import finding
from dissectors.limits import MIB
from dissectors.options import Options
from dissectors.rows.late_names import Names, open_keys, open_rows, resolve
from dissectors.rows.sink import to_batch
from pipelines.jobs import names
from pipelines.jobs.arrival import Arrival
from pipelines.jobs.cutting import FileReport, Sharing, Survey, WholeBlock, Work, cut, survey, uncut
from pipelines.jobs.listings import Listing, read_lists, write_list
from pipelines.jobs.shuffle import (
    Bounds,
    CutPiece,
    Fetch,
    PieceFile,
    Place,
    Spill,
    index_bytes,
    read_indexes,
    read_place,
    write_places,
)
from pipelines.storage import filesystem, scratch
from pipelines.storage.record_files import RecordWriter, TableFile, Written, names_site, rows_of
from pipelines.storage.tails import Tail, Untouched, copied

RECORDS, OPEN, NAMES, CUT = "records", "open", "names", "cut"  # folders of a run's staging folder
_PACKETS, _INDEX = ".packets", ".index"  # how the names of files end that a cut task writes
_IN_ORDER = 256 * MIB  # of captures that a task may read without bringing what it cut into order of parts


@dataclass(frozen=True)
class Job:
    """What every task of a run is given."""

    staging: str  # folder that tasks write to
    options: Options
    files: tuple[str, ...]
    sharing: Sharing
    secrets: tuple[bytes, ...] = ()  # TLS key logs that the user gave
    all_reports: bool = False  # whether every file is reported, or only those with problems
    by_site: bool = field(default=True, kw_only=True)  # whether each capture point has record files of its own


class PartPackets(NamedTuple):
    """One part of a job: a number, and its packets."""

    number: int
    pieces: Iterable[CutPiece | WholeBlock]


@dataclass
class DecodingPart:
    """What the decoding of one part left."""

    records: list[Written] = field(default_factory=list)  # below staging/records
    open: list[Written] = field(default_factory=list)  # below staging/open: names in them are not known yet
    names: list[str] = field(default_factory=list)  # below staging/names
    changes: int = 0  # rows in these


Decoding = Callable[[PartPackets, Job], Any]  # what is made of the packets of a part; a function that can be pickled


# --- tasks -----------------------------------------------------------------------------------------------------------


def walk_file(options: Options, split_bytes: int, file: Input) -> Survey:
    """Find where a large file may be split."""
    return survey(file.path, split_bytes, options.limits, since=file.since)


class Cut(NamedTuple):
    """What a task made of its work: where the packets lie, and what reading the files was like."""

    bounds: Bounds  # of the packets
    reports: list[FileReport]


def cut_to_file(job: Job, work: Work) -> Cut:
    """Cut captures by connection into a file below staging/cut."""
    name = random.token_hex(8)
    place = filesystem.join(job.staging, CUT, name)
    with filesystem.create(place + _PACKETS) as file:
        pieces = PieceFile(file)
        if work.size <= _IN_ORDER or job.sharing.parts == 1:
            reports = cut(work, job.sharing, job.options.limits, pieces, all_reports=job.all_reports)
        else:
            with scratch.file() as room:
                spill = Spill(room)
                reports = cut(work, job.sharing, job.options.limits, spill, all_reports=job.all_reports)
                spill.into(pieces)
    bounds, index = index_bytes(name, pieces.index(name + _PACKETS))
    filesystem.write(place + _INDEX, index)
    return Cut(bounds, reports)


class Sorting(NamedTuple):
    """What a task sorts: the pieces of some parts, of these cut tasks."""

    parts: range
    cuts: tuple[Bounds, ...]


def sort_places(job: Job, sorting: Sorting) -> list[Place]:
    """Write for each part where its packets lie, into a file below staging/cut."""
    index = read_indexes(sorting.cuts, sorting.parts, _fetch(job), (_INDEX, _PACKETS))
    name = f"{random.token_hex(8)}.places"
    with filesystem.create(filesystem.join(job.staging, CUT, name)) as file:
        return write_places(name, file, index.by_part(sorting.parts, job.sharing.parts_of))


def decode_from_files(job: Job, function: Decoding, place: Place) -> Any:
    """What the function makes of the part whose index lies in this place."""
    fetch = _fetch(job)
    return function(PartPackets(place.part, read_place(place, fetch).pieces(fetch)), job)


def _fetch(job: Job) -> Fetch:
    """Reads ranges of files below staging/cut."""
    return partial(filesystem.ranges, filesystem.join(job.staging, CUT))


def cut_and_decode(job: Job, function: Decoding, work: Work) -> tuple[list[FileReport], list[Any]]:
    """Cut captures that fit into memory and decode their parts in the same task.

    Returns the reports of the files, and what the function makes of each part.
    """
    file = BytesIO()
    pieces = PieceFile(file)
    reports = cut(work, job.sharing, job.options.limits, pieces, all_reports=job.all_reports)
    held = file.getbuffer()
    index = pieces.index("")

    def fetch(ranges: Sequence[tuple[str, int, int]]) -> list[memoryview]:
        return [held[at : at + size] for _, at, size in ranges]

    parts = index.by_part(range(job.sharing.parts), job.sharing.parts_of)
    return reports, [function(PartPackets(number, some.pieces(fetch)), job) for number, some in parts]


def read_and_decode(job: Job, function: Decoding, work: Work) -> tuple[list[FileReport], list[Any]]:
    """Decode an uncompressed pcap file as it is read, where the job has one part.

    Returns reports of the file, and what the function makes of the part.
    """
    reports: list[FileReport] = []
    made = function(PartPackets(0, uncut(work, job.options.limits, reports)), job)
    return reports, [made]


def reduce_names(staging: str, paths: Sequence[str], bucket: int) -> str:
    """Bring the names of a bucket together, of all parts: a file below staging/names."""
    path = filesystem.join(staging, NAMES, f"reduced-{random.token_hex(8)}.parquet")
    names.save(names.load(paths, bucket=bucket), path)
    return path


NAMED_AT_ONCE = 8
"""Files of rows that a task puts names into, which it looks up once for all of them."""


def put_in_names(
    staging: str,
    paths: Sequence[str],
    options: Options,
    files: Sequence[TableFile],
    *,
    only: frozenset[str] | None = None,
    sizes: dict[str, int] | None = None,
) -> list[list[Written] | None]:
    """Put names into rows that wait for them; returns the record files that are made of each file.

    paths: files of names. only: keys; None is made of a file in which none of them stands. sizes: gets the bytes of the
    files that are made, by their paths.
    """
    keys = [{key for batch in rows_of(file.url) for key in open_keys(batch)} for file in files]
    wanted = pa.array(sorted(set().union(*keys)), pa.string())
    known = names.load(paths, keys=wanted, wait_ns=options.limits.name_wait_ns)
    return [
        None if only is not None and only.isdisjoint(own) else _with_names(file, known, staging, sizes)
        for file, own in zip(files, keys, strict=True)
    ]


def _with_names(file: TableFile, known: Names, staging: str, sizes: dict[str, int] | None) -> list[Written]:
    root, name = filesystem.join(staging, RECORDS), f"part-{random.token_hex(8)}"
    writer = RecordWriter(root, name, by_site=names_site(file.url))
    for batch in rows_of(file.url):
        writer.write(file.table, resolve(batch, known))
    made = writer.close()
    if sizes is not None:
        sizes.update(writer.sizes)
    return made


def merge_files(root: str, files: Sequence[TableFile], name: str | None = None) -> list[Written]:
    """Write the rows of small files as larger ones below a folder, one for each table, day and site that files name.

    name: what their names begin with, of which there is no other.
    """
    by_site = any(names_site(file.url) for file in files)
    writer = RecordWriter(root, name or f"merged-{random.token_hex(8)}", by_site=by_site)
    for file in files:
        for batch in rows_of(file.url):
            writer.write(file.table, batch)
    return writer.close()


class DecodedPart(NamedTuple):
    """What the decoding of one part left, as the driver knows it."""

    records: Listing  # of files below staging/records
    open: Listing  # of files below staging/open: names in them are not known yet
    names: list[str]  # below staging/names
    changes: int  # rows in these


def decode_part(part: PartPackets, job: Job) -> DecodedPart:
    """Decode the packets of a part and write its records."""
    output = Output(job.staging, by_site=job.by_site)
    running, batches = decode_rows(part, job)
    output.take(running, batches)
    made = output.close()
    records, waiting = (write_list(job.staging, files, output.sizes) for files in (made.records, made.open))
    return DecodedPart(records, waiting, made.names, made.changes)


def put_in_names_of_lists(staging: str, paths: Sequence[str], options: Options, lists: Sequence[str]) -> Listing:
    """Put names into the rows of files that lists name. paths: files of names."""
    waiting = [TableFile(f.table, filesystem.join(staging, OPEN, f.path)) for f in read_lists(staging, lists)]
    sizes: dict[str, int] = {}
    made = [
        file
        for n in range(0, len(waiting), NAMED_AT_ONCE)
        for some in put_in_names(staging, paths, options, waiting[n : n + NAMED_AT_ONCE], sizes=sizes)
        for file in some or ()
    ]
    return write_list(staging, made, sizes)


def decode_rows(part: PartPackets, job: Job) -> tuple[engine.Engine, engine.Batches]:
    """An engine, and the record batches that it makes of the packets of a part."""
    arrival = Arrival(*part, job.sharing, lambda secret: running.keylog.add(secret))
    running, batches = engine.decode(arrival.blocks(), job.options, list(job.files))
    for secret in job.secrets:
        running.keylog.add(secret)
    return running, batches


# --- where records go ------------------------------------------------------------------------------------------------


class Output:
    """Where a task puts what it decodes."""

    def __init__(self, staging: str, *, by_site: bool = True) -> None:
        self._staging = staging
        self._name = f"part-{random.token_hex(8)}"  # a task that is tried again writes other files
        self._finished = RecordWriter(filesystem.join(staging, RECORDS), self._name, by_site=by_site)
        self._waiting = RecordWriter(filesystem.join(staging, OPEN), self._name, by_site=by_site)
        self._names = Names()

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of the files that were written, by their paths."""
        return self._finished.sizes | self._waiting.sizes

    def take(self, running: engine.Engine, batches: engine.Batches) -> None:
        """Write what an engine makes, and remember the names that it reports."""
        for table, batch in batches:
            self._names.update(running.sink.take_names())
            unknown = open_rows(batch)
            if unknown.any():
                self._waiting.write(table, arrow.keep(batch, unknown))
                batch = arrow.keep(batch, ~unknown)
            self._finished.write(table, batch)
        self._names.update(running.sink.take_names())

    def copy(self, tail: Tail, untouched: Untouched) -> None:
        """Write rows of an earlier tail again."""
        for files, writer in ((tail.records, self._finished), (tail.open, self._waiting)):
            for table, batch in copied(files, untouched):
                writer.write(table, batch)

    def close(self) -> DecodingPart:
        """What was written."""
        part = DecodingPart(self._finished.close(), self._waiting.close())
        if self._names:
            part.names.append(f"{self._name}.parquet")
            part.changes = names.save(self._names, filesystem.join(self._staging, NAMES, part.names[0]))
        return part


def write_problems(
    root: str, problems: Sequence[tuple[str, str]], options: Options, name: str | None = None
) -> list[Written]:
    """Write findings about files below a folder, if `findings` is asked for.

    problems: kind of finding, message. name: what their file's name begins with, of which there is no other.
    """
    if not problems or "findings" not in options.tables:
        return []
    writer = RecordWriter(root, name or f"files-{random.token_hex(8)}")
    writer.write("findings", to_batch("findings", [finding(None, *one) for one in problems], []))
    return writer.close()
