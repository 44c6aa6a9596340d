"""`brokerscope mcp`: the answers of the other commands for assistants, by the Model Context Protocol."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from dissectors.errors import InputError
from pipelines.cli import exits
from pipelines.cli.reading import AskedPayloads, StoredCaptures, exists, reads_captures


@reads_captures
def mcp(captures: StoredCaptures, payload: AskedPayloads) -> None:
    """Serve the answers of the other commands over stdin and stdout, for assistants that speak MCP.

    Tools: summary, verdict_evidence, top, groups, lag, transactions, audit, connections, show, follow, sql. They read
    what is named here and nothing else, write nothing, and give the JSON that the commands print. Messages are never
    shown, only their sizes, without --payloads. Tools cannot change which fields --redact and --only hide.

    \b
    Examples:
      brokerscope mcp out
      brokerscope mcp captures/ --payloads --schemas registry.json --redact customer.email
    """
    if find_spec("mcp") is None:
        raise typer.BadParameter("needs the package mcp: pip install 'brokerscope[mcp]'", param_hint="mcp")
    for path in captures:
        if not exists(path):
            raise InputError(f"{path}: no such file")
    payload.shown_fields()
    if payload.schemas is not None:
        from pipelines.payloads import schemas

        schemas.load(payload.schemas)  # bad ones are known before a client waits
    from pipelines.cli.assistant import server

    exits.say(f"brokerscope: serving {', '.join(captures)} over stdin and stdout")
    server(captures, payload).run("stdio")
