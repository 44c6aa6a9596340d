"""`brokerscope dissect`: the records of one table or several, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from dissectors.records import TABLES
from dissectors.wording import did_you_mean
from pipelines.cli import exits
from pipelines.cli.options import flag, option
from pipelines.cli.output import RowFormat, output
from pipelines.cli.reading import (
    AskedPart,
    AskedPayloads,
    Captures,
    Reading,
    reads_captures,
    refuse_other_than_text,
    say_names,
)
from pipelines.formats import BINARY_FORMATS, named, writing
from pipelines.pandas_guard import without_pandas
from pipelines.storage import outputs

if TYPE_CHECKING:
    import pyarrow as pa

    from dissectors.options import Options
    from pipelines.sql.occurring import NamesSeen
    from pipelines.sql.where import Filter


_SUFFIXES = {"text": "txt", "json": "jsonl", "csv": "csv", "parquet": "parquet"}
_FILES = frozenset(f"{table}.{suffix}" for table in TABLES for suffix in _SUFFIXES.values())


@reads_captures
def dissect(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    payload: AskedPayloads,
    table: Annotated[
        list[str] | None,
        option("--table -t", "|".join(TABLES), "Which records; exchanges by default. May be repeated."),
    ] = None,
    format: RowFormat = None,
    where: Annotated[str | None, option("--where", "SQL", "Only rows for which this SQL condition holds.")] = None,
    errors: Annotated[
        bool, flag("--errors", "Only failures; among exchanges also expected errors such as MEMBER_ID_REQUIRED.")
    ] = False,
    slower_than: Annotated[str | None, option("--slower-than", "50ms", "Only what took longer than this.")] = None,
    columns: Annotated[str | None, option("--columns", "NAME,…", "These columns, in this order.")] = None,
    sort: Annotated[str | None, option("--sort", "[-]COLUMN", "Sort by this column; - for largest first.")] = None,
    head: Annotated[int | None, option("--head --limit-rows", "N", "Only the first N rows.", min=0)] = None,
    full: Annotated[bool, flag("--full", "Add the decoded bodies: `request` and `response`.")] = False,
    out: Annotated[
        str | None, option("-o --output", "FILE", "Write here, not to stdout; a folder for more than one table.")
    ] = None,
) -> None:
    """The records of captures: one row per exchange, batch, error, connection, finding or message.

    \b
    Examples:
      brokerscope dissect capture.pcap --slower-than 50ms --sort=-total_ns --head 20
      brokerscope dissect capture.pcap -t errors --topic 'orders*'
      brokerscope dissect captures/ -f json --full --where "api = 'Produce' AND time > '01:11:18'"
      brokerscope dissect captures/ -t batches -o batches.parquet
      brokerscope dissect captures/ -t exchanges -t errors -f csv -o folder
    """
    without_pandas()
    from pipelines.payloads.columns import ADDS_TO, TABLE, read_for

    format = format or named(out)
    tables: tuple[str, ...] = tuple(dict.fromkeys(map(_record_table, table or ["exchanges"])))
    changed = (("--full", full, ("exchanges",)), ("--payloads", payload.payloads, (TABLE, *ADDS_TO)))
    for hint, given, adds_to in changed:
        if given and set(adds_to).isdisjoint(tables):
            where = f"{', '.join(adds_to)}, not to {' and '.join(tables)}"
            raise typer.BadParameter(f"adds to {where}", param_hint=hint)
    from pipelines.cli.watched_run import WatchedRun
    from pipelines.sql import conditions
    from pipelines.sql.occurring import NamesSeen

    names_seen = NamesSeen(part.selection)
    wanted = {}
    for name in tables:
        try:
            refuse_other_than_text(where, "--where")
            condition = conditions.condition(name, where=where, errors=errors, slower_than=slower_than, **part.texts)
        except conditions.InvalidFilterError as error:
            raise typer.BadParameter(str(error), param_hint=error.option) from None
        try:
            wanted[name] = _wanted(name, condition, full=full, payloads=payload.payloads)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--where") from None
    coded = format == "parquet" and not payload.payloads and all(rows.keep is None for rows in wanted.values())

    def options_for(some: tuple[str, ...]) -> Options:
        return reading.options(some, full=full, payloads=payload.payloads)._replace(coded=coded)

    if len(tables) > 1:
        for hint, value in (("--columns", columns), ("--sort", sort), ("--head", head)):
            if value is not None:
                raise typer.BadParameter("is for one table", param_hint=hint)
        if out is None or out == "-":
            raise typer.BadParameter("more than one table goes into a folder: name it with -o", param_hint="--table")
        read_tables = read_for(tables) if payload.payloads else tables
        options = options_for(read_tables)
        _write_each(captures, reading, payload, options, wanted, format, Path(out), names_seen)
        say_names(names_seen)
        return
    (one, rows), *_ = wanted.items()
    with_notes = format == "text" and not reading.quiet
    shown = (one, "connections") if with_notes and one != "connections" else (one,)
    read_tables = read_for(shown) if payload.payloads else shown
    options = options_for(read_tables)
    names = _columns(columns, rows.schema, one)
    order = _order(sort, rows.schema, one)
    from dissectors.arrow import first_rows
    from pipelines.tables.blind_spots import Seen

    seen, written = Seen(), 0

    def chosen(made: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        for name, batch in made:
            if with_notes and name == "connections":
                seen.add(name, batch)
            if name == one:
                names_seen.add(batch)
                yield rows.of(batch)

    if full or payload.payloads:
        captures = reading.captures(captures)
    read = payload.reader(captures, options)
    with (
        reading.source(captures, options, stoppable=out is None) as run,
        output(out, reading.inputs(run.files), binary=format in BINARY_FORMATS) as stream,
    ):
        batches = chosen(run.records() if read is None else read.of(run.records(), shown))
        with writing(format, one, pa_schema(rows.schema, names), stream) as writer:
            for batch in first_rows(batches if order is None else sorted_by(batches, order, head), head):
                if stream.isatty() and isinstance(run, WatchedRun):
                    run.bar.end()
                writer.write(batch.select(names))
                written += batch.num_rows
                stream.flush()  # who reads along sees the rows now
        if with_notes and head is None:
            reading.say_blind_spots(seen, run.cut)
        elif one == "exchanges" and not written and rows.keep is None and head is None and not reading.quiet:
            exits.say("brokerscope: no rows: `brokerscope info` says what these captures hold")
        said = head is None and say_names(names_seen)
        span = names_seen.span()
        if rows.keep is not None and not written and head != 0 and not said and (span or not reading.quiet):
            exits.say(f"brokerscope: no row of {one} meets these conditions{f'; {span}' if span else ''}")


def _record_table(name: str) -> str:
    """The record table of this name. Raises typer.BadParameter where there is none: of others, where they are."""
    wanted = name.lower()
    if wanted in TABLES:
        return wanted
    from pipelines.answers.aggregates import COLUMNS, PREFIX

    made = wanted if wanted.startswith(PREFIX) else PREFIX + wanted
    if made in COLUMNS:
        instead = f'{made} is made of records: brokerscope sql CAPTURE… "select * from {made}"'
    else:
        instead = f"no {name!r}; {did_you_mean(name, TABLES)}"
    raise typer.BadParameter(instead, param_hint="--table")


class _Wanted(NamedTuple):
    """Which rows of a table, all where `keep` is None."""

    schema: pa.Schema
    keep: Filter | None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Those rows of a batch."""
        if self.keep is None:
            return batch
        try:
            return self.keep(batch)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--where") from None


