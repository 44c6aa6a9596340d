"""Joins the floors: paths to record batches, in bounded memory.

Engine   blocks of packets in, rows in a sink: what the local path and every Spark partition run
Run      paths in, Arrow record batches out: files sorted into sites, merged by time, late names put in
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from dissectors.capture.block import PacketBlock
from dissectors.capture.files import expand, site_of
from dissectors.capture.merge import merge
from dissectors.capture.reader import Reader
from dissectors.capture.source import open_raw
from dissectors.errors import InputError
from dissectors.limits import KIB, Limits
from dissectors.options import Options
from dissectors.protocols import protocols
from dissectors.records import Finding
from dissectors.session import Session
from dissectors.sink import Names, Sink, Suspect, has_tokens, resolve
from dissectors.tcp.tracker import Tracker
from dissectors.tls import KeyLog

Batches = Iterator[tuple[str, pa.RecordBatch]]
PCAPNG, UNKNOWN = "pcapng", ""  # formats of files
ORDERED_BY = {"connections": "start_time"}  # the other tables: time


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Rows are many, long-lived and free of cycles: looking for garbage among them every 700 objects costs a third."""
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, 50, 100)
    try:
        yield
    finally:
        gc.freeze()  # what is young is now old: it is not searched just because the threshold is low again
        gc.unfreeze()
        gc.set_threshold(*before)


class Engine:
    """Packets to rows. Feed each site its packets in time order."""

    def __init__(self, options: Options, sink: Sink) -> None:
        self.options = options
        self.sink = sink
        self._protocols = protocols()
        self._trackers: dict[str, Tracker] = {}
        self._fed: dict[Session, None] = {}  # those with something to decode, in order
        self._ended: list[Session] = []  # those to close when that is decoded
        self._undecoded = 0  # bytes of blocks
        self._held: dict[Session, int] = {}  # bytes that wait for the rest of their frame
        self.keylog = KeyLog()
        if options.keylog is not None:
            try:
                self.keylog.add(open_raw(options.keylog).read())
            except OSError as error:
                raise InputError(f"{options.keylog}: cannot be read: {error}") from error

    def feed(self, site: str, block: PacketBlock) -> None:
        """Take a block of a site."""
        tracker = self._trackers.get(site)
        if tracker is None:
            tracker = self._trackers[site] = Tracker(self.options.limits)
        self._deliver(site, tracker.feed(block))
        self._undecoded += len(block.buffer)
        if self._undecoded >= self.options.limits.decode_bytes:
            self._decode()

    def finish(self) -> Iterator[None]:
        """No site has more packets: close what is open. Pauses now and then, for rows to be taken away."""
        self._decode()
        for site, tracker in self._trackers.items():
            ending = tracker.finish()
            while some := list(islice(ending, 1000)):
                self._deliver(site, iter(some))
                self._decode()
                yield
            if tracker.evicted:
                self.sink.findings.append(
                    Finding(
                        None,
                        "limit",
                        "warning",
                        message=f"{tracker.evicted} idle connections were closed early: more than "
                        f"{self.options.limits.flows} at once",
                    )
                )
        self._trackers.clear()

    def _deliver(self, site: str, flows: Iterator[tuple[Any, bool]]) -> None:
        """Bring what the flows delivered to their conversations."""
        for flow, ended in flows:
            session = flow.session
            if session is None:
                session = flow.session = Session(site, flow, self._protocols, self.sink, self.options, self.keylog)
            if not ended or flow.has_news:
                session.deliver()
                self._fed[session] = None
            if ended:
                flow.session = None
                self._ended.append(session)

    def _decode(self) -> None:
        """Let each protocol decode what was brought to its conversations, then close those that have ended."""
        held, fed = self._held, self._fed
        self._fed, self._undecoded = {}, 0
        for protocol in self._protocols:
            protocol.advance([s.talk for s in fed if s.protocol is protocol and s.talk is not None])
        for session in fed:
            size = session.held
            if size > KIB:
                held[session] = size
            elif held:
                held.pop(session, None)
        for session in self._ended:
            session.close()
            held.pop(session, None)
        self._ended.clear()
        if sum(held.values()) > self.options.limits.memory_bytes // 2:
            self._shed()

    def _shed(self) -> None:
        """Connections hold too much: those that hold most give up what is not whole, until a quarter is free."""
        total = sum(self._held.values())
        for session, size in sorted(self._held.items(), key=lambda item: -item[1]):
            if total <= self.options.limits.memory_bytes * 3 // 8:
                break
            session.shed()
            total += session.held - size
            self._held[session] = session.held


