"""`brokerscope summary`: what captures hold and what is wrong, in a screenful."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from pipelines.cli import printing
from pipelines.cli.options import flag
from pipelines.cli.printing import PLACE, PrintedField
from pipelines.cli.reading import AskedPart, Captures, JudgedPayloads, Reading, TextOrJson, reads_captures
from pipelines.formats import statuses, units, verdict_words
from pipelines.tables.blind_spots import DAMAGED
from pipelines.tables.verdicts.kinds import CRITICAL, NOTE

if TYPE_CHECKING:
    from pipelines.answers.summary import Summary

VERDICTS = 5  # printed without --all
SLOWEST = (
    PrintedField("time", "clock"),
    PrintedField("total_ns", "ns"),
    PrintedField("wait_ns", "ns", need=2),
    PrintedField("queued_ns", "ns", need=1),
    PrintedField("status", toned=True),
    PrintedField("api"),
    PrintedField("topic", once=True),
    PrintedField("client", need=3),
    PrintedField("server", head="broker", need=4),
    *PLACE,
)
ERRORS = (
    PrintedField("count", "count"),
    PrintedField("name", toned=True),
    PrintedField("api"),
    PrintedField("topic", need=1, once=True),
    PrintedField("file", "file", once=True),
    PrintedField("packet", "code", head="first packet"),
)


@reads_captures
def summary(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    payload: JudgedPayloads,
    format: TextOrJson = "text",
    all: Annotated[
        bool, flag("--all", f"Every verdict, not only the first {VERDICTS}, with its causes and effects.")
    ] = False,
) -> None:
    """What captures hold, what is wrong with them, what cannot be seen, and the slowest requests.

    What is wrong is ranked by severity and by what it costs; docs/verdicts.md explains each kind.

    CAPTURE may be a folder that `analyze` wrote. With --since or --until, connections that were open then count.

    \b
    Examples:
      brokerscope summary capture.pcap
      brokerscope summary captures/ --since 01:11 --until 01:13
      brokerscope summary captures/ -f json
      brokerscope summary captures/ --schemas registry.json
    """
    from pipelines.answers import summary as answers

    selection = part.selection

    def shown(made: Summary) -> None:
        if format == "json":
            printing.show_json([vars(made)])
            return
        if selection:
            printing.show_text(f"Only {selection}: what happened then, and the connections that were open.")
        show(made, None if all else VERDICTS, "then" if selection else "in these captures")

    asked = payload.asked
    files = reading.captures(captures) if asked.payloads else reading.files(captures)
    kept = None if selection or asked.payloads else reading.answers(files, answers.TABLES)
    known = None if kept is None else answers.from_json(kept.find_answer("summary"))
    if known is not None:
        reading.learn_names(files)
        shown(known)
        return
    with (
        reading.records(files, answers.TABLES, part=selection, asked=asked) as every,
        reading.counted_once(every) as tables,
    ):
        made = answers.summary(tables, cut=selection.cut)
        shown(made)
        said = tables is not every or any(spot.kind == DAMAGED for spot in made.blind)  # beside the answer
    if kept is not None and not said:
        kept.keep_answer("summary", answers.to_json(made))


def show(made: Summary, limit: int | None, where: str = "in these captures") -> None:
    """Print the summary. limit: verdicts at most, None for all; where: what it is of."""
    span = made.span
    if span["first"] is not None:
        printing.show_text(_span(span["first"], span["last"]))
    for row in made.protocols:
        printing.show_text(_protocol(row), lead=f"{row['protocol']:<8}")
    told = {verdict["kind"] for verdict in made.verdicts}
    for spot in made.blind:
        if spot.verdict not in told:
            printing.show_text(str(spot), lead="! ")
    print()
    if not made.protocols:
        print(f"No Kafka, Pulsar or Iggy {where}.")
    if made.verdicts:
        _show_verdicts(made.verdicts, limit)
    elif made.protocols:
        _show_nothing(made)
    if unread := made.judged["unread"]:  # the snap length cut them, or they lie in a gap
        printing.show_text(f"Not judged: {units.counted(unread, 'answer')} whose result could not be read.")
    if made.cut:
        printing.show_text(
            f"Not judged: whether messages were lost or skipped, as what was asked for ({made.cut}) leaves out others."
        )
    if made.slowest:
        print("\nSlowest requests")
        rows = [row | {"status": statuses.marked(row["status"], row["retransmitted"])} for row in made.slowest]
        queued = any(row["queued_ns"] for row in rows)
        printing.show_rows(rows, [field for field in SLOWEST if queued or field.name != "queued_ns"])
    if made.errors:
        print("\nErrors")
        printing.show_rows(made.errors, ERRORS)
        if made.error_kinds > len(made.errors):
            more = units.counted(made.error_kinds - len(made.errors), "more kind")
            printing.show_text(f"and {more}: brokerscope dissect -t errors")


def _show_nothing(made: Summary) -> None:
    """Say that nothing wrong was seen, and in what."""
    judged = made.judged
    nouns = {"answered": "answered request", "sent": "sent batch", "read": "read batch", "right": "right checksum"}
    counts = [units.counted(judged[name], noun) for name, noun in nouns.items() if judged[name]]
    if counts or not judged["unread"]:
        printing.show_text(f"Nothing wrong was seen{' in ' + ', '.join(counts) if counts else ''}.")


def _show_verdicts(verdicts: Sequence[printing.Row], limit: int | None) -> None:
    """Print the first verdicts."""
    worst = verdicts[0]["severity"]
    print("What is wrong" if worst != NOTE else "Nothing wrong was seen; worth knowing:")
    for verdict in verdicts[:limit]:
        printing.show_text(verdict["sentence"], lead=f"{verdict['rank']}. {verdict['severity']}: ")
        who = verdict_words.who(verdict)
        about = ("" if who in verdict["sentence"] else who, verdict_words.when(verdict), verdict_words.cost(verdict),
                 verdict_words.where(verdict))  # fmt: skip
        printing.show_text(" · ".join(part for part in about if part), indent=3)
        shown_whole = limit is None or (verdict["rank"] == 1 and verdict["severity"] == CRITICAL)
        if verdict["detail"] and shown_whole:
            printing.show_text(verdict["detail"], indent=3)
        printing.show_text(verdict["advice"], indent=3)
        if limit is None:
            for link in verdict["chain"]:
                printing.show_text(link["text"], indent=5, lead=f"{link['time']:%H:%M:%S.%f} ")
    rest = len(verdicts) - len(verdicts[:limit])
    if rest:
        print(f"   and {units.counted(rest, 'more verdict')}: --all shows them")


def _span(first: datetime, last: datetime) -> str:
    """From when to when, and how long; the second date only where it is another."""
    end = f"{last:%H:%M:%S}" if last.date() == first.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    return f"{first:%Y-%m-%d %H:%M:%S} to {end} UTC, {units.duration((last - first).total_seconds() * 1e9)}"


def _protocol(row: printing.Row) -> str:
    parts = [
        f"{units.counted(row['connections'], 'connection')} of {units.counted(row['clients'], 'client host')} "
        f"to {units.counted(row['servers'], 'broker')}",
        units.counted(row["exchanges"] or 0, "exchange"),
    ]
    times = [
        f"{name} {units.duration(row[column])}"
        for name, column in (("median", "p50_ns"), ("p99", "p99_ns"), ("slowest", "max_ns"))
        if row[column] is not None
    ]
    if row["decoded"] is not None:
        times.append(f"{units.share(row['decoded'])} decoded")
    return ", ".join([*parts, *times])
