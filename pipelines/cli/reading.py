"""What all commands that read captures take: the captures, and the options that say how to read them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dissectors
from dissectors.compiling import loading
from dissectors.errors import InputError
from dissectors.findings import UNREADABLE
from dissectors.limits import Limits
from dissectors.options import ALL_CORES, Options
from dissectors.records import DEFAULT_TABLES
from pipelines.cli import exits
from pipelines.cli.pandas_guard import without_pandas
from pipelines.spark import options as spark_options

if TYPE_CHECKING:
    from dissectors.run import Run
    from pipelines.answers.records import Relations
    from pipelines.cli.watched_run import WatchedRun
    from pipelines.sql.selection import Selection
    from pipelines.tables.blind_spots import Seen

LARGE_BYTES = 100 << 20  # of captures, from which it matters to a user whether the code is compiled
READ_RECORDS = "summary, top, diff, follow, sql and report"  # what `analyze` wrote

Captures = Annotated[
    list[str],
    typer.Argument(
        metavar="CAPTURE…", help="Files, folders or globs; local paths or any URL that fsspec opens; - is stdin."
    ),
]
StoredCaptures = Annotated[
    list[str],
    typer.Argument(metavar="CAPTURE…", help="Files, folders or globs; local paths or any URL that fsspec opens."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only from this time on: 01:11:18, 2026-01-31T01:11, …T01:11+02:00; UTC."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only before this time; 23:50 to 00:10 spans midnight.")
]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options, as given on the command line."""

    decode_as: Annotated[
        list[str] | None,
        typer.Option(
            "--decode-as",
            metavar="PORT=PROTOCOL",
            help="Decode connections to this server port as kafka, pulsar or iggy.",
        ),
    ] = None
    keylog: Annotated[
        str | None, typer.Option("--keylog", metavar="FILE", help="TLS secrets in NSS key log format (SSLKEYLOGFILE).")
    ] = None
    dialect: Annotated[
        list[str] | None,
        typer.Option(
            "--dialect",
            metavar="PROTOCOL=DIALECT",
            help="Wire dialect of all connections of a protocol, for example iggy=iggy-0.5.",
        ),
    ] = None
    site: Annotated[
        str,
        typer.Option(
            "--site",
            metavar="folder|file|REGEX",
            help="What names a capture point. Connections of different capture points are kept apart.",
        ),
    ] = "folder"
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="NAME=VALUE", help="Change a limit, for example frame_bytes=64M. May be repeated."
        ),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", metavar="N", min=1,
            help="Number of decoding processes; by default one for each core, one for small captures.",
        ),
    ] = None  # fmt: skip
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")] = False

    def options(
        self,
        tables: tuple[str, ...] = DEFAULT_TABLES,
        *,
        full: bool = False,
        bodies_of: tuple[str, ...] = (),
        payloads: bool = False,
    ) -> Options:
        """What they ask of the engine. Raises typer.BadParameter where one means nothing."""
        return Options(
            tables=tables,
            full=full,
            bodies_of=bodies_of,
            payloads=payloads,
            site=_site(self.site),
            decode_as=_ports(self.decode_as),
            keylog=self.keylog,
            dialects=_dialects(self.dialect),
            jobs=self.jobs or ALL_CORES,
            limits=_limits(self.limit),
        )

    def inputs(self, files: Sequence[str]) -> list[str]:
        """Every file that is read: none of them may be written."""
        return [*files, *([] if self.keylog is None else [self.keylog])]

    @contextmanager
    def run(self, captures: Sequence[str], options: Options) -> Iterator[WatchedRun]:
        """A run over the captures, with a progress bar on a terminal. What could not be read is reported at the end."""
        import pyarrow as pa

        from pipelines.cli.progress import Bar
        from pipelines.cli.watched_run import WatchedRun

        pa.set_memory_pool(pa.system_memory_pool())  # what rows leave free serves the next packets: its own keeps it
        bar = Bar(quiet=self.quiet)
        running = WatchedRun(captures, options, bar)
        self.refuse_records(running.files)
        self.say_if_slow(running.files)
        bar.total = running.files
        with bar:
            yield running
        self.say_problems(running.problems)

    @contextmanager
    def records(
        self, captures: Sequence[str], tables: tuple[str, ...], *, full: bool = False, part: Selection | None = None
    ) -> Iterator[Relations]:
        """The record tables of captures, or of one folder that `analyze` wrote; or the selected rows."""
        from pipelines.answers import records

        without_pandas()
        if len(captures) == 1 and records.is_analysis(captures[0]):
            every = records.read_analysis(captures[0], tables)
            if not part:
                yield every
                return
            with records.queryable(part.of(records.batches(every)), tables) as found:
                yield found
            return
        with (
            self.run(captures, self.options(tables, full=full)) as run,
            records.queryable(part.of(run.records()) if part else run.records(), tables, full=full) as found,
        ):
            yield found

    @contextmanager
    def counted_once(self, tables: Relations) -> Iterator[Relations]:
        """Record tables in which what several capture points saw stands once; says which points saw the same."""
        from pipelines.answers import records

        with records.counted_once(tables) as (once, shared):
            if not self.quiet:
                for sites, count in shared.items():
                    exits.say(f"brokerscope: {saw_the_same(sites, count)}")
            yield once

    def refuse_records(self, files: Sequence[str]) -> None:
        """Raise InputError where a folder without captures is one that `analyze` wrote."""
        for path in files:
            if not Path(path).is_dir():
                continue
            from pipelines.answers import records  # loads much that captures do not need

            if records.is_analysis(path):
                raise InputError(f"{path}: records, not captures: only {READ_RECORDS} take them, one folder alone")

    def say_if_slow(self, files: Sequence[str]) -> None:
        """Before large captures are read: say that the code is not compiled, and what to do."""
        from pipelines.cli.progress import total_size

        if dissectors.STATE.is_compiled or loading.is_forced() or self.quiet:
            return
        if (total_size(files) or 0) >= LARGE_BYTES:
            exits.say(
                f"brokerscope: not compiled ({dissectors.STATE.reason}), which takes several times as long; where a C "
                "compiler is installed, another pip install compiles it (in a checkout: make compile)"
            )

    def say_blind_spots(self, seen: Seen, run: Run) -> None:
        """Say what the captures cannot show, to stderr, a line each."""
        for spot in seen.spots(sum(reader.census.cut for reader in run.readers)):
            exits.say(f"brokerscope: {spot}")

    def say_problems(self, problems: Sequence[tuple[str, str]]) -> None:
        """Say which inputs were not read whole. One that could not be read at all: exit code 3.

        problems: kind of finding, message.
        """
        for kind, message in problems:
            if kind == UNREADABLE or not self.quiet:
                exits.say(f"brokerscope: {message}")
        if any(kind == UNREADABLE for kind, _ in problems):
            raise typer.Exit(exits.UNREADABLE)


