"""`brokerscope expire`: what a store holds of before some time goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from pipelines.cli.options import flag, option


def expire(
    out: Annotated[str, typer.Argument(metavar="OUT", help="A folder or URL that `analyze --update` keeps.")],
    before: Annotated[
        str, option("--before", "TIME", "2026-01-31, 2026-01-31T08:00, …T08:00+02:00 (UTC), or an age: 90d, 36h.")
    ],
    dry_run: Annotated[bool, flag("--dry-run", "Say what would go, and leave it.")] = False,
) -> None:
    """Remove rows of before a time from the records of a store, in one commit, and what is kept to go on from there.

    A connection goes by when it ended. Captures that ended before that time are not read again, and late ones bring no
    rows of it. OUT/tables and the page stay until the next `analyze --update` makes them again.

    \b
    Examples:
      brokerscope expire /lake --before 2026-01-01
      brokerscope expire s3://bucket/lake --before 90d --dry-run
    """
    from pipelines.cli import printing
    from pipelines.formats.units import counted
    from pipelines.lake import expire as job

    bound = _moment(before)
    made = job.expire(out, round(bound.timestamp()) * 10**9, dry_run=dry_run)
    would = "would expire" if dry_run else "expired"
    printing.show_line(
        f"{would} before {bound:%Y-%m-%dT%H:%M:%SZ}: {counted(made.rows, 'row')}, {counted(made.files, 'file')} of "
        f"records, {counted(made.states, 'state')}"
    )


def _moment(text: str) -> datetime:
    """A time, or an age as the time so long ago; to the second."""
    from pipelines.formats import units

    age = units.nanoseconds(text)
    try:
        if age is not None:
            return (datetime.now(UTC) - timedelta(microseconds=age // 1000)).replace(microsecond=0)
        return units.utc_time(text).replace(microsecond=0).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            f"{text!r} is no time like 2026-01-31 or 2026-01-31T08:00, and no age like 90d", param_hint="--before"
        ) from error
