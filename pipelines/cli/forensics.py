"""`brokerscope forensics`: every checksum, and which of them do not hold."""

from __future__ import annotations

import collections
import sys
from typing import Annotated

import typer

from dissectors.options import Options
from pipelines.cli import common, progress
from pipelines.cli.light import without_pandas

VERDICTS = ("ok", "bad", "unverifiable", "absent")


@common.guarded
def forensics(
    captures: common.Captures,
    format: Annotated[str, typer.Option("--format", "-f", metavar="text|json", help="How to write it.")] = "text",
    decode_as: common.DecodeAs = None,
    keylog: common.Keylog = None,
    iggy_era: common.IggyEra = None,
    site: common.Site = "folder",
    limit: common.Limit = None,
    quiet: common.Quiet = False,
) -> None:
    """Every checksum: what the verdicts are, and each that is bad. Exit code 1 if one is bad."""
    if format not in ("text", "json"):
        raise typer.BadParameter(f"{format!r} is none of text, json", param_hint="--format")
    without_pandas()
    options = Options(
        tables=("batches",),
        site=common.site(site),
        decode_as=common.decode_as(decode_as),
        keylog=keylog,
        iggy_era=iggy_era,
        limits=common.limits(limit),
    )
    import pyarrow.compute as pc

    from dissectors import records
    from dissectors.engine import Run
    from pipelines.formats import FORMATS

    counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
    bar = progress.Bar(quiet=quiet)
    run = Run(captures, options, bar.update)
    bar.total = run.files
    bad = []
    with bar:
        for _, batch in run.records():
            columns = (batch.column(c).to_pylist() for c in ("protocol", "checksum_kind", "verdict"))
            counts.update((p or "", k or "none", v or "absent") for p, k, v in zip(*columns, strict=True))
            found = batch.filter(pc.equal(batch.column("verdict"), "bad"))
            if found.num_rows:
                bad.append(found)
    if format == "text":
        print(_verdicts(counts))
        sys.stdout.flush()
    if bad or format == "json":
        writer = FORMATS[format]("batches", records.schema("batches"), sys.stdout.buffer)
        for found in bad:
            writer.write(found)
        writer.close()
    common.tell_problems(run, quiet)
    if bad:
        raise typer.Exit(common.BAD_CHECKSUMS)


def _verdicts(counts: collections.Counter[tuple[str, str, str]]) -> str:
    """Verdicts per protocol and kind of checksum."""
    from pipelines.formats import units

    if not counts:
        return "No checksummed message data in these captures."
    rows = [("protocol", "checksum", *VERDICTS)]
    for protocol, kind in sorted({key[:2] for key in counts}):
        rows.append((protocol, kind, *(units.count(counts[protocol, kind, verdict]) for verdict in VERDICTS)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )
