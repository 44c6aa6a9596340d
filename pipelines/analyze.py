"""The job behind `brokerscope analyze`: captures to records, tables and the page, on Spark or in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
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
from pipelines.storage.capture_paths import folders_of_run
from pipelines.storage.code_version import product_version
from pipelines.storage.layout import (
    ABOUT,
    CASES_FILE,
    HOSTS,
    LAKE_FOLDER,
    RECORD_FOLDER,
    SCHEMA,
    TABLE_FOLDER,
    names_of,
)
from pipelines.storage.stored_records import LISTED, StoredRecords
from pipelines.tables.compute import OF_JUDGEMENT, Computed, compute
from pipelines.tables.on_duckdb import First, WrittenTables
from pipelines.tables.registry import PRINTED, TABLES

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
    run = _Run(files, out, options, engine, tuple(by), bucket_us, execution or Execution(), read, stage, progress)
    with ExitStack() as held:
        decoded = run.decoded()
        return decoded if isinstance(decoded, AnalysisOutcome) else run.written(run.tables(decoded, held))


Problems = list[tuple[str, str]]


class _Decoded(NamedTuple):
    """Records of a run, and what goes on with them."""

    records: DecodedRecords
    executor: Executor
    application: Application | None  # of Spark, if that runs the tasks
    update: Update | None
    made_of: Fingerprints | None
    """Of a lake: by which the next run knows whether it would make the same."""


class _Made(NamedTuple):
    """Records and tables of a run, in OUT."""

    problems: Problems
    computed: Computed
    stored: StoredRecords | None  # the records, where this process has no path to them
    made_of: Fingerprints | None
    pages: Executor | Records
    """What makes the page: tasks, or this process from the records that it has open."""


@dataclass(frozen=True)
class _Run:
    """One run: what `analyze` is given, and its steps."""

    files: Sequence[str]
    out: Path
    options: Options
    engine: EngineName
    by: tuple[str, ...]
    bucket_us: int | None
    execution: Execution
    read: PayloadReader | None
    stage: Stage
    progress: Callable[[int], None] | None

    @property
    def store(self) -> str:
        """The folder or URL that gets the records."""
        return self.execution.store or str(self.out)

    # --- captures to records ---

    def decoded(self) -> _Decoded | AnalysisOutcome:
        """Decode; or say what stands, where an update has nothing to do or makes records only."""
        from pipelines.lake import freshness

        wanted = self.execution

        def made_of() -> Fingerprints:
            return freshness.fingerprints(self.store, self.by, self.bucket_us, wanted.catalog)

        with self._planned() as update, self._walked() as surveys:
            if update and wanted.records_only and not update.has_news:
                return AnalysisOutcome({}, None, list(self.files), update.problems, is_new=False)
            about = freshness.standing(self.store, made_of()) if update and not update.has_news else None
            if update and about is not None and not session.is_submitted():  # YARN expects a session of what it runs
                return _outcome(self.store, self.files, update.problems, about)
            executor, application = self._executor()
            self.stage("decoding")
            if update is not None:
                decoded = update.run(executor)
            elif application is not None:
                decoded = records.decode_to_records(
                    executor, self.files, self.store, self.options, surveys, run=wanted.run
                )
            else:
                decoded = self._streamed()
            if wanted.records_only:
                return AnalysisOutcome({}, None, list(self.files), decoded.problems)
            return _Decoded(decoded, executor, application, update, None if update is None else made_of())

    def _planned(self) -> AbstractContextManager[Update | None]:
        """What an update has to do; None of a run that is none."""
        if not self.execution.update:
            return nullcontext()
        from pipelines.lake.update import planned

        return planned(self.files, self.store, self.options)

    def _walked(self) -> AbstractContextManager[Surveys | None]:
        """Walks over large captures while Spark starts; None where it does not, or what is new is not known yet."""
        if self.engine == "local" or self.execution.update:
            return nullcontext()
        from pipelines.spark import job

        return job.ahead(self.files, self.execution.master, self.execution.conf, self.options)

    def _executor(self) -> tuple[Executor, Application | None]:
        """Who runs the tasks, and the application where that is Spark."""
        if self.engine == "local":
            from pipelines.executors.local import LocalExecutor

            return LocalExecutor(self.options.jobs, self.stage), None
        from pipelines.spark import job
        from pipelines.spark.executor import SparkExecutor

        self.stage("starting Spark")
        application = job.begin(self.files, self.execution.master, self.execution.conf)
        if self.execution.catalog is not None:
            self.execution.catalog.prepare(application.session)  # that a connector lacks is known before decoding
        return SparkExecutor(application, self.stage), application

    def _streamed(self) -> DecodedRecords:
        """Decode in this process; with what messages add to other tables that do not fit their schemas."""
        name, options = self.execution.run or "part", self.options
        if self.read is None:
            run = Run(self.files, options._replace(coded=True), self.progress)
            return records.stream_to_records(run, self.store, name, options=options)
        from pipelines.payloads.columns import read_for

        run = Run(self.files, options._replace(tables=read_for(options.tables), payloads=True), self.progress)
        written = run.options._replace(tables=options.tables, payloads=False)
        return records.stream_to_records(run, self.store, name, self.read.of(run.records(), options.tables), written)

    # --- records to tables ---

    def tables(self, decoded: _Decoded, held: ExitStack) -> _Made:
        """Look into bad checksums and compute the tables.

        On a cluster tasks judge and, of few records, compute; else this process does, with records that it opens once
        and `held` keeps open for the page. In a session Spark computes the tables of many records, and those that do
        not fit in the memory of a task.
        """
        from pipelines.jobs import forensics
        from pipelines.storage import lake_files
        from pipelines.tables.first_rows import write_csv

        out, store, local = self.out, self.store, filesystem.local_path(self.store)
        folder = out / TABLE_FOLDER
        if local is not None and local != out:
            (out / RECORD_FOLDER).symlink_to((local / RECORD_FOLDER).resolve())  # for the page; the folder itself goes
        elsewhere = decoded.records.stored if local is None else None
        in_session: SparkRecords | None = None
        if decoded.application is not None:
            from pipelines.report import by_tasks
            from pipelines.spark.job import SparkRecords

            in_session = SparkRecords.of(decoded.application, decoded.records)
        of_run = in_session or decoded.records

        def opened_here() -> Records:
            lie_at = elsewhere or filesystem.join(store, RECORD_FOLDER)
            here = held.enter_context(opened(lie_at, memory=of_run.table_memory))
            assert here is not None  # who decodes writes files of all tables
            here.engine.limit_threads()
            return here

        on_cluster = in_session is not None and not in_session.application.is_local
        are_few = in_session is None or in_session.are_few
        here = None if on_cluster else opened_here()
        with nullcontext(here.engine) if here is not None and are_few else of_run.engine() as tables:
            self.stage("looking into bad checksums")
            known_at = filesystem.join(store, LAKE_FOLDER, lake_files.CASES) if self.execution.update else None
            cases = forensics.cases(decoded.executor, tables, decoded.records, store, known_at)
            (out / CASES_FILE).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
            self.stage("computing tables")
            asked = (folder, self.by, self.bucket_us)
            computed: Computed | None = None
            if on_cluster:
                only = TABLES if are_few else OF_JUDGEMENT
                computed = by_tasks.write_tables(
                    decoded.executor, decoded.records.stored, store, *asked, only, cases=cases
                )
            if computed is None:
                here = here or opened_here()
                computed = compute(
                    tables, *asked, cases=cases, judgement=here.judged(), leave_out=in_session is not None
                )
                write_csv(folder, TABLES.keys() - set(computed.left_out), folder)
            elif not are_few:
                computed = computed._replace(left_out=tuple(TABLES.keys() - OF_JUDGEMENT))
        if in_session is not None and computed.left_out:
            with in_session.by_spark() as tables:
                compute(tables, folder, self.by, computed.bucket_us, computed.left_out, cases=cases)
            by_tasks.write_csv(decoded.executor, folder, store, computed.left_out)
        catalog = self.execution.catalog
        if in_session is not None and catalog is not None:
            self.stage(f"writing {catalog.format} tables")
            catalog.publish(in_session, folder, _published(store, decoded.update))
        return _Made(decoded.records.problems, computed, elsewhere, decoded.made_of, here or decoded.executor)

    # --- tables to what people read ---

    def written(self, made: _Made) -> AnalysisOutcome:
        """Write what is known of the run, and the page."""
        out = self.out
        self.stage("writing the report")
        (out / ABOUT).write_text(json.dumps(self._about(made), indent=1) + "\n", encoding="utf-8")
        if isinstance(made.pages, Records):
            page = report.write(out, records=made.pages)
        else:
            from pipelines.report import by_tasks

            page = out / report.PAGE
            page.write_bytes(by_tasks.page(made.pages, out, self.store, made.stored))
        computed = made.computed
        printed = _printed(out / TABLE_FOLDER)
        return AnalysisOutcome(printed, page, list(self.files), made.problems, computed.bucket_us, computed.shared)

    def _about(self, made: _Made) -> dict[str, Any]:
        """What OUT/analysis.json says."""
        computed, wanted = made.computed, self.execution
        updated = wanted.store if wanted.update else None  # the store that is brought up to date, where one is
        listed = made.stored if wanted.run is not None else None
        hosts = {**(names_of(updated) if updated is not None else {}), **names_in_use()}
        return {
            "version": product_version(),
            "schema": SCHEMA,
            "engine": self.engine,
            "files": [public_path(path) for path in self.files],
            "problems": [message for _, message in made.problems],
            "by": list(self.by),
            "bucket_us": computed.bucket_us,
            "shared": [{"sites": list(sites), "connections": count} for sites, count in computed.shared.items()],
            **folders_of_run(self.files, self.out, updated),
            **({HOSTS: hosts} if hosts else {}),
            **({} if made.made_of is None else made.made_of._asdict()),
            **({} if listed is None else {LISTED: listed.files}),
        }


def _published(store: str, update: Update | None) -> Published:
    """What is to be said of the records to a catalog, in which those before the update may be."""
    from pipelines.spark.catalog import Published
    from pipelines.storage import lake_files

    if update is None:
        return Published(lake_files.new_edition())
    before = update.before
    known = (before.edition, before.home, before.files) if before else ()
    return Published(lake_files.fingerprint(store), *known)


def _outcome(lake: str, files: Sequence[str], problems: Problems, about: Mapping[str, Any]) -> AnalysisOutcome:
    """What the last run made of a lake. about: LAKE/analysis.json."""
    printed = _printed(filesystem.join(lake, TABLE_FOLDER))
    shared = {tuple(seen["sites"]): seen["connections"] for seen in about["shared"]}
    return AnalysisOutcome(
        printed, Path(lake, report.PAGE), list(files), problems, about["bucket_us"], shared, is_new=False
    )


def _printed(folder: str | Path) -> dict[str, First]:
    """The first rows of the tables that a run prints."""
    with WrittenTables(folder) as tables:
        return {name: tables.first(name, PRINTED_ROWS) for name in PRINTED}
