"""`brokerscope messages`: single messages by what they hold."""

from __future__ import annotations

from typing import Annotated

from pipelines.cli import printing
from pipelines.cli.options import option
from pipelines.cli.printing import PLACE, WHEN, PrintedField
from pipelines.cli.reading import (
    AskedPart,
    AskedPayloads,
    Captures,
    Reading,
    TextOrJson,
    reads_captures,
    refuse_other_than_text,
)

FIELDS = (
    *WHEN,
    PrintedField("protocol", once=True, need=6),
    PrintedField("role"),
    PrintedField("topic", once=True),
    PrintedField("partition", "code", need=1),
    PrintedField("position"),
    PrintedField("client_ip", head="client", need=3),
    PrintedField("group", need=4),
    PrintedField("timestamp", "clock", head="written", need=5),
    PrintedField("key_bytes", "bytes", need=2),
    PrintedField("value_bytes", "bytes"),
    *PLACE,
)
PAYLOADS = tuple(PrintedField(name, "payload", below=True) for name in ("key", "headers", "value"))


@reads_captures
def messages(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    payload: AskedPayloads,
    key: Annotated[str | None, option("--key", "TEXT", "Only messages with this key.")] = None,
    header: Annotated[str | None, option("--header", "NAME[=VALUE]", "Only messages with this header.")] = None,
    offset: Annotated[
        str | None, option("--offset", "N|POSITION", "Only this offset, or Pulsar's ledger:entry.")
    ] = None,
    partition: Annotated[int | None, option("--partition", "N", "Only this partition.")] = None,
    grep: Annotated[
        str | None, option("--grep", "REGEX", "Only messages of which key, value or a header matches (RE2).")
    ] = None,
    head: Annotated[int, option("--head --limit-rows", "N", "Maximum number of messages.", min=1)] = 100,
    format: TextOrJson = "text",
) -> None:
    """The messages with a key, a header, an offset or a text: who wrote and who read each, when and where.

    A message stands there once for each time that it was captured: as it was produced, and as each consumer got it.
    Keys and values are compared, but shown only with --payloads; credentials stay hidden.

    \b
    Examples:
      brokerscope messages capture.pcap --topic orders --key order-7
      brokerscope messages capture.pcap --topic orders --partition 3 --offset 4711 --payloads
      brokerscope messages capture.pcap --header trace=4f1c
      brokerscope messages capture.pcap --grep '"customer": *17'
    """
    from pipelines.answers import messages as answers
    from pipelines.payloads.columns import meant

    for name, value in (("--key", key), ("--header", header), ("--offset", offset), ("--grep", grep)):
        refuse_other_than_text(value, name)
    number, position = (None, None) if offset is None else answers.position_of(offset)
    wanted = answers.MessageFilter(key, header, number, position, partition, grep)
    shows = payload.shown_fields()
    read = AskedPayloads(payloads=payload.payloads or wanted.reads_payloads, schemas=payload.schemas)
    files = reading.captures(captures)  # no OUT has messages
    with reading.records(files, ("messages",), asked=read, part=part.selection) as tables:
        rows = answers.matching(tables, wanted, most=head + 1)
    shown = [answers.with_fields(row, shows) for row in rows[:head]] if shows else rows[:head]
    hidden = () if payload.payloads else answers.PAYLOADS
    if format == "json":
        printing.show_json({name: value for name, value in row.items() if name not in hidden} for row in shown)
    elif not rows:
        printing.show_text(f"No such message in {part.selection.looked_at}.")
    else:
        parts = ("key", "value") if payload.payloads else ()
        texts = [{**row, **{part: meant(row, part) for part in parts}} for row in shown]
        printing.show_rows(texts, [*FIELDS, *(PAYLOADS if payload.payloads else ())])
    if len(rows) > head and not reading.quiet and format == "text":
        printing.show_text(f"the first {head}: --head shows more")
