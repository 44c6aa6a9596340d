"""`brokerscope forensics`: every checksum; where the bytes of a bad one broke, and what the evidence says."""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common, progress

if TYPE_CHECKING:
    from dissectors.forensics import Case, Investigation

VERDICTS = ("ok", "bad", "unverifiable", "absent")


@common.guarded
def forensics(
    captures: common.Captures,
    format: Annotated[str, typer.Option("--format", "-f", metavar="text|json", help="How to write it.")] = "text",
    extract: Annotated[
        str | None,
        typer.Option(
            "--extract", metavar="DIR", help="Write each bad batch, as received and as corrected, and its packets."
        ),
    ] = None,
    decode_as: common.DecodeAs = None,
    keylog: common.Keylog = None,
    iggy_era: common.IggyEra = None,
    site: common.Site = "folder",
    limit: common.Limit = None,
    quiet: common.Quiet = False,
) -> None:
    """Every checksum: the verdicts; of each bad one where it broke and who did it. Exit code 1 if one is bad."""
    if format not in ("text", "json"):
        raise typer.BadParameter(f"{format!r} is none of text, json", param_hint="--format")
    options = common.options(
        site=site,
        decode_as=decode_as,
        keylog=keylog,
        iggy_era=iggy_era,
        limit=limit,
    )
    from dissectors.forensics import Investigation, report

    bar = progress.Bar(quiet=quiet)
    investigation = Investigation(captures, options, bar.update)
    bar.total = investigation.reader.files
    with bar:
        investigation.run()
    if format == "text":
        print(_verdicts(investigation.verdicts, investigation.inner))
        if investigation.bad:
            print(_parties(investigation))
        sys.stdout.flush()
    cases: list[Case] = []
    for number, case in enumerate(investigation.cases(), 1):
        cases.append(case)
        print(json.dumps(report.as_json(case)) if format == "json" else f"\n{report.as_text(case, number)}")
        if extract is not None:
            for path in report.extract(case, number, Path(extract)):
                if not quiet:
                    common.say(f"wrote {path}")
    if format == "text":
        _tell_rest(investigation, cases)
    common.tell_problems(investigation.reader, quiet)
    if investigation.bad:
        raise typer.Exit(common.BAD_CHECKSUMS)


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
