"""One pass over a set of captures: paths in, Arrow record batches out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from dissectors.capture.block import PacketBlock
from dissectors.capture.files import expand, site_of
from dissectors.capture.fragments import Fragments
from dissectors.capture.merge import JOINED_BYTES, Opener, SitePackets, interleave, merge
from dissectors.capture.reader import Reader
from dissectors.capture.sites import joined_sites
from dissectors.engine import Batches, Decoded, Pace, fewer_collections, overflowing, read_keylog
from dissectors.errors import InputError
from dissectors.findings import TRUNCATED, UNREADABLE, finding
from dissectors.limits import KIB, Limits
from dissectors.local_decoder import LocalDecoder, can_share, cores
from dissectors.options import Options
from dissectors.records import Finding
from dissectors.release import DecodedRows, RowRelease
from dissectors.rows.sink import Suspect, to_batch
from dissectors.tls import KeyLog

if TYPE_CHECKING:
    from dissectors.workers import Workers

PCAPNG, UNKNOWN = "pcapng", ""  # formats of files


class Run:
    """One pass over a set of captures.

    After `records` is exhausted, `problems` lists the files that could not be read whole, and `readers` tells what each
    file held.
    """

    def __init__(self, paths: Sequence[str], options: Options, progress: Callable[[int], None] | None = None) -> None:
        """progress is called with the bytes of input read so far. Raises InputError where nothing can be read."""
        self.files = expand(paths)
        self.options = with_sites(options, self.files)
        self.problems: list[tuple[str, str]] = []  # kind of finding, message
        self.readers: list[Reader] = []
        self._open: list[Reader] = []
        self._read_whole = 0  # bytes of files that are read
        self.suspects: list[Suspect] | None = None  # a list where bad checksums are to be looked into
        self.sums: Counter[tuple[str, str]] = Counter()  # of compressed data, as other processes have counted them
        self._progress = progress
        self._secrets: list[bytes] = []  # TLS key logs met in files, for who decodes
        self._clock = 0

    def select(self, block: PacketBlock) -> PacketBlock | None:
        """The packets of a block that the run looks at: all. A subclass may choose."""
        return block

    def reader(self, index: int, path: str, fragments: Fragments) -> Reader:
        """What reads a file. A subclass may choose. Raises InputError for what is no capture."""
        return Reader(path, index, self.options.limits, fragments=fragments)

    def release(self) -> RowRelease:
        """What holds rows back until their names are known. A subclass may choose."""
        return RowRelease(self.options.limits)

    def records(self) -> Batches:
        """Record batches of the wanted tables, each in time order, as they become complete."""
        with fewer_collections():
            yield from self._records()

    def _records(self) -> Batches:
        keylog = read_keylog(self.options)
        packets = interleave(self._sites(keylog))
        rows = self.release()
        decoder, packets = self._decoder(packets, keylog)
        with closing(decoder):
            for release in self._decode(decoder, packets):
                yield from rows.take(release)
            outcome = decoder.outcome()
        if self.suspects is not None:
            self.suspects[:] = outcome.suspects
        self.sums.update(outcome.sums)
        findings = self._findings() + overflowing(outcome.overflow, self.options.limits) + refusal(rows)
        if findings and "findings" in self.options.tables:
            last = Decoded([("findings", to_batch("findings", findings, self.files, coded=self.options.coded))], [])
            yield from rows.take(DecodedRows(self._clock, [last]))
        yield from rows.finish()

    def _decoder(
        self, packets: Iterator[SitePackets], keylog: KeyLog
    ) -> tuple[LocalDecoder | Workers, Iterator[SitePackets]]:
        """Who decodes, and all the packets: as many processes as are asked for, if the captures are worth them."""
        jobs = self.options.jobs or cores()
        head: list[SitePackets] = []
        size = 0
        while jobs > 1 and can_share() and size < self.options.limits.parallel_bytes:
            some = next(packets, None)
            if some is None:
                break
            head.append(some)
            size += len(some.block.buffer) if some.block is not None else 0
            if self._paused:
                break
        given = (self.options, self.files, keylog, self.suspects)
        worth = size >= self.options.limits.parallel_bytes and jobs > 1
        if not worth:
            return LocalDecoder(*given), chain(head, packets)
        from dissectors.workers import Workers  # with multiprocessing

        return Workers(jobs, *given), chain(head, packets)

    def _decode(self, decoder: LocalDecoder | Workers, packets: Iterator[SitePackets]) -> Iterator[DecodedRows]:
        """Feed the decoder; what it makes."""
        pace = Pace(self.options.limits)
        for site, block, self._clock in packets:
            while self._secrets:
                yield from decoder.add_secrets(self._secrets.pop(0))
            if block is None:
                yield from decoder.end_site(site, self._clock)
                continue
            yield from decoder.feed(site, block, self._clock)
            size = len(block.buffer)
            del block  # what decodes has what it needs of it
            if pace.due(size, now=self._paused):
                yield from decoder.decode(self._clock)
            if self._progress is not None:
                self._progress(self._read_whole + sum(reader.position for reader in self._open))
        yield from decoder.decode(self._clock)
        yield from decoder.finish()

    @property
    def _paused(self) -> bool:
        """Whether the only file is a pipe that gives no more for now: decode what there is."""
        return len(self.files) == 1 and any(reader.paused for reader in self.readers)

    def _sites(self, keylog: KeyLog) -> list[tuple[str, int, Opener]]:
        """(site, time of its first packet, how to read its packets in time order)."""
        by_site: dict[str, list[tuple[int, Opener]]] = {}
        formats = set()
        fragments: dict[str, Fragments] = {}
        for index, path in enumerate(self.files):
            try:
                first, format = peek(path, self.options.limits) if len(self.files) > 1 else (0, UNKNOWN)
                formats.add(format)
            except InputError as error:
                self.problems.append((UNREADABLE, str(error)))
                continue
            site = site_of(path, self.options.site, self.options.joined)
            read = partial(self._read, index, path, keylog, fragments.setdefault(site, Fragments()))
            by_site.setdefault(site, []).append((first, read))
        keylog.complete = not formats & {UNKNOWN, PCAPNG}
        joined_bytes = min(JOINED_BYTES, self.options.limits.block_bytes)
        return [
            (
                site,
                min(first for first, _ in files),
                partial(merge, files, partial(self._late, fragments[site]), joined_bytes),
            )
            for site, files in sorted(by_site.items())
        ]

    def _read(self, index: int, path: str, keylog: KeyLog, fragments: Fragments) -> Iterator[PacketBlock]:
        try:
            reader = self.reader(index, path, fragments)
        except InputError as error:
            self.problems.append((UNREADABLE, str(error)))
            return
        self.readers.append(reader)
        self._open.append(reader)
        if len(self.files) == 1:
            keylog.complete = reader.format != PCAPNG
        blocks = chain(reader.blocks(), (None,))  # a pcapng file may carry a key log, also behind its last packet
        yield from filter(None, map(partial(self._look_at, reader), blocks))
        self._open.remove(reader)
        self._read_whole += reader.position
        if reader.problem:
            self.problems.append((TRUNCATED, reader.problem))

    def _late(self, fragments: Fragments, time: int) -> PacketBlock | None:
        """What the run decodes of the datagrams that were put off to a time (ns)."""
        block = fragments.up_to(time)
        return None if block is None else self.select(block)

    def _look_at(self, reader: Reader, block: PacketBlock | None) -> PacketBlock | None:
        """What the run decodes of a block; and the secrets that came with it."""
        self._secrets += reader.notes.secrets
        reader.notes.secrets.clear()
        return None if block is None else self.select(block)

    def _findings(self) -> list[Finding]:
        """Findings about files. Raises InputError where none could be read."""
        if self.problems and not self.readers:
            raise InputError("; ".join(message for _, message in self.problems))
        return self._remarks()

    def said_of_files(self) -> list[tuple[str, str]]:
        """(kind of finding, sentence): what there is to say of the files, read or not, once they have been read."""
        return self.problems + [remark for reader in self.readers for remark in reader.remarks()]

    def _remarks(self) -> list[Finding]:
        """Findings about the files that were read, and about those that were not."""
        return [finding(None, *remark) for remark in self.said_of_files()]


def with_sites(options: Options, files: Sequence[str]) -> Options:
    """Options by which these files, all that are read, have their capture points."""
    if options.joined is not None:
        return options
    return options._replace(joined=joined_sites(files, options.site))


def refusal(rows: RowRelease) -> list[Finding]:
    """Findings about names that were not remembered."""
    if not rows.names.refused:
        return []
    message = f"{rows.names.refused} names of topics were not remembered: more than the limit `names`"
    return [finding(None, "limit", message)]


def peek(path: str, limits: Limits) -> tuple[int, str]:
    """(time of a file's first packet, ns; its format); 0 for a file without packets. Standard input is not touched."""
    if path == "-":
        return 0, UNKNOWN
    reader = Reader(path, 0, Limits(block_bytes=64 * KIB, packet_bytes=limits.packet_bytes))
    raw = reader.raw_blocks()
    block = next(raw, None)
    raw.close()  # type: ignore[attr-defined]
    return int(block.time[0]) if block is not None else 0, reader.format or UNKNOWN
