"""Captures to records: OUT/records, and what the steps after it need to know of the run."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, get_args

from dissectors.capture.source import file_size
from dissectors.engine import Batches
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.rows.sink import Suspect
from dissectors.run import Run, with_sites
from pipelines.executors.executor import Executor, in_groups
from pipelines.formats import units
from pipelines.jobs import decode, names
from pipelines.jobs.decode import NAMES, DecodedPart, Job, write_problems
from pipelines.jobs.joining import join_all
from pipelines.jobs.listings import Listing
from pipelines.jobs.plan import checked, decoded, plan, read_keylog
from pipelines.jobs.surveys import Surveys
from pipelines.storage import filesystem, outputs
from pipelines.storage.layout import ABOUT, LAKE_FOLDER, RECORD_FOLDER
from pipelines.storage.record_files import RecordWriter, TableFile, Written, has_many_sites, write_empty
from pipelines.storage.stored_records import StoredRecords
from pipelines.storage.working_folders import keep_only, run_of, working_folder
from pipelines.tables.compute import TableEngine
from pipelines.tables.on_duckdb import engine_over

Mode = Literal["overwrite", "errorifexists"]
Naming = Callable[[Sequence[TableFile]], list[list[Written] | None]]  # `decode.put_in_names`, all but its files
REDUCED = 500_000  # names that every task may read; more are brought together first
REDUCED_FILES = 64  # the same of files with names
_WHOLE = "whole"  # folder of a run's staging folder: what OUT/records is to be
_EXPANSION = 5  # times the bytes of its file that rows of records take


@dataclass(frozen=True)
class DecodedRecords:
    """What the decoding of a capture set left behind."""

    folder: str  # path or URL of the records
    written: list[Written]  # the files in it
    files: list[str]  # captures that the records are of
    problems: list[tuple[str, str]]  # kind of finding, message: files that were not read whole
    options: Options  # as tasks get them
    secrets: list[bytes] = field(default_factory=list)  # TLS key logs that the user gave
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # file -> earliest and latest time, ns; if known
    suspects: Sequence[Suspect] | None = None  # bytes whose checksum is bad; None where the run did not keep them

    table_memory: ClassVar[str] = "50%"  # of this machine's or container's
    """That this process may take for tables, beyond which it uses the disk."""

    @property
    def stored(self) -> StoredRecords:
        """Where the record tables are."""
        files: dict[str, list[str]] = {name: [] for name in self.options.tables}
        for file in self.written:
            files.setdefault(file.table, []).append(file.path)
        return StoredRecords(self.folder, files, alone=filesystem.local_path(self.folder) is not None)

    @property
    def rows(self) -> int:
        """Records in all."""
        return sum(file.rows for file in self.written)

    @contextmanager
    def engine(self) -> Iterator[TableEngine]:
        """Computes tables of these records in this process."""
        with engine_over(self.stored, self.table_memory) as engine:
            yield engine


def stream_to_records(
    run: Run, out: str, name: str = "part", rows: Batches | None = None, options: Options | None = None
) -> DecodedRecords:
    """Decode in this process and write OUT/records/<table>/*.parquet while captures are read, in bounded memory.

    name: what the names of the files begin with; rows: what is made of the run's records, and options: by which that is
    written. Raises InputError where none of the captures can be read.
    """
    options = options or run.options
    run.suspects = []
    folder = filesystem.join(out, RECORD_FOLDER)
    writer = RecordWriter(folder, name, by_site=not has_many_sites(run.files, run.options))
    for table, batch in run.records() if rows is None else rows:
        writer.write(table, batch)
    written = writer.close()
    written += write_empty(folder, options, {file.table for file in written}, f"{name}-")
    return DecodedRecords(folder, written, run.files, sorted(run.said_of_files()), options, suspects=run.suspects)


def decode_to_records(
    executor: Executor,
    files: Sequence[str],
    out: str,
    options: Options,
    surveys: Surveys | None = None,
    *,
    mode: Mode = "overwrite",
    run: str | None = None,
) -> DecodedRecords:
    """Decode by tasks and write OUT/records/<table>/*.parquet, and nothing before all is decoded.

    files: as `capture.expand` gives them. out: a path, or a URL that fsspec opens for writing. mode: "overwrite"
    replaces the records there, on a local file system in one step; "errorifexists" refuses to. run: of a run that
    commits records behind a URL later, its name: its files, whose names begin with it, lie beside those that are there.
    Raises InputError where none of the captures can be read, and OutputError where OUT/records is there and may not be
    replaced: it holds captures, anything but record tables, or what `brokerscope analyze` made tables of or updates.
    """
    if run is None:
        _refuse_to_replace(out, files, mode)
    keylog = read_keylog(options)
    options = with_sites(options, files)._replace(keylog=None)  # tasks get what is in it, not its path
    out = filesystem.absolute(out)
    with working_folder(out) as staging:
        executor.check(staging)
        job, works = plan(executor, files, options._replace(coded=True), staging, keylog, surveys=surveys)
        job = replace(job, by_site=not has_many_sites(files, options))
        made = decoded(executor, job, works, decode.decode_part)
        problems = checked([problem for report in made.reports for problem in report.problems], len(files))
        listings = [part.records for part in made.parts if part.records.tables] + put_names(executor, job, made.parts)
        with _place(out, staging, run) as (folder, name, written):
            written += join_all(executor, staging, listings, folder, name)
            written += write_problems(folder, problems, options, f"{name}-files")
            written += write_empty(folder, options, {file.table for file in written}, f"{name}-")
    return DecodedRecords(filesystem.join(out, RECORD_FOLDER), written, list(files), problems, options, keylog)


@contextmanager
def _place(out: str, staging: str, run: str | None) -> Iterator[tuple[str, str, list[Written]]]:
    """(folder for record files, what their names begin with, a list that gets them), which are OUT/records after it.

    run: who commits them, if that is not done here.
    """
    written: list[Written] = []
    if filesystem.local_path(out) is not None:
        yield filesystem.join(staging, _WHOLE), "part", written
        staged = filesystem.join(posixpath.basename(staging), _WHOLE)
        filesystem.replace_folder(out, RECORD_FOLDER, staged, [file.path for file in written])
        return
    own = run or run_of(staging)
    wanted: set[str] | None = None
    try:
        yield filesystem.join(out, RECORD_FOLDER), own, written
        wanted = {file.path for file in written}
    finally:
        if run is None:
            keep_only(out, RECORD_FOLDER, wanted, own)


def _refuse_to_replace(out: str, files: Sequence[str], mode: Mode) -> None:
    """Raise OutputError where OUT/records may not be replaced by records of these files."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode={mode!r} is none of {', '.join(get_args(Mode))}")
    folder = filesystem.join(out, RECORD_FOLDER)
    local = filesystem.local_path(folder)
    there = filesystem.folders(folder, "")
    foreign = [name for name in there if name not in TABLES]
    if foreign:
        raise outputs.OutputIsInputError(
            f"{folder} holds {foreign[0]!r}, which brokerscope did not write; choose another folder"
        )
    if there and mode == "errorifexists":
        raise outputs.OutputError(f"{folder}: is there already, and mode='errorifexists' does not replace it")
    made = [name for name in (ABOUT, LAKE_FOLDER) if name in filesystem.folders(out, name)]
    if made:
        raise outputs.OutputError(
            f"{out}: `brokerscope analyze` keeps these records (there is {made[0]}): name another"
        )
    if local is not None:
        outputs.refuse_inputs(local, files)


def put_names(executor: Executor, job: Job, made: Sequence[DecodedPart]) -> list[Listing]:
    """Put names into the records that wait for them. Returns lists of the files with these records."""
    staging, options = job.staging, job.options
    waiting = [part.open for part in made if part.open.tables]
    if not waiting:
        return []
    paths = [filesystem.join(staging, NAMES, path) for part in made for path in part.names]
    changes = sum(part.changes for part in made)
    if changes > REDUCED or len(paths) > REDUCED_FILES:
        described_as = f"bringing names together: {units.count(changes)}"
        paths = executor.map(partial(decode.reduce_names, staging, paths), range(names.BUCKETS), described_as)
    groups: list[list[str]] = []
    held = decode.NAMED_AT_ONCE
    for listing in waiting:
        if held >= decode.NAMED_AT_ONCE:
            groups.append([])
            held = 0
        groups[-1].append(listing.name)
        held += listing.files
    size = sum(listing.size for listing in waiting) * _EXPANSION
    files = units.counted(sum(listing.files for listing in waiting), "file")
    task = partial(decode.put_in_names_of_lists, staging, paths, options)
    return executor.map(task, groups, f"putting in names: {files}, {units.size(size)}", size)


def named(executor: Executor, task: Naming, files: Sequence[TableFile]) -> list[list[Written] | None]:
    """What a task that puts names into records makes of each file."""
    size = sum(filesystem.each(file_size, [file.url for file in files])) * _EXPANSION
    described_as = f"putting in names: {units.counted(len(files), 'file')}, {units.size(size)}"
    return in_groups(executor, task, files, decode.NAMED_AT_ONCE, described_as, size)
