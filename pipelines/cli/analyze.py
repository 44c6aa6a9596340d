"""`brokerscope analyze`: records, tables and the page, on Spark."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dissectors.errors import BrokerscopeError
from pipelines.cli import common

if TYPE_CHECKING:
    from pipelines.analyze import Outcome

_UNITS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


@common.guarded
def analyze(
    captures: common.Captures,
    out: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="Folder to write to.")],
    master: Annotated[
        str | None, typer.Option("--master", metavar="MASTER", help="Spark master; local[*] by default.")
    ] = None,
    bucket: Annotated[
        str | None,
        typer.Option("--bucket", metavar="10s", help="Width of a time bucket: ms, s, m, h or d. Fitted by default."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="topic,client…", help="More keys for the latency table (see docs/tables.md)."),
    ] = None,
    decode_as: common.DecodeAs = None,
    keylog: common.Keylog = None,
    iggy_era: common.IggyEra = None,
    site: common.Site = "folder",
    limit: common.Limit = None,
    quiet: common.Quiet = False,
) -> None:
    """Records, tables and a report from captures, on Spark.

    Writes OUT/records/<table>/, OUT/tables/<table>.parquet and .csv, OUT/forensics.jsonl (an object a bad checksum) and
    OUT/report.html; prints the tables.
    """
    options = common.options(
        site=site,
        decode_as=decode_as,
        keylog=keylog,
        iggy_era=iggy_era,
        limit=limit,
    )
    if "-" in captures:
        raise typer.BadParameter("analyze reads files, not standard input", param_hint="CAPTURE")
    keys, width = _keys(by), None if bucket is None else _micros(bucket)
    try:
        from pipelines.analyze import analyze as run
    except ImportError as error:
        if (error.name or "").split(".")[0] != "pyspark":
            raise
        common.say("brokerscope: analyze needs Spark: pip install 'brokerscope[spark]'")
        raise typer.Exit(common.WRONG_USAGE) from None
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {out}: {error.strerror}", param_hint="-o") from None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        with _stages(quiet) as tell:
            outcome = run(captures, Path(out), options, by=keys, bucket_us=width, master=master, tell=tell)
    except (PySparkException, Py4JError) as error:
        raise BrokerscopeError(f"Spark failed ({master or 'local[*]'}): {_gist(error)}") from error
    _show(outcome, quiet)
    for kind, message in outcome.problems:
        if kind == "unreadable_file" or not quiet:
            common.say(f"brokerscope: {message}")
    if any(kind == "unreadable_file" for kind, _ in outcome.problems):
        raise typer.Exit(common.UNREADABLE)


def _gist(error: Exception) -> str:
    """What went wrong, in a line: the last line of the innermost error that Spark reports."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    told = [line for line in lines if re.match(r"[:\s]*[\w.]*(Error|Exception)\b", line)]
    return (told or lines or [type(error).__name__])[-1].lstrip(": ")[:300]


def _keys(by: str | None) -> tuple[str, ...]:
    """`topic,client` -> ("topic", "client")."""
    from pipelines.tables.table import BY

    keys = tuple(key.strip() for key in (by or "").split(",") if key.strip())
    unknown = [key for key in keys if key not in BY]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: not one of {', '.join(BY)}", param_hint="--by")
    return tuple(dict.fromkeys(keys))


def _micros(width: str) -> int:
    """`10s`, `500ms`, `5m` -> µs."""
    told = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)", width.strip())
    micros = round(float(told[1]) * _UNITS[told[2]]) if told else 0
    if micros < 1_000:
        raise typer.BadParameter(
            f"{width!r} is no time of 1 ms or more, like 500ms, 10s, 5m, 1h", param_hint="--bucket"
        )
    return micros


@contextlib.contextmanager
def _stages(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows what is being done, on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda stage: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda stage: status.update(stage)


def _show(outcome: Outcome, quiet: bool) -> None:
    """The tables, each with its first rows, and where the page is."""
    if not quiet:
        from pipelines.show import show

        show(outcome.tables)
    print(outcome.page)
