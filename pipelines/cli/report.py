"""`brokerscope report`: the page again, from what `analyze` wrote."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from dissectors.errors import InputError, UsageError
from dissectors.redaction import public_path
from pipelines.cli.options import flag, option
from pipelines.cli.output import STDOUT
from pipelines.cli.output import output as opened
from pipelines.cli.reading import Since, Until, selected
from pipelines.pandas_guard import without_pandas
from pipelines.storage import filesystem

if TYPE_CHECKING:
    from pipelines.report.load import Comparison, Frames

_EPOCH = datetime(1970, 1, 1)  # UTC, as the times that --since takes


def report(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder that `analyze` wrote; a path or a URL.")],
    since: Since = None,
    until: Until = None,
    last: Annotated[str | None, option("--last", "24h", "Only this long before the newest request in OUT.")] = None,
    site: Annotated[
        str | None, option("--site", "NAME,…", "Only these capture points; * and ? stand for any text.")
    ] = None,
    topic: Annotated[
        str | None, option("--topic", "NAME,…", "Only these topics, and connections that use them.")
    ] = None,
    against: Annotated[
        str | None, option("--against", "OUT2", "An earlier OUT: the page says what changed since.")
    ] = None,
    bytes_: Annotated[
        bool,
        flag(
            "--bytes",
            "Beside requests that verdicts name, their packets in bytes, messages among them, but no credentials; "
            "the captures of OUT are read again.",
        ),
    ] = False,
    keylog: Annotated[str | None, option("--keylog", "FILE", "TLS secrets, with --bytes.")] = None,
    output: Annotated[
        str | None,
        option(
            "-o --output", "FILE", "The page; - is stdout. OUT/report.html by default, of a part OUT/selection.html."
        ),
    ] = None,
    quiet: Annotated[bool, flag("--quiet -q", "Do not print the page's path.")] = False,
) -> None:
    """Rebuild the HTML report of a folder that `analyze` wrote, or make one of a part of it.

    Tables are computed again for a part, and where records are newer than tables (`analyze --records-only`).

    \b
    Examples:
      brokerscope report out
      brokerscope report lake --since 2026-01-31T08:00 --until 2026-01-31T09:00 --topic 'orders*'
      brokerscope report lake --last 24h
      brokerscope report out --against out-yesterday
      brokerscope report out --bytes -o incident.html
    """
    from pipelines import report as pages
    from pipelines.cli import printing
    from pipelines.lake import freshness

    if not out:
        raise UsageError("the name of the folder is empty")
    root = filesystem.local_path(out)
    if root is not None and root.is_file():
        raise InputError(f"{public_path(out)}: a file, not a folder that `brokerscope analyze` wrote")
    if last is not None:
        since = _before_the_end(out, last, alone=since is None and until is None)
    selection = selected(since=since, until=until, site=site, topic=topic)
    without_pandas()
    if against is not None and selection:
        raise typer.BadParameter("compares with all of OUT, not with a part", param_hint="--against")
    asked = pages.PageOptions(
        selection or None,
        anew=freshness.is_behind(out),
        against=None if against is None else _comparison(out, against),
        frames=_frames(out, keylog) if bytes_ else None,
    )
    page = output or filesystem.join(out, pages.PART if selection else pages.PAGE)
    if page == STDOUT:
        made = pages.made(out, asked)
        with opened(page) as stream:
            stream.write(made)
        return
    pages.write_to(page, out, asked)
    if not quiet:
        printing.show_line(public_path(page))


def _comparison(out: str, earlier: str) -> Comparison:
    """What changed from an earlier OUT to this one, as `diff` tells it. Raises InputError where one has no records."""
    from pipelines.answers import diff
    from pipelines.answers.records import counted_once, read_analysis
    from pipelines.report.load import Comparison
    from pipelines.storage.layout import is_analysis

    for folder in (out, earlier):
        if not is_analysis(folder):
            raise InputError(f"{public_path(folder)}: not a local folder that `brokerscope analyze` wrote")
    before, after = (read_analysis(folder, diff.TABLES) for folder in (earlier, out))
    with counted_once(before) as (once_before, _), counted_once(after) as (once_after, _):
        made = diff.diff(once_before, once_after)
    return Comparison(public_path(earlier), made.apis, made.new, made.gone, made.parts)


def _frames(out: str, keylog: str | None) -> Frames:
    """The bytes of requests that verdicts of an OUT name. Raises InputError where it has no records."""
    from dissectors.options import Options
    from pipelines.answers import connection, frame_bytes
    from pipelines.answers.records import read_analysis
    from pipelines.formats import units
    from pipelines.report.load import Frames, PageFrame, loaded
    from pipelines.storage.layout import is_analysis

    if not is_analysis(out):
        raise InputError(f"{public_path(out)}: not a local folder that `brokerscope analyze` wrote")
    with loaded(out) as analysis:
        evidence = [verdict["evidence"] for verdict in analysis.verdicts]
    found = frame_bytes.of_verdicts(read_analysis(out, connection.TABLES), evidence, out, Options(keylog=keylog))

    def note(frame: frame_bytes.FrameBytes) -> str:
        if frame.secret:
            return "not shown: credentials may lie in it"
        more = frame.size - len(frame.data)
        return f"{units.counted(more, 'more byte')} left out" if more > 0 else ""

    return Frames(
        {
            (sides[0].file, sides[0].packet): [
                PageFrame(one.side, one.packet, "\n".join(one.lines), one.data, note(one)) for one in sides
            ]
            for sides in found.frames
        },
        found.named,
    )


def _before_the_end(out: str, width: str, *, alone: bool) -> str:
    """The time from which `--last` selects. alone: whether no other option says which time is meant."""
    from pipelines.formats import units
    from pipelines.report.records import last_time_us
    from pipelines.storage.layout import RECORD_FOLDER

    ns = units.nanoseconds(width)
    if not ns or not alone:
        reason = f"{width!r} is not a duration such as 90m, 24h, 7d" if not ns else "excludes --since and --until"
        raise typer.BadParameter(reason, param_hint="--last")
    end_us = last_time_us(filesystem.join(out, RECORD_FOLDER))
    if end_us is None:
        raise InputError(f"{public_path(out)}: no requests here to count back from")
    return (_EPOCH + timedelta(microseconds=max(0, end_us - ns // 1000))).isoformat(timespec="microseconds")
