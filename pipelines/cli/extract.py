"""`brokerscope extract`: some packets as a capture of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissectors.errors import InputError
from dissectors.redaction import public_path
from pipelines.cli import exits
from pipelines.cli.options import flag, option
from pipelines.cli.output import output
from pipelines.cli.reading import AskedPart, Reading, StoredCaptures, reads_captures, refuse_other_than_text
from pipelines.formats import units

if TYPE_CHECKING:
    from pipelines.answers.extract.packets import During
    from pipelines.answers.extract.wanted import Question

_PLACE = re.compile(r"(?P<file>.*):(?P<packet>[0-9]{1,12})", re.S)


@reads_captures
def extract(
    captures: StoredCaptures,
    reading: Reading,
    part: AskedPart,
    out: Annotated[str, option("-o --output", "OUT.pcapng", "The file to write.")],
    exchange: Annotated[
        str | None, option("--exchange", "ID|FILE:PACKET", "The exchange of this id, or in a packet.")
    ] = None,
    connection: Annotated[
        str | None, option("--connection", "TEXT", "Connections with this in their name: :43210.")
    ] = None,
    finding: Annotated[
        list[str] | None, option("--finding", "KIND", "With findings of this kind: gap. May be repeated.")
    ] = None,
    packets_only: Annotated[
        bool, flag("--packets-only", "Only the packets of the exchanges themselves, not whole conversations.")
    ] = False,
    comments: Annotated[bool, flag("--comments", "With the comments for Wireshark that `annotate` writes.")] = False,
    sanitise: Annotated[
        bool, flag("--sanitise --sanitize", "Replace addresses, names, keys and payloads; all else decodes as before.")
    ] = False,
) -> None:
    """The packets of an exchange, connection, topic, client, group, finding or time as a capture of their own.

    By default the whole TCP conversations in which it occurs; --since and --until keep the packets of that time.
    Without any condition, all packets. TLS secrets in the captures go with the packets, but not with --sanitise.

    --sanitise makes a capture that can be given away: addresses, topics, clients, groups, hosts, keys and payloads are
    replaced, each by the same wherever it occurs and of the same length; checksums are made right again, and one that
    was wrong stays wrong by the same bits. What is not understood is overwritten. docs/extract.md says what is kept.

    \b
    Examples:
      brokerscope extract capture.pcap --topic orders -o orders.pcapng
      brokerscope extract capture.pcap --exchange capture.pcap:17 --packets-only -o one.pcapng
      brokerscope extract captures/ --finding checksum_mismatch --comments -o bad.pcapng
      brokerscope extract capture.pcap --connection :43210 --sanitise -o report.pcapng
    """
    from dissectors.capture.files import expand, site_of
    from dissectors.run import with_sites
    from pipelines.answers import annotate
    from pipelines.answers.extract import capture as answers
    from pipelines.answers.extract.packets import PacketFiles
    from pipelines.answers.extract.wanted import TABLES, lasting, wanted
    from pipelines.answers.sanitise.packets import PacketRewriter
    from pipelines.answers.sanitise.pseudonyms import Pseudonyms
    from pipelines.answers.sanitise.streams import Streams

    if "-" in captures:
        raise typer.BadParameter("the captures are read twice: name files", param_hint="CAPTURE")
    if sanitise and comments:
        raise typer.BadParameter("comments hold names: not with --sanitise", param_hint="--comments")
    named = reading.captures(captures)
    files = expand(named)
    selection = part.selection
    refuse_other_than_text(connection, "--connection")
    question = _question(files, exchange, connection, finding, reading)
    asked = bool(selection or exchange or connection or finding)
    tables = tuple(dict.fromkeys([*TABLES, *(annotate.TABLES if comments else ())]))
    options = with_sites(reading.options(), files)
    with output(out, reading.inputs(files), binary=True) as stream:
        notes: list[dict[int, list[str]]] = []
        chosen = None
        if asked or comments or sanitise:
            with reading.records(named, tables, part=selection) as rows:
                if asked or sanitise:
                    chosen = wanted(rows, question, packets_only=packets_only)
                if comments:
                    notes = [annotate.comments(rows, public_path(path)) for path in files]
        if chosen is not None:
            site = chosen.connections[0]["site"]
            kept = [n for n, path in enumerate(files) if site_of(path, options.site, options.joined) == site]
            files, notes = [files[n] for n in kept], [notes[n] for n in kept] if notes else []
        packets = PacketFiles(files, options.limits, chosen, _during(part.since, part.until))
        lost = 0
        if sanitise and chosen is not None:
            with Streams(Pseudonyms()) as streams:
                streams.read(files, options)
                count = answers.write_sanitised(packets, PacketRewriter(streams, lasting(chosen.connections)), stream)
                lost = streams.lost
        else:
            count = answers.write(packets, notes, stream)
    if not reading.quiet:
        exits.say(f"{units.counted(count, 'packet')}: {out}")
        if sanitise and packets.left_out:
            exits.say(f"brokerscope: {units.counted(packets.left_out, 'packet')} without TCP left out")
        if lost:
            exits.say(
                f"brokerscope: {units.counted(lost, 'compressed batch')} could not be filled to the same length: their "
                "records do not decompress in the output"
            )


def _question(
    files: Sequence[str], exchange: str | None, connection: str | None, findings: list[str] | None, reading: Reading
) -> Question:
    """What is asked for. Raises typer.BadParameter for a finding that does not exist, InputError for a packet."""
    from dissectors.findings import KINDS
    from pipelines.answers import connection as connections
    from pipelines.answers.extract.wanted import Question

    for kind in findings or ():
        if kind not in KINDS:
            raise typer.BadParameter(f"no kind of finding is called {kind!r}: docs/findings.md", param_hint="--finding")
    place = _PLACE.fullmatch(exchange or "")
    if place is None:
        return Question(exchange, None, connection, findings or ())
    path = _file(files, place["file"])
    packet = connections.packet(path, int(place["packet"]), reading.options().limits)
    if packet is None:
        raise InputError(f"{path}: there is no TCP packet {place['packet']}")
    return Question(None, packet, connection, findings or ())


def _file(files: Sequence[str], name: str) -> str:
    """The one file that a name means, as it was given or alone."""
    found = [path for path in files if name in (path, Path(path).name)] if name else list(files)
    if len(found) != 1:
        raise typer.BadParameter(f"{name or 'no name'!r} is none of the captures, or several", param_hint="--exchange")
    return found[0]


def _during(since: str | None, until: str | None) -> During | None:
    """Which packets are of the time asked for; None for all."""
    if since is None and until is None:
        return None
    import pyarrow as pa

    from pipelines.sql.conditions import condition
    from pipelines.sql.where import Filter

    schema = pa.schema([("n", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
    keep = Filter(condition("findings", since=since, until=until) or "true", schema)

    def during(times: Any) -> Any:
        import numpy as np

        rows = [pa.array(np.arange(len(times))), pa.array(times // 1000).cast(pa.timestamp("us", "UTC"))]
        found = np.zeros(len(times), bool)
        found[keep(pa.RecordBatch.from_arrays(rows, schema=schema)).column("n").to_numpy()] = True
        return found

    return during
