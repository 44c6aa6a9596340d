"""`brokerscope dissect`: the records of one table, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dissectors.records import TABLES
from pipelines.cli import exits
from pipelines.cli.output import output
from pipelines.cli.pandas_guard import without_pandas
from pipelines.cli.reading import Captures, Reading, reads_captures
from pipelines.formats import BINARY_FORMATS, FORMATS, writing

if TYPE_CHECKING:
    import pyarrow as pa

Table = Literal["exchanges", "batches", "errors", "connections", "findings", "messages"]
Format = Literal["text", "json", "csv", "parquet"]


@reads_captures
def dissect(
    captures: Captures,
    reading: Reading,
    table: Annotated[
        Table, typer.Option("--table", "-t", metavar="|".join(TABLES), help="Which records.")
    ] = "exchanges",
    format: Annotated[
        Format, typer.Option("--format", "-f", metavar="|".join(FORMATS), help="How to write them.")
    ] = "text",
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only rows for which this SQL condition holds.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="From this time on: 01:11:18, 2026-01-31T01:11; UTC.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before this time.")] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME,…", help="Of these topics; * and ? stand for any text.")
    ] = None,
    client: Annotated[str | None, typer.Option("--client", metavar="ID|IP|IP:PORT", help="Of this client.")] = None,
    api: Annotated[str | None, typer.Option("--api", metavar="NAME,…", help="Of these APIs: Produce, SEND.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME,…", help="Of these consumer groups or subscriptions.")
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only what failed.")] = False,
    slower_than: Annotated[
        str | None, typer.Option("--slower-than", metavar="50ms", help="Only what took longer than this.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAME,…", help="These columns, in this order.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="[-]COLUMN", help="In order of this column; - for largest first.")
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", "--limit-rows", metavar="N", min=0, help="Only the first N rows.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Add the decoded bodies: `request` and `response`.")] = False,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Add key, value and headers (with --table messages).")
    ] = False,
    out: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
) -> None:
    """The records of captures: one row per exchange, batch, error, connection, finding or message.

    \b
    Examples:
      brokerscope dissect capture.pcap --slower-than 50ms --sort=-total_ns --head 20
      brokerscope dissect capture.pcap -t errors --topic 'orders*'
      brokerscope dissect captures/ -f json --full --where "api = 'Produce' AND time > '01:11:18'"
      brokerscope dissect captures/ -t batches -f parquet -o batches.parquet
    """
    without_pandas()
    for option, given, adds_to in (("--full", full, "exchanges"), ("--payloads", payloads, "messages")):
        if given and table != adds_to:
            raise typer.BadParameter(f"adds to {adds_to}, not to {table}", param_hint=option)
    from dissectors import records
    from pipelines.answers import select
    from pipelines.blind_spots import LOOKED_AT

    with_notes = format == "text" and not reading.quiet
    tables = (table, "connections") if with_notes and table != "connections" else (table,)
    options = reading.options(tables, full=full, payloads=payloads)
    schema = records.schema(table, full=full, payloads=payloads)
    names = _columns(columns, schema)
    order = _order(sort, schema)
    try:
        condition = select.condition(
            table, where=where, since=since, until=until, topic=topic, client=client, api=api, group=group,
            errors=errors, slower_than=slower_than,
        )  # fmt: skip
        keep = None
        if condition is not None:
            from pipelines.where import Filter

            keep = Filter(condition, schema)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="which rows") from None

    connections: list[pa.RecordBatch] = []
    written = 0

    def wanted(made: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        for name, batch in made:
            if with_notes and name == "connections":
                connections.append(batch.select(list(LOOKED_AT["connections"])))
            if name == table:
                try:
                    yield batch if keep is None else keep(batch)
                except ValueError as error:
                    raise typer.BadParameter(str(error), param_hint="--where") from None

    with (
        reading.run(captures, options) as run,
        output(out, reading.inputs(run.files), binary=format in BINARY_FORMATS) as stream,
    ):
        rows = wanted(run.records())
        with writing(format, table, pa_schema(schema, names), stream) as writer:
            for batch in first(rows if order is None else sorted_by(rows, order, head), head):
                writer.write(batch.select(names))
                written += batch.num_rows
                stream.flush()  # who reads along sees the rows now
        if with_notes and head is None:
            reading.say_blind_spots(connections, run)
        elif table == "exchanges" and not written and keep is None and head is None and not reading.quiet:
            exits.say("brokerscope: no rows: `brokerscope info` says what these captures hold")


def pa_schema(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """The columns of a schema that are wanted."""
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])


def first(batches: Iterator[pa.RecordBatch], count: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows; nothing more is read once they are there."""
    left = count
    for batch in batches if left != 0 else ():
        rows = batch if left is None else batch.slice(0, left)
        if rows.num_rows:
            yield rows
        if left is not None:
            left -= rows.num_rows
            if not left:
                return


def sorted_by(batches: Iterator[pa.RecordBatch], order: tuple[str, str], head: int | None) -> Iterator[pa.RecordBatch]:
    """All rows in order; of more than `head` only the first are kept. Rows of equal value stay as they come."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept: list[pa.RecordBatch] = []
    waiting = 0
    bound = None if head is None else max(10 * head, 10_000)

    def settle() -> pa.Table:
        table = pa.Table.from_batches(kept)
        return table.take(pc.sort_indices(table, [order])).slice(0, head)

    for batch in batches:
        kept.append(batch)
        waiting += batch.num_rows
        if bound is not None and waiting > bound:
            kept = settle().combine_chunks().to_batches()
            waiting = head or 0
    if kept:
        yield from settle().to_batches(max_chunksize=10_000)


def _columns(text: str | None, schema: pa.Schema) -> list[str]:
    """The wanted columns, all by default."""
    names = list(schema.names) if text is None else [n.strip() for n in text.split(",") if n.strip()]
    unknown = [name for name in names if name not in schema.names]
    if unknown or not names:
        raise typer.BadParameter(
            f"no column {', '.join(unknown)}; there are {', '.join(schema.names)}", param_hint="--columns"
        )
    return list(dict.fromkeys(names))


def _order(text: str | None, schema: pa.Schema) -> tuple[str, str] | None:
    """`-total_ns` -> ("total_ns", "descending")."""
    if text is None:
        return None
    column = text.removeprefix("-").removeprefix("+")
    if column not in schema.names:
        raise typer.BadParameter(f"no column {column}; there are {', '.join(schema.names)}", param_hint="--sort")
    return column, "descending" if text.startswith("-") else "ascending"
