"""`brokerscope info`: what is in these files."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissectors.redaction import public_path
from pipelines.cli.reading import AskedPart, Captures, Reading, TextOrJson, reads_captures
from pipelines.pandas_guard import without_pandas
from pipelines.sql.words import REFUSED, SILENT

if TYPE_CHECKING:
    import pyarrow as pa

    from dissectors.capture.reader import Reader
    from dissectors.run import Run


TABLES = ("connections", "findings")
FAILED = {"refused": REFUSED, "without an answer": SILENT}
"""How an attempt to connect fails -> the condition on `connections`."""
TCP = ("retransmissions", "duplicates", "out_of_order", "gaps", "gap_bytes", "zero_windows")
"""Columns of `connections` that are summed up."""
LISTED = 20  # files of which the text says everything


@reads_captures
def info(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    format: TextOrJson = "text",
) -> None:
    """What is in these files: format, span, packets, connections, protocols, and what cannot be seen in them.

    \b
    Examples:
      brokerscope info capture.pcap
      brokerscope info captures/ -f json
    """
    from pipelines.answers.records import part_of

    without_pandas()
    selection = part.selection
    options = reading.options(selection.tables(TABLES))
    with (
        reading.run(reading.captures(captures), options) as run,
        part_of(reading.noting(run.records(), selection), TABLES, selection) as rows,
    ):
        summary = gather(run, rows)
        if format == "json":
            print(json.dumps(summary, ensure_ascii=True))
        else:
            for line in lines(summary):
                print(line)


def gather(run: Run, rows: Iterable[tuple[str, pa.RecordBatch]]) -> dict[str, Any]:
    """Everything that `info` shows, as plain values: times ISO 8601, spans in ns, sizes in bytes.

    rows: the connections and findings of the run that count.
    """
    from pipelines.tables.blind_spots import Seen

    protocols: dict[str, collections.Counter[str]] = {}
    software: dict[str, set[str]] = {}
    findings: collections.Counter[str] = collections.Counter()
    tcp: collections.Counter[str] = collections.Counter(dict.fromkeys(TCP, 0))
    round_trips: list[int] = []
    handshakes: list[int] = []
    tls: collections.Counter[str] = collections.Counter(connections=0, resumed=0)
    tls_versions: set[str] = set()
    connects = collections.Counter[str]()
    seen = Seen()
    for table, batch in rows:
        seen.add(table, batch)
        if table == "findings":
            findings.update(f"{severity} {kind}" for severity, kind in _columns(batch, "severity", "kind"))
            continue
        for name in TCP:
            tcp[name] += sum(count or 0 for count in batch.column(name).to_pylist())
        round_trips += [ns for ns in batch.column("rtt_ns").to_pylist() if ns is not None]
        for is_tls, version, took, resumed in _columns(batch, "tls", "tls_version", "tls_handshake_ns", "tls_resumed"):
            if is_tls:
                tls.update(connections=1, resumed=bool(resumed))
                tls_versions.update([version] if version else [])
                handshakes += [] if took is None else [took]
        names = ("protocol", "client_bytes", "server_bytes", "frames", "gap_bytes", "dialect")
        shares = ("framed_bytes", "skipped_bytes", "pending_bytes")
        for protocol, client, server, frames, gaps, dialect, *bytes_of in _columns(batch, *names, *shares):
            counts = protocols.setdefault(protocol or "other", collections.Counter())
            counts.update(
                connections=1,
                captured_bytes=(client or 0) + (server or 0),
                frames=frames or 0,
                lost_bytes=gaps or 0,
                **{name: count or 0 for name, count in zip(shares, bytes_of, strict=True)},
            )
            if dialect:
                software.setdefault(protocol or "other", set()).add(dialect)
        connects.update(_failed_connects(batch))
        for protocol, name, version in _columns(batch, "protocol", "client_software", "client_version"):
            if name:
                software.setdefault(protocol or "other", set()).add(f"{name} {version or ''}".strip())
    cut = sum(reader.census.cut for reader in run.readers)
    import statistics  # with fractions and decimals: nothing that every command should load

    return {
        "files": [_file(reader) for reader in sorted(run.readers, key=lambda r: r.file)],
        "protocols": {name: {**protocols[name], "seen": sorted(software.get(name, ()))} for name in sorted(protocols)},
        "failed_connects": {how: connects[how] for how in FAILED},
        "tcp": {**tcp, "rtt_ns": statistics.median_low(round_trips) if round_trips else None},
        "tls": {
            **tls,
            "versions": sorted(tls_versions),
            "handshake_ns": statistics.median_low(handshakes) if handshakes else None,
        },
        "findings": dict(sorted(findings.items())),
        "blind_spots": [spot._asdict() for spot in seen.spots(cut)],
    }


def _failed_connects(connections: pa.RecordBatch) -> dict[str, int]:
    """How many attempts to connect failed, by how: the keys of FAILED, where there are any."""
    import pyarrow as pa

    from pipelines.answers.records import query

    if "partial" not in connections.column("handshake").to_pylist():
        return {}  # none failed, and the database need not start
    counts = ", ".join(f'count(*) FILTER ({which}) AS "{how}"' for how, which in FAILED.items())
    return query({"connections": pa.Table.from_batches([connections])}, f"SELECT {counts} FROM connections")[0]


def _columns(batch: Any, *names: str) -> Any:
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _file(reader: Reader) -> dict[str, Any]:
    census, notes = reader.census, reader.notes
    path = Path(reader.path)
    return {
        "file": public_path(reader.path),
        "format": reader.format,
        "compression": reader.compression,
        "bytes": path.stat().st_size if path.is_file() else None,
        "packets": census.packets,
        "packet_bytes": census.bytes,
        "tcp_packets": census.tcp,
        "tcp_payload_bytes": census.tcp_payload,
        "cut_packets": census.cut,
        "fragments": census.fragments,
        "first_time": _iso(census.first_ns),
        "last_time": _iso(census.last_ns),
        "span_ns": None if census.first_ns is None else (census.last_ns or 0) - census.first_ns,
        "link_types": reader.link_names,
        "unread_link_types": reader.unread_links,
        "dropped_packets": getattr(notes, "drops", None),
        "problem": reader.problem,
    }


def _iso(ns: int | None) -> str | None:
    if ns is None:
        return None
    try:
        second = datetime.fromtimestamp(ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):  # a damaged file may hold any time
        return None
    return f"{second:%Y-%m-%dT%H:%M:%S}.{ns % 1_000_000_000 // 1000:06}Z"


# --- for people ------------------------------------------------------------------------------------------------------


def lines(summary: dict[str, Any]) -> list[str]:
    """The text form."""
    from pipelines.formats import units
    from pipelines.formats.grid import terminal_width
    from pipelines.formats.plain import clean, hanging

    out: list[str] = []

    def fact(name: str, value: str) -> None:
        out.append(f"  {name:<13}{value}")

    for file in summary["files"][:LISTED]:
        out.append(file["file"])
        form = file["format"] + (f", {file['compression']}" if file["compression"] else "")
        size = f", {units.size(file['bytes'])}" if file["bytes"] is not None else ""
        fact("format", f"{form}{size}")
        fact("link type", ", ".join(file["link_types"]) or "no packets")
        if file["first_time"]:
            fact("span", f"{file['first_time']} to {file['last_time']} ({units.duration(file['span_ns'])})")
        packets = f"{units.count(file['packets'])} ({units.size(file['packet_bytes'])} on the wire)"
        fact("packets", f"{packets}, {units.count(file['tcp_packets'])} of them TCP")
        for unread in file["unread_link_types"]:
            fact("not read", unread)
        if file["cut_packets"]:
            fact("cut short", f"{units.count(file['cut_packets'])} packets by the capture's snap length")
        if file["fragments"]:
            fact("fragments", units.count(file["fragments"]))
        if file["dropped_packets"]:
            fact("dropped", f"{units.count(file['dropped_packets'])} packets, says the capture itself")
        if file["problem"]:
            fact("problem", file["problem"])
        out.append("")
    if len(summary["files"]) > LISTED:
        out += [_of_others(summary["files"][LISTED:]), ""]
    for name, counts in summary["protocols"].items():
        known = counts["framed_bytes"] + counts["skipped_bytes"] + counts["pending_bytes"]  # of TLS: what was inside
        coverage = units.share(counts["framed_bytes"] / known) if known else ""
        connections = units.counted(counts["connections"], "connection")
        if name == "other":
            failed = [f"{units.count(n)} {how}" for how, n in summary["failed_connects"].items() if n]
            out.append(f"{name:<8} {', '.join([connections, units.size(counts['captured_bytes']), *failed])}")
            continue
        out.append(
            f"{name:<8} {connections}, {units.size(counts['captured_bytes'])}"
            + f", {units.counted(counts['frames'], 'frame')}"
            + (f", {coverage} decoded" if coverage else "")
            + (f", {units.size(counts['lost_bytes'])} lost" if counts["lost_bytes"] else "")
        )
        if counts["seen"]:
            out.append(f"{'':<9}{', '.join(counts['seen'])}")
    tcp = summary["tcp"]
    if summary["protocols"]:
        names = {name: name.replace("_", " ") for name in TCP if name != "gap_bytes"}
        seen = [
            units.counted(tcp[name], text[:-1]) if text.endswith("s") else f"{units.count(tcp[name])} {text}"
            for name, text in names.items()
        ]
        lost = f" ({units.size(tcp['gap_bytes'])})" if tcp["gap_bytes"] else ""
        rtt = f", {units.duration(tcp['rtt_ns'])} round trip (median)" if tcp["rtt_ns"] is not None else ""
        out += ["", f"{'tcp':<8} {', '.join(seen[:4])}{lost}, {seen[4]}{rtt}"]
    tls = summary["tls"]
    if tls["connections"]:
        took = tls["handshake_ns"]
        facts = [
            units.counted(tls["connections"], "connection"),
            *tls["versions"],
            *([] if took is None else [f"{units.duration(took)} handshake (median)"]),
            *([f"{units.count(tls['resumed'])} resumed"] if tls["resumed"] else []),
        ]
        out += ["", f"{'tls':<8} {', '.join(facts)}"]
    if summary["findings"]:
        listed = ", ".join(f"{units.count(n)} {kind}" for kind, n in summary["findings"].items())
        out += ["", f"findings {listed}"]
    for spot in summary["blind_spots"]:
        out += ["", f"! {spot['text']}: {spot['advice']}"]
    return [line for long in out for line in hanging(clean(long), terminal_width())]


def _of_others(files: Sequence[Mapping[str, Any]]) -> str:
    """What the text says of the files beyond those that it lists: one sentence."""
    from pipelines.formats import units

    packets, size, tcp = (sum(file[name] for file in files) for name in ("packets", "packet_bytes", "tcp_packets"))
    problems = sum(file["problem"] is not None for file in files)
    whole = f", {units.count(problems)} of them not read whole" if problems else ""
    firsts, lasts = ([file[name] for file in files if file[name]] for name in ("first_time", "last_time"))
    span = f", {min(firsts)} to {max(lasts)}" if firsts else ""
    return (
        f"and {units.counted(len(files), 'more file')}{whole}: {units.count(packets)} packets ({units.size(size)} on "
        f"the wire), {units.count(tcp)} of them TCP{span}; -f json says this of each"
    )
