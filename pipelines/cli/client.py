"""`brokerscope client`: what one host or client did, on a page of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from dissectors.capture.source import STDIN
from dissectors.errors import InputError
from pipelines.cli import printing
from pipelines.cli.printing import PrintedField, Row
from pipelines.cli.reading import AskedPart, Reading, TextOrJson, exists, reads_captures, refuse_other_than_text
from pipelines.formats import hosts, verdict_words

ROWS = 12  # of each table
VERDICTS = 5
TABLES: tuple[tuple[str, str, tuple[PrintedField, ...]], ...] = (
    ("Connections", "connections", (
        PrintedField("protocol", once=True, need=6), PrintedField("client_ip", head="from", once=True),
        PrintedField("server", head="broker"), PrintedField("connections", "count"),
        PrintedField("first", "clock", need=2), PrintedField("last", "clock", need=3),
        PrintedField("sent", "bytes", need=1), PrintedField("received", "bytes", need=1),
        PrintedField("with_tls", "count", head="with TLS"), PrintedField("resets", "count", need=5),
        PrintedField("retransmissions", "count", head="resent", need=5), PrintedField("software", need=4),
    )),
    ("Requests", "apis", (
        PrintedField("key", head="api"), PrintedField("count", "count"), PrintedField("errors", "count"),
        PrintedField("unanswered", "count", need=2), PrintedField("p50_ns", "ns", need=1),
        PrintedField("p99_ns", "ns"), PrintedField("max_ns", "ns", need=3), PrintedField("bytes", "bytes", need=4),
    )),
    ("Topics", "topics", (
        PrintedField("role"), PrintedField("topic"), PrintedField("messages", "count"),
        PrintedField("bytes", "bytes"), PrintedField("batches", "count", need=1),
        PrintedField("a_batch", head="a batch", need=2), PrintedField("codecs", need=3),
        PrintedField("refused", "count", need=4),
    )),
    ("Groups", "groups", (
        PrintedField("group"), PrintedField("requests", "count"), PrintedField("first", "clock"),
        PrintedField("last", "clock"),
    )),
    ("Errors", "errors", (
        PrintedField("count", "count"), PrintedField("name", toned=True), PrintedField("api"),
        PrintedField("topic", once=True), PrintedField("first", "clock", need=1),
    )),
    ("Slowest requests", "slowest", (
        PrintedField("time", "clock"), PrintedField("total_ns", "ns"), PrintedField("api"),
        PrintedField("topic", once=True), PrintedField("file", "file", once=True), PrintedField("packet", "code"),
    )),
)  # fmt: skip
"""Heading, field of ClientPage, columns."""


@reads_captures
def client(
    arguments: Annotated[
        list[str], typer.Argument(metavar="HOST CAPTURE…", help="An address, a name of a machine, or a client id.")
    ],
    reading: Reading,
    part: AskedPart,
    format: TextOrJson = "text",
) -> None:
    """What one host or client did: connections, requests, topics, groups, errors, and what its own requests show wrong.

    HOST is an address, address and port, a client id, or a name that --hosts or the captures' DNS answers tell.

    \b
    Examples:
      brokerscope client 10.0.0.7 capture.pcap
      brokerscope client billing out --since 01:11
      brokerscope client app-1 capture.pcap --hosts pods.txt
    """
    from pipelines.answers import client as answers
    from pipelines.tables.table import RECORDS

    wanted, captures = _split(arguments)
    refuse_other_than_text(wanted, "HOST")
    files = reading.files(captures)
    reading.learn_names(files)
    of_name = [address for address, name in hosts.names_in_use().items() if _is_named(name, wanted)]
    selection = replace(part, client=",".join([wanted, *of_name])).selection
    with reading.records(files, RECORDS, part=selection) as every, reading.counted_once(every) as tables:
        made = answers.client(tables, selection.cut)
        if not made.connections:
            raise InputError(f"no client {wanted} in these captures")
        if format == "json":
            printing.show_json([made._asdict()])
            return
        addresses = dict.fromkeys(row["client_ip"] for row in made.connections)
        ids = f", client ids: {', '.join(made.ids)}" if made.ids else ""
        logins = f", logged in as {', '.join(made.principals)}" if made.principals else ""
        printing.show_text(f"{', '.join(addresses)}{ids}{logins}")
        for heading, field, fields in TABLES:
            _show(heading, getattr(made, field), fields)
        _show_verdicts(made.verdicts)


def _split(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """(whom, the captures): the first argument, or the last where the first is a capture and the last is not."""
    if len(arguments) < 2:
        raise typer.BadParameter("name a client and the captures that hold it", param_hint="HOST")
    first, *rest = arguments
    is_capture = exists(first) or first == STDIN or "://" in first or "/" in first
    return (rest[-1], [first, *rest[:-1]]) if is_capture and not exists(rest[-1]) else (first, rest)


def _is_named(name: str, wanted: str) -> bool:
    """Whether a machine's name is the one that is meant: whole, or its first part."""
    return wanted.lower() in (name.lower(), name.lower().partition(".")[0])


def _show(heading: str, rows: Sequence[Row], fields: Sequence[PrintedField]) -> None:
    if rows:
        print(f"\n{heading}")
        printing.show_rows(rows[:ROWS], fields)
        if len(rows) > ROWS:
            print(f"and {len(rows) - ROWS:,} more")


def _show_verdicts(verdicts: Sequence[Row]) -> None:
    """What its own requests show; with where to look."""
    if not verdicts:
        return
    print("\nWhat its requests show")
    for verdict in verdicts[:VERDICTS]:
        printing.show_text(verdict["sentence"], lead=f"{verdict['severity']}: ")
        about = (verdict_words.when(verdict), verdict_words.cost(verdict), verdict_words.where(verdict))
        printing.show_text(" · ".join(part for part in about if part), indent=3)
    if len(verdicts) > VERDICTS:
        print(f"and {len(verdicts) - VERDICTS} more")
