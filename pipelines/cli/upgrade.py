"""`brokerscope upgrade`: what stops working with brokers of a later release."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli import exits, printing
from pipelines.cli.options import option
from pipelines.cli.output import RowFormat
from pipelines.cli.printing import PrintedField
from pipelines.cli.reading import AskedPart, Captures, Reading, reads_captures
from pipelines.cli.table_output import is_printed, write_table

FIELDS = (
    PrintedField("protocol", once=True, need=5),
    PrintedField("client_ip", once=True, head="client"),
    PrintedField("client_id", once=True, head=""),
    PrintedField("software", once=True),
    PrintedField("software_version", once=True, head="version"),
    PrintedField("software_from", once=True, head="from", need=4),
    PrintedField("speaks", once=True, need=3),
    PrintedField("api"),
    PrintedField("version", "code"),
    PrintedField("until", once=True, need=2),
    PrintedField("breaks_at"),
    PrintedField("requests", "count", need=1),
    PrintedField("last_time", "time", need=6),
)


@reads_captures
def upgrade(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    to: Annotated[
        str | None,
        option(
            "--to",
            "RELEASE",
            "Release of the brokers: 4.0, iggy=0.7; of Pulsar its protocol's version, v21. By default the newest.",
        ),
    ] = None,
    format: RowFormat = None,
    out: Annotated[str | None, option("-o --output", "FILE", "File to write.")] = None,
) -> None:
    """What stops working with brokers of a later release, by client, library, API and version.

    Which library a client is it says itself (`told`), or the client id gives it away that the library chooses (`client
    id`). `speaks` is the first release of Kafka that knows all versions it sent. What brokers send each other is left
    out. Only what the capture shows is judged. Exit code 1 if anything breaks.

    \b
    Examples:
      brokerscope upgrade capture.pcap
      brokerscope upgrade captures/ --to 4.0 -o upgrade.csv
      brokerscope upgrade out --to iggy=vsr-0.10
    """
    from pipelines.answers import upgrade as answers
    from pipelines.answers.aggregates import aggregate
    from pipelines.formats.units import counted
    from pipelines.tables.table import RECORDS

    asked, release = part.selection, answers.targets(to)
    with reading.records(captures, RECORDS, part=asked) as tables, reading.counted_once(tables) as once:
        rows = aggregate(once, "upgrades")
    broken, ready = answers.against(rows, release)
    seen = sorted({row["protocol"] for row in rows.to_pylist()} & release.keys())
    if is_printed(format, out):
        if not ready.hosts:
            printing.show_text(f"No client to judge in {asked.looked_at}.")
            return
        libraries = f"{ready.ready_libraries} of {ready.libraries} {'library' if ready.libraries == 1 else 'libraries'}"
        hosts = f"{ready.ready_hosts} of {counted(ready.hosts, 'host')}"
        where = ", ".join(f"{name} {release[name]}" for name in seen)
        printing.show_text(f"ready for {where}: {libraries} on {hosts}")
    if broken.num_rows or not is_printed(format, out):
        write_table(broken, FIELDS, format, out, inputs=captures)
    if broken.num_rows:
        raise typer.Exit(exits.NOT_DELIVERED)
