"""`brokerscope analyze`: records, tables and the page, on Spark or in this process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dissectors.errors import BrokerscopeError, UsageError
from dissectors.redaction import public_path
from dissectors.wording import did_you_mean
from pipelines import report
from pipelines.cli import exits, progress
from pipelines.cli.options import flag, option
from pipelines.cli.reading import JudgedPayloads, Reading, StoredCaptures, reads_captures, saw_the_same
from pipelines.formats import units
from pipelines.pandas_guard import without_pandas
from pipelines.storage import filesystem, outputs
from pipelines.storage.layout import RECORD_FOLDER

if TYPE_CHECKING:
    from dissectors.options import Options
    from pipelines.analyze import AnalysisOutcome, EngineName, Execution
    from pipelines.cli.reading import AskedPayloads
    from pipelines.spark.catalog import Catalog

NEWEST = 4  # captures that an update asks for names of machines: those of earlier ones are in the store
_SILENT = logging.NullHandler()  # one for all rounds of --follow; py4j would show Ctrl-C as a traceback


@reads_captures
def analyze(
    captures: StoredCaptures,
    reading: Reading,
    payload: JudgedPayloads,
    out: Annotated[str | None, option("-o --output", "OUT", "Folder to write to.")] = None,
    engine: Annotated[
        str | None,
        option(
            "--engine",
            "spark|local",
            "Run on Spark, or without it (local). By default by --master and the size of the captures.",
        ),
    ] = None,
    master: Annotated[str | None, option("--master", "MASTER", "Spark master; local[*] by default.")] = None,
    conf: Annotated[list[str] | None, option("--conf", "KEY=VALUE", "A Spark setting. May be repeated.")] = None,
    table_format: Annotated[
        str | None,
        option(
            "--table-format",
            "FORMAT",
            "Also write records and tables in this table format, such as iceberg or delta; Spark only.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        option(
            "--namespace",
            "CATALOG.NAME",
            "Catalog and namespace for --table-format; by default brokerscope in Spark's current catalog.",
        ),
    ] = None,
    update: Annotated[
        bool, flag("--update", "Decode only captures that are new since the last run with this OUT.")
    ] = False,
    records_only: Annotated[
        bool, flag("--records-only", "With --update: write records only; leave tables and report to a later run.")
    ] = False,
    follow: Annotated[str | None, option("--follow", "60s", "Repeat --update at this interval.")] = None,
    bucket: Annotated[
        str | None, option("--bucket", "10s", "Width of a time bucket: ms, s, m, h or d. Chosen to fit by default.")
    ] = None,
    by: Annotated[
        str | None, option("--by", "topic,client…", "More keys for the latency table (see docs/tables.md).")
    ] = None,
    explain: Annotated[
        bool,
        flag(
            "--explain",
            "Print what a run on Spark would do, and do nothing. A file LIST.tsv lists captures: path, tab, size.",
        ),
    ] = False,
) -> None:
    """Write records, tables and a report of captures, on Spark or, where captures are small, in this process.

    Writes OUT/records/<table>/, OUT/tables/<table>.parquet and .csv, OUT/forensics.jsonl (one object for each bad
    checksum) and OUT/report.html; prints the tables, unless --quiet.
    """
    from pipelines.tables.table import RECORDS

    without_pandas()
    if out is None:
        if not explain:
            raise typer.BadParameter("is missing: the folder to write to", param_hint="-o")
        out = ""
    options = reading.options(RECORDS)
    if "-" in captures:
        raise typer.BadParameter("analyze reads files, not standard input", param_hint="CAPTURE")
    keys, width = _keys(by), None if bucket is None else _micros(bucket, "--bucket")
    from pipelines.analyze import Execution

    every_s = None if follow is None else _micros(follow, "--follow") / 1_000_000
    update = update or every_s is not None
    catalog, settings = _catalog(table_format, namespace), _conf(conf)
    if records_only and (not update or catalog):
        reason = "is for --update" if not update else "makes no tables of a --table-format"
        raise typer.BadParameter(reason, param_hint="--records-only")
    wanted = _engine(engine, master, catalog=catalog is not None)
    asked = payload.asked
    if asked.payloads:
        if update or wanted == "spark" or master is not None:
            raise typer.BadParameter("is for --engine local, without --update", param_hint="--payloads")
        wanted = "local"
    execution = Execution(master, settings, update=update, records_only=records_only, catalog=catalog)
    run = partial(_run, reading, options, asked, out, wanted, execution, keys, width)
    from dissectors.capture import expand
    from pipelines.spark import credentials, session
    from pipelines.spark import options as spark_options

    known = session.known(master, settings)
    spark_options.of_session(known)  # a wrong one ends the command before anything begins
    if explain:
        from pipelines.cli.explain import explain as show_plan

        show_plan(captures, options, master, known)
        return
    credentials.use(known)

    if every_s is None:
        run(expand(captures))
        return
    from pipelines.lake.arrivals import arrivals

    for files in arrivals(captures, every_s):
        try:
            run(files)
        except (BrokerscopeError, typer.Exit) as error:  # the next file may be a better one
            if isinstance(error, BrokerscopeError):
                exits.say(f"brokerscope: {error}")


def _run(
    reading: Reading,
    options: Options,
    asked: AskedPayloads,
    out: str,
    wanted: EngineName | None,
    execution: Execution,
    keys: tuple[str, ...],
    width: int | None,
    files: Sequence[str],
) -> None:
    """Analyse these files, and print what was found."""
    from pipelines import analyze as job
    from pipelines.cli import printing

    reading.refuse_records(files)
    reading.learn_names(files[-NEWEST:] if execution.update else files)
    choice = job.choose(files, wanted, execution.master, update=execution.update)
    if choice.engine == "spark" and find_spec("pyspark") is None:
        raise UsageError("this needs Spark: pip install 'brokerscope[spark]'")
    reading.say_if_slow(files)
    bar = progress.Bar(quiet=reading.quiet)
    bar.total = files
    with (
        _spark_errors(choice.engine, execution.master),
        bar,
        _target(out, execution.update, reading.inputs(files)) as (folder, store, work),
    ):
        if not reading.quiet:
            exits.say(f"brokerscope: {'Spark' if choice.engine == 'spark' else 'the local engine'} ({choice.because})")
        outcome = job.analyze(
            files,
            folder,
            options,
            choice.engine,
            by=keys,
            bucket_us=width,
            execution=replace(execution, store=store, run=work),
            read=asked.reader(files, options),
            stage=bar.stage,
            progress=bar.update,
        )
    if not reading.quiet:
        if not outcome.is_new:
            made = "records are" if outcome.page is None else "tables and page are"
            exits.say(f"brokerscope: no packets are new: {made} as the last run made them")
        for sentence in saw_the_same(outcome.shared):
            exits.say(f"brokerscope: {sentence}; table hops compares the points")
    if outcome.page is None:
        printing.show_line(public_path(filesystem.join(out, RECORD_FOLDER)))
    else:
        _show(outcome, filesystem.join(out, report.PAGE), reading.quiet)
    reading.say_problems(outcome.problems)


@contextlib.contextmanager
def _target(out: str, update: bool, inputs: Iterable[str]) -> Iterator[tuple[Path, str | None, str | None]]:
    """(an empty folder whose content is OUT's once the block ends well, where records go if not into it, the run).

    The run is None where records need not be told from those of others.
    """
    from pipelines.analyze import ENTRIES
    from pipelines.storage import lake_files
    from pipelines.storage.layout import ABOUT

    local = filesystem.local_path(out)
    if local is not None:
        outputs.refuse_unqueryable(local)
    if local is None:
        from pipelines.storage import stored_records, working_folders

        if not update:
            filesystem.refuse_foreign(out, ENTRIES, ABOUT)
        beside = ""
        try:
            with working_folders.replaced(out, [e for e in ENTRIES if e != RECORD_FOLDER], ABOUT) as (folder, beside):
                yield folder, out, None if update else working_folders.run_of(beside)
        finally:
            if beside and not update:
                stored_records.tidy(out, beside)
    elif update:
        outputs.refuse_inputs(local, inputs)
        with lake_files.answers(local, ENTRIES, ABOUT) as answers:
            yield answers, str(local), None
    else:
        with outputs.folder(local, marker=ABOUT, entries=ENTRIES, inputs=inputs) as whole:
            yield whole, None, None


def _conf(pairs: Sequence[str] | None) -> dict[str, str]:
    """`--conf`, as Spark's own commands have it."""
    out = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise typer.BadParameter(f"{key!r} is not of spark.KEY=VALUE", param_hint="--conf")  # no value: a secret?
        out[key.strip()] = value.strip()
    return out


def _catalog(table_format: str | None, namespace: str | None) -> Catalog | None:
    """`--table-format` and `--namespace`."""
    if table_format is None:
        if namespace is not None:
            raise typer.BadParameter("is for tables of a --table-format", param_hint="--namespace")
        return None
    from pipelines.spark.catalog import NAMESPACE, Catalog

    return Catalog(table_format, namespace or NAMESPACE)


def _engine(name: str | None, master: str | None, *, catalog: bool) -> EngineName | None:
    """`--engine`, if it means something."""
    if name not in (None, "spark", "local"):
        raise typer.BadParameter(f"{name!r} is none of spark, local", param_hint="--engine")
    if catalog and name == "local":
        raise typer.BadParameter("--table-format is Spark's", param_hint="--engine")
    if name == "local" and master is not None:
        raise typer.BadParameter("--engine local has no master", param_hint="--master")
    return "spark" if catalog else cast("EngineName | None", name)


@contextlib.contextmanager
def _spark_errors(engine: EngineName, master: str | None) -> Iterator[None]:
    """What goes wrong in Spark, as one sentence."""
    if engine != "spark":
        yield
        return
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from pipelines.spark import session

    logging.getLogger().addHandler(_SILENT)
    try:
        yield
    except (PySparkException, Py4JError, *session.NO_ANSWER) as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # Py4J could not cancel what an interrupt ended
            raise KeyboardInterrupt from None
        raise BrokerscopeError(f"Spark failed ({master or 'local[*]'}): {session.gist(error)}") from error


def _keys(by: str | None) -> tuple[str, ...]:
    """`topic,client` -> ("topic", "client")."""
    from pipelines.tables.table import BY

    keys = tuple("server" if key == "broker" else key for key in map(str.strip, (by or "").split(",")) if key)
    unknown = [key for key in keys if key not in BY]
    if unknown:
        raise typer.BadParameter(f"no {unknown[0]!r}; {did_you_mean(unknown[0], [*BY, 'broker'])}", param_hint="--by")
    return tuple(dict.fromkeys(keys))


def _micros(width: str, option: str) -> int:
    """`10s`, `500ms`, `5m` -> µs."""
    micros = (units.nanoseconds(width) or 0) // 1_000
    if micros < 1_000:
        raise typer.BadParameter(f"{width!r} is no time of 1 ms or more, like 500ms, 10s, 5m, 1h", param_hint=option)
    return micros


def _show(outcome: AnalysisOutcome, page: str, quiet: bool) -> None:
    """The tables, each with its first rows, and where the page is."""
    from pipelines.cli import printing

    if not quiet:
        from pipelines.cli.print_tables import show

        show(outcome.tables)
    printing.show_line(public_path(page))
