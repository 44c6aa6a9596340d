"""What all commands that read captures take: the captures, and the options that say how to read them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import dissectors
from dissectors.capture import expand
from dissectors.capture.source import STDIN
from dissectors.compiling import loading
from dissectors.errors import InputError
from dissectors.findings import TRUNCATED, UNREADABLE
from dissectors.limits import Limits
from dissectors.options import ALL_CORES, Options
from dissectors.records import DEFAULT_TABLES
from dissectors.wording import first_of
from pipelines.cli import exits
from pipelines.cli.options import flag, option
from pipelines.cli.progress import total_size
from pipelines.cli.stopping import PipeEnd, ends_pipe
from pipelines.formats.units import counted
from pipelines.pandas_guard import without_pandas
from pipelines.spark import options as spark_options
from pipelines.storage.layout import is_analysis, names_of, single_analysis

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.answers.records import KeptRows, Relations
    from pipelines.cli.watched_run import WatchedRun
    from pipelines.payloads.messages import PayloadReader
    from pipelines.payloads.shown import ShownFields
    from pipelines.sql.occurring import NamesSeen
    from pipelines.sql.selection import Selection
    from pipelines.storage.record_cache import RecordCache
    from pipelines.tables.blind_spots import Seen

CACHED_BYTES = 1 << 20  # of captures, from which their rows are kept for the next command
LARGE_BYTES = 100 << 20  # of captures, from which it matters to a user whether the code is compiled
_LISTED = 10  # captures that were not read whole, or notes about captures, that are printed
NAMED = 3  # captures or capture points, and sets of these, that a sentence names

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
TextOrJson = Annotated[Literal["text", "json"], option("--format -f", "text|json", "Output format.")]
Since = Annotated[
    str | None, option("--since", "TIME", "Only from this time on: 01:11:18, 2026-01-31T01:11, …T01:11+02:00; UTC.")
]
Until = Annotated[str | None, option("--until", "TIME", "Only before this time; 23:50 to 00:10 spans midnight.")]


@dataclass(frozen=True, kw_only=True)
class AskedPart:
    """The options that ask for a part of what captures hold, as given on the command line."""

    since: Since = None
    until: Until = None
    protocol: Annotated[str | None, option("--protocol", "NAME,…", "Only these protocols: kafka, pulsar, iggy.")] = None
    topic: Annotated[str | None, option("--topic", "NAME,…", "Only these topics; * and ? stand for any text.")] = None
    client: Annotated[str | None, option("--client", "ID|IP|IP:PORT,…", "Only these clients.")] = None
    server: Annotated[str | None, option("--server --broker", "IP|PORT|IP:PORT,…", "Only these brokers.")] = None
    api: Annotated[str | None, option("--api", "NAME,…", "Only these APIs: Produce, SEND.")] = None
    group: Annotated[str | None, option("--group", "NAME,…", "Only these consumer groups or subscriptions.")] = None

    @property
    def selection(self) -> Selection:
        """What they ask for. Raises typer.BadParameter where one means nothing."""
        return selected(**self.texts)

    @property
    def texts(self) -> dict[str, str | None]:
        """The options by name. Raises typer.BadParameter where one is no UTF-8 text."""
        for name, value in vars(self).items():
            refuse_other_than_text(value, f"--{name}")
        return vars(self)


Schemas = Annotated[
    str | None,
    option(
        "--schemas", "PATH", "Schemas of keys and values: a folder of .avsc, .proto, .json, .desc, or a saved registry."
    ),
]


@dataclass(frozen=True, kw_only=True)
class AskedPayloads:
    """The options that ask for keys and values of messages, as given on the command line."""

    payloads: Annotated[bool, flag("--payloads", "Messages with key, value and headers, and with what these mean.")] = (
        False
    )
    schemas: Schemas = None
    redact: Annotated[str | None, option("--redact", "FIELD,…", "Hide these fields of keys and values: a.b.c.")] = None
    only: Annotated[str | None, option("--only", "FIELD,…", "Show only these fields of keys and values.")] = None

    def reader(self, files: Sequence[str], options: Options) -> PayloadReader | None:
        """What reads keys and values of these captures; None where they are not asked for.

        Raises typer.BadParameter for an option that means nothing without --payloads, InputError for bad schemas.
        """
        shown = self.shown_fields()
        if not self.payloads:
            return None
        from pipelines.payloads import schemas
        from pipelines.payloads.messages import PayloadReader, told_in

        given = None if self.schemas is None else schemas.load(self.schemas)
        return PayloadReader(given, lambda: told_in(files, options), shown)

    def shown_fields(self) -> ShownFields:
        """Which fields of keys and values are shown. Raises typer.BadParameter where payloads are not asked for."""
        from pipelines.payloads.shown import ShownFields

        for name, value in (("--schemas", self.schemas), ("--redact", self.redact), ("--only", self.only)):
            refuse_other_than_text(value, name)
            if value is not None and not self.payloads:
                raise typer.BadParameter("is for --payloads", param_hint=name)
        return ShownFields.of(self.redact, self.only)


@dataclass(frozen=True, kw_only=True)
class JudgedPayloads:
    """The options that have keys and values read to judge them, as given on the command line: none is shown."""

    payloads: Annotated[bool, flag("--payloads", "Read keys and values, too: which do not fit their schemas?")] = False
    schemas: Schemas = None

    @property
    def asked(self) -> AskedPayloads:
        """What that asks for: schemas are reason enough."""
        return AskedPayloads(payloads=self.payloads or self.schemas is not None, schemas=self.schemas)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options, as given on the command line."""

    decode_as: Annotated[
        list[str] | None,
        option("--decode-as", "PORT=PROTOCOL", "Decode connections to this server port as kafka, pulsar or iggy."),
    ] = None
    keylog: Annotated[str | None, option("--keylog", "FILE", "TLS secrets in NSS key log format (SSLKEYLOGFILE).")] = (
        None
    )
    dialect: Annotated[
        list[str] | None,
        option(
            "--dialect", "PROTOCOL=DIALECT", "Wire dialect of all connections of a protocol, for example iggy=iggy-0.5."
        ),
    ] = None
    site: Annotated[
        str,
        option(
            "--site",
            "place|folder|file|REGEX",
            "How capture points are named: by the folder without dates and hours, where folders of which one goes "
            "on where another ends are one; by folder; by file; or by what REGEX matches in the path. Connections at "
            "different capture points are never joined.",
        ),
    ] = "place"
    limit: Annotated[
        list[str] | None,
        option("--limit", "NAME=VALUE", "Change a limit, for example frame_bytes=64M. May be repeated."),
    ] = None
    jobs: Annotated[
        int | None,
        option(
            "--jobs -j",
            "N",
            "Number of decoding processes; by default one for each core, one for small captures.",
            min=1,
        ),
    ] = None
    hosts: Annotated[
        str | None,
        option(
            "--hosts",
            "FILE",
            "Names of machines, shown beside their addresses: as /etc/hosts, `kubectl get pods -o wide`, or CSV. "
            "DNS answers and name blocks in captures tell some, too.",
        ),
    ] = None
    no_cache: Annotated[bool, flag("--no-cache", "Neither use nor keep decoded records of earlier commands.")] = False
    quiet: Annotated[bool, flag("--quiet -q", "No progress bar and no notes.")] = False

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

    def learn_names(self, captures: Sequence[str]) -> None:
        """Write the names of machines beside addresses from now on: those of --hosts, else what captures or OUT tell.

        Raises InputError where the file of --hosts cannot be read, or names nothing.
        """
        from pipelines.formats import hosts

        given = {} if self.hosts is None else hosts.read(self.hosts)

        def told() -> Mapping[str, str]:
            if single_analysis(captures):
                return names_of(captures[0])
            from dissectors.capture.host_names import host_names

            return host_names([path for path in captures if path != STDIN], Limits())

        hosts.use(given, told, source=(tuple(given.items()), tuple(captures)))

    def inputs(self, files: Sequence[str]) -> list[str]:
        """Every file that is read: none of them may be written."""
        return [*files, *(path for path in (self.keylog, self.hosts) if path is not None)]

    @contextmanager
    def run(self, captures: Sequence[str], options: Options, *, stoppable: bool = True) -> Iterator[WatchedRun]:
        """A run over the captures, with a progress bar on a terminal. What could not be read is reported at the end.

        stoppable: Ctrl-C ends a pipe that is read, so what was seen before is answered; the exit code is INTERRUPTED.
        """
        import pyarrow as pa

        from pipelines.cli.progress import Bar
        from pipelines.cli.watched_run import WatchedRun

        pa.set_memory_pool(pa.system_memory_pool())  # what rows leave free serves the next packets: its own keeps it
        bar = Bar(quiet=self.quiet)
        running = WatchedRun(captures, options, bar)
        self.refuse_records(running.files)
        self.learn_names(running.files)
        self.say_if_slow(running.files)
        bar.total = running.files
        with bar, ends_pipe() if STDIN in captures and stoppable else nullcontext(PipeEnd()) as end:
            try:
                yield running
            except InputError:
                if end.by_user:  # before anything had come
                    raise typer.Exit(exits.INTERRUPTED) from None
                raise
        self.say_problems(running.problems)
        if end.by_user:
            raise typer.Exit(exits.INTERRUPTED)

    @contextmanager
    def source(
        self, captures: Sequence[str], options: Options, *, stoppable: bool = True
    ) -> Iterator[WatchedRun | KeptRows]:
        """Where rows come from: a run over captures, or the records in one folder that `analyze` wrote."""
        if single_analysis(captures):
            from pipelines.answers import records

            self.learn_names(captures)
            yield records.KeptRows.of_analysis(captures[0], options.tables)
            return
        files = expand(captures)
        cache = self._cache(files, options)
        if cache is None:
            with self.run(files, options, stoppable=stoppable) as run:
                yield run
        elif (kept := cache.find(options.tables)) is not None:
            from pipelines.answers import records

            self.learn_names(files)
            yield records.KeptRows.of_cache(files, kept, options)
            self.say_problems(kept.problems)
        else:
            with cache.keeping() as keeper, self.run(files, options) as run:
                run.keeper = keeper
                yield run

    def files(self, captures: Sequence[str]) -> list[str]:
        """The files of captures, for a command that asks for them more than once; a folder of `analyze` as it is."""
        return list(captures) if single_analysis(captures) else expand(captures)

    def answers(self, files: Sequence[str], tables: tuple[str, ...]) -> RecordCache | None:
        """Where answers over all rows of these files may have been kept; None where none is kept of such."""
        return None if single_analysis(files) else self._cache(files, self.options(tables), least=0)

    def _cache(self, files: Sequence[str], options: Options, least: int | None = None) -> RecordCache | None:
        """What earlier commands may have kept of these capture files; None where nothing is kept of such.

        least: bytes of captures from which on something is kept; without it CACHED_BYTES, that of rows.
        """
        least = CACHED_BYTES if least is None else least
        if self.no_cache or STDIN in files or (total_size(files) or 0) < least:
            return None
        from pipelines.storage.record_cache import RecordCache

        return RecordCache.of(files, options)

    @contextmanager
    def records(
        self,
        captures: Sequence[str],
        tables: tuple[str, ...],
        *,
        full: bool = False,
        part: Selection | None = None,
        asked: AskedPayloads | None = None,
    ) -> Iterator[Relations]:
        """The record tables of captures, or of one folder that `analyze` wrote; or the selected rows.

        full: with decoded bodies; asked: with keys, values and headers of messages; both of captures only.
        """
        from pipelines.answers import records
        from pipelines.payloads.columns import read_for
        from pipelines.sql.occurring import NamesSeen

        without_pandas()
        needed = part.tables(tables) if part else tables
        payloads = asked is not None and asked.payloads
        options = self.options(read_for(needed) if payloads else needed, full=full, payloads=payloads)
        read = None if asked is None else asked.reader(captures, options)
        with self.source(captures, options) as source:
            if not part and isinstance(source, records.KeptRows) and read is None:
                yield source.tables
                return
            rows = source.records() if read is None else read.of(source.records(), needed)
            if not part:
                with records.queryable(rows, needed, full=full, payloads=payloads) as found:
                    yield found
                return
            seen = NamesSeen(part)
            chosen_rows = part.of(seen.of(rows))
            with records.queryable(chosen_rows, needed, full=full, payloads=payloads) as found:
                chosen = records.selected(found, part)
                self.say_missing(seen, chosen)
                yield chosen

    def captures(self, named: Sequence[str]) -> list[str]:
        """The captures; of a folder that `analyze` wrote those that its records name, as far as they are still there.

        Raises InputError where none of them is.
        """
        if not single_analysis(named):
            return list(named)
        from pipelines.answers import records

        there, gone = records.captures_of(named[0])
        if gone:
            some = first_of(gone, NAMED)
            if not there:
                raise InputError(f"{named[0]}: this command reads the captures, and they no longer exist: {some}")
            if not self.quiet:
                exits.say(f"brokerscope: left out, as they no longer exist: {some}")
        return there

    @contextmanager
    def counted_once(self, tables: Relations) -> Iterator[Relations]:
        """Record tables in which what several capture points saw stands once; says which points saw the same."""
        from pipelines.answers import records

        with records.counted_once(tables) as (once, shared):
            if not self.quiet:
                for sentence in saw_the_same(shared):
                    exits.say(f"brokerscope: {sentence}")
            yield once

    def refuse_records(self, files: Sequence[str]) -> None:
        """Raise InputError where a folder without captures is one that `analyze` wrote."""
        for path in files:
            if is_analysis(path):
                raise InputError(f"{path}: a folder that `analyze` wrote: give it alone, not with captures")

    def say_if_slow(self, files: Sequence[str]) -> None:
        """Before large captures are read: say that the code is not compiled, and what to do."""
        if dissectors.STATE.is_compiled or loading.is_forced() or self.quiet:
            return
        if (total_size(files) or 0) >= LARGE_BYTES:
            exits.say(
                f"brokerscope: not compiled ({dissectors.STATE.reason}), which takes several times as long; where a C "
                "compiler is installed, another pip install compiles it (in a checkout: make compile)"
            )

    def say_blind_spots(self, seen: Seen, cut: int) -> None:
        """Say what the captures cannot show, to stderr, a line each. cut: packets that a snap length had cut short."""
        for spot in seen.spots(cut):
            exits.say(f"brokerscope: {spot}")

    def say_missing(self, seen: NamesSeen, found: Relations) -> None:
        """Say which names that were asked for do not occur, or that the time asked for is another."""
        from pipelines.answers import records

        if not say_names(seen) and (span := seen.span()) and not any(map(records.count, found.values())):
            exits.say(f"brokerscope: nothing then; {span}")

    @contextmanager
    def asked_once(
        self, captures: Sequence[str], tables: tuple[str, ...], part: Selection, names: Selection | None = None
    ) -> Iterator[Relations]:
        """The selected rows of record tables of captures, each once; says which names in `names` do not occur.

        names: what was asked for, where the selection has not all of it. Of a folder that `analyze` wrote its captures
        are read.
        """
        from pipelines.answers.records import queryable

        with self.run(self.captures(captures), self.options(part.tables(tables))) as run:
            wanted = part.of(self.noting(run.records(), names or part))
            with queryable(wanted, tables) as every, self.counted_once(every) as once:
                yield once

    def noting(
        self, rows: Iterable[tuple[str, pa.RecordBatch]], asked: Selection
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """All rows; after the last, say which names that were asked for do not occur."""
        from pipelines.sql.occurring import NamesSeen

        seen = NamesSeen(asked)
        yield from seen.of(rows)
        say_names(seen)

    def say_problems(self, problems: Sequence[tuple[str, str]]) -> None:
        """Say which inputs were not read whole, with --quiet too. One that was not read at all: exit code 3.

        problems: kind of finding, message.
        """
        bad = dict.fromkeys(message for of in (UNREADABLE, TRUNCATED) for kind, message in problems if kind == of)
        notes = dict.fromkeys(message for kind, message in problems if message not in bad and not self.quiet)
        for messages, more in ((bad, "more capture"), (notes, "more note")):
            for message in list(messages)[:_LISTED]:
                exits.say(f"brokerscope: {message}")
            if len(messages) > _LISTED:
                what = f"{counted(len(messages) - _LISTED, more)}{' not read whole' if messages is bad else ''}"
                exits.say(f"brokerscope: and {what}: the table findings has all")
        if any(kind == UNREADABLE for kind, _ in problems):
            raise typer.Exit(exits.UNREADABLE)


def reads_captures(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the classes that its parameters `payload`, `part` and `reading` are of."""
    own = inspect.signature(command, eval_str=True)
    groups = ("payload", "part", "reading")
    shared = {name: own.parameters[name].annotation for name in groups if name in own.parameters}
    options = {name: inspect.signature(kind, eval_str=True).parameters for name, kind in shared.items()}
    parameters = [p for p in own.parameters.values() if p.name not in shared]
    every = [p for found in options.values() for p in found.values()]
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in every]

    def run(**given: Any) -> None:
        made = {name: kind(**{option: given.pop(option) for option in options[name]}) for name, kind in shared.items()}
        command(**made, **given)

    run.__signature__ = own.replace(parameters=[*parameters, *keywords])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*parameters, *keywords)}
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    return run


def say_names(seen: NamesSeen) -> bool:
    """Say which names that were asked for do not occur, also where notes are not wanted; whether any was said."""
    sentences = list(seen.missing())
    for sentence in sentences:
        exits.say(f"brokerscope: {sentence}")
    return bool(sentences)


def saw_the_same(shared: Mapping[tuple[str, ...], int]) -> Iterator[str]:
    """What is said of connections that several capture points saw, or one of them more than once: a few sentences.

    shared: sets of capture points, the one nearest to the server first -> connections that all of them saw.
    """
    from pipelines.tables.points import SHOWN

    for sites, count in list(shared.items())[:NAMED]:
        same = counted(count, "connection")
        if len(set(sites)) == 1:
            yield f"{sites[0]} saw {same} before and after address translation: each counts once"
            continue
        points = f"{counted(len(sites), 'capture point')} ({first_of(sites, NAMED)})"
        who = points if len(sites) > NAMED else first_of(sites, NAMED)
        yield f"{who} saw the same {same}: each counts once, as at {sites[0]}, nearest to the server"
    if len(shared) > NAMED:
        more = counted(len(shared) - NAMED, "more set") + (" or more" if len(shared) == SHOWN else "")
        yield f"{more} of capture points saw the same connections: each counts once"


def selected(**asked: str | None) -> Selection:
    """What options ask for, by the names of Selection. Raises typer.BadParameter where one means nothing."""
    from pipelines.sql.conditions import InvalidFilterError
    from pipelines.sql.selection import Selection

    try:
        return Selection(**asked)
    except InvalidFilterError as error:
        raise typer.BadParameter(str(error), param_hint=error.option) from None


def refuse_other_than_text(value: str | None, where: str) -> None:
    """Raise typer.BadParameter for what is no UTF-8 text, as only names of files may be. where: option or argument."""
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{value!r} is not UTF-8 text", param_hint=where) from None


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
    from dissectors.session.protocols import protocols

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
    from dissectors.session.protocols import named, protocols

    for text in given:
        name, _, dialect = text.partition("=")
        protocol = named(name)
        known = [] if protocol is None else list(protocol.dialects())
        if dialect not in known:
            every = [f"{one.name}={each}" for one in protocols() for each in one.dialects()]
            raise typer.BadParameter(f"{text!r} is none of {', '.join(every)}", param_hint="--dialect")
        found[name] = dialect
    return found