def _wanted(table: str, condition: str | None, *, full: bool, payloads: bool) -> _Wanted:
    """Raises ValueError where the condition means nothing for the table."""
    from pipelines.payloads import columns

    schema = columns.schema(table, full=full, payloads=payloads)
    if condition is None:
        return _Wanted(schema, None)
    from pipelines.sql.where import Filter

    return _Wanted(schema, Filter(condition, schema))


def _write_each(
    captures: list[str],
    reading: Reading,
    payload: AskedPayloads,
    options: Options,
    wanted: dict[str, _Wanted],
    format: str,
    folder: Path,
    names_seen: NamesSeen,
) -> None:
    """Each table as a file of the folder, named by it; the files appear when all are whole."""
    with (
        reading.source(captures, options, stoppable=False) as run,
        outputs.files(folder, ours=_FILES.__contains__, inputs=reading.inputs(run.files)) as whole,
        ExitStack() as stack,
    ):
        writers = {}
        for table, rows in wanted.items():
            stream = stack.enter_context((whole / f"{table}.{_SUFFIXES[format]}").open("wb"))
            writers[table] = stack.enter_context(writing(format, table, rows.schema, stream))
        read = payload.reader(captures, options)
        for table, batch in run.records() if read is None else read.of(run.records(), tuple(wanted)):
            names_seen.add(batch)
            writers[table].write(wanted[table].of(batch))


def pa_schema(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """The columns of a schema that are wanted."""
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])


def sorted_by(batches: Iterator[pa.RecordBatch], order: tuple[str, str], head: int | None) -> Iterator[pa.RecordBatch]:
    """All rows in order; of more than `head` only the first are kept. Rows of equal value stay as they come."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from pipelines.formats import columns

    kept: list[pa.RecordBatch] = []
    waiting = 0
    bound = None if head is None else max(10 * head, 10_000)

    def settle() -> pa.Table:
        table = pa.Table.from_batches(kept)
        column, direction = order
        values = table[column]
        key = columns.joined(values, ", ") if pa.types.is_list(values.type) else values  # as text shows a list
        return table.take(pc.sort_indices(pa.table({"key": key}), [("key", direction)])).slice(
            0, None if head is None else min(head, len(table))
        )

    for batch in batches:
        kept.append(batch)
        waiting += batch.num_rows
        if bound is not None and waiting > bound:
            kept = settle().combine_chunks().to_batches()
            waiting = head or 0
    if kept:
        yield from settle().to_batches(max_chunksize=10_000)


def _columns(text: str | None, schema: pa.Schema, table: str) -> list[str]:
    """The wanted columns, all by default; a heading of the text output stands for its column."""
    asked = list(schema.names) if text is None else [n.strip() for n in text.split(",") if n.strip()]
    names = [_column(name, schema, table) for name in asked]
    unknown = [name for name in names if name not in schema.names]
    if unknown or not names:
        raise typer.BadParameter(
            f"no column {', '.join(unknown)}; there are {', '.join(schema.names)}", param_hint="--columns"
        )
    return list(dict.fromkeys(names))


def _column(name: str, schema: pa.Schema, table: str) -> str:
    """The column of this name, or with this heading; the name where there is none."""
    if name in schema.names:
        return name
    from pipelines.formats.text import column_of  # knows the headings, and loads much

    return column_of(table, name) or name


def _order(text: str | None, schema: pa.Schema, table: str) -> tuple[str, str] | None:
    """`-total_ns` or `-total` -> ("total_ns", "descending")."""
    if text is None:
        return None
    column = _column(text.removeprefix("-").removeprefix("+"), schema, table)
    if column not in schema.names:
        raise typer.BadParameter(f"no column {column}; there are {', '.join(schema.names)}", param_hint="--sort")
    return column, "descending" if text.startswith("-") else "ascending"
