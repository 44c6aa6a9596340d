"""`brokerscope compact`: the record files of a store, fewer and larger."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.options import flag, option

_LEAST = 1 << 20


def compact(
    out: Annotated[str, typer.Argument(metavar="OUT", help="A folder or URL that `analyze --update` keeps.")],
    file_size: Annotated[str, option("--file-size", "128MB", "About how large files are to become.")] = "128MB",
    dry_run: Annotated[bool, flag("--dry-run", "Say how many files there would be.")] = False,
) -> None:
    """Write small record files of a store again as larger ones, in one commit; the rows stay the same.

    Files of one table, day and capture point are put together. What is made of connections that are open at the end of
    the captures stays in files of its own, as the next update replaces it.

    \b
    Examples:
      brokerscope compact /lake
      brokerscope compact s3://bucket/lake --file-size 512MB
    """
    from pipelines.cli import printing
    from pipelines.formats import units
    from pipelines.lake import compact as job

    size = units.size_bytes(file_size)
    if size is None or size < _LEAST:
        raise typer.BadParameter(
            f"{file_size!r} is no size of 1 MiB or more, like 128MB or 1GiB", param_hint="--file-size"
        )
    made = job.compact(out, size, dry_run=dry_run)
    if made.after == made.before:
        printing.show_line(f"nothing to do: {units.counted(made.before, 'file')} of records")
        return
    would = "would make" if dry_run else "made"
    printing.show_line(f"{would} {units.counted(made.after, 'file')} of records of {units.count(made.before)}")
