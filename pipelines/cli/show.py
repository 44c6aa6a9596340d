"""`brokerscope show`: one exchange with all that is known of it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissectors.errors import InputError
from dissectors.session.protocols import error_meaning
from pipelines.cli import printing
from pipelines.cli.options import flag
from pipelines.cli.reading import AskedPayloads, Reading, exists, reads_captures
from pipelines.formats import statuses, units
from pipelines.formats.grid import terminal_width
from pipelines.formats.outline import outline
from pipelines.payloads.columns import meant

if TYPE_CHECKING:
    from pipelines.answers.connection import ConnectionPacket, DecodedExchange
    from pipelines.tables.causes import TimePart

PLACE = re.compile(r"(?P<file>.+):(?P<packet>[0-9]{1,12})", re.S)
MOST = 5  # exchanges of one packet that are shown whole
HEX_BYTES = 512  # of a packet
MOST_MESSAGES = 100  # of an exchange that are shown


@reads_captures
def show(
    arguments: Annotated[
        list[str], typer.Argument(metavar="FILE:PACKET | EXCHANGE_ID CAPTURE…", help="What to show, and where it is.")
    ],
    reading: Reading,
    payload: AskedPayloads,
    bytes_: Annotated[
        bool, flag("--bytes", "The payload in hex, where a known frame was not decoded and no credentials lie in it.")
    ] = False,
    messages: Annotated[bool, flag("--messages", "Each message of its batches: position, time, sizes.")] = False,
) -> None:
    """One exchange: both bodies, times, verdicts, errors, and the way to it in Wireshark.

    For a packet: the exchanges whose request or response begins in it, or the one that it is a part of. Name
    more captures of the same set if they hold the names of its topics. --bytes adds what was not decoded, in hex.

    \b
    Examples:
      brokerscope show capture.pcap:17
      brokerscope show capture.pcap:17 --bytes
      brokerscope show capture.pcap:17 --messages
      brokerscope show 7b3a887c557f5841-c53 captures/
    """
    from dissectors.capture import expand
    from dissectors.capture.source import STDIN
    from pipelines.answers import connection

    places = [match for match in map(PLACE.fullmatch, arguments) if match and not exists(match[0])]
    ids = [text for text in arguments if not PLACE.fullmatch(text) and not _is_capture(text)]
    captures = [text for text in arguments if text not in ids and not any(text == m[0] for m in places)]
    if len(places) + len(ids) != 1:
        raise typer.BadParameter("name one FILE:PACKET, or one exchange id and its captures", param_hint="FILE:PACKET")
    files = list(dict.fromkeys([*(match["file"] for match in places), *captures]))
    if places and files[0] == STDIN:
        raise typer.BadParameter("the capture is read twice: name a file", param_hint="FILE:PACKET")
    if not files:
        raise typer.BadParameter(f"name the capture that holds {ids[0]}", param_hint="CAPTURE")
    files = files if places else reading.captures(files)
    reading.refuse_records(expand(files))
    if places and Path(files[0]).is_dir():
        raise InputError(f"{files[0]}: a folder: name the file in it that holds the packet")
    options = reading.options()
    read = payload.reader(files, options)
    with reading.records(files, connection.TABLES) as tables:
        found: ConnectionPacket | None = None
        if places:
            file, number = places[0]["file"], int(places[0]["packet"])
            found = connection.packet(file, number, options.limits)
            if found is None:
                raise InputError(f"{file}: there is no TCP packet {number}")
            exchanges = connection.at_packet(tables, found)
            if not exchanges:
                printing.show_text(_without_frame(tables, found))
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
            decoded = connection.decoded(files, options, exchange, messages=messages or payload.payloads, read=read)
            related, times = connection.related(tables, exchange), connection.times(tables, exchange)
            _show(exchange, related, times, decoded, payloads=payload.payloads)
            whole = whole and _is_decoded(exchange, decoded)
        if bytes_ and found is not None and not whole:
            _hex(found, connection.secret_until(tables, found))
        if len(exchanges) > MOST:
            print(f"… and {len(exchanges) - MOST} more in this packet")


def _without_frame(tables: Mapping[str, Any], found: ConnectionPacket) -> str:
    """What a packet is in which no frame lies: one of TCP's own, or one whose bytes mean nothing known."""
    way = f"Packet {found.number}, {found.source} to {found.destination}"
    if found.payload:
        size = units.counted(len(found.payload), "byte")
        return f"{way}, {size}: no request or response was recognised in it."
    ends = {f"{found.source}>{found.destination}", f"{found.destination}>{found.source}"}
    about = f"{way}, {found.flags}: TCP's own, it carries no bytes of a request or response."
    from pipelines.answers.records import query

    row = next(iter(query(tables, "SELECT connection FROM connections WHERE connection IN ?", (sorted(ends),))), None)
    follow = "" if row is None else f" Its connection: `brokerscope follow {found.file} '{row['connection']}'`."
    return about + follow


def _is_capture(text: str) -> bool:
    return exists(text) or "://" in text or bool(re.search(r"[*?\[/]", text))


