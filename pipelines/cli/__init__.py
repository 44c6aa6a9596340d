"""The command line: `brokerscope`. One module a command, imported when it runs; so is what the command needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dissectors.errors import UsageError
from dissectors.wording import did_you_mean
from pipelines.cli import exits
from pipelines.process import prepare

# name of the command, of its module and of its function -> what the list of commands says of it
COMMANDS = {
    "summary": "What is wrong, ranked, and the slowest requests.",
    "info": "What is in these files.",
    "top": "What costs most, by topic, client, broker, api …",
    "dissect": "The records: exchanges, batches, errors …",
    "show": "One exchange with both bodies.",
    "follow": "One connection as a conversation.",
    "client": "What one host or client did.",
    "messages": "Single messages, by key, header, offset or text.",
    "groups": "Consumer groups and their rebalances.",
    "transactions": "Each transaction and how it ended.",
    "changes": "Who created, deleted or altered what.",
    "upgrade": "What stops working with brokers of a later release.",
    "audit": "Whether messages were lost, doubled or put out of order.",
    "diff": "What changed between two captures.",
    "sql": "Query the records in SQL.",
    "forensics": "Verify every checksum; find where a bad one broke.",
    "annotate": "The capture with comments for Wireshark.",
    "extract": "Some packets as a capture of their own, sanitised on request.",
    "decode": "One frame, from hex or a file.",
    "analyze": "Write records, tables and a report, here or on Spark.",
    "expire": "Remove old rows from a store that grows.",
    "compact": "Write the record files of a store again, fewer and larger.",
    "report": "Rebuild the HTML report, or one of a part.",
    "export": "Traces and metrics for Perfetto, OpenTelemetry, Prometheus.",
    "schemas": "Save a registry's schemas, by which messages are read.",
    "mcp": "Serve these answers to assistants.",
    "package": "Build an archive for Spark's workers.",
}


HELP = "help"  # `brokerscope help summary` is `brokerscope summary --help`


@cache
def _command(name: str) -> Any:
    """A command as the parser of the command line has it."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, short_help=COMMANDS[name])(getattr(import_module(f"pipelines.cli.{name}"), name))
    return typer.main.get_command(alone)


class _Commands(Mapping[str, Any]):
    """The commands by name, each loaded when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _names_capture(text: str) -> bool:
    """Whether a first argument is a capture rather than a command."""
    return text == "-" or "://" in text or bool(re.search(r"[/.*?\[]", text)) or Path(text).exists()


class _Group(exits.CommandGroup):
    """All commands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands = _Commands()  # type: ignore[assignment]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named; of captures alone, `summary`."""
        first = args[0] if args else ""
        if first == HELP:
            if len(args) == 1:
                typer.echo(ctx.get_help())
                raise typer.Exit
            args = [args[1], "--help"]
        elif first not in COMMANDS and _names_capture(first):
            args = ["summary", *args]
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError(f"no command {args[0]!r}; {did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """What the list of commands says, for which none has to be loaded."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="brokerscope",
    cls=_Group,
    help="What the brokers in packet captures did: Apache Pulsar, Apache Kafka and Apache Iggy.",
    epilog="Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in exits.MEANINGS.items()) + ".",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from dissectors import STATE

        typer.echo(f"brokerscope {version('brokerscope')} ({STATE})")
        raise typer.Exit


def _schema_version(wanted: bool) -> None:
    if wanted:
        from pipelines.cli.schema_version import schema_version

        typer.echo(schema_version())
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="The version, and whether it is compiled."),
    ] = False,
    schema_version: Annotated[
        bool,
        typer.Option(
            "--schema-version", callback=_schema_version, is_eager=True, help="What is promised of names in outputs."
        ),
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(exits.WRONG_USAGE)


def main() -> NoReturn:
    """The command's entry point."""
    prepare()
    try:
        with exits.termination():
            app()
    except SystemExit as end:
        exits.leave(end)
    raise SystemExit(exits.DONE)