def reads_captures(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of Reading; it gets them as its parameter `reading`."""
    common = inspect.signature(Reading, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)
    parameters = [p for p in own.parameters.values() if p.name != "reading"]
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in common.values()]

    def run(**given: Any) -> None:
        reading = Reading(**{name: given.pop(name) for name in common})
        command(reading=reading, **given)

    run.__signature__ = own.replace(parameters=[*parameters, *keywords])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*parameters, *keywords)}
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    return run


def saw_the_same(sites: Sequence[str], count: int) -> str:
    """What is said of connections that several capture points saw."""
    return (
        f"{', '.join(sites)} saw the same {count} connection{'s' if count != 1 else ''}: each counts once, as at "
        f"{sites[0]}, nearest to the server"
    )


def selected(since: str | None, until: str | None, site: str | None = None, topic: str | None = None) -> Selection:
    """What --since, --until, --site and --topic ask for. Raises typer.BadParameter where one means nothing."""
    from pipelines.sql.conditions import MeaninglessError
    from pipelines.sql.selection import Selection

    try:
        return Selection(since, until, site, topic)
    except MeaninglessError as error:
        raise typer.BadParameter(str(error), param_hint=error.option) from None


def exists(path: str) -> bool:
    """Whether there is such a file; False for what can be no path."""
    with suppress(OSError, ValueError):
        return Path(path).exists()
    return False


# --- what the options mean -------------------------------------------------------------------------------------------


def _ports(pairs: Sequence[str] | None) -> dict[int, str]:
    """`9092=kafka` -> {9092: "kafka"}."""
    wanted: dict[int, str] = {}
    if not pairs:
        return wanted
    from dissectors.protocols import protocols

    names = [protocol.name for protocol in protocols()]
    for pair in pairs:
        port, _, protocol = pair.partition("=")
        if not port.isdecimal() or not 0 < int(port) < 65536 or protocol.lower() not in names:
            raise typer.BadParameter(f"{pair!r} is not PORT={'|'.join(names)}", param_hint="--decode-as")
        wanted[int(port)] = protocol.lower()
    return wanted


def _limits(pairs: Sequence[str] | None) -> Limits:
    """`frame_bytes=64M` -> Limits."""
    named = {name: value for name, _, value in (pair.partition("=") for pair in pairs or ())}
    with _refused("--limit"):
        return spark_options.limits(named)


def _site(rule: str) -> str:
    """`--site` as it is, if it means something."""
    with _refused("--site"):
        return spark_options.rule(rule)


@contextmanager
def _refused(option: str) -> Iterator[None]:
    """Make a ValueError wrong usage of an option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _dialects(given: Sequence[str] | None) -> dict[str, str]:
    """`--dialect` by protocol, if there are such dialects."""
    found: dict[str, str] = {}
    if not given:
        return found
    from dissectors.protocols import named, protocols

    for text in given:
        name, _, dialect = text.partition("=")
        protocol = named(name)
        known = [] if protocol is None else list(protocol.dialects())
        if dialect not in known:
            every = [f"{one.name}={each}" for one in protocols() for each in one.dialects()]
            raise typer.BadParameter(f"{text!r} is none of {', '.join(every)}", param_hint="--dialect")
        found[name] = dialect
    return found