def _show(
    exchange: Mapping[str, Any],
    related: Mapping[str, Any],
    times: Sequence[tuple[TimePart, int]],
    decoded: DecodedExchange,
    *,
    payloads: bool,
) -> None:
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
        ("id", _ids(exchange)),
    )
    for name, value in facts:
        if value:
            printing.show_text(value, indent=2, lead=f"{name:<12}")
        if name == "took":
            for part, ns in times:
                share = units.share(ns / exchange["total_ns"])
                printing.show_text(f"{units.duration(ns):>9}  {share:>6}  {part.says}", indent=14)
    for batch in related["batches"]:
        _show_batch(batch)
    for error in related["errors"]:
        where = f" {error['topic']}" if error["topic"] else ""
        message = f": {error['message']}" if error["message"] else ""
        meaning = error_meaning(exchange["protocol"], error["code"], error["name"])
        printing.show_text(f"{error['name'] or error['code']} ({error['scope']}{where}){message}", 2, f"{'error':<12}")
        if meaning:
            printing.show_text(meaning, indent=14)
    for finding in related["findings"]:
        printing.show_text(f"{finding['kind']}: {finding['message']}", 2, f"{'finding':<12}")
    for name, body in (("request", decoded.request), ("response", decoded.response)):
        size = exchange[f"{name}_bytes"]
        if body is not None:
            print(f"\n{name}")
            for line in outline(body, terminal_width(), 2):
                print(line)
        elif size:
            print(f"\n{name}: {units.size(size)}, not decoded")
    if decoded.messages:
        print(f"\n{units.counted(len(decoded.messages), 'message')}")
        for each in decoded.messages[:MOST_MESSAGES]:
            _show_message(each, payloads=payloads)
        if len(decoded.messages) > MOST_MESSAGES:
            print(f"  … and {len(decoded.messages) - MOST_MESSAGES} more: `dissect -t messages` has them all")
    packets = [exchange[f"{side}_packet"] for side in ("request", "response")]
    file = exchange["request_file"] or exchange["response_file"]
    _wireshark(file, [n for n in dict.fromkeys(packets) if n is not None], exchange["connection"])


def _show_batch(batch: Mapping[str, Any]) -> None:
    """Where a batch lies, what it holds, and its checksum as stored."""
    position = f" {batch['position']}" if batch["position"] else ""
    partition = "" if batch["partition"] is None else f"[{batch['partition']}]"
    text = (
        f"{batch['topic']}{partition}{position}: {batch['checksum_kind']} {batch['verdict']}, "
        f"{units.counted(batch['records'] or 0, 'record')}, {units.size(batch['stored_bytes'])}"
    )
    printing.show_text(text, indent=2, lead=f"{'batch':<12}")
    unpacked = "" if batch["uncompressed_bytes"] is None else f", {units.size(batch['uncompressed_bytes'])} unpacked"
    stored = f"checksum stored {batch['checksum_stored']}"
    if batch["checksum_computed"] not in (None, batch["checksum_stored"]):
        stored += f", computed {batch['checksum_computed']}"
    facts = (
        batch["format"],
        f"codec {batch['codec']}{unpacked}" if batch["codec"] else None,
        stored if batch["checksum_stored"] else None,
        f"begins in packet {batch['packet']} at byte {batch['stream_offset']} of the stream",
    )
    printing.show_text("; ".join(filter(None, facts)), indent=14)


def _show_message(message: Mapping[str, Any], *, payloads: bool) -> None:
    """A message in one line, and with `payloads` its key, headers and value."""
    partition = "" if message["partition"] is None else f"[{message['partition']}]"
    time = f"{message['timestamp']:%Y-%m-%d %H:%M:%S.%f} UTC" if message["timestamp"] else None
    sizes = (("key", message["key_bytes"]), ("value", message["value_bytes"]))
    facts = (
        time,
        *(f"{name} {'null' if size is None else units.size(size)}" for name, size in sizes),
        units.counted(message["header_count"], "header") if message["header_count"] else None,
        message["state"] and message["state"].replace("_", " "),
    )
    text = f"{message['topic'] or '?'}{partition} {message['position'] or ''}".rstrip()
    printing.show_text(f"{text}: {', '.join(filter(None, facts))}", indent=2)
    for name in ("key", "headers", "value") if payloads else ():
        value = message[name] if name == "headers" else meant(message, name)
        if value is not None and value != "[]":
            printing.show_text(_payload(value), indent=6, lead=f"{name:<9}")

    if payloads and message["schema"] not in (None, "text", "json"):
        printing.show_text(message["schema"], indent=6, lead=f"{'schema':<9}")
    if payloads and message["misfit"]:
        printing.show_text(message["misfit"], indent=6, lead=f"{'misfit':<9}")


def _payload(value: bytes | str) -> str:
    """A key or value as text, or in hex where it is none; of a long one the first bytes."""
    if isinstance(value, str):
        return value
    some, more = value[:HEX_BYTES], len(value) - HEX_BYTES
    try:
        text = some.decode()
    except UnicodeDecodeError:
        text = some.hex(" ")
    return f"{text} … and {units.counted(more, 'byte')} more" if more > 0 else text


def _is_decoded(exchange: Mapping[str, Any], decoded: DecodedExchange) -> bool:
    """Whether the body of every frame is there."""
    sides = ("request", decoded.request), ("response", decoded.response)
    return not any(body is None and exchange[f"{side}_bytes"] for side, body in sides)


def _ids(exchange: Mapping[str, Any]) -> str:
    number = exchange["correlation_id"]
    return f"{exchange['exchange_id']}" + ("" if number is None else f" (correlation id {number})")


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
