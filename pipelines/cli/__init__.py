"""The command line: `brokerscope`. One module a command; what a command needs is imported when it runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from pipelines.cli import analyze, dissect, forensics, info, report

app = typer.Typer(
    name="brokerscope",
    help="What the brokers in packet captures did: Apache Pulsar, Apache Kafka and Apache Iggy.",
    epilog="Exit codes: 0 done, 1 bad checksums found (forensics), 2 wrong usage, 3 an input could not be read "
    "or the output not be written.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(analyze.analyze)
app.command()(dissect.dissect)
app.command()(forensics.forensics)
app.command()(info.info)
app.command()(report.report)


def _version(asked: bool) -> None:
    if asked:
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


def main() -> None:
    """The command's entry point."""
    try:
        app()
    except SystemExit as end:
        _leave(end)


def _leave(end: SystemExit) -> None:
    """End the process without taking its objects apart one by one, which would cost a tenth of a large run."""
    if "pyspark" in sys.modules or not isinstance(end.code, int):
        raise end  # Spark's Java process is ended by what runs at exit
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None where it was closed from the start
            stream.flush()
    except (OSError, ValueError):
        raise end from None
    os._exit(end.code)
