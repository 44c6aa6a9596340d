"""What a capture cannot show, and what to do about it: one line each, for the terminal, `info` and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.formats import units

LOOKED_AT = {
    "connections": (
        "protocol", "tls", "server_port", "client_bytes", "server_bytes", "gap_bytes", "handshake", "start_time",
        "file", "packet",
    ),
    "findings": ("kind", "evidence"),
}  # fmt: skip
"""Record table -> the columns that are needed of it."""
STEP_US = 1_000_000  # a clock that goes back by less is the disorder of an ordinary capture
NAMED = 3  # ports that a line names


class BlindSpot(NamedTuple):
    """One thing that cannot be seen."""

    kind: str
    text: str  # what, with numbers
    advice: str  # what to do

    def __str__(self) -> str:
        return f"{self.text}: {self.advice}"


def blind_spots(
    connections: pa.Table, findings: pa.Table | None = None, cut_packets: int | None = None
) -> list[BlindSpot]:
    """The blind spots of a capture set, from its records.

    connections, findings: at least the columns LOOKED_AT; findings where they are at hand. cut_packets: packets that
    the capture kept only in part, where the reader counted them.
    """
    rows = connections.select(list(LOOKED_AT["connections"])).to_pylist()
    kinds = Counter[str]() if findings is None else _kinds(findings)
    made = (
        _encrypted(rows, kinds),
        _cut(cut_packets, kinds),
        _lost(rows, kinds, cut_packets),
        _one_way(rows),
        _unknown(rows),
        _headless(rows),
        _clock(rows),
    )
    return [spot for spot in made if spot is not None]


Rows = list[dict[str, Any]]


def _kinds(findings: pa.Table) -> Counter[str]:
    """How many findings there are of a kind; of gaps, how many a snap length made."""
    import pyarrow.compute as pc  # it takes a while

    kinds = Counter(findings.column("kind").to_pylist())
    gaps = findings.filter(pc.equal(findings.column("kind"), "gap"))
    kinds["snaplen"] = sum('"snaplen"' in (text or "") for text in gaps.column("evidence").to_pylist())
    return kinds


def _encrypted(rows: Rows, kinds: Mapping[str, int]) -> BlindSpot | None:
    sealed = [row for row in rows if row["tls"] and row["protocol"] is None]
    if not sealed:
        return None
    text = f"{_of(sealed, rows)} TLS without keys ({_ports(sealed)})"
    if kinds.get("not_decrypted"):
        return BlindSpot("tls", text, "the key log does not hold their secrets; give that of the same run")
    return BlindSpot("tls", text, "--keylog FILE reads them")


def _cut(packets: int | None, kinds: Mapping[str, int]) -> BlindSpot | None:
    if packets:
        text = f"{units.count(packets)} packets cut short by the snap length"
    elif kinds.get("snaplen"):
        text = f"{units.count(kinds['snaplen'])} places cut short by the snap length"
    else:
        return None
    return BlindSpot("snaplen", text, "bodies and checksums are incomplete; capture with tcpdump -s 0")


def _lost(rows: Rows, kinds: Mapping[str, int], cut_packets: int | None) -> BlindSpot | None:
    lost = [row for row in rows if row["gap_bytes"]]
    by_snaplen = kinds["snaplen"] == kinds["gap"] if "gap" in kinds else bool(cut_packets)
    if not lost or by_snaplen:
        return None
    size = units.size(sum(row["gap_bytes"] for row in lost))
    return BlindSpot("loss", f"{size} missing on {_of(lost, rows)}", "capture with a larger buffer (tcpdump -B 65536)")


def _one_way(rows: Rows) -> BlindSpot | None:
    known = [row for row in rows if row["protocol"] is not None]
    deaf = [row for row in known if bool(row["client_bytes"]) != bool(row["server_bytes"])]
    if not deaf:
        return None
    return BlindSpot(
        "one_way", f"{_of(deaf, known)} seen in one direction only", "no durations there; mirror both directions"
    )


def _unknown(rows: Rows) -> BlindSpot | None:
    strange = [
        row
        for row in rows
        if row["protocol"] is None and not row["tls"] and (row["client_bytes"] or 0) + (row["server_bytes"] or 0)
    ]
    if not strange:
        return None
    return BlindSpot(
        "unknown",
        f"{_of(strange, rows)} of no known protocol ({_ports(strange)})",
        "--decode-as PORT=PROTOCOL if you know better",
    )


def _headless(rows: Rows) -> BlindSpot | None:
    known = [row for row in rows if row["protocol"] is not None]
    begun = [row for row in known if row["handshake"] == "none"]
    if not begun:
        return None
    return BlindSpot(
        "mid_stream", f"{_of(begun, known)} began before the capture", "names learnt earlier may be missing"
    )


def _clock(rows: Rows) -> BlindSpot | None:
    """Connections in the order of their first packets: the clock went back where a later one began earlier."""
    latest: dict[str, Any] = {}
    steps, worst = 0, 0
    placed = (row for row in rows if row["packet"] is not None and row["start_time"] is not None)
    for row in sorted(placed, key=lambda row: (row["file"] or "", row["packet"])):
        before = latest.get(row["file"])
        back = 0 if before is None else round((before - row["start_time"]).total_seconds() * 1e6)
        if back > STEP_US:
            steps, worst = steps + 1, max(worst, back)
        if before is None or row["start_time"] > before or back > STEP_US:
            latest[row["file"]] = row["start_time"]
    if not steps:
        return None
    times = f"{steps} time{'s' if steps > 1 else ''}, by {units.duration(worst * 1000)} at most"
    return BlindSpot("clock", f"the capture's clock went back {times}", "durations across a step are unknown; use NTP")


def _of(some: Rows, all_: Rows) -> str:
    """`3 of 12 connections`."""
    return f"{units.count(len(some))} of {units.count(len(all_))} connection{'s' if len(all_) != 1 else ''}"


def _ports(rows: Iterable[Mapping[str, Any]]) -> str:
    """The server ports that most rows have: `port 9093, 9094 …`."""
    ports = [port for port, _ in Counter(row["server_port"] for row in rows).most_common(NAMED + 1)]
    named = ", ".join(map(str, ports[:NAMED]))
    return f"port {named}{' …' if len(ports) > NAMED else ''}"
