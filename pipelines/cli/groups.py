"""`brokerscope groups`: consumer groups and their rebalances along time."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pipelines.cli import printing
from pipelines.cli.options import flag, option
from pipelines.cli.printing import PLACE, WHEN, PrintedField
from pipelines.cli.reading import AskedPart, Captures, Reading, TextOrJson, reads_captures

GROUPS = (
    PrintedField("protocol", once=True, need=5),
    PrintedField("group"),
    PrintedField("topic", once=True),
    PrintedField("kind", once=True, need=2),
    PrintedField("members", "count"),
    PrintedField("joined", "count", need=3),
    PrintedField("left", "count", need=3),
    PrintedField("rebalances", "count"),
    PrintedField("longest_ns", "ns", head="longest"),
    PrintedField("generation", "code", need=4),
    PrintedField("lag", "count", need=1),
)
LAG = (
    PrintedField("protocol", once=True, need=5),
    PrintedField("group", once=True),
    PrintedField("topic", once=True),
    PrintedField("partition", "code"),
    PrintedField("committed", "code", need=2),
    PrintedField("end_offset", "code", head="end", need=2),
    PrintedField("messages", "count"),
    PrintedField("lag_ns", "ns", head="lag"),
    PrintedField("longest_ns", "ns", head="longest", need=1),
    PrintedField("status"),
    PrintedField("bucket", "clock", head="from", need=3),
)
EVENTS = (
    *WHEN,
    PrintedField("group", once=True),
    PrintedField("what", head=""),
    PrintedField("text", head=""),
    PrintedField("took_ns", "ns"),
    PrintedField("member", need=3),
    *PLACE,
)


@reads_captures
def groups(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    lag: Annotated[
        bool, flag("--lag", "How far each group is behind in each partition, in messages and in time.")
    ] = False,
    head: Annotated[int, option("--head --limit-rows", "N", "Maximum number of events.", min=1)] = 200,
    format: TextOrJson = "text",
) -> None:
    """Consumer groups and subscriptions: who joined, who left, each rebalance and how long it took, the lag.

    Kafka's groups are told apart by name; Pulsar's subscriptions and Iggy's groups by name and topic.

    Lag is what the capture knows: the last offset seen in a partition less the last one committed by the group. With
    --lag each partition has a line: where the group stood last, how long ago the message that it reads next was
    produced, the longest that this ever was, and whether the group keeps up, catches up, falls behind, stopped or went
    back. What was committed before --since counts.

    \b
    Examples:
      brokerscope groups capture.pcap
      brokerscope groups captures/ --group billing -f json
      brokerscope groups captures/ --lag
    """
    from pipelines.answers import groups as answers
    from pipelines.sql.conditions import is_named
    from pipelines.tables.table import RECORDS

    # state from before --since counts for the lag at the end; names are asked of rows, not of records
    before = {"since": None} if lag else {}
    group, selection = part.group, replace(part, group=None, **before).selection
    with reading.asked_once(captures, RECORDS, selection, part.selection) as tables:
        if lag:
            behind = answers.lag(tables)
            rows = [row for row in behind if group is None or is_named(row["group"], group)]
            _show_lag(rows, format, part.selection.looked_at)
            return
        every_group, every_event = answers.groups(tables)
        named = [row for row in every_group if group is None or is_named(row["group"], group)]
        events = [row for row in every_event if group is None or is_named(row["group"], group)]
        if format == "json":
            printing.show_json(answers.with_events(named, events))
        elif not named:
            printing.show_text(f"No consumer group or subscription in {part.selection.looked_at}.")
        else:
            printing.show_rows(named, GROUPS)
            if events:
                print()
                printing.show_rows(events[:head], EVENTS)
                printing.show_cut(head, len(events), "events")


def _show_lag(rows: list[dict[str, Any]], format: str, looked_at: str) -> None:
    """Where each group stands in each partition. rows: as `answers.groups.lag` gives them."""
    if format == "json":
        printing.show_json(rows)
    elif rows:
        printing.show_rows(rows, LAG)
    else:
        printing.show_text(
            f"No group committed an offset in {looked_at}, as far as requests and answers are both there."
        )
