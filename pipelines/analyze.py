"""The job behind `brokerscope analyze`: captures to records, tables and the page, on Spark or in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dissectors.capture.source import file_size
from dissectors.options import Options
from dissectors.redaction import public_path
from dissectors.run import Run
from pipelines import report
from pipelines.formats.hosts import names_in_use
from pipelines.jobs import records
from pipelines.lake.freshness import Fingerprints
from pipelines.report.records import Records, opened
from pipelines.spark import session
from pipelines.spark.application import running
from pipelines.storage import filesystem
from pipelines.storage.capture_names import HOSTS, names_of
from pipelines.storage.capture_paths import folders_of_run
from pipelines.storage.code_version import product_version
from pipelines.storage.layout import ABOUT, CASES_FILE, LAKE_FOLDER, RECORD_FOLDER, SCHEMA, TABLE_FOLDER
from pipelines.storage.stored_records import LISTED, StoredRecords
from pipelines.tables.compute import Computed, TableEngine, compute
from pipelines.tables.on_duckdb import First, WrittenTables
from pipelines.tables.registry import PRINTED, TABLES
from pipelines.tables.verdicts.verdict import Judged

if TYPE_CHECKING:
    from pipelines.executors.executor import Executor
    from pipelines.jobs.records import DecodedRecords
    from pipelines.jobs.surveys import Surveys
    from pipelines.lake.update import Update
    from pipelines.payloads.messages import PayloadReader
    from pipelines.spark.application import Application
    from pipelines.spark.catalog import Catalog, Published
    from pipelines.spark.job import SparkRecords

EngineName = Literal["spark", "local"]
ENTRIES = (RECORD_FOLDER, TABLE_FOLDER, CASES_FILE, ABOUT, report.PAGE, report.PART)
"""What a run leaves in OUT."""
LOCAL_BYTES = 1 << 30  # of captures, up to which one process is the quicker way to the answer
PRINTED_ROWS = 12  # of each table
CSV_ROWS = 100_000  # of each table; Parquet holds all
CSV_ROWS_AT_ONCE = 4_096  # become texts

Stage = Callable[[str], None]


class Choice(NamedTuple):
    """The engine of a run, and why it is this one."""

    engine: EngineName
    because: str


@dataclass(frozen=True)
class Execution:
    """How a run is carried out."""

    master: str | None = None  # of Spark
    conf: Mapping[str, str] = field(default_factory=dict)  # settings of Spark
    store: str | None = None  # path or URL of the folder that gets `records`; None: OUT
    run: str | None = None  # of a store behind a URL: what tells the files of this run from others there
    update: bool = False  # whether records there are brought up to date, or written from nothing
    records_only: bool = False  # whether an update leaves tables and page as they are
    catalog: Catalog | None = None  # of Spark, that gets records and tables too


@dataclass
class AnalysisOutcome:
    """What a run made."""

    tables: dict[str, First]
    page: Path | None  # None of an update that makes none
    files: list[str]
    problems: list[tuple[str, str]] = field(default_factory=list)  # kind of finding, message
    bucket_us: int = 0
    shared: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Sets of capture points, the one nearest to the server first -> connections that all of them saw."""
    is_new: bool = True
    """Whether this run made it; else what the last one made of the same records stands."""


def choose(
    files: Sequence[str], engine: EngineName | None = None, master: str | None = None, *, update: bool = False
) -> Choice:
    """The engine that the user names; else Spark where a session runs or is meant, or where captures are large.

    update: an update decodes what is new, which is little, and uses all cores without Spark.
    """
    if engine is not None:
        return Choice(engine, "as asked for")
    if master is not None:
        return Choice("spark", f"on {master}")
    if session.is_submitted():
        return Choice("spark", "by spark-submit")
    if running() is not None:
        return Choice("spark", "in the running session")
    if update:
        return Choice("local", "an update; --engine spark takes Spark")
    size = sum(filesystem.each(file_size, files))
    if size > LOCAL_BYTES and find_spec("pyspark") is not None:
        return Choice("spark", f"captures of more than {LOCAL_BYTES >> 20} MiB; --engine local stays in one process")
    return Choice("local", f"captures of up to {LOCAL_BYTES >> 20} MiB; --engine spark takes Spark")


