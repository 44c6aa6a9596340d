"""What a capture cannot show, and what to do about it: one line each, for the terminal, `info` and the page.

Connections are counted by what they have in common, and their clocks kept as numbers: what is held grows by 16 bytes a
connection.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dissectors import arrow
from dissectors.arrow import Ints
from dissectors.findings import TRUNCATED, UNREAD_LINK, UNREADABLE
from pipelines.formats import units

LOOKED_AT = {
    "connections": (
        "protocol", "tls", "server_port", "handshake", "closed", "client_packets", "server_packets", "client_bytes",
        "server_bytes", "gap_bytes", "foreign", "cut_bytes", "start_time", "file", "packet",
    ),
    "findings": ("kind", "evidence", "message"),
}  # fmt: skip
"""Record table -> the columns that are needed of it."""
YEAR_2000_US = 946_684_800_000_000  # older than any broker: a clock that was not set begins in 1970
STEP_US = 1_000_000  # a clock that goes back by less is the disorder of an ordinary capture
DAMAGED = "damaged"  # kind of what is said of files that were not read, or not whole
NAMED = 3  # ports or files that a line names
_OVERFLOW = {"connections", "running", "packets", "size"}  # in the evidence of connections that were closed early
_NONE = -1  # in a column of numbers: no value


_VERDICTS = {"loss": "capture_loss", "tls": "tls_without_keys", "one_way": "one_direction"}


class BlindSpot(NamedTuple):
    """One thing that cannot be seen."""

    kind: str
    text: str  # what, with numbers
    advice: str  # what to do

    @property
    def verdict(self) -> str | None:
        """The kind of verdict that says the same at more length."""
        return _VERDICTS.get(self.kind)

    def __str__(self) -> str:
        return f"{self.text}: {self.advice}"


class Alike(NamedTuple):
    """What connections are counted by."""

    protocol: str | None
    tls: bool | None
    server_port: int | None
    handshake: str | None
    closed: str | None
    client: bool  # whether packets of the client were captured
    server: bool
    client_bytes: bool  # whether bytes in them were
    server_bytes: bool
    gaps: bool  # whether bytes are missing
    foreign: bool  # whether it is known what else speaks there

    @property
    def known(self) -> bool:
        """Whether it speaks a protocol that is decoded."""
        return self.protocol is not None


@dataclass
class Seen:
    """What is looked at of a capture set, added up."""

    connections: Counter[Alike] = field(default_factory=Counter)
    missing_bytes: int = 0
    findings: Counter[str] = field(default_factory=Counter)  # by kind
    cut_bytes: int = 0  # by a snap length
    overflow: Counter[str] = field(default_factory=Counter)  # of connections closed early: what full shares report
    damaged: list[str] = field(default_factory=list)  # what is said of each file that was not read, or not whole
    unread_links: list[str] = field(default_factory=list)  # likewise, of packets whose link type is not read
    clocks: dict[str, list[tuple[Ints, Ints]]] = field(default_factory=dict)
    """File -> (packet that began a connection, its time in us)."""

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        """Rows of `connections` or `findings`, with at least the columns LOOKED_AT."""
        columns = [batch.column(name) for name in LOOKED_AT[table]]
        if table == "findings":
            kinds, evidence, messages = columns
            for kind, rows in _places(kinds):
                self.findings[kind] += len(rows)
                if kind == "limit":
                    told = map(json.loads, filter(None, arrow.take(evidence, rows).to_pylist()))
                    for counts in (one for one in told if one.keys() >= _OVERFLOW):
                        self.overflow.update({name: counts[name] for name in _OVERFLOW})
                elif kind in (TRUNCATED, UNREADABLE):
                    self.damaged += arrow.take(messages, rows).to_pylist()
                elif kind == UNREAD_LINK:
                    self.unread_links += arrow.take(messages, rows).to_pylist()
            return
        named = [column.to_pylist() for column in columns[:11]]
        self.connections.update(map(Alike, *named[:5], *(map(bool, each) for each in named[5:])))
        self.missing_bytes += sum(filter(None, named[9]))
        cut, time, file, packet = columns[11:]
        self.cut_bytes += sum(filter(None, cut.to_pylist()))
        for name, mine in _places(file):
            there = arrow.as_numbers(packet, _NONE)[mine], arrow.as_numbers(time, _NONE)[mine]
            self.clocks.setdefault(name, []).append(there)

    def spots(self, cut_packets: int | None = None) -> list[BlindSpot]:
        """The blind spots. cut_packets: packets kept only in part, where the reader counted them."""
        made = (
            self._damaged(), self._unread(), self._closed_early(), self._encrypted(), self._cut(cut_packets),
            self._lost(), self._one_way(), self._unknown(), self._headless(), self._unfinished(), self._clock(),
            self._unset_clock(),
        )  # fmt: skip
        return [spot for spot in made if spot is not None]

    def _count(self, some: Iterable[Alike]) -> int:
        return sum(self.connections[each] for each in some)

    def _of(self, some: Iterable[Alike], all_: Iterable[Alike]) -> str:
        """`3 of 12 connections`."""
        whole = self._count(all_)
        return f"{units.count(self._count(some))} of {units.counted(whole, 'connection')}"

    def _ports(self, some: Iterable[Alike]) -> str:
        """The server ports that most have: `port 9093, 9094 …`."""
        ports = Counter[int | None]()
        for each in some:
            ports[each.server_port] += self.connections[each]
        most = [port for port, _ in ports.most_common(NAMED + 1)]
        return f"port {', '.join(map(str, most[:NAMED]))}{' …' if len(most) > NAMED else ''}"

    def _damaged(self) -> BlindSpot | None:
        if not self.damaged:
            return None
        more = " …" if len(self.damaged) > NAMED else ""
        text = f"{units.counted(len(self.damaged), 'file')} not read, or not to the end"
        files = "; ".join(sorted(self.damaged)[:NAMED])
        return BlindSpot(DAMAGED, f"{text} ({files}{more})", "nothing here counts the rest; copy them again")

    def _unread(self) -> BlindSpot | None:
        if not self.unread_links:
            return None
        more = " …" if len(self.unread_links) > NAMED else ""
        text = "; ".join(sorted(self.unread_links)[:NAMED])
        return BlindSpot("link_types", f"{text}{more}", "what is in them is not known; capture on another interface")

    def _closed_early(self) -> BlindSpot | None:
        if not self.overflow["connections"]:
            return None
        closed, packets = (units.counted(self.overflow[f"{name}s"], name) for name in ("connection", "packet"))
        text = (
            f"{closed} given up before their end, as more were open at once than the limit allows: "
            f"{units.count(self.overflow['running'])} had not ended, and {packets} of them, "
            f"{units.size(self.overflow['size'])}, were left out"
        )
        return BlindSpot("closed_early", text, "--limit flows=NUMBER allows more, if there is memory")

    def _encrypted(self) -> BlindSpot | None:
        sealed = [
            each
            for each in self.connections
            if each.tls and each.client_bytes and each.server_bytes and not (each.known or each.foreign)
        ]
        if not sealed:
            return None
        text = f"{self._of(sealed, self.connections)} TLS without keys ({self._ports(sealed)})"
        if self.findings["not_decrypted"]:
            return BlindSpot("tls", text, "the key log does not hold their secrets; give that of the same run")
        return BlindSpot("tls", text, "--keylog FILE reads them")

    def _cut(self, packets: int | None) -> BlindSpot | None:
        if not packets and not self.cut_bytes:
            return None
        what = f"{units.count(packets)} packets" if packets else f"{units.size(self.cut_bytes)} of packets"
        return BlindSpot(
            "snaplen",
            f"{what} cut short by the snap length",
            "bodies and checksums are incomplete; capture with tcpdump -s 0",
        )

    def _lost(self) -> BlindSpot | None:
        lost = [each for each in self.connections if each.gaps]
        if not lost:
            return None
        text = f"{units.size(self.missing_bytes)} missing on {self._of(lost, self.connections)}"
        return BlindSpot("loss", text, "capture with a larger buffer (tcpdump -B 65536)")

    def _one_way(self) -> BlindSpot | None:
        known = [each for each in self.connections if each.known]
        deaf = [each for each in known if each.client != each.server]
        if not deaf:
            return None
        text = f"{self._of(deaf, known)} seen in one direction only"
        return BlindSpot("one_way", text, "no durations there; mirror both directions")

    def _unknown(self) -> BlindSpot | None:
        strange = [
            each
            for each in self.connections
            if not (each.known or each.tls or each.foreign) and (each.client_bytes or each.server_bytes)
        ]
        if not strange:
            return None
        text = f"{self._of(strange, self.connections)} of no known protocol ({self._ports(strange)})"
        return BlindSpot("unknown", text, "--decode-as PORT=PROTOCOL decodes them as one")

    def _headless(self) -> BlindSpot | None:
        known = [each for each in self.connections if each.known]
        begun = [each for each in known if each.handshake == "none"]
        if not begun:
            return None
        text = f"{self._of(begun, known)} began before the capture"
        return BlindSpot("mid_stream", text, "names that were only sent before it are unknown")

    def _unfinished(self) -> BlindSpot | None:
        known = [each for each in self.connections if each.known]
        unfinished = [each for each in known if each.closed == "open" and each.client == each.server]  # else: _one_way
        if not unfinished:
            return None
        text = f"{self._of(unfinished, known)} still open at the end"
        return BlindSpot("open_end", text, "later answers are missing; read the captures that follow too, or --update")

    def _clock(self) -> BlindSpot | None:
        backward = [step for parts in self.clocks.values() for step in _steps_back(parts)]
        if not backward:
            return None
        times = f"{units.counted(len(backward), 'time')}, by {units.duration(max(backward) * 1000)} at most"
        text = f"the capture's clock went back {times}"
        return BlindSpot("clock", text, "durations across a step are unknown; use NTP")

    def _unset_clock(self) -> BlindSpot | None:
        early = sorted(
            name for name, parts in self.clocks.items() if any(((t >= 0) & (t < YEAR_2000_US)).any() for _, t in parts)
        )
        if not early:
            return None
        more = " …" if len(early) > 1 else ""
        text = f"{units.counted(len(early), 'file')} from before 2000 ({early[0]}{more})"
        return BlindSpot(
            "unset_clock", text, "the clock was not set; rates over all time mislead, --since 2000-01-01 helps"
        )


def _places(names: pa.Array) -> Iterator[tuple[str, Ints]]:
    """Each name in a column with the rows that have it; rows without a name are of none."""
    coded = arrow.numbered(names)
    codes = arrow.as_numbers(coded.indices, _NONE)
    order = np.argsort(codes, kind="stable")
    begins = np.searchsorted(codes[order], np.arange(len(coded.dictionary) + 1))
    for name, begin, end in zip(coded.dictionary.to_pylist(), begins, begins[1:], strict=False):
        yield name, order[begin:end]


def _steps_back(parts: Sequence[tuple[Ints, Ints]]) -> Iterator[int]:
    """By how many us a file's clock went back, each time that it did by more than STEP_US.

    parts: of the file's connections, the packets that they began with and the times of these.
    """
    packets, times = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    known = (packets != _NONE) & (times != _NONE)
    packets, times = packets[known], times[known]
    times = times[np.argsort(packets, kind="stable")]
    if not (np.maximum.accumulate(times) - times > STEP_US).any():
        return
    latest, *rest = times.tolist()
    for time in rest:
        if latest - time > STEP_US:
            yield latest - time
            latest = time
        else:
            latest = max(latest, time)
