"""`brokerscope top`: what costs most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from pipelines.answers.top import By, Sort
from pipelines.cli import printing
from pipelines.cli.options import flag, option
from pipelines.cli.printing import WHEN, PrintedField, Row
from pipelines.cli.reading import AskedPart, Captures, Reading, TextOrJson, reads_captures
from pipelines.formats import units

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

SUMS_OF_CAUSES = (
    PrintedField("protocol", once=True, need=9),
    PrintedField("key"),
    PrintedField("count", "count", head="slow"),
    PrintedField("max_ns", "ns", need=9),
    PrintedField("time_ns", "ns"),
)


@reads_captures
def top(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    by: Annotated[By, option("--by", None, "Group by.")] = "api",
    sort: Annotated[Sort, option("--sort", None, "Sort by this, largest first.")] = "time",
    every: Annotated[str | None, option("--every", "10s", "Rows for each interval of this length.")] = None,
    causes: Annotated[bool, flag("--causes", "Where the time of slow requests went, in shares.")] = False,
    head: Annotated[int, option("--head --limit-rows", "N", "Maximum number of rows.", min=1)] = 20,
    format: TextOrJson = "text",
) -> None:
    """What costs most: by topic, partition, client, broker, api, group or connection; along time with --every.

    Times leave out long polls, in which the broker waits because it was asked to. CAPTURE may be a folder that
    `analyze` wrote. --causes takes the requests that took 20 ms or more, and says which share of their time went to
    lost packets, queues, quotas, the broker and so on.

    \b
    Examples:
      brokerscope top capture.pcap
      brokerscope top capture.pcap --by topic --sort bytes
      brokerscope top out --by broker --sort p99
      brokerscope top capture.pcap --by broker --every 10s
      brokerscope top capture.pcap --by broker --causes
    """
    from pipelines.answers import top as answers

    span = None if every is None else _span(every)
    if causes and sort not in answers.SORTS_OF_CAUSES:
        raise typer.BadParameter(f"--causes sorts by {' or '.join(answers.SORTS_OF_CAUSES)}", param_hint="--sort")
    needed = answers.TABLES_OF_CAUSES if causes else answers.TABLES
    with reading.records(captures, needed, part=part.selection) as found, reading.counted_once(found) as tables:
        if causes:
            rows = answers.causes(tables, by, sort, span, None if tables is found else found)
        else:
            rows = answers.top(tables, by, sort, span)
        if format == "json":
            printing.show_json(rows[:head])
            return
        if causes and not rows:
            printing.show_text("No request took 20 ms or more, but for those that the broker held on purpose.")
            return
        heading = "broker" if by == "server" else by
        heads = {"key": heading} | ({} if span is None else {"time_ns": "in all"})  # beside the time of day
        fields = [f._replace(head=heads.get(f.name, f.head)) for f in _fields(rows, causes=causes)]
        printing.show_rows(rows[:head], fields if span is None else [*WHEN, *fields])
        if not reading.quiet:
            printing.show_cut(head, len(rows), "rows")


def _fields(rows: Sequence[Row], *, causes: bool) -> Sequence[PrintedField]:
    """The columns to print; of causes the parts that took any time, the largest first."""
    from pipelines.tables.causes import PARTS

    if not causes:
        return FIELDS
    weights = {part.name: sum((row[f"{part.name}_share"] or 0) * row["time_ns"] for row in rows) for part in PARTS}
    ranked = sorted(filter(weights.get, weights), key=lambda name: -weights[name])
    return [
        *SUMS_OF_CAUSES,
        *(PrintedField(f"{name}_share", "share", head=name, need=n) for n, name in enumerate(ranked)),
    ]


def _span(text: str) -> int:
    """Microseconds. Raises typer.BadParameter for what is no time of a microsecond at least."""
    ns = units.nanoseconds(text)
    if ns is None or not 1000 <= ns < 1 << 63:
        raise typer.BadParameter(f"{text!r} is not a time such as 500ms, 10s, 1min", param_hint="--every")
    return ns // 1000