def analyze(
    files: Sequence[str],
    out: Path,
    options: Options,
    engine: EngineName,
    *,
    by: Sequence[str] = (),
    bucket_us: int | None = None,
    execution: Execution | None = None,
    read: PayloadReader | None = None,
    stage: Stage = lambda name: None,
    progress: Callable[[int], None] | None = None,
) -> AnalysisOutcome:
    """Read captures, write OUT/records, OUT/tables, OUT/forensics.jsonl and OUT/report.html.

    files: as `capture.expand` gives them. out: an empty folder. bucket_us: width of a time bucket; None chooses one
    that fits the captures. read: what judges keys and values of messages, which are not written (local engine, no
    update). stage is called with what is being done, progress with the bytes of input read so far in
    this process. An update that finds no new packets, and all that it would make, writes nothing; nor does one that is
    for the records only, which are not in OUT. Raises InputError where nothing can be read.
    """
    execution = execution or Execution()
    with ExitStack() as held:
        made = _made(files, out, options, engine, by, bucket_us, execution, read, stage, progress, held)
        if isinstance(made, AnalysisOutcome):
            return made
        return _written(files, out, engine, by, execution, stage, made)


def _written(
    files: Sequence[str],
    out: Path,
    engine: EngineName,
    by: Sequence[str],
    execution: Execution,
    stage: Stage,
    made: _Made,
) -> AnalysisOutcome:
    """Write the first rows of each table as CSV, what is known of the run, and the page."""
    problems, computed, stored, made_of, pages = made
    stage("writing the report")
    printed: dict[str, First] = {}
    with WrittenTables(out / TABLE_FOLDER) as tables:
        for name in TABLES:
            first = tables.first(name, CSV_ROWS)
            _write_csv(first, out / TABLE_FOLDER / f"{name}.csv")
            if name in PRINTED:
                printed[name] = First(first.rows.slice(0, PRINTED_ROWS), first.total)
    listed = stored if execution.run is not None else None
    updated = execution.store if execution.update else None
    _describe(out, files, problems, by, computed, engine, made_of, listed, updated)
    if isinstance(pages, Records):
        page = report.write(out, records=pages)
    else:
        from pipelines.report import by_tasks

        page = out / report.PAGE
        page.write_bytes(by_tasks.page(pages, out, execution.store or str(out), stored))
    return AnalysisOutcome(printed, page, list(files), problems, computed.bucket_us, computed.shared)


Problems = list[tuple[str, str]]


class _Made(NamedTuple):
    """Records and tables of a run, in OUT."""

    problems: Problems
    computed: Computed
    stored: StoredRecords | None  # the records, where this process has no path to them
    made_of: Fingerprints | None
    """Of a lake: by which the next run knows whether it would make the same."""
    pages: Executor | Records
    """What makes the page: tasks, or this process from the records that it has open."""


