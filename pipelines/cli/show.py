"""`brokerscope show`: one exchange with all that is known of it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissectors.errors import InputError
from pipelines.cli import printing
from pipelines.cli.reading import Reading, exists, reads_captures
from pipelines.formats import statuses, units
from pipelines.formats.grid import terminal_width
from pipelines.formats.outline import outline

if TYPE_CHECKING:
    from pipelines.answers.connection import ConnectionPacket

_PLACE = re.compile(r"(?P<file>.+):(?P<packet>[0-9]{1,12})", re.S)
MOST = 5  # exchanges of one packet that are shown whole
HEX_BYTES = 512  # of a packet


@reads_captures
def show(
    arguments: Annotated[
        list[str], typer.Argument(metavar="FILE:PACKET | EXCHANGE_ID CAPTURE…", help="What to show, and where it is.")
    ],
    reading: Reading,
    bytes_: Annotated[
        bool,
        typer.Option(
            "--bytes", help="The payload in hex, where a known frame was not decoded and no credentials lie in it."
        ),
    ] = False,
) -> None:
    """One exchange: both bodies, times, verdicts, errors, and the way to it in Wireshark.

    For a packet: the exchanges whose request or response begins in it, or the one that it is a part of. Name
    more captures of the same set if they hold the names of its topics. --bytes adds what was not decoded, in hex.

    \b
    Examples:
      brokerscope show capture.pcap:17
      brokerscope show capture.pcap:17 --bytes
      brokerscope show 7b3a887c557f5841-c53 captures/
    """
    from dissectors.capture import expand
    from dissectors.capture.source import STDIN
    from pipelines.answers import connection

    places = [match for match in map(_PLACE.fullmatch, arguments) if match and not exists(match[0])]
    ids = [text for text in arguments if not _PLACE.fullmatch(text) and not _is_capture(text)]
    captures = [text for text in arguments if text not in ids and not any(text == m[0] for m in places)]
    if len(places) + len(ids) != 1:
        raise typer.BadParameter("name one FILE:PACKET, or one exchange id and its captures", param_hint="FILE:PACKET")
    files = list(dict.fromkeys([*(match["file"] for match in places), *captures]))
    if places and files[0] == STDIN:
        raise typer.BadParameter("the capture is read twice: name a file", param_hint="FILE:PACKET")
    if not files:
        raise typer.BadParameter(f"name the capture that holds {ids[0]}", param_hint="CAPTURE")
    reading.refuse_records(expand(files))
    if places and Path(files[0]).is_dir():
        raise InputError(f"{files[0]}: a folder: name the file in it that holds the packet")
    options = reading.options()
    with reading.records(files, connection.TABLES) as tables:
        found: ConnectionPacket | None = None
        if places:
            file, number = places[0]["file"], int(places[0]["packet"])
            found = connection.packet(file, number, options.limits)
            if found is None:
                raise InputError(f"{file}: packet {number} is not there, or no TCP packet")
            exchanges = connection.at_packet(tables, found)
            if not exchanges:
                printing.show_text(
                    f"Packet {number}, {found.source} to {found.destination}, {len(found.payload)} bytes: no request "
                    "or response was recognised in it."
                )
                _findings(tables, found.file, number)
                if bytes_:
                    _hex(found, math.inf)  # no frame says what these bytes are
                _wireshark(found.file, [number], f"{found.source}>{found.destination}")
                return
        else:
            exchanges = connection.by_id(tables, ids[0])
            if not exchanges:
                raise InputError(f"no exchange {ids[0]} in these captures")
        whole = True
        for exchange in exchanges[:MOST]:
            request, response = connection.bodies(files, options, exchange)
            _show(exchange, connection.related(tables, exchange), request, response)
            whole = whole and _is_decoded(exchange, request, response)
        if bytes_ and found is not None and not whole:
            _hex(found, connection.secret_until(tables, found))
        if len(exchanges) > MOST:
            print(f"… and {len(exchanges) - MOST} more in this packet")


def _is_capture(text: str) -> bool:
    return exists(text) or "://" in text or bool(re.search(r"[*?\[/]", text))


def _show(exchange: Mapping[str, Any], related: Mapping[str, Any], request: Any, response: Any) -> None:
    version = "" if exchange["version"] is None else f" v{exchange['version']}"
    status = statuses.status(exchange)
    kind = "" if exchange["kind"] == "call" else f", {exchange['kind']}"
    printing.show_text(f"{exchange['protocol']} {exchange['api'] or '?'}{version}: {status}{kind}")
    facts = (
        ("time", f"{exchange['time']:%Y-%m-%d %H:%M:%S.%f} UTC" if exchange["time"] else None),
        ("took", _durations(exchange)),
        ("connection", exchange["connection"]),
        ("client", exchange["client_id"]),
        ("group", exchange["group"]),
        ("topics", ", ".join(exchange["topics"] or [])),
        ("request", _frame(exchange, "request")),
        ("response", _frame(exchange, "response")),
        ("id", f"{exchange['exchange_id']} (correlation id {exchange['correlation_id']})"),
    )
    for name, value in facts:
        if value:
            printing.show_text(value, indent=2, lead=f"{name:<12}")
    for batch in related["batches"]:
        position = f" {batch['position']}" if batch["position"] else ""
        partition = "" if batch["partition"] is None else f"[{batch['partition']}]"
        text = (
            f"{batch['topic']}{partition}{position}: {batch['checksum_kind']} {batch['verdict']}, "
            f"{units.counted(batch['records'] or 0, 'record')}, {units.size(batch['stored_bytes'])}"
        )
        printing.show_text(text, indent=2, lead=f"{'batch':<12}")
    for error in related["errors"]:
        where = f" {error['topic']}" if error["topic"] else ""
        message = f": {error['message']}" if error["message"] else ""
        printing.show_text(f"{error['name'] or error['code']} ({error['scope']}{where}){message}", 2, f"{'error':<12}")
    for finding in related["findings"]:
        printing.show_text(f"{finding['kind']}: {finding['message']}", 2, f"{'finding':<12}")
    for name, body in (("request", request), ("response", response)):
        size = exchange[f"{name}_bytes"]
        if body is not None:
            print(f"\n{name}")
            for line in outline(body, terminal_width(), 2):
                print(line)
        elif size:
            print(f"\n{name}: {units.size(size)}, not decoded")
    packets = [exchange[f"{side}_packet"] for side in ("request", "response")]
    file = exchange["request_file"] or exchange["response_file"]
    _wireshark(file, [n for n in dict.fromkeys(packets) if n is not None], exchange["connection"])


def _is_decoded(exchange: Mapping[str, Any], request: Any, response: Any) -> bool:
    """Whether the body of every frame is there."""
    return not any(
        body is None and exchange[f"{side}_bytes"] for side, body in (("request", request), ("response", response))
    )


def _durations(exchange: Mapping[str, Any]) -> str:
    names = (("total_ns", "in all"), ("wait_ns", "waiting for the answer"), ("queued_ns", "of it behind others"))
    parts = [f"{units.duration(exchange[c])} {what}" for c, what in names if exchange[c]]
    return ", ".join([*parts, statuses.BYTES_RETRANSMITTED] if exchange["retransmitted"] else parts)


def _frame(exchange: Mapping[str, Any], side: str) -> str | None:
    if exchange[f"{side}_packet"] is None:
        return None
    size = units.size(exchange[f"{side}_bytes"])
    return f"{size}, begins in packet {exchange[f'{side}_packet']} of {Path(exchange[f'{side}_file']).name}"


def _hex(packet: ConnectionPacket, secret_until: float) -> None:
    """The payload of a packet, sixteen bytes a line."""
    print(f"\npacket {packet.number}: {units.counted(len(packet.payload), 'byte')} of payload")
    if packet.number <= secret_until:
        print("  not shown: credentials may lie in it")
        return
    for at in range(0, min(len(packet.payload), HEX_BYTES), 16):
        some = packet.payload[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in some)
        print(f"  {at:04x}  {some.hex(' '):<47}  {text}")
    if len(packet.payload) > HEX_BYTES:
        print("  …")


def _findings(tables: Mapping[str, Any], file: str, packet: int) -> None:
    from pipelines.answers.records import query

    for row in query(tables, "SELECT kind, message FROM findings WHERE file = ? AND packet = ?", (file, packet)):
        printing.show_text(f"{row['kind']}: {row['message']}", indent=2)


def _wireshark(file: str, packets: list[int], connection: str) -> None:
    """The lines that show the same in tshark and Wireshark; to be copied, so not wrapped."""
    ends = [end.rpartition(":") for end in connection.split(">")]
    stream = " && ".join(
        f"{'ipv6' if ip.startswith('[') else 'ip'}.addr=={ip.strip('[]')} && tcp.port=={port}" for ip, _, port in ends
    )
    frames = (
        f"frame.number=={packets[0]}" if len(packets) == 1 else f"frame.number in {{{', '.join(map(str, packets))}}}"
    )
    print("\nin Wireshark")
    printing.show_line(f"  tshark -r {shlex.quote(file)} -V -Y '{frames}'")
    printing.show_line(f"  {stream}")
    print()
