"""`brokerscope follow`: one connection as a conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissectors.capture.source import STDIN
from dissectors.errors import InputError
from dissectors.wording import first_of, nearest
from pipelines.cli import printing
from pipelines.cli.printing import PLACE, WHEN, PrintedField
from pipelines.cli.reading import (
    AskedPart,
    AskedPayloads,
    Reading,
    TextOrJson,
    exists,
    reads_captures,
    refuse_other_than_text,
)

if TYPE_CHECKING:
    from pipelines.answers.records import Relations

LISTED = 20  # connections that are named where a text fits several
FIELDS = (
    *WHEN,
    PrintedField("side", head=""),
    PrintedField("api"),
    PrintedField("text"),
    PrintedField("wait_ns", "ns"),
    *PLACE,
)

CONNECTIONS = (
    PrintedField("start_time", "date", head="", once=True),
    PrintedField("start_time", "clock", head="time"),
    PrintedField("connection"),
    PrintedField("protocol", once=True),
    PrintedField("frames", "count"),
    PrintedField("duration_ns", "ns"),
    PrintedField("client_ids", "list", head="client", need=1),
    PrintedField("client_software", head="software", need=3),
    PrintedField("closed", need=2),
)


@reads_captures
def follow(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="[CONNECTION] CAPTURE…", help="A connection, or a part of its name; and where it is."),
    ],
    reading: Reading,
    part: AskedPart,
    payload: AskedPayloads,
    format: TextOrJson = "text",
) -> None:
    """One connection in time order: requests, responses and pushes, gaps and what else was found.

    With --payloads each frame is followed by its messages.

    CONNECTION is `client ip:port>broker ip:port`, a part of it that no other connection has, or the id of a client.
    The only connection is followed; of several, those of the client, or all, are listed.

    \b
    Examples:
      brokerscope follow '10.0.0.2:43210>10.0.0.1:9092' capture.pcap
      brokerscope follow capture.pcap :43210
      brokerscope follow capture.pcap billing-consumer
      tcpdump -w - port 9092 | brokerscope follow -
      brokerscope follow capture.pcap --topic orders
      brokerscope follow capture.pcap :43210 --payloads --schemas registry.json
    """
    from pipelines.answers import connection
    from pipelines.answers import follow as answers

    wanted, captures = _split(arguments)
    refuse_other_than_text(wanted, "CONNECTION")
    payload.shown_fields()
    captures, needed = reading.captures(captures) if payload.payloads else captures, answers.tables(payload.payloads)
    with reading.records(captures, needed, part=part.selection, asked=payload) as tables:
        found = connection.named(tables, wanted)
        if not found:
            raise InputError(_nothing(tables, wanted))
        names = list(dict.fromkeys(row["connection"] for row in found))
        if len(names) > 1 and (not wanted or wanted not in names[0]):  # all, or those of a client
            _list(connection.clients_of(tables, found), format)
            return
        if len(names) > 1:
            raise typer.BadParameter(f"{wanted} fits {first_of(names, LISTED)}", param_hint="CONNECTION")
        for row in found:
            events = answers.follow(tables, row)
            if format == "json":
                printing.show_json(events)
                continue
            printing.show_text(
                f"{row['connection']}{_again(row['incarnation'])}, {row['protocol'] or 'unknown protocol'}"
            )
            printing.show_rows(events, FIELDS)


def _split(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """(the connection, the captures): what names no file is the connection."""
    names = [
        text for text in arguments if not (exists(text) or text == STDIN or "://" in text or re.search(r"[*?/]", text))
    ]
    if len(names) > 1:  # a missing file among them: connections hold a `>` or digits
        names = [text for text in names if re.search(r">|:\d+$|^\d+$", text)] or names
    if not names:
        return "", list(arguments)
    if len(arguments) < 2:
        raise typer.BadParameter("name a connection and the captures that hold it", param_hint="CONNECTION")
    return names[0], [text for text in arguments if text != names[0]]


def _nothing(tables: Relations, wanted: str) -> str:
    """What is said where no connection fits: of a text, the client that was probably meant."""
    from pipelines.answers.records import query

    if not wanted:
        return "no connection in these captures"
    known = query(tables, "SELECT DISTINCT client_id FROM exchanges WHERE client_id <> '' LIMIT 10000")
    near = nearest(wanted, (row["client_id"] for row in known))
    hint = "" if near is None else f"; did you mean the client {near}?"
    return f"no connection and no client {wanted} in these captures{hint}"


def _list(connections: Sequence[Mapping[str, Any]], format: str) -> None:
    """Print the connections, one of which may be followed then."""
    if format == "json":
        printing.show_json(connections)
        return
    rows = [{**row, "closed": row["closed"] or "open"} for row in connections]
    printing.show_rows(rows, CONNECTIONS)


def _again(incarnation: int) -> str:
    return f" (opened again, number {incarnation})" if incarnation else ""
