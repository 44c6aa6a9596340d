"""What a capture cannot show, and what to do about it: one line each, for the terminal, `info` and the page.

Connections are counted by what they have in common, and their clocks kept as numbers: what is held grows by 16 bytes a
connection.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dissectors import arrow
from dissectors.arrow import Ints
from dissectors.findings import TRUNCATED, UNREAD_LINK, UNREADABLE
from pipelines.formats import units

LOOKED_AT = {
    "connections": (
        "protocol", "tls", "server_port", "handshake", "closed", "closed_by", "client_packets", "server_packets",
        "client_bytes", "server_bytes", "gap_bytes", "foreign", "cut_bytes", "start_time", "file", "packet",
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
    closed_by: str | None  # who began to close it, though it is open as long as the other side did not follow
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


class Hidden(NamedTuple):
    """Connections of which something cannot be seen."""

    kind: str
    has: Callable[[Alike], object]  # whether a connection is such a one
    of_known: bool  # whether they are counted among those of known protocols, or among all
    text: str  # {of}: `3 of 12 connections`, {ports}: theirs, {missing}: bytes
    advice: str


_HIDDEN = (
    Hidden(
        "tls", lambda c: c.tls and c.client_bytes and c.server_bytes and not (c.known or c.foreign), False,
        "{of} TLS without keys ({ports})", "--keylog FILE reads them",
    ),
    Hidden(
        "loss", lambda c: c.gaps, False,
        "{missing} missing on {of}", "capture with a larger buffer (tcpdump -B 65536)",
    ),
    Hidden(
        "one_way", lambda c: c.known and c.client != c.server, True,
        "{of} seen in one direction only", "no durations there; mirror both directions",
    ),
    Hidden(
        "unknown", lambda c: not (c.known or c.tls or c.foreign) and (c.client_bytes or c.server_bytes), False,
        "{of} of no known protocol ({ports})", "--decode-as PORT=PROTOCOL decodes them as one",
    ),
    Hidden(
        "mid_stream", lambda c: c.known and c.handshake == "none", True,
        "{of} began before the capture", "names that were only sent before it are unknown",
    ),
    Hidden(
        "open_end", lambda c: c.known and c.closed == "open" and not c.closed_by and c.client == c.server, True,
        "{of} still open at the end", "later answers are missing; read the captures that follow too, or --update",
    ),
)  # fmt: skip


class Seen:
    """What is looked at of a capture set, added up."""

    def __init__(self) -> None:
        self.connections: Counter[Alike] = Counter()
        self.missing_bytes = 0
        self.findings: Counter[str] = Counter()  # by kind
        self.cut_bytes = 0  # by a snap length
        self.overflow: Counter[str] = Counter()  # of connections closed early: what full shares report
        self.damaged: list[str] = []  # what is said of each file that was not read, or not whole
        self.unread_links: list[str] = []  # likewise, of packets whose link type is not read
        self.clocks: dict[str, list[tuple[Ints, Ints]]] = {}
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
        named = [column.to_pylist() for column in columns[:12]]
        self.connections.update(map(Alike, *named[:6], *(map(bool, each) for each in named[6:])))
        self.missing_bytes += sum(filter(None, named[10]))
        cut, time, file, packet = columns[12:]
        self.cut_bytes += sum(filter(None, cut.to_pylist()))
        for name, mine in _places(file):
            there = arrow.as_numbers(packet, _NONE)[mine], arrow.as_numbers(time, _NONE)[mine]
            self.clocks.setdefault(name, []).append(there)

    def spots(self, cut_packets: int | None = None) -> list[BlindSpot]:
        """The blind spots. cut_packets: packets kept only in part, where the reader counted them."""
        sealed, *others = map(self._of_connections, _HIDDEN)
        made = (
            self._damaged(), self._unread(), self._closed_early(), sealed, self._cut(cut_packets), *others,
            self._clock(), self._unset_clock(),
        )  # fmt: skip
        return [spot for spot in made if spot is not None]

    def _of_connections(self, hidden: Hidden) -> BlindSpot | None:
        """What cannot be seen of connections of a sort; None where there is none."""
        some = [each for each in self.connections if hidden.has(each)]
        if not some:
            return None
        whole = sum(self.connections[each] for each in self.connections if each.known or not hidden.of_known)
        of = f"{units.count(sum(self.connections[each] for each in some))} of {units.counted(whole, 'connection')}"
        text = hidden.text.format(of=of, ports=self._ports(some), missing=units.size(self.missing_bytes))
        advice = hidden.advice
        if hidden.kind == "tls" and self.findings["not_decrypted"]:
            advice = "the key log does not hold their secrets; give that of the same run"
        return BlindSpot(hidden.kind, text, advice)

    def _ports(self, some: Iterable[Alike]) -> str:
        """The server ports that most have: `port 9093, 9094 …`."""
        ports = Counter[int | None]()
        for each in some:
            ports[each.server_port] += self.connections[each]
        return f"port {_named([str(port) for port, _ in ports.most_common()], ', ')}"

    def _damaged(self) -> BlindSpot | None:
        if not self.damaged:
            return None
        text = f"{units.counted(len(self.damaged), 'file')} not read, or not to the end"
        files = _named(sorted(self.damaged), "; ")
        return BlindSpot(DAMAGED, f"{text} ({files})", "nothing here counts the rest; copy them again")

    def _unread(self) -> BlindSpot | None:
        if not self.unread_links:
            return None
        text = _named(sorted(self.unread_links), "; ")
        return BlindSpot("link_types", text, "what is in them is not known; capture on another interface")

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

    def _cut(self, packets: int | None) -> BlindSpot | None:
        if not packets and not self.cut_bytes:
            return None
        what = f"{units.count(packets)} packets" if packets else f"{units.size(self.cut_bytes)} of packets"
        return BlindSpot(
            "snaplen",
            f"{what} cut short by the snap length",
            "bodies and checksums are incomplete; capture with tcpdump -s 0",
        )

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


def _named(texts: Sequence[str], between: str) -> str:
    """The first NAMED of some texts."""
    return f"{between.join(texts[:NAMED])}{' …' if len(texts) > NAMED else ''}"


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