def _made(
    files: Sequence[str],
    out: Path,
    options: Options,
    engine: EngineName,
    by: Sequence[str],
    bucket_us: int | None,
    wanted: Execution,
    read: PayloadReader | None,
    stage: Stage,
    progress: Callable[[int], None] | None,
    held: ExitStack,
) -> _Made | AnalysisOutcome:
    """Decode, look into bad checksums and compute the tables; or say what stands, where an update has nothing to do.

    held: keeps the records open that the page is made from.
    """
    from pipelines.jobs import forensics
    from pipelines.lake import freshness
    from pipelines.storage import lake_files

    store = wanted.store or str(out)
    fingerprints: Fingerprints | None = None

    def made_of() -> Fingerprints:
        return freshness.fingerprints(store, by, bucket_us, wanted.catalog)

    with _planned(files, store, options, wanted) as update, _walked(files, options, engine, wanted) as surveys:
        if update and wanted.records_only and not update.has_news:
            return AnalysisOutcome({}, None, list(files), update.problems, is_new=False)
        about = freshness.standing(store, made_of()) if update and not update.has_news else None
        if update and about is not None and not session.is_submitted():  # YARN expects a session of what it runs
            return _outcome(store, files, update.problems, about)
        executor, application = _executor(files, options, engine, wanted, stage)
        stage("decoding")
        if update is not None:
            decoded = update.run(executor)
        elif application is not None:
            decoded = records.decode_to_records(executor, files, store, options, surveys, run=wanted.run)
        else:
            decoded = _streamed(files, options, store, wanted.run or "part", read, progress)
        if wanted.records_only:
            return AnalysisOutcome({}, None, list(files), decoded.problems)
        if update is not None:
            fingerprints = made_of()
    local = filesystem.local_path(store)
    if local is not None and local != out:
        (out / RECORD_FOLDER).symlink_to((local / RECORD_FOLDER).resolve())  # for the page; the folder itself goes
    elsewhere = decoded.stored if local is None else None
    in_session = None if application is None else _in_session(application, decoded)

    def records_here() -> Records:
        lie_at = elsewhere or filesystem.join(store, RECORD_FOLDER)
        here = held.enter_context(opened(lie_at, memory=(in_session or decoded).table_memory))
        assert here is not None  # who decodes writes files of all tables
        here.engine.limit_threads()
        return here

    on_cluster = in_session is not None and not in_session.application.is_local
    here = None if on_cluster else records_here()
    if here is not None and (in_session is None or in_session.are_few):
        engine_of_tables: AbstractContextManager[TableEngine] = nullcontext(here.engine)
    else:
        engine_of_tables = (in_session or decoded).engine()
    with engine_of_tables as tables:
        stage("looking into bad checksums")
        known_at = filesystem.join(store, LAKE_FOLDER, lake_files.CASES) if wanted.update else None
        cases = forensics.cases(executor, tables, decoded, store, known_at)
        (out / CASES_FILE).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
        stage("computing tables")
        folder = out / TABLE_FOLDER
        computed: Computed | None = None
        judgement: Judged | None = None
        if in_session is not None and on_cluster:
            from pipelines.report import by_tasks

            if in_session.are_few:
                computed = by_tasks.write_tables(executor, decoded.stored, store, folder, by, bucket_us, cases=cases)
            else:
                judgement = by_tasks.judged(executor, decoded.stored, store)
        if computed is None and judgement is None:
            here = here or records_here()
            judgement = here.judged()
        computed = computed or compute(tables, folder, by, bucket_us, cases=cases, judgement=judgement)
    if in_session is not None and wanted.catalog is not None:
        stage(f"writing {wanted.catalog.format} tables")
        wanted.catalog.publish(in_session, out / TABLE_FOLDER, _published(store, update))
    return _Made(decoded.problems, computed, elsewhere, fingerprints, here or executor)


def _streamed(
    files: Sequence[str],
    options: Options,
    store: str,
    name: str,
    read: PayloadReader | None,
    progress: Callable[[int], None] | None,
) -> DecodedRecords:
    """Decode in this process; with what messages add to other tables that do not fit their schemas."""
    if read is None:
        run = Run(files, replace(options, coded=True), progress)
        return records.stream_to_records(run, store, name, options=options)
    from pipelines.payloads.columns import read_for

    run = Run(files, replace(options, tables=read_for(options.tables), payloads=True), progress)
    written = replace(run.options, tables=options.tables, payloads=False)
    return records.stream_to_records(run, store, name, read.of(run.records(), options.tables), written)


def _planned(
    files: Sequence[str], store: str, options: Options, wanted: Execution
) -> AbstractContextManager[Update | None]:
    """What an update has to do; None of a run that is none."""
    if not wanted.update:
        return nullcontext()
    from pipelines.lake.update import planned

    return planned(files, store, options)


