"""`brokerscope top`: what costs most."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pipelines.cli import printing
from pipelines.cli.printing import PrintedField
from pipelines.cli.reading import Captures, Reading, Since, Until, reads_captures, selected

By = Literal["topic", "client", "server", "api", "group", "connection"]
Sort = Literal["p99", "time", "bytes", "errors", "count"]
FIELDS = (
    PrintedField("protocol", once=True, need=4),
    PrintedField("key"),
    PrintedField("count", "count"),
    PrintedField("errors", "count", need=1),
    PrintedField("unanswered", "count", need=8),
    PrintedField("p50_ns", "ns", need=2),
    PrintedField("p99_ns", "ns"),
    PrintedField("max_ns", "ns", need=5),
    PrintedField("time_ns", "ns", need=3),
    PrintedField("bytes", "bytes", need=3),
    PrintedField("messages", "count", need=6),
)


@reads_captures
def top(
    captures: Captures,
    reading: Reading,
    since: Since = None,
    until: Until = None,
    by: Annotated[By, typer.Option("--by", help="Group by.")] = "api",
    sort: Annotated[Sort, typer.Option("--sort", help="Sort by this, largest first.")] = "time",
    head: Annotated[
        int, typer.Option("--head", "--limit-rows", metavar="N", min=1, help="Maximum number of rows.")
    ] = 20,
    format: Annotated[
        Literal["text", "json"], typer.Option("--format", "-f", metavar="text|json", help="Output format.")
    ] = "text",
) -> None:
    """What costs most: by topic, client, server, api, group or connection.

    Times leave out long polls, in which the broker waits because it was asked to. CAPTURE may be a folder that
    `analyze` wrote.

    \b
    Examples:
      brokerscope top capture.pcap
      brokerscope top capture.pcap --by topic --sort bytes
      brokerscope top out --by server --sort p99
    """
    from pipelines.answers import top as answers

    with (
        reading.records(captures, answers.TABLES, part=selected(since, until)) as every,
        reading.counted_once(every) as tables,
    ):
        rows = answers.top(tables, by, sort)
        if format == "json":
            printing.show_json(rows[:head])
            return
        printing.show_rows(rows[:head], [f._replace(head=by) if f.name == "key" else f for f in FIELDS])
        if len(rows) > head and not reading.quiet:
            printing.show_text(f"{head} of {len(rows):,} rows: --head shows more")
