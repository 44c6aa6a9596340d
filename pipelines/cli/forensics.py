"""`brokerscope forensics`: every checksum; where the bytes of a bad one broke, and what the evidence says."""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from dissectors.forensics import Case, Investigation, report
from pipelines.cli import exits, printing, progress
from pipelines.cli.options import flag, option
from pipelines.cli.reading import AskedPart, Captures, Reading, TextOrJson, reads_captures
from pipelines.formats.grid import terminal_width
from pipelines.storage import outputs

VERDICTS = ("ok", "bad", "unverifiable", "absent")
CELLS_A_BYTE, BESIDE_BYTES = 5, 22  # of the bytes around what broke


@reads_captures
def forensics(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    format: TextOrJson = "text",
    extract: Annotated[
        str | None,
        option(
            "--extract",
            "DIR",
            "Write each bad batch, as received and as corrected, and its packets here. They hold message data.",
        ),
    ] = None,
    bytes_: Annotated[
        bool, flag("--bytes", "Show the bytes around the broken ones; they may be message data.")
    ] = False,
) -> None:
    """Verify every checksum; for each bad one, say where it broke and on which side. Exit code 1 if one is bad.

    Message data is not shown, but for the values of up to four broken bytes. --bytes shows all broken bytes and those
    around them. Internal topics in which brokers keep credentials are never shown nor extracted.

    \b
    Examples:
      brokerscope forensics capture.pcap
      brokerscope forensics capture.pcap --bytes
      brokerscope forensics captures/ --extract evidence/
      brokerscope forensics capture.pcap -f json | jq .diagnosis.pattern
    """
    options, selection = reading.options(), part.selection
    if extract is not None:
        outputs.refuse_no_name(extract)
    bar = progress.Bar(quiet=reading.quiet)
    investigation = Investigation(
        reading.captures(captures),
        options,
        bar.update,
        choose=(lambda rows: selection.of(reading.noting(rows, selection))) if selection else None,
    )
    reading.refuse_records(investigation.reader.files)
    reading.learn_names(investigation.reader.files)
    bar.total = investigation.reader.files
    with bar:
        investigation.run()
    if format == "text":
        of_codecs = collections.Counter() if selection else investigation.inner  # which are counted over everything
        _show_verdicts(investigation.verdicts, of_codecs, selection.looked_at)
        if investigation.bad:
            _show_parties(investigation)
        print(end="", flush=True)
    cases: list[Case] = []
    inputs = reading.inputs(investigation.reader.files)
    with nullcontext() if extract is None else outputs.files(extract, ours=report.is_extract, inputs=inputs) as folder:
        for number, case in enumerate(investigation.cases(), 1):
            cases.append(case)
            if format == "json":
                print(json.dumps(report.as_json(case, with_bytes=bytes_)))
            else:
                _show_case(case, number, bytes_)
            if folder is not None:
                for name, data in report.extract(case, number).items():
                    (folder / name).write_bytes(data)
    _tell_refusals(investigation, format)
    if extract is not None and cases and not reading.quiet:
        exits.say(f"wrote the evidence to {extract}")
    if format == "text":
        _tell_rest(investigation, cases)
    reading.say_problems(investigation.reader.problems)
    if investigation.bad:
        raise typer.Exit(exits.BAD_CHECKSUMS)


def _tell_refusals(investigation: Investigation, format: str) -> None:
    """What receivers called corrupt although its bytes fit here."""
    refusals = list(investigation.refusals())
    if format == "json":
        for refusal in refusals:
            print(json.dumps(report.plain(refusal.as_json())))
    elif refusals:
        print("\nRefused as corrupt, though the checksum holds here:")
        for refusal in refusals:
            printing.show_text(refusal.sentence)


def _tell_rest(investigation: Investigation, cases: list[Case]) -> None:
    if len(cases) > 1:
        print("\nAll of them in Wireshark:")
        for file, text in report.display_filters(cases).items():
            printing.show_line(f"  {file}: {text}")
    rest = list(investigation.oddities())
    if rest:
        print("\nWhat else does not fit:")
        for sentence in rest:
            printing.show_text(sentence)


def _show_case(case: Case, number: int, with_bytes: bool) -> None:
    print()
    across = max(1, (terminal_width() - BESIDE_BYTES) // CELLS_A_BYTE)
    for line in report.as_lines(case, number, with_bytes=with_bytes, across=across):
        if line.whole:
            printing.show_line(line.lead + line.text)
        else:
            printing.show_text(line.text, lead=line.lead)


def _show_verdicts(
    counts: collections.Counter[tuple[str, str, str]], inner: collections.Counter[tuple[str, str]], looked_at: str
) -> None:
    """Verdicts per protocol and kind of checksum, and of those that compressed data carry."""
    if not counts:
        printing.show_text(f"No checksummed message data in {looked_at}.")
        return
    rows: list[printing.Row] = [
        {"protocol": protocol, "checksum": kind} | {verdict: counts[protocol, kind, verdict] for verdict in VERDICTS}
        for protocol, kind in sorted({key[:2] for key in counts})
    ]
    rows += [
        {"checksum": name} | {verdict: inner[name, verdict] for verdict in VERDICTS}
        for name in sorted({name for name, _ in inner})
    ]
    _show_counts(rows, ("protocol", "checksum"))


def _show_parties(investigation: Investigation) -> None:
    """Verdicts per topic, client, broker and role, for those that have a bad one."""
    table, names = investigation.table, ("protocol", "topic", "client", "broker", "role")
    print()
    _show_counts(
        [
            dict(zip(names, party, strict=True)) | {verdict: table[(*party, verdict)] for verdict in VERDICTS}
            for party in sorted({key[:-1] for key in table if key[-1] == "bad"})
        ],
        names,
    )


def _show_counts(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    fields = [printing.PrintedField(name) for name in names]
    printing.show_rows(rows, [*fields, *(printing.PrintedField(verdict, "count") for verdict in VERDICTS)])
