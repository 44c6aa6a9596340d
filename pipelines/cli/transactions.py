"""`brokerscope transactions`: each transaction, how long it was open, and how it ended."""

from __future__ import annotations

from typing import Annotated

from pipelines.cli import printing
from pipelines.cli.options import option
from pipelines.cli.printing import PLACE, WHEN, PrintedField
from pipelines.cli.reading import AskedPart, Captures, Reading, TextOrJson, reads_captures

FIELDS = (
    *WHEN,
    PrintedField("protocol", once=True, need=6),
    PrintedField("transaction"),
    PrintedField("producer", need=4),
    PrintedField("client", once=True, need=5),
    PrintedField("outcome", toned=True),
    PrintedField("open_ns", "ns", head="open"),
    PrintedField("end_ns", "ns", head="ending", need=3),
    PrintedField("records", "count"),
    PrintedField("topics", "list", need=1),
    PrintedField("groups", "list", need=2),
    *PLACE,
)


@reads_captures
def transactions(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    head: Annotated[int, option("--head --limit-rows", "N", "Maximum number of rows.", min=1)] = 200,
    format: TextOrJson = "text",
) -> None:
    """Transactions of Kafka and Pulsar: who began them, how long they were open, what they wrote, how they ended.

    Outcomes: committed, aborted, timed out (the coordinator aborted it, as it was open for longer than allowed), fenced
    (a newer producer of the same transactional id took over), open (no end in the capture), or the error with which
    ending it failed.

    \b
    Examples:
      brokerscope transactions capture.pcap
      brokerscope transactions captures/ --client payments -f json
    """
    from pipelines.answers.aggregates import aggregate
    from pipelines.tables.table import RECORDS

    selection = part.selection
    with reading.asked_once(captures, RECORDS, selection) as tables:
        rows = aggregate(tables, "transactions").to_pylist()
        if format == "json":
            printing.show_json(rows[:head])
        elif not rows:
            printing.show_text(f"No transaction in {selection.looked_at}.")
        else:
            printing.show_rows(rows[:head], FIELDS)
            if not reading.quiet:
                printing.show_cut(head, len(rows), "transactions")
