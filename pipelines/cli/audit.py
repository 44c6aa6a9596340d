"""`brokerscope audit`: was a message lost, doubled or put out of order?"""

from __future__ import annotations

from dataclasses import replace

import typer

from pipelines.cli import exits, printing
from pipelines.cli.reading import AskedPart, Captures, Reading, TextOrJson, reads_captures


@reads_captures
def audit(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    format: TextOrJson = "text",
) -> None:
    """Whether messages that a broker acknowledged were lost, doubled or put out of order.

    For each topic and group: what was acknowledged and never delivered although the group went past, or is gone from
    the log since another leader took over; what came more than once, and why; what a resend doubled or put out of
    order; what was sent with acks=0 or 1; transactions that held the last stable offset. Each statement says what it
    rests on, and where the capture does not show enough, that it cannot tell. With --since, --until, --client and
    the like, what seems to be missing may be what they leave out: that cannot be told either. Exit code 1 if something
    that was acknowledged is gone, was never delivered, or was skipped.

    \b
    Examples:
      brokerscope audit capture.pcap
      brokerscope audit captures/ --topic orders -f json
    """
    from pipelines.answers.records import database_of
    from pipelines.sql.conditions import is_named
    from pipelines.sql.views import Views
    from pipelines.tables import audit as answers

    topic, group = part.topic, part.group  # of statements: what one rests on may name neither
    selection = replace(part, topic=None, group=None).selection  # of rows
    with reading.asked_once(captures, answers.TABLES, selection, part.selection) as tables:
        with database_of(tables) as duckdb:
            stated = answers.audit(Views(duckdb, answers.VIEWS), selection.cut)
        found = [
            statement
            for statement in stated
            if (topic is None or is_named(statement.topic or "", topic))
            and (group is None or is_named(statement.group or "", group))
        ]
        if format == "json":
            printing.show_json([statement._asdict() for statement in found])
        elif not found:
            printing.show_text(
                f"Nothing to audit in {part.selection.looked_at}: no offset or acknowledgement of a consumer group or "
                "subscription shows that it went past messages that a broker took. Share groups are not judged."
            )
        for statement in found if format == "text" else ():
            printing.show_text(statement.sentence, lead=f"{statement.what:13} ")
            printing.show_text(f"rests on {statement.rests_on}", indent=14)
            if statement.file is not None:
                printing.show_line(f"{'':14}{statement.file}:{statement.packet}")
    if any(statement.what in answers.NOT_DELIVERED for statement in found):
        raise typer.Exit(exits.NOT_DELIVERED)
