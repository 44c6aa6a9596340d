"""`brokerscope changes`: who created, deleted or altered what."""

from __future__ import annotations

from typing import Annotated

from pipelines.cli import printing
from pipelines.cli.options import option
from pipelines.cli.output import RowFormat
from pipelines.cli.printing import PLACE, WHEN, PrintedField
from pipelines.cli.reading import AskedPart, Captures, Reading, reads_captures
from pipelines.cli.table_output import is_printed, write_table

FIELDS = (
    *WHEN,
    PrintedField("protocol", once=True, need=8),
    PrintedField("client_ip", once=True, head="client", need=2),
    PrintedField("client_id", once=True, head="", need=1),
    PrintedField("principal", once=True, need=1),
    PrintedField("action", head=""),
    PrintedField("thing", head=""),
    PrintedField("subject", head=""),
    PrintedField("topic", need=7),
    PrintedField("partition", "code", need=5),
    PrintedField("detail"),
    PrintedField("before"),
    PrintedField("result", toned=True),
    *PLACE,
)


@reads_captures
def changes(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    head: Annotated[int | None, option("--head --limit-rows", "N", "Maximum number of rows.", min=1)] = None,
    format: RowFormat = None,
    out: Annotated[str | None, option("-o --output", "FILE", "File to write.")] = None,
) -> None:
    """Who created, deleted or altered what: topics, configurations, rights, users, quotas, offsets, groups and more.

    Each change with the client, the name that it had logged in with, what the broker answered, and the value before
    where the capture shows it. Of a subscription or a schema of Pulsar the first use is told: the wire does not say
    whether that made it. Secrets are cut. Changes over HTTP (Pulsar's and Iggy's) are not read.

    \b
    Examples:
      brokerscope changes capture.pcap
      brokerscope changes captures/ --topic 'orders*' -f json
      brokerscope changes out -o changes.csv
    """
    from pipelines.answers.table_rows import of_records, table_rows
    from pipelines.tables.table import RECORDS

    asked = part.selection
    with reading.records(captures, RECORDS, part=of_records(asked)) as tables:
        rows = table_rows(tables, "changes", asked)
        if not rows.num_rows and is_printed(format, out):
            printing.show_text(f"No change in {asked.looked_at}.")
            return
        write_table(rows, FIELDS, format, out, head=head, inputs=captures)
        if head is not None and is_printed(format, out) and not reading.quiet:
            printing.show_cut(head, rows.num_rows, "changes")
