"""Joins the layers: blocks of packets in, rows out, in bounded memory.

The local path (`run`), each of its processes (`workers`) and every Spark partition run this engine.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple

import pyarrow as pa

from dissectors.capture.block import PacketBlock
from dissectors.capture.source import open_raw
from dissectors.errors import InputError
from dissectors.findings import finding
from dissectors.limits import KIB, SHARES, Limits
from dissectors.options import Options
from dissectors.records import Finding
from dissectors.rows.late_names import Name
from dissectors.rows.sink import Sink
from dissectors.session.connection import ConnectionSession
from dissectors.session.protocols import protocols
from dissectors.tcp.flow import Ends
from dissectors.tcp.keys import key_of, share_of
from dissectors.tcp.tracker import Overflow, Tracker
from dissectors.tls import KeyLog

Share = tuple[str, int]  # site, number of a share of its connections
Batches = Iterator[tuple[str, pa.RecordBatch]]
_STEP = 250  # connections closed before their rows may be taken away
_PACKET_BYTES = 64  # what a packet weighs beside its payload, where blocks hold no headers


class Decoded(NamedTuple):
    """What an engine made of its packets since the last time."""

    batches: list[tuple[str, pa.RecordBatch]]
    names: list[Name]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(batch.nbytes for _, batch in self.batches)


class Pace:
    """When to decode: seldom, so that much is decoded together; but soon at first, so that rows come at once.

    Each time four times as much is fed as the time before, up to `Limits.decode_bytes`.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = limits.decode_bytes
        self._fed = 0
        self._waiting = 0

    def due(self, size: int, *, now: bool = False) -> bool:
        """Whether to decode now that so many bytes more have been fed; `now` in any case."""
        self._fed += size
        self._waiting += size
        if not now and self._waiting < min(self._most, self._fed * 3 // 4):
            return False
        self._waiting = 0
        return True


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Rows are many, long-lived and free of cycles: looking for garbage among them every 700 objects costs a third."""
    before = gc.get_threshold()
    _make_old()  # what imports have left
    gc.set_threshold(1_000_000, 50, 100)
    try:
        yield
    finally:
        _make_old()
        gc.set_threshold(*before)


def _make_old() -> None:
    """Move young objects to the oldest generation, which is searched seldom."""
    gc.freeze()
    gc.unfreeze()


def read_keylog(options: Options) -> KeyLog:
    """The TLS secrets that the user named, if any. Raises InputError."""
    keylog = KeyLog()
    if options.keylog is not None:
        try:
            with open_raw(options.keylog) as file:
                text = file.read()
        except OSError as error:
            raise InputError(f"{options.keylog}: cannot be read: {error}") from error
        if not keylog.add(text) and any(not line.startswith(b"#") for line in text.split(b"\n") if line.strip()):
            raise InputError(f"{options.keylog}: holds no TLS secrets in NSS key log format")
    return keylog


class Engine:
    """Packets to rows. Feed each site its packets in time order."""

    def __init__(self, options: Options, files: list[str], keylog: KeyLog | None = None) -> None:
        """files: the list that the packets' file index refers to; it may grow."""
        self.options = options
        self.sink = Sink(
            options.tables,
            full=options.full,
            bodies_of=options.bodies_of,
            payloads=options.payloads,
            coded=options.coded,
            limits=options.limits,
        )
        self.sink.files = files
        self.keylog = read_keylog(options) if keylog is None else keylog
        self.overflow: dict[Share, Overflow] = defaultdict(Overflow)
        self._protocols = protocols()
        self._trackers: dict[str, Tracker] = {}
        self._news: set[str] = set()  # sites of which packets have come since the last step of decoding
        self._fed: dict[ConnectionSession, None] = {}  # those with something to decode, in order
        self._ended: list[ConnectionSession] = []  # those to close when that is decoded
        self._held: dict[ConnectionSession, int] = {}  # bytes that wait for the rest of their frame

    def feed(self, site: str, block: PacketBlock, clock: int | None = None) -> None:
        """Take packets of a site, to be decoded later. clock: the time (ns) that its capture has come to."""
        self._news.add(site)
        self._deliver(site, self._tracker(site).feed(block, clock))

    def number_on(self, site: str, used: Iterable[tuple[Ends, int]]) -> None:
        """Count connections of a site on behind incarnations that there are rows of already."""
        self._tracker(site).number_on(used)

    def used(self, site: str) -> list[tuple[Ends, int]]:
        """(endpoints, incarnation) of the last connection of a site between each two: what `number_on` takes."""
        return list(self._trackers[site].used()) if site in self._trackers else []

    @property
    def sites(self) -> list[str]:
        """Those that have not ended."""
        return list(self._trackers)

    @property
    def connections(self) -> int:
        """How many are followed, at all sites."""
        return sum(map(len, self._trackers.values()))

    def _tracker(self, site: str) -> Tracker:
        tracker = self._trackers.get(site)
        if tracker is None:
            shared = (self.options, self.sink, self.keylog, self._protocols, *self._protocols)
            tracker = self._trackers[site] = Tracker(self.options.limits, shared)
        return tracker

    def end_site(self, site: str) -> Iterator[None]:
        """A site has no more packets: close what is open there. Pauses now and then, for rows to be taken away."""
        self._advance()
        tracker = self._trackers.get(site)
        if tracker is None:
            return
        ending = tracker.finish()
        while some := list(islice(ending, _STEP)):
            self._deliver(site, iter(some))
            self._advance()
            yield
        del self._trackers[site]
        for share, overflow in tracker.overflow.items():
            self.overflow[site, share] = Overflow.total((self.overflow[site, share], overflow))
        if tracker.forgotten and "findings" in self.sink.tables:
            message = (
                f"{tracker.forgotten} pieces of streams were not kept to compare retransmissions with: "
                f"more than recent_bytes, {self.options.limits.recent_bytes}, came within seconds"
            )
            self.sink.findings.append(finding(None, "limit", message))

    def end(self) -> Iterator[None]:
        """Close what is open at all sites. Pauses now and then, for rows to be taken away."""
        for site in list(self._trackers):
            yield from self.end_site(site)

    def take(self) -> Decoded:
        """The rows and names of what was decoded since the last time."""
        return Decoded(list(self.take_rows()), self.sink.take_names())

    def take_rows(self) -> Batches:
        """The rows of what was decoded since the last time."""
        yield from self.sink.drain()

    def _deliver(self, site: str, flows: Iterator[tuple[Any, bool]]) -> None:
        """Bring what the flows delivered to their conversations."""
        for flow, ended in flows:
            session = flow.session
            if session is None:
                session = flow.session = ConnectionSession(
                    site, flow, self._protocols, self.sink, self.options, self.keylog
                )
            if not ended or flow.has_news:
                session.deliver()
                self._fed[session] = None
            if ended:
                if flow.given_up and not session.recognised:
                    share = site, share_of(key_of(flow.ends))
                    self.overflow[share] = Overflow.total((self.overflow[share], Overflow(unrecognised=1)))
                flow.session = None
                self._ended.append(session)

    def decode(self) -> None:
        """Let each protocol decode what was brought to its conversations; keep idle connections as bytes."""
        self._advance()
        for site in self._news & self._trackers.keys():
            self._trackers[site].pack(self._held)
        self._news.clear()

    def _advance(self) -> None:
        """Let each protocol decode what was brought to its conversations, then close those that have ended."""
        held, fed = self._held, self._fed
        self._fed = {}
        for session in fed:
            if session.conversation is not None:
                session.conversation.advance()
                session.conversation.resends.shorten()
            size = session.held
            if size > KIB:
                held[session] = size
            elif held:
                held.pop(session, None)
        for session in self._ended:
            session.end()
            session.close()
            held.pop(session, None)
        self._ended.clear()
        if sum(held.values()) > self.options.limits.memory_bytes // 2:
            self._shed()

    def pack(self) -> None:
        """Keep all connections as bytes that can be, as the state of an engine is written and read soonest."""
        for tracker in self._trackers.values():
            tracker.pack_all(self._held)

    def packed(self, site: str) -> Mapping[bytes, bytes]:
        """The connections of a site that are kept as bytes, by their keys: the same object until a packet comes."""
        tracker = self._trackers.get(site)
        return {} if tracker is None else tracker.packed

    def leave_out(self, site: str, keys: Iterable[bytes]) -> None:
        """Let go of packed connections of a site, which get no end."""
        if site in self._trackers:
            self._trackers[site].leave_out(keys)

    def _shed(self) -> None:
        """Connections hold too much: those that hold most give up what is not whole, until a quarter is free."""
        total = sum(self._held.values())
        for session, size in sorted(self._held.items(), key=lambda item: -item[1]):
            if total <= self.options.limits.memory_bytes * 3 // 8:
                break
            session.shed()
            total += session.held - size
            self._held[session] = session.held


def overflowing(overflows: Mapping[Share, Overflow], limits: Limits) -> list[Finding]:
    """Findings about connections that were closed early: one for each share that was full."""
    found = []
    for (_, share), overflow in sorted(overflows.items()):
        connections, running, unrecognised, packets, size = overflow
        message = (
            f"{connections} connections were closed early: in one of {SHARES} shares, by address, of {limits.flows} "
            f"connections, more were open at once than fit. {running} of them had not ended, {unrecognised} were not "
            f"recognised yet; {packets} packets that came later, with {size} bytes, were left out"
        )
        found.append(finding(None, "limit", message, share=share, **overflow._asdict()))
    return found


def decode(blocks: Iterable[tuple[str, PacketBlock]], options: Options, files: list[str]) -> tuple[Engine, Batches]:
    """Decode blocks of several sites; names stay tokens, reported in the engine's `sink.names`.

    `files` is the list that the blocks' file index refers to; it may grow while blocks are read.
    """
    engine = Engine(options, files)
    return engine, chain(decode_all(engine, blocks), end_all(engine))


def decode_all(engine: Engine, blocks: Iterable[tuple[str, PacketBlock]]) -> Batches:
    """What an engine makes of blocks; behind it nothing waits to be decoded, and the engine can be pickled."""
    sink, pace = engine.sink, Pace(engine.options.limits)
    with fewer_collections():
        for site, block in blocks:
            engine.feed(site, block)
            if pace.due(len(block.buffer) + _PACKET_BYTES * len(block)):
                engine.decode()
            if sink.rows() >= engine.options.limits.rows:
                yield from sink.drain()
        engine.decode()
        yield from sink.drain()


def end_all(engine: Engine) -> Batches:
    """What an engine makes of the end of its captures."""
    sink, limits = engine.sink, engine.options.limits
    with fewer_collections():
        for _ in engine.end():
            if sink.rows() >= limits.rows:
                yield from sink.drain()
        sink.findings.extend(overflowing(engine.overflow, limits))
        yield from sink.drain()
