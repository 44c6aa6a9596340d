"""`brokerscope mcp`: the answers of the other commands for assistants, by the Model Context Protocol."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from dissectors.errors import InputError
from pipelines.cli import exits
from pipelines.cli.reading import StoredCaptures, exists


def mcp(
    captures: StoredCaptures,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Let tools show keys, values and headers of messages.")
    ] = False,
) -> None:
    """Serve the answers of the other commands over stdin and stdout, for assistants that speak MCP.

    Tools: summary, verdict_evidence, top, groups, lag, transactions, audit, connections, show, follow, sql. They read
    what is named here and nothing else, write nothing, and give the JSON that the commands print. Messages are never
    shown, only their sizes, without --payloads.

    \b
    Examples:
      brokerscope mcp out
      brokerscope mcp captures/ --payloads
    """
    if find_spec("mcp") is None:
        raise typer.BadParameter("needs the package mcp: pip install 'brokerscope[mcp]'", param_hint="mcp")
    for path in captures:
        if not exists(path):
            raise InputError(f"{path}: no such file")
    from pipelines.cli.assistant import server

    exits.say(f"brokerscope: serving {', '.join(captures)} over stdin and stdout")
    server(captures, payloads=payloads).run("stdio")
