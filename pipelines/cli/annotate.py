"""`brokerscope annotate`: the capture with comments that Wireshark shows."""

from __future__ import annotations

from typing import Annotated

import typer

from dissectors.redaction import public_path
from pipelines.cli import exits
from pipelines.cli.options import option
from pipelines.cli.output import output
from pipelines.cli.reading import AskedPart, Reading, reads_captures


@reads_captures
def annotate(
    capture: Annotated[str, typer.Argument(metavar="CAPTURE", help="One capture file.")],
    reading: Reading,
    part: AskedPart,
    out: Annotated[str, option("-o --output", "OUT.pcapng", "The file to write.")],
) -> None:
    """The capture as pcapng with a comment on each packet in which a request or a response begins.

    A comment holds api, topic, duration, status, bad checksums and findings; a frame of several packets has it on the
    first. Packets, times and lengths stay as they are; options that ask for a part choose what has comments. In
    Wireshark: frame.comment contains "bad checksum".

    \b
    Examples:
      brokerscope annotate capture.pcap -o annotated.pcapng
      tshark -r annotated.pcapng -Y 'frame.comment contains "NOT_LEADER"'
    """
    from pipelines.answers import annotate as answers
    from pipelines.answers import pcapng_comments
    from pipelines.answers.records import part_of, queryable

    if capture == "-":
        raise typer.BadParameter("the capture is read twice: name a file", param_hint="CAPTURE")
    selection = part.selection
    options = reading.options(selection.tables(answers.TABLES))
    with reading.run(reading.captures([capture]), options) as run:
        if len(run.files) != 1:
            raise typer.BadParameter(f"{capture} is {len(run.files)} files: name one", param_hint="CAPTURE")
        with output(out, reading.inputs(run.files), binary=True) as stream:
            with (
                part_of(reading.noting(run.records(), selection), answers.TABLES, selection) as rows,
                queryable(rows, answers.TABLES) as tables,
            ):
                comments = answers.comments(tables, public_path(run.files[0]))
            packets = pcapng_comments.write(run.files[0], comments, stream, options.limits)
        if not reading.quiet:
            exits.say(f"{packets} packets, {len(comments)} of them with comments: {out}")
