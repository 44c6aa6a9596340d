"""`brokerscope sql`: any question, in SQL."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from dissectors.errors import InputError
from pipelines.cli.output import RowFormat, output
from pipelines.cli.reading import Reading, exists, reads_captures
from pipelines.formats import BINARY_FORMATS, named, writing

if TYPE_CHECKING:
    import duckdb

    from pipelines.answers.records import Relations

PROMPT = "sql> "
QUERIES = ("SELECT", "MULTI", "EXPLAIN", "CALL", "PRAGMA")  # DuckDB's kinds of statements; MULTI is a PIVOT


@reads_captures
def sql(
    arguments: Annotated[
        list[str], typer.Argument(metavar="CAPTURE… [QUERY]", help="Captures, or a folder that `analyze` wrote.")
    ],
    reading: Reading,
    format: RowFormat = None,
    out: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
) -> None:
    """Ask the records in SQL (DuckDB). Without a query: a prompt.

    The tables are exchanges, batches, errors, connections, findings and messages; of a folder that `analyze` wrote also
    its tables, as t_latency and so on. A query reads nothing else: no file, no network, no extension. From captures
    only the tables that the query names are decoded.

    \b
    Examples:
      brokerscope sql capture.pcap "select api, count(*) from exchanges group by 1"
      brokerscope sql out "select * from t_latency order by total_p99_ns desc limit 5"
      brokerscope sql capture.pcap
    """
    from dissectors.capture.source import STDIN
    from dissectors.records import TABLES
    from pipelines.answers import records
    from pipelines.cli import printing
    from pipelines.storage.layout import refuse_read_back

    captures, query = _split(arguments)
    if query is None and STDIN in captures:
        raise typer.BadParameter("the capture comes from there, so queries cannot: name one", param_hint="QUERY")
    analysed = len(captures) == 1 and records.is_analysis(captures[0])
    wanted = tuple(TABLES)
    if analysed and out is not None:
        refuse_read_back(out, captures[0])
    if query is not None and not analysed:
        _check(query)
        wanted = _named(query) or wanted
    with reading.records(captures, wanted) as tables:
        aggregates = records.read_aggregates(captures[0]) if analysed else {}
        connection = _connection({**tables, **{f"t_{name}": table for name, table in aggregates.items()}})
        for text in _prompted() if query is None else [query]:
            try:
                _answer(connection, text, format or named(out), out, reading.inputs(captures))
            except ValueError as error:
                if query is not None:
                    raise typer.BadParameter(str(error), param_hint="QUERY") from None
                printing.show_text(str(error), indent=2)


def _connection(tables: Relations) -> duckdb.DuckDBPyConnection:
    """A database that holds nothing but these tables."""
    from pipelines.sql import database

    connection = database.connect()
    for name, table in tables.items():
        connection.register(name, table)
    return connection


def _check(query: str) -> None:
    """Raise typer.BadParameter for a query that means nothing: before captures are read, which may take long."""
    import duckdb

    from dissectors.records import TABLES, schema
    from pipelines.sql import database

    try:
        _run(_connection({name: schema(name).empty_table() for name in TABLES}), query)
    except duckdb.Error as error:
        raise typer.BadParameter(database.sentence(error), param_hint="QUERY") from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="QUERY") from None


def _named(query: str) -> tuple[str, ...]:
    """The record tables that a query names."""
    from dissectors.records import TABLES

    return tuple(name for name in TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE))


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


def _prompted() -> Iterator[str]:
    """Queries as they are typed, or come from a pipe."""
    if sys.stdin.isatty():
        import readline  # noqa: F401 - line editing for input()

        print("Tables: exchanges, batches, errors, connections, findings, messages. End with Ctrl-D.")
    while True:
        try:
            text = input(PROMPT if sys.stdin.isatty() else "")
        except EOFError:
            return
        if text.strip() in ("exit", "quit", "\\q", ".quit", ".exit"):
            return
        if text.strip():
            yield text


def _run(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation:
    """The answer. Raises ValueError for what is not one query, else duckdb.Error."""
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise ValueError(f"one query at a time; these are {len(statements)}")
    if statements[0].type.name not in QUERIES:
        raise ValueError(f"only queries: {statements[0].type.name} is none")
    return connection.sql(query)


def _answer(connection: duckdb.DuckDBPyConnection, query: str, format: str, out: str | None, inputs: list[str]) -> None:
    """Write the rows of a query. Raises ValueError for one that means nothing, or may not run."""
    import duckdb
    import pyarrow as pa

    from pipelines.sql import database

    try:
        answer = _run(connection, query)
        names = answer.project("*").columns  # of two columns `a` the second is `a_1`
        made = answer.to_arrow_reader(10_000)
        schema = pa.schema([field.with_name(name) for field, name in zip(made.schema, names, strict=True)])
        with (
            output(out, inputs, binary=format in BINARY_FORMATS) as stream,
            writing(format, "", schema, stream) as writer,
        ):
            for batch in made:
                writer.write(batch.rename_columns(names))
    except (duckdb.Error, pa.ArrowException) as error:
        if database.is_unreadable(error):
            raise InputError(f"records that cannot be read: {database.sentence(error)}") from None
        raise ValueError(database.sentence(error)) from None
