"""The command line: `brokerscope`. One module a command; what a command needs is imported when it runs."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from pipelines.cli import (
    analyze,
    annotate,
    diff,
    dissect,
    exits,
    follow,
    forensics,
    groups,
    info,
    report,
    show,
    sql,
    summary,
    top,
)

app = typer.Typer(
    name="brokerscope",
    cls=exits.CommandGroup,
    help="What the brokers in packet captures did: Apache Pulsar, Apache Kafka and Apache Iggy.",
    epilog="Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in exits.MEANINGS.items()) + ".",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
COMMANDS = (
    (summary.summary, "The verdict: what is wrong, and the worst rows."),
    (info.info, "What is in these files."),
    (top.top, "What costs most, by topic, client, server, api …"),
    (dissect.dissect, "The records: exchanges, batches, errors …"),
    (show.show, "One exchange with both bodies."),
    (follow.follow, "One connection as a conversation."),
    (groups.groups, "Consumer groups and their rebalances."),
    (diff.diff, "Before and after."),
    (sql.sql, "Any question, in SQL."),
    (forensics.forensics, "Every checksum; who broke a bad one."),
    (annotate.annotate, "The capture with comments for Wireshark."),
    (analyze.analyze, "Records, tables and a page, here or on Spark."),
    (report.report, "The page again."),
)
for command, short in COMMANDS:
    app.command(short_help=short)(command)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"brokerscope {version('brokerscope')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """The command's entry point."""
    try:
        with exits.termination():
            app()
    except SystemExit as end:
        exits.leave(end)
    raise SystemExit(exits.DONE)
