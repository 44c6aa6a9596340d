"""`brokerscope diff`: before and after."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dissectors.wording import first_of
from pipelines.cli import printing
from pipelines.cli.printing import PrintedField
from pipelines.cli.reading import AskedPart, Reading, TextOrJson, reads_captures

if TYPE_CHECKING:
    from pipelines.answers.records import Row

NAMED = 8  # names of a kind that are printed
FIELDS = (
    PrintedField("protocol", once=True, need=4),
    PrintedField("api"),
    PrintedField("verdict", toned=True),
    PrintedField("also", "list", need=5),
    PrintedField("before_throttled", "count", head="throttled"),
    PrintedField("after_throttled", "count", head="throttled after"),
    PrintedField("before_per_s", "1/s", head="calls"),
    PrintedField("after_per_s", "1/s", head="calls after"),
    PrintedField("before_p50_bytes", "bytes", head="size"),
    PrintedField("after_p50_bytes", "bytes", head="size after"),
    PrintedField("before_count", "count", head="before"),
    PrintedField("after_count", "count", head="after"),
    PrintedField("before_p50_ns", "ns", head="p50", need=1),
    PrintedField("after_p50_ns", "ns", head="p50 after", need=1),
    PrintedField("before_p99_ns", "ns", head="p99", need=2),
    PrintedField("after_p99_ns", "ns", head="p99 after", need=2),
    PrintedField("before_errors", "count", head="errors", need=3),
    PrintedField("after_errors", "count", head="errors after", need=3),
)
# what a column's name ends with -> the changes without which it is not printed
ONLY = {"throttled": "throttled", "per_s": "calls", "p50_bytes": "larger smaller"}
PART_FIELDS = (PrintedField("part", head="of"), PrintedField("name", head=""), *FIELDS)


@reads_captures
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A capture, or a folder that `analyze` wrote.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="A later capture, or a folder that `analyze` wrote.")],
    reading: Reading,
    part: AskedPart,
    format: TextOrJson = "text",
) -> None:
    """Two captures side by side: what became slower, what fails more, what is new, what is gone.

    A difference is reported where there are 20 values or more and it is not chance; durations leave long polls out.
    Topics, servers and clients are named where one of them changed and others did not.

    \b
    Examples:
      brokerscope diff monday.pcap tuesday.pcap
      brokerscope diff monday.pcap tuesday.pcap --topic 'orders*'
      brokerscope diff out-before out-after -f json
    """
    from dissectors.capture.source import STDIN
    from pipelines.answers import diff as answers

    if before == after == STDIN:
        raise typer.BadParameter("standard input is one capture: name a file", param_hint="AFTER")
    with (
        reading.records([before], answers.TABLES, part=part.selection) as before_all,
        reading.records([after], answers.TABLES, part=part.selection) as after_all,
        reading.counted_once(before_all) as earlier,
        reading.counted_once(after_all) as later,
    ):
        made = answers.diff(earlier, later)
        if format == "json":
            printing.show_json([asdict(made)])
            return
        _show(made.apis, FIELDS)
        if made.parts:
            _show(made.parts[:NAMED], PART_FIELDS)
        for title, names in (("new", made.new), ("gone", made.gone)):
            for kind, found in names.items():
                if found:
                    printing.show_text(first_of(found, NAMED), lead=f"{title} {kind}s: ")


def _show(rows: list[Row], fields: tuple[PrintedField, ...]) -> None:
    changed = {word for row in rows for change in (row["verdict"], *row["also"]) for word in change.split()}
    wanted = {field: ONLY.get(field.name.partition("_")[2]) for field in fields}
    printing.show_rows(rows, [field for field, words in wanted.items() if not words or changed & {*words.split()}])