class Run:
    """One pass over a set of captures.

    After `records` is exhausted, `problems` lists the files that could not be read whole, and `readers` tells what each
    file held.
    """

    def __init__(self, paths: Sequence[str], options: Options, progress: Callable[[int], None] | None = None) -> None:
        """progress is called with the bytes of input read so far. Raises InputError where nothing can be read."""
        self.options = options
        self.problems: list[tuple[str, str]] = []
        self.readers: list[Reader] = []
        self.suspects: list[Suspect] | None = None  # a list where bad checksums are to be looked into
        self.files = expand(paths)
        self._progress = progress

    def records(self) -> Batches:
        """Record batches of the wanted tables, as they fill; names that are told later in the set are put in."""
        with fewer_collections():
            yield from self._records()

    def _records(self) -> Batches:
        sink = Sink(self.options.tables, full=self.options.full, payloads=self.options.payloads)
        sink.suspects = self.suspects
        engine = Engine(self.options, sink)
        spool = _Spool(self.options.limits)
        for site, blocks in self._sites(sink, engine.keylog):
            for block in blocks:
                engine.feed(site, block)
                if self._progress is not None:
                    self._progress(sum(reader.position for reader in self.readers))
                if sink.rows() >= self.options.limits.rows:
                    yield from spool.sort(sink.drain())
        for _ in engine.finish():
            if sink.rows() >= self.options.limits.rows:
                yield from spool.sort(sink.drain())
        self._tell_problems(sink)
        yield from spool.sort(sink.drain())
        yield from spool.resolved(Names(sink.names))

    def _sites(self, sink: Sink, keylog: KeyLog) -> Iterator[tuple[str, Iterator[PacketBlock]]]:
        """(site, its packets in time order), one site after the other."""
        by_site: dict[str, list[tuple[int, Callable[[], Iterator[PacketBlock]]]]] = {}
        formats = set()
        for index, path in enumerate(self.files):
            sink.files.append(path)
            try:
                first, format = peek(path, self.options.limits) if len(self.files) > 1 else (0, UNKNOWN)
                formats.add(format)
            except InputError as error:
                self.problems.append((path, str(error)))
                continue
            site = site_of(path, self.options.site)
            by_site.setdefault(site, []).append((first, lambda i=index, p=path: self._read(i, p, keylog)))  # type: ignore[misc]
        keylog.complete = not formats & {UNKNOWN, PCAPNG}
        for site in sorted(by_site):
            yield site, merge(by_site[site])

    def _read(self, index: int, path: str, keylog: KeyLog) -> Iterator[PacketBlock]:
        try:
            reader = Reader(path, index, self.options.limits)
        except InputError as error:
            self.problems.append((path, str(error)))
            return
        self.readers.append(reader)
        if len(self.files) == 1:
            keylog.complete = reader.format != PCAPNG
        for block in chain(reader.blocks(), (None,)):
            while reader.notes.secrets:  # a pcapng file may carry its own key log, also behind its last packet
                keylog.add(reader.notes.secrets.pop())
            if block is not None:
                yield block
        if reader.problem:
            self.problems.append((path, reader.problem))

    def _tell_problems(self, sink: Sink) -> None:
        readable = {reader.path for reader in self.readers}
        if self.problems and not readable:
            raise InputError("; ".join(message for _, message in self.problems))
        for path, message in self.problems:
            kind, severity = ("truncated_file", "warning") if path in readable else ("unreadable_file", "error")
            sink.findings.append(Finding(None, kind, severity, message=message))
        for reader in self.readers:
            for kind, message in reader.remarks():
                sink.findings.append(Finding(None, kind, "warning", message=message))


def peek(path: str, limits: Limits) -> tuple[int, str]:
    """(time of a file's first packet, ns; its format); 0 for a file without packets. Standard input is not touched."""
    if path == "-":
        return 0, UNKNOWN
    reader = Reader(path, 0, Limits(block_bytes=64 * KIB, packet_bytes=limits.packet_bytes))
    raw = reader.raw_blocks()
    block = next(raw, None)
    raw.close()  # type: ignore[attr-defined]
    return int(block.time[0]) if block is not None else 0, reader.format or UNKNOWN


class _Spool:
    """Holds back batches in which a name is still unknown: in memory, and beyond a limit in a temporary file."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.spill_bytes
        self._held: list[tuple[str, pa.RecordBatch]] = []
        self._size = 0
        self._files: dict[str, tuple[Any, Any]] = {}

    def sort(self, batches: Batches) -> Batches:
        """Pass on the finished ones, in time order; keep the others."""
        for table, batch in batches:
            batch = batch.sort_by(ORDERED_BY.get(table, "time"))
            if has_tokens(batch):
                self._hold(table, batch)
            else:
                yield table, batch

    def _hold(self, table: str, batch: pa.RecordBatch) -> None:
        self._held.append((table, batch))
        self._size += batch.nbytes
        if self._size > self._limit:
            for name, held in self._held:
                if name not in self._files:
                    file = tempfile.TemporaryFile()  # noqa: SIM115 (closed in resolved)
                    self._files[name] = (file, pa.ipc.new_stream(file, held.schema))
                self._files[name][1].write_batch(held)
            self._held, self._size = [], 0

    def resolved(self, names: Names) -> Batches:
        """The batches that were kept, with their names."""
        for table, (file, writer) in self._files.items():
            writer.close()
            file.seek(0)
            for batch in pa.ipc.open_stream(file):
                yield table, resolve(batch, names)
            file.close()
        for table, batch in self._held:
            yield table, resolve(batch, names)


def decode(blocks: Iterable[tuple[str, PacketBlock]], options: Options, files: list[str]) -> tuple[Engine, Batches]:
    """Decode blocks of several sites; names stay tokens, told in the engine's `sink.names`.

    `files` is the list that the blocks' file index refers to; it may grow while blocks are read.
    """
    sink = Sink(options.tables, full=options.full, payloads=options.payloads)
    sink.files = files
    engine = Engine(options, sink)

    def run() -> Batches:
        with fewer_collections():
            for site, block in blocks:
                engine.feed(site, block)
                if sink.rows() >= options.limits.rows:
                    yield from sink.drain()
            for _ in engine.finish():
                if sink.rows() >= options.limits.rows:
                    yield from sink.drain()
            yield from sink.drain()

    return engine, run()
