"""`brokerscope forensics`: every checksum; where the bytes of a bad one broke, and what the evidence says."""

from __future__ import annotations

import collections
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipelines import outputs
from pipelines.cli import exits, progress
from pipelines.cli.reading import Captures, Reading, reads_captures

if TYPE_CHECKING:
    from dissectors.forensics import Case, Investigation

VERDICTS = ("ok", "bad", "unverifiable", "absent")


@reads_captures
def forensics(
    captures: Captures,
    reading: Reading,
    format: Annotated[
        Literal["text", "json"], typer.Option("--format", "-f", metavar="text|json", help="How to write it.")
    ] = "text",
    extract: Annotated[
        str | None,
        typer.Option(
            "--extract",
            metavar="DIR",
            help="Write each bad batch, as received and as corrected, and its packets: with all that is in them.",
        ),
    ] = None,
    bytes_: Annotated[
        bool, typer.Option("--bytes", help="Show the bytes around what broke: they may be data of messages.")
    ] = False,
) -> None:
    """Every checksum: the verdicts; of each bad one where it broke and who did it. Exit code 1 if one is bad.

    Of the data of messages nothing is shown but the values of broken bytes, where they are four at most. --bytes shows
    all broken bytes and those around them. Logs in which brokers keep credentials are never shown, nor extracted.

    \b
    Examples:
      brokerscope forensics capture.pcap
      brokerscope forensics capture.pcap --bytes
      brokerscope forensics captures/ --extract evidence/
      brokerscope forensics capture.pcap -f json | jq .diagnosis.pattern
    """
    options = reading.options()
    if extract is not None:
        outputs.refuse_no_name(extract)
    from dissectors.forensics import Investigation, report

    bar = progress.Bar(quiet=reading.quiet)
    investigation = Investigation(captures, options, bar.update)
    reading.refuse_records(investigation.reader.files)
    bar.total = investigation.reader.files
    with bar:
        investigation.run()
    if format == "text":
        print(_verdicts(investigation.verdicts, investigation.inner), flush=True)
        if investigation.bad:
            print(_parties(investigation), flush=True)
    cases: list[Case] = []
    inputs = reading.inputs(investigation.reader.files)
    with nullcontext() if extract is None else outputs.files(extract, ours=report.is_extract, inputs=inputs) as folder:
        for number, case in enumerate(investigation.cases(), 1):
            cases.append(case)
            if format == "json":
                print(json.dumps(report.as_json(case, with_bytes=bytes_)))
            else:
                print(f"\n{report.as_text(case, number, with_bytes=bytes_)}")
            if folder is not None:
                for name, data in report.extract(case, number).items():
                    (folder / name).write_bytes(data)
    if extract is not None and cases and not reading.quiet:
        exits.say(f"wrote the evidence to {extract}")
    if format == "text":
        _tell_rest(investigation, cases)
    reading.say_problems(investigation.reader)
    if investigation.bad:
        raise typer.Exit(exits.BAD_CHECKSUMS)


def _tell_rest(investigation: Investigation, cases: list[Case]) -> None:
    from dissectors.forensics import report

    if len(cases) > 1:
        print("\nAll of them in Wireshark:")
        for file, text in report.display_filters(cases).items():
            print(f"  {file}: {text}")
    rest = list(investigation.oddities())
    if rest:
        print("\nWhat else does not fit:", *rest, sep="\n")


def _verdicts(counts: collections.Counter[tuple[str, str, str]], inner: collections.Counter[tuple[str, str]]) -> str:
    """Verdicts per protocol and kind of checksum, and of those that compressed data carry."""
    from pipelines.formats import units

    if not counts:
        return "No checksummed message data in these captures."
    rows: list[tuple[str, ...]] = [("protocol", "checksum", *VERDICTS)]
    for protocol, kind in sorted({key[:2] for key in counts}):
        rows.append((protocol, kind, *(units.count(counts[protocol, kind, verdict]) for verdict in VERDICTS)))
    for name in sorted({name for name, _ in inner}):
        rows.append(("", name, *(units.count(inner[name, verdict]) for verdict in VERDICTS)))
    return _aligned(rows, 2)


def _parties(investigation: Investigation) -> str:
    """Verdicts per topic, client, server and role, for those that have a bad one."""
    from pipelines.formats import units

    table = investigation.table
    rows: list[tuple[str, ...]] = [("protocol", "topic", "client", "server", "role", *VERDICTS)]
    for party in sorted({key[:-1] for key in table if key[-1] == "bad"}):
        rows.append((*party, *(units.count(table[(*party, verdict)]) for verdict in VERDICTS)))
    return "\n" + _aligned(rows, 5)


def _aligned(rows: list[tuple[str, ...]], left: int) -> str:
    """Columns of equal width; those from `left` on are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )
