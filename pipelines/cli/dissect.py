"""`brokerscope dissect`: the records of one table, without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from dissectors.records import TABLES
from pipelines.cli import common, progress
from pipelines.cli.light import without_pandas
from pipelines.formats import BINARY_FORMATS, FORMATS


@common.guarded
def dissect(
    captures: common.Captures,
    table: Annotated[str, typer.Option("--table", "-t", metavar="|".join(TABLES), help="Which records.")] = "exchanges",
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="|".join(FORMATS), help="How to write them.")
    ] = "text",
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only rows for which this SQL condition holds.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Add the decoded bodies: `request` and `response`.")] = False,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Add key, value and headers (with --table messages).")
    ] = False,
    out: common.Out = None,
    decode_as: common.DecodeAs = None,
    keylog: common.Keylog = None,
    iggy_era: common.IggyEra = None,
    site: common.Site = "folder",
    limit: common.Limit = None,
    quiet: common.Quiet = False,
) -> None:
    """The records of captures: one row per exchange, batch, error, connection, finding or message."""
    if table not in TABLES:
        raise typer.BadParameter(f"{table!r} is none of {', '.join(TABLES)}", param_hint="--table")
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is none of {', '.join(FORMATS)}", param_hint="--format")
    without_pandas()
    options = common.options(
        tables=(table,),
        full=full and table == "exchanges",
        payloads=payloads and table == "messages",
        site=site,
        decode_as=decode_as,
        keylog=keylog,
        iggy_era=iggy_era,
        limit=limit,
    )
    from dissectors import records
    from dissectors.engine import Run

    schema = records.schema(table, full=options.full, payloads=options.payloads)
    keep = None
    if where is not None:
        from pipelines.where import Filter

        try:
            keep = Filter(where, schema)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--where") from None
    bar = progress.Bar(quiet=quiet)
    run = Run(captures, options, bar.update)
    bar.total = run.files
    with common.output(out, binary=format in BINARY_FORMATS) as stream:
        writer = FORMATS[format](table, schema, stream)
        with bar:
            for name, batch in run.records():
                rows = batch if keep is None else keep(batch)
                if name == table and rows.num_rows:
                    writer.write(rows)
        writer.close()
    common.tell_problems(run, quiet)
