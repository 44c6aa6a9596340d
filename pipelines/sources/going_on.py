"""Decodes what is new of a capture point, from the state in which an earlier micro-batch left it.

    state ─► engine, rows that wait for names ─ new packets ─► rows, and the state behind them
                                                  └ end of the captures, if they end ─► rows of what is open

The same work on the same state makes the same rows, in whatever process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dissectors import records
from dissectors.capture.beginning import Beginning
from dissectors.capture.block import PacketBlock
from dissectors.capture.files import site_of
from dissectors.capture.fragments import Fragments
from dissectors.capture.merge import JOINED_BYTES, Opener, SitePackets, merge
from dissectors.capture.reader import Part, Reader
from dissectors.compiling.saved_state import read_state
from dissectors.engine import Batches, Engine
from dissectors.errors import InputError
from dissectors.findings import UNREADABLE, finding
from dissectors.limits import KIB, Limits
from dissectors.local_decoder import LocalDecoder, Outcome
from dissectors.options import Options
from dissectors.records import Finding
from dissectors.release import DecodedRows, RowRelease, WaitingRows
from dissectors.run import PCAPNG
from dissectors.tcp.flow import Ends
from dissectors.tls import KeyLog
from dissectors.workers import Workers
from pipelines.answers.records import part_of
from pipelines.formats.parquet import ParquetWriter
from pipelines.jobs.cutting import FileReport, report_of
from pipelines.lake.engines import pickled
from pipelines.sources.carried import SiteWork, StreamInput
from pipelines.sources.parts import Asked, PartRun, RowsPart
from pipelines.tables.on_duckdb import LocalEngine

WITHDRAWN = "withdrawn"  # the kind of an exchange that does not hold any more
_MEMORY = "512MB"  # that comparing rows takes, beyond which temporary files
Problems = list[tuple[str, str]]  # kind of finding, message


@dataclass
class SiteRows:
    """What came of a piece of work."""

    rows: list[Path]  # Parquet
    state: bytes | None  # None where it holds what cannot or must not be written
    reports: dict[int, FileReport]  # by the numbers of files
    problems: Problems  # of files that could not be read at all
    open_rows: bytes  # hashes of rows that the end of the captures made
    connections: int  # that are followed


@dataclass
class _State:
    """Where decoding stands."""

    engine: Engine
    fragments: dict[str, Fragments] = field(default_factory=dict)  # by capture point
    waiting: WaitingRows | None = None
    clock: int = 0  # ns

    def packed(self) -> bytes | None:
        """The state as bytes; None where it holds what cannot or must not be written."""
        self.engine.pack()
        return pickled(self.engine, self.fragments, self.waiting, self.clock)


def decode_site(
    work: SiteWork, names: Sequence[str], state: bytes | None, given: bytes, said: Problems, asked: Asked, room: Path
) -> SiteRows:
    """Do a piece of work. room: an empty folder for rows.

    names: of captures, by their numbers. state: of `work.state`. given: hashes of rows that the last end of captures
    made. said: what is said of files that were read before. Raises InputError where a file cannot be read, and that is
    asked to be an error.
    """
    before = _State(*read_state(state)) if state is not None else None
    late = []
    if work.late_until is not None:
        alone = _SiteRun(work, names, None, asked, until=work.late_until, ended=True)
        if before is not None:
            alone.number_on(work.site, before.engine.used(work.site))
        late = [path for path in alone.write(room, "late") if path is not None]
        if before is not None:
            before.engine.number_on(work.site, alone.used)
    run = _SiteRun(work, names, before, asked, after=work.late_until, ended=work.ended, said=said)
    rows, ends = run.write(room, "now")
    withdrawn = None
    if work.known:
        known = _SiteRun(work._replace(inputs=work.known), names, None, asked, ended=bool(given))
        if state is not None:
            known.go_on(_State(*read_state(state)))
        before_rows = [path for path in known.write(room, "known") if path is not None]
        withdrawn = _withdrawn(before_rows, [path for path in (rows, ends) if path is not None], asked, room)
        rows = _less(rows, before_rows, b"", room)
    hashes = _hashes(ends, room)
    if given:
        rows, ends = (_less(path, [], given, room) for path in (rows, ends))
    made = [path for path in (*late, rows, ends, withdrawn) if path is not None]
    problems = [problem for problem in run.problems if problem[0] == UNREADABLE]
    return SiteRows(made, run.packed, run.reports, problems, hashes, run.connections)


class _SiteRun(PartRun):
    """A run over what is new of a capture point."""

    def __init__(
        self,
        work: SiteWork,
        names: Sequence[str],
        before: _State | None,
        asked: Asked,
        *,
        ended: bool,
        until: int | None = None,
        after: int | None = None,
        said: Problems | None = None,
    ) -> None:
        """until, after: only packets up to, or behind, this time (ns)."""
        super().__init__([], RowsPart((), is_all=False), asked)
        self.files = list(names)
        self.reports: dict[int, FileReport] = {}
        self.packed: bytes | None = None
        self.connections = 0
        self.used: list[tuple[Ends, int]] = []
        self._site = work.site
        self._inputs = {one.number: one for one in work.inputs}
        self._ended, self._until, self._after = ended, until, after
        self._said = said or []
        self._is_over = False  # whether rows come of the end of the captures
        self._used_before: list[tuple[str, list[tuple[Ends, int]]]] = []
        (self._table,) = asked.tables
        self.go_on(before)

    def go_on(self, before: _State | None) -> None:
        """Begin where another run ended."""
        self._state = before
        self._release = _Rows(self.options.limits, before.waiting if before else None)
        self._release.ended = self._ended
        self._clock = before.clock if before else 0

    def number_on(self, site: str, used: list[tuple[Ends, int]]) -> None:
        """Count connections on behind these."""
        self._used_before.append((site, used))

    def write(self, room: Path, name: str) -> tuple[Path | None, Path | None]:
        """Write the rows of the table: those of packets, and those of the end of the captures. None without rows."""
        paths = room / f"{name}.parquet", room / f"{name}-end.parquet"
        schema = records.schema(self._table, full=self.options.full, payloads=self.options.payloads)
        counts = [0, 0]
        with paths[0].open("wb") as rows, paths[1].open("wb") as ends:
            writers = [ParquetWriter(schema, stream) for stream in (rows, ends)]
            with part_of(self.records(), self._asked.tables, self._asked.selection) as some:
                for table, batch in some:
                    if table == self._table:
                        batch = self.of_connections(batch)
                        counts[self._is_over] += batch.num_rows
                        writers[self._is_over].write(batch)
            for writer in writers:
                writer.close()
        self.reports |= {reader.file: report_of(reader, self._site, last=True) for reader in self.readers}
        made = [path if count else None for path, count in zip(paths, counts, strict=True)]
        return made[0], made[1]

    # --- as a run asks for it ---

    def release(self) -> RowRelease:
        return self._release

    def reader(self, index: int, path: str, fragments: Fragments) -> Reader:
        one = self._inputs[index]
        try:
            reader = Reader(path, index, self.options.limits, self._part_of(one), fragments, one.size)
        except InputError as error:
            self.reports[index] = FileReport(self._site, path, [(UNREADABLE, str(error))])
            raise
        reader.beginning = Beginning() if one.part is None else None
        return reader

    def select(self, block: PacketBlock) -> PacketBlock | None:
        cut = block if self._until is None else block.cut_at(self._until)[0]
        return None if cut is None else super().select(cut)

    def _sites(self, keylog: KeyLog) -> list[tuple[str, int, Opener]]:
        by_point: dict[str, list[tuple[int, Opener]]] = {}
        fragments = self._state.fragments if self._state else {}
        formats = set()
        for one in self._inputs.values():
            point = site_of(one.path, self.options.site, self.options.joined)
            try:
                first, format = self._first(one)
            except InputError as error:
                self.problems.append((UNREADABLE, str(error)))
                self.reports[one.number] = FileReport(self._site, one.path, [(UNREADABLE, str(error))])
                continue
            formats.add(format)
            read = partial(self._read, one.number, one.path, keylog, fragments.setdefault(point, Fragments()))
            by_point.setdefault(point, []).append((first, read))
        keylog.complete = PCAPNG not in formats
        self._fragments = fragments
        joined_bytes = min(JOINED_BYTES, self.options.limits.block_bytes)
        return [
            (
                point,
                min(map(itemgetter(0), files)),
                partial(merge, files, partial(self._late, fragments[point]), joined_bytes),
            )
            for point, files in sorted(by_point.items())
        ]

    def _decoder(
        self, packets: Iterator[SitePackets], keylog: KeyLog
    ) -> tuple[LocalDecoder | Workers, Iterator[SitePackets]]:
        engine = self._state.engine if self._state else Engine(self.options, self.files, keylog)
        for site, used in self._used_before:
            engine.number_on(site, used)
        self._engine = engine
        return _Decoder(self._ended, self.options, self.files, keylog, engine), packets

    def _decode(self, decoder: LocalDecoder | Workers, packets: Iterator[SitePackets]) -> Iterator[DecodedRows]:
        yield from super()._decode(decoder, (some for some in packets if some.block is not None))
        state = _State(self._engine, self._fragments, self._release.waiting(self._clock), self._clock)
        self.packed, self.connections = state.packed(), self._engine.connections
        self.used = self._engine.used(self._site)
        if self._ended:
            self._is_over = True
            for site in self._engine.sites:
                yield from decoder.end_site(site, self._clock)
            yield from decoder.decode(self._clock)

    def _findings(self) -> list[Finding]:
        """What is to be said of files, once they have ended."""
        return [finding(None, *problem) for problem in self._said] + self._remarks() if self._ended else []

    def _part_of(self, one: StreamInput) -> Part | None:
        """What is read of a file."""
        if self._after is None:
            return one.part
        whole = Part(None, one.size, 1, 0)
        return (one.part or whole)._replace(after=max(self._after, one.part.after if one.part else -1))

    def _first(self, one: StreamInput) -> tuple[int, str]:
        """(time of the first packet that is to be read of a file, ns; its format). Raises InputError."""
        limits = Limits(block_bytes=64 * KIB, packet_bytes=self.options.limits.packet_bytes)
        reader = Reader(one.path, one.number, limits, self._part_of(one), size=one.size)
        raw = next(reader.raw_blocks(), None)
        reader.close()
        return (0 if raw is None or not len(raw) else int(raw.time[0])), reader.format or ""


class _Rows(RowRelease):
    """Rows that wait for a name wait on where the captures go on."""

    ended = False

    def finish(self) -> Batches:
        if self.ended:
            yield from super().finish()


class _Decoder(LocalDecoder):
    """Decodes on; what it says of all captures it says once they have ended."""

    def __init__(self, ended: bool, options: Options, files: list[str], keylog: KeyLog, engine: Engine) -> None:
        super().__init__(options, files, keylog, None, engine)
        self._ended = ended

    def outcome(self) -> Outcome:
        return super().outcome() if self._ended else Outcome()


# --- rows that have been given ---------------------------------------------------------------------------------------


def _less(rows: Path | None, known: Sequence[Path], given: bytes, room: Path) -> Path | None:
    """Rows without as many of those that are known, and without those that were given. given: hashes of rows."""
    if rows is None or not (known or given):
        return rows
    left = rows.with_name(f"{rows.stem}-new.parquet")
    with LocalEngine(str(room), _sources(now=[rows], known=known), room, memory=_MEMORY) as engine:
        engine.add("given", pa.table({"hash": pa.array(np.frombuffer(given, np.uint64))}))
        query = f"select * from {engine.relations['all_now']}"
        if known:
            query += f" except all select * from {engine.relations['all_known']}"
        query = f"select * from ({query}) r where hash(r) not in (select hash from {engine.relations['given']})"
        return left if _copied(engine.stream(query), left) else None


def _withdrawn(known: Sequence[Path], now: Sequence[Path], asked: Asked, room: Path) -> Path | None:
    """Exchanges that were given and are known by another id now, as a late file shows where their connection began."""
    if asked.tables != ("exchanges",) or not known:
        return None
    made = room / "withdrawn.parquet"
    with LocalEngine(str(room), _sources(now=now, known=known), room, memory=_MEMORY) as engine:
        query = f"select k.* replace ('{WITHDRAWN}' as kind) from {engine.relations['all_known']} k"
        if now:
            query += f" anti join {engine.relations['all_now']} n on k.site = n.site and k.exchange_id = n.exchange_id"
        return made if _copied(engine.stream(query), made) else None


def _sources(**rows: Sequence[Path]) -> dict[str, list[str]]:
    return {name: list(map(str, paths)) for name, paths in rows.items() if paths}


def _copied(rows: pa.RecordBatchReader, path: Path) -> int:
    """Write rows as Parquet; returns how many there are."""
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        count = 0
        for batch in rows:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _hashes(rows: Path | None, room: Path) -> bytes:
    """Hashes of rows, by which they are known again."""
    if rows is None:
        return b""
    with LocalEngine(str(room), {"rows": [str(rows)]}, room, memory=_MEMORY) as engine:
        found = engine.fetch(f"select hash(r) as hash from {engine.relations['all_rows']} r")
    return bytes(found.column("hash").to_numpy().astype(np.uint64).tobytes())
