"""`brokerscope sql`: any question, in SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from dissectors.capture.source import STDIN
from dissectors.records import TABLES
from pipelines.cli import printing
from pipelines.cli.options import flag, option
from pipelines.cli.output import OutFile, RowFormat, output
from pipelines.cli.reading import AskedPart, AskedPayloads, Reading, exists, reads_captures
from pipelines.formats import BINARY_FORMATS, named, writing
from pipelines.sql import database
from pipelines.storage.layout import refuse_read_back, single_analysis

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from pipelines.answers.records import Relations

QUERIES = ("SELECT", "MULTI", "EXPLAIN", "CALL", "PRAGMA")  # DuckDB's kinds of statements; MULTI is a PIVOT


@reads_captures
def sql(
    arguments: Annotated[
        list[str], typer.Argument(metavar="CAPTURE… [QUERY]", help="Captures, or a folder that `analyze` wrote.")
    ],
    reading: Reading,
    part: AskedPart,
    payload: AskedPayloads,
    format: RowFormat = None,
    out: OutFile = None,
    full: Annotated[
        bool, flag("--full", "Exchanges with their bodies: request.acks, response.topics[0].name …")
    ] = False,
    attach: Annotated[
        list[str] | None,
        option("--attach", "NAME=FILE", "A file of your own as a table: csv, tsv, json lines or parquet."),
    ] = None,
) -> None:
    """Ask records and tables in SQL (DuckDB). Without a query: a prompt.

    Record tables are exchanges, batches, errors, connections, findings, messages, positions and stalls
    (docs/records.md). Aggregate tables have names with t_, such as t_verdicts, t_latency and t_health (docs/tables.md):
    a folder that `analyze` wrote has them, of captures those are made that the query names. A query reads nothing else
    but what --attach names: no file, no network, no extension.

    \b
    Examples:
      brokerscope sql capture.pcap "select api, count(*) from exchanges group by 1"
      brokerscope sql capture.pcap "select * from t_latency order by total_p99_ns desc limit 5"
      brokerscope sql capture.pcap --full "select request.acks, count(*) from exchanges group by 1"
      brokerscope sql capture.pcap --payloads "select * from messages where key = 'order-7'"
      brokerscope sql capture.pcap --payloads "select value_json->>'$.id' as id, count(*) from messages group by 1"
      brokerscope sql capture.pcap --attach log=broker.csv "select * from exchanges join log using (correlation_id)"
      brokerscope sql capture.pcap
    """
    from pipelines.answers import aggregates, records
    from pipelines.cli.sql_prompt import queries
    from pipelines.sql import attached
    from pipelines.sql.bodies import spelled_for
    from pipelines.tables.on_duckdb import give_name

    captures, query = _split(arguments)
    if query is None and STDIN in captures:
        raise typer.BadParameter("the capture comes from there, so queries cannot: name one", param_hint="QUERY")
    if full or payload.payloads:
        captures = reading.captures(captures)
    own = {name: attached.read(path) for name, path in _named_files(attach)}
    analysed = single_analysis(captures)
    selection = part.selection
    written = analysed and not selection
    wanted = tuple(TABLES)
    if analysed and out is not None:
        refuse_read_back(out, captures[0])
    if query is not None and not written:
        _check(query, own, full=full, payloads=payload.payloads)
        wanted = _named(query) or wanted
    with reading.records(captures, wanted, full=full, part=selection, asked=payload) as tables:
        stored = records.read_aggregates(captures[0]) if written else {}
        every = {**tables, **{f"{aggregates.PREFIX}{name}": table for name, table in stored.items()}, **own}
        columns = {name: table.schema.names for name, table in every.items()}
        makes = {name: columns for name, columns in aggregates.COLUMNS.items() if name not in every}
        files = records.files_of(every)
        with records.database_of(every, json_bodies=full) as connection:
            for text in queries(columns | makes) if query is None else [query]:
                missing = [name for name in aggregates.named(text) if makes.pop(name, None)]
                for name, table in aggregates.made(tables, missing, selection.cut).items():
                    give_name(connection, name, table)
                try:
                    text = spelled_for(connection, text) if full else text
                    _answer(connection, text, format or named(out), out, reading.inputs(captures), files)
                except ValueError as error:
                    if query is not None:
                        raise typer.BadParameter(str(error), param_hint="QUERY") from None
                    printing.show_text(str(error), indent=2)


def _named_files(pairs: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """`log=broker.csv` -> ("log", "broker.csv"). Raises typer.BadParameter for anything else."""
    for pair in pairs or ():
        name, _, path = pair.partition("=")
        if not name.isidentifier() or not path or name in TABLES:
            raise typer.BadParameter(f"{pair!r} is not NAME=FILE with a name of its own", param_hint="--attach")
        yield name, path


def _check(query: str, own: Relations, *, full: bool, payloads: bool) -> None:
    """Raise typer.BadParameter for a query that means nothing: before captures are read, which may take long."""
    import duckdb

    from pipelines.answers import aggregates
    from pipelines.answers.messages import PAYLOADS
    from pipelines.answers.records import database_of
    from pipelines.payloads.columns import schema
    from pipelines.sql.bodies import spelled

    empty = {name: schema(name, full=full, payloads=payloads).empty_table() for name in TABLES}
    tables = empty | aggregates.made(empty, aggregates.named(query))
    try:
        with database_of({**tables, **own}, json_bodies=full) as connection:
            _run(connection, spelled(query) if full else query)
    except duckdb.CatalogException as error:
        known = (*TABLES, *aggregates.COLUMNS, *own)
        raise typer.BadParameter(database.against(error, known), param_hint="QUERY") from None
    except duckdb.Error as error:
        said = database.sentence(error)
        hidden = None if payloads else re.match(rf'Binder Error: \S+ column "({"|".join(PAYLOADS)})" not found', said)
        if hidden is not None:
            said = f"messages have the column {hidden[1]} with --payloads only"
        raise typer.BadParameter(said, param_hint="QUERY") from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="QUERY") from None


def _named(query: str) -> tuple[str, ...]:
    """The record tables that a query needs: those that it names, and those of which aggregate tables are made."""
    from pipelines.answers import aggregates
    from pipelines.tables.table import RECORDS

    needed = RECORDS if aggregates.named(query) else ()
    return tuple(name for name in TABLES if name in needed or re.search(rf"\b{name}\b", query, re.IGNORECASE))


def _split(arguments: list[str]) -> tuple[list[str], str | None]:
    """(captures, the query): the last argument, where it has words and is no file.

    Raises typer.BadParameter for a name that is neither.
    """
    *captures, last = arguments
    if captures and not exists(last):
        if len(last.split()) > 1:
            return captures, last
        if last.isidentifier():
            raise typer.BadParameter(f"{last!r} is no file, and a query has several words", param_hint="QUERY")
    return arguments, None


def _run(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation:
    """The answer. Raises ValueError for what is not one query, else duckdb.Error."""
    try:
        query.encode()
    except UnicodeEncodeError:
        raise ValueError("a query is UTF-8 text") from None
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise ValueError(f"one query at a time; these are {len(statements)}")
    if statements[0].type.name not in QUERIES:
        raise ValueError(f"only queries: {statements[0].type.name} is none")
    return connection.sql(query)


def _answer(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    format: str,
    out: str | None,
    inputs: Sequence[str],
    files: Sequence[str],
) -> None:
    """Write the rows of a query. inputs: files that it must not replace; files: those of stored records.

    Raises ValueError for one that means nothing, or may not run; InputError where a table cannot be read.
    """
    import duckdb
    import pyarrow as pa

    try:
        answer = _run(connection, query)
        names = answer.project("*").columns  # of two columns `a` the second is `a_1`
        made = answer.to_arrow_reader(10_000)
        schema = pa.schema([field.with_name(name) for field, name in zip(made.schema, names, strict=True)])
        with (
            output(out, inputs, binary=format in BINARY_FORMATS) as stream,
            writing(format, "", schema, stream) as writer,
        ):
            for batch in _read_along(made):
                writer.write(batch.rename_columns(names))
    except (duckdb.Error, pa.ArrowException) as error:
        if database.is_unreadable(error, files):
            raise database.unreadable(error) from None
        raise ValueError(database.sentence(error)) from None


def _read_along(answer: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The rows of an answer, some at a time. Raises InputError where a table cannot be read further."""
    try:
        yield from answer
    except OSError as error:  # as Arrow has what DuckDB says; else it would be taken for one of writing
        if database.is_unreadable(error):
            raise database.unreadable(error) from None
        raise ValueError(database.sentence(error)) from None