def _walked(
    files: Sequence[str], options: Options, engine: EngineName, wanted: Execution
) -> AbstractContextManager[Surveys | None]:
    """Walks over large captures while Spark starts; None where it is not about to, or what is new is not known yet."""
    if engine == "local" or wanted.update:
        return nullcontext()
    from pipelines.spark import job

    return job.ahead(files, wanted.master, wanted.conf, options)


def _in_session(application: Application, decoded: DecodedRecords) -> SparkRecords:
    from pipelines.spark.job import SparkRecords

    return SparkRecords.of(application, decoded)


def _published(store: str, update: Update | None) -> Published:
    """What is to be said of the records to a catalog, in which those before the update may be."""
    from pipelines.spark.catalog import Published
    from pipelines.storage import lake_files

    if update is None:
        return Published(lake_files.new_edition())
    before = update.before
    known = (before.edition, before.home, before.files) if before else ()
    return Published(lake_files.fingerprint(store), *known)


def _executor(
    files: Sequence[str], options: Options, engine: EngineName, wanted: Execution, stage: Stage
) -> tuple[Executor, Application | None]:
    """Who runs the tasks, and the application where that is Spark."""
    if engine == "local":
        from pipelines.executors.local import LocalExecutor

        return LocalExecutor(options.jobs, stage), None
    from pipelines.spark import job
    from pipelines.spark.executor import SparkExecutor

    stage("starting Spark")
    application = job.begin(files, wanted.master, wanted.conf)
    if wanted.catalog is not None:
        wanted.catalog.prepare(application.session)  # a connector that lacks is known before anything is decoded
    return SparkExecutor(application, stage), application


def _outcome(lake: str, files: Sequence[str], problems: Problems, about: Mapping[str, Any]) -> AnalysisOutcome:
    """What the last run made of a lake. about: LAKE/analysis.json."""
    with WrittenTables(filesystem.join(lake, TABLE_FOLDER)) as tables:
        printed = {name: tables.first(name, PRINTED_ROWS) for name in PRINTED}
    shared = {tuple(seen["sites"]): seen["connections"] for seen in about["shared"]}
    return AnalysisOutcome(
        printed, Path(lake, report.PAGE), list(files), problems, about["bucket_us"], shared, is_new=False
    )


def _write_csv(first: First, path: Path) -> None:
    from pipelines.formats.csv import CsvWriter

    with path.open("wb") as stream:
        writer = CsvWriter(first.rows.schema, stream)
        for batch in first.rows.to_batches(max_chunksize=CSV_ROWS_AT_ONCE):
            writer.write(batch)
        writer.close()


def _hosts(updated: str | None) -> dict[str, dict[str, str]]:
    """The names of machines that are in use, and those that a store has, as analysis.json keeps them."""
    known = {**(names_of(updated) if updated is not None else {}), **names_in_use()}
    return {HOSTS: known} if known else {}


def _describe(
    out: Path,
    files: Sequence[str],
    problems: Problems,
    by: Sequence[str],
    computed: Computed,
    engine: EngineName,
    made_of: Fingerprints | None,
    stored: StoredRecords | None,
    updated: str | None,
) -> None:
    """Write OUT/analysis.json. updated: the store that is brought up to date, where one is."""
    about = {
        "version": product_version(),
        "schema": SCHEMA,
        "engine": engine,
        "files": [public_path(path) for path in files],
        "problems": [message for _, message in problems],
        "by": list(by),
        "bucket_us": computed.bucket_us,
        "shared": [{"sites": list(sites), "connections": count} for sites, count in computed.shared.items()],
        **folders_of_run(files, out, updated),
        **_hosts(updated),
        **({} if made_of is None else made_of._asdict()),
        **({} if stored is None else {LISTED: stored.files}),
    }
    (out / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
